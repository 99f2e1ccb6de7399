import pytest
from pluggent_cli.chat.completer import MOST, Candidate, Completion, paths

COMPLETION = Completion(
    {"/help": "this list", "/history": "what was said", "/model": "another one"},
    {"/model": lambda _: ["openai/", "offline/demo", "other"], "/many": lambda _: map(str, range(10_000))},
)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("/h", ["/help", "/history"]),
        ("/", ["/help", "/history", "/model"]),
        ("/help", ["/help"]),
        ("/x", []),
        ("h", []),
        (" /h", []),
        ("", []),
        ("/h\nmore", []),
        ("/model ", ["openai/", "offline/demo", "other"]),
        ("/model o", ["openai/", "offline/demo", "other"]),
        ("/model off", ["offline/demo"]),
        ("/help x", []),
    ],
)
def test_what_may_follow_is_offered(text, offered):
    assert [candidate.text for candidate in COMPLETION.candidates(text)] == offered


def test_a_candidate_takes_the_place_of_what_was_typed_of_it():
    assert COMPLETION.candidates("/mo") == [Candidate("/model", 3, "another one")]
    assert COMPLETION.candidates("/model off") == [Candidate("offline/demo", 3)]


def test_no_more_is_offered_than_can_be_shown():
    assert len(COMPLETION.candidates("/many 1")) == MOST


def test_paths_are_those_that_begin_so_with_folders_marked(tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").touch()
    (tmp_path / "pick me.png").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "evil\x1b[2J").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert paths("pi") == ["pick me.png", "pictures/"]
    assert paths("pictures/") == ["pictures/cat.png"]
    assert paths("~/pictures/c") == ["~/pictures/cat.png"]
    assert paths(f"{tmp_path}/pick") == [f"{tmp_path}/pick me.png"]
    assert paths("") == ["pick me.png", "pictures/"]
    assert paths(".") == [".hidden"]


@pytest.mark.parametrize("typed", ["absent/x", "~nobody-at-all/x", "a\0b/", "pictures/cat.png/"])
def test_where_there_is_no_folder_nothing_is_offered(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)

    assert paths(typed) == []
