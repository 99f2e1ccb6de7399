"""What a chat offers while a line is typed."""

import pytest
from each_of import each_of
from pluggent_cli.chat.completer import MOST, Candidate, Completion, paths

COMPLETION = Completion(
    {"/help": "this list", "/history": "what was said", "/model": "another one"},
    {"/model": lambda _: ["openai/", "offline/demo", "other"], "/many": lambda _: map(str, range(10_000))},
)


@each_of(
    ("text", "offered"),
    [
        ("/h", ["/help", "/history"]), ("/", ["/help", "/history", "/model"]), ("/help", ["/help"]), ("/x", []),
        ("h", []), (" /h", []), ("", []), ("/h\nmore", []), ("/model ", ["openai/", "offline/demo", "other"]),
        ("/model o", ["openai/", "offline/demo", "other"]), ("/model off", ["offline/demo"]), ("/help x", []),
    ],
)  # fmt: skip
def test_what_may_follow_is_offered(text, offered):
    assert [candidate.text for candidate in COMPLETION.candidates(text)] == offered


def test_a_candidate_takes_the_place_of_what_was_typed_of_it():
    assert COMPLETION.candidates("/mo") == [Candidate("/model", 3, "another one")]
    assert COMPLETION.candidates("/model off") == [Candidate("offline/demo", 3)]


def test_no_more_is_offered_than_can_be_shown():
    assert len(COMPLETION.candidates("/many 1")) == MOST


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    for name in ("pictures/cat.png", "pick me.png", ".hidden", "evil\x1b[2J"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_paths_are_those_that_begin_so_with_folders_marked(folder):
    assert paths("pi") == paths("") == ["pick me.png", "pictures/"]
    assert paths("pictures/") == ["pictures/cat.png"]
    assert paths("~/pictures/c") == ["~/pictures/cat.png"]
    assert paths(f"{folder}/pick") == [f"{folder}/pick me.png"]
    assert paths(".") == [".hidden"]


@each_of("typed", ["absent/x", "~no-such-user/x", "a\0b/", "pictures/cat.png/"])
@pytest.mark.usefixtures("folder")
def test_where_there_is_no_folder_nothing_is_offered(typed):
    assert paths(typed) == []
