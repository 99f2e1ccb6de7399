"""Stored sessions seen from outside: listed whatever is wrong with them, never held up, deleted with care."""

import fcntl
import os

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_hookspecs import Message, SessionError
from pluggent_state_files.listing import delete, places
from pluggent_state_files.session_log import read_lines
from pluggent_transcript.entries import ModelChosen, Said, TurnBegan, Undone
from saved import FileTranscript, Summary, matching, save, summaries, turn


def problems(folder):
    """Return what is said to be wrong with each session."""
    return {one.id: one.problem for one in summaries(folder)}


def test_a_session_says_what_it_is_about(tmp_path):
    save(tmp_path, "trip", *turn("where\nto?", "Paris"), *turn("why?", "", "t2"), modified_s=50.0)

    size = sum(len(line.data) for line in read_lines(tmp_path, "trip"))
    (one,) = summaries(tmp_path)
    assert one == Summary(
        "trip", 50.0, size, 1.5, "scripted/m", 2, 6, 8, "where\nto?", in_use=False, problem=""
    )  # fmt: skip


def test_the_session_last_written_to_comes_first(tmp_path):
    for id, modified_s in (("a", 2.0), ("b", 3.0), ("c", 2.0)):
        save(tmp_path, id, modified_s=modified_s)

    assert [place.id for place in places(tmp_path)] == ["b", "a", "c"]
    assert [one.id for one in summaries(tmp_path, limit=2)] == ["b", "a"]


def test_the_model_chosen_last_counts_and_neither_what_was_undone_nor_words_of_the_host(tmp_path):
    host = TurnBegan("t0", 1.0), Said("t0", Message.user("hurry"), "host")
    save(tmp_path, "s", *host, *turn("a", ""), ModelChosen("other/n"), Undone("t1"), *turn("b", "", "t2"))

    (one,) = summaries(tmp_path)

    assert (one.model, one.first_words, one.turns) == ("other/n", "b", 3)


def test_damaged_sessions_are_listed_with_what_is_wrong(tmp_path):
    save(tmp_path, "whole", *turn("hi", "ho"))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "noise.jsonl").write_bytes(os.urandom(100).replace(b"\n", b"") + b"\nmore\n")
    (tmp_path / "headless.jsonl").write_bytes(b'{"t":"TurnBegan","turn_id":"t1"}\n')
    damaged = save(tmp_path, "middle", *turn("hi", "ho"))
    lines = damaged.read_bytes().splitlines(keepends=True)
    damaged.write_bytes(b"".join([*lines[:3], b'{"t":"Spending",oops}\n', *lines[3:]]))
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "link.jsonl").symlink_to(damaged)

    assert problems(tmp_path) == {
        "whole": "",
        "empty": "it is empty",
        "noise": "line 1 is not an entry",
        "headless": "its beginning is missing",
        "middle": "line 4 is not JSON",
        "folder": f"cannot be read: {tmp_path}/folder.jsonl: it is not a regular file",
        "pipe": f"cannot be read: {tmp_path}/pipe.jsonl: it is not a regular file",
        "link": f"cannot be read: {tmp_path}/link.jsonl: it is a symbolic link",
    }


def test_a_torn_last_line_is_not_damage_and_files_that_are_not_sessions_are_left_alone(tmp_path):
    path = save(tmp_path, "s", *turn("hi", "ho"))
    with path.open("ab") as file:
        file.write(b'{"t":"Said","tur')
    for name in ("-x.jsonl", "a b.jsonl", "s.torn", ".jsonl", "..jsonl", "s.jsonl.bak", f"{'x' * 101}.jsonl"):
        (tmp_path / name).touch()

    assert problems(tmp_path) == {"s": ""}


@given(st.lists(st.binary(max_size=80) | st.sampled_from([b'{"t":"Said"}', b'{"t":"SessionBegan","created_s":{}}'])))
def test_any_content_of_a_session_is_listed(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("sessions")
    (folder / "s.jsonl").write_bytes(b"\n".join(lines) + b"\n")

    assert [one.id for one in summaries(folder)] == ["s"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_session_that_may_not_be_read_says_so(tmp_path):
    save(tmp_path, "s").chmod(0)

    assert problems(tmp_path) == {"s": f"cannot be read: {tmp_path}/s.jsonl: Permission denied"}


def test_an_absent_folder_holds_no_session_and_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "file").touch()

    assert (places(tmp_path / "absent"), list(summaries(tmp_path / "absent"))) == ((), [])
    with pytest.raises(SessionError, match="file cannot be read: Not a directory"):
        places(tmp_path / "file")


def test_the_beginning_of_an_id_means_every_session_that_begins_so(tmp_path):
    for id in ("trip", "trip2", "tropics"):
        save(tmp_path, id)

    assert matching(tmp_path, "trip") == ("trip",)
    assert matching(tmp_path, "tr") == ("trip", "trip2", "tropics")
    assert matching(tmp_path, "tro") == ("tropics",)
    assert matching(tmp_path, "") == matching(tmp_path, "../trip") == ()


def test_a_writer_can_come_while_the_session_is_read(tmp_path):
    save(tmp_path, "a")
    save(tmp_path, "b")
    listing = summaries(tmp_path)
    next(listing)
    writers = [FileTranscript(tmp_path, id) for id in ("a", "b")]
    for writer in writers:
        writer.close()

    assert len(list(listing)) == 1


def test_a_deleted_session_is_gone_with_its_torn_lines_and_nothing_else_is(tmp_path):
    save(tmp_path, "a")
    save(tmp_path, "b")
    (tmp_path / "a.torn").touch()
    (tmp_path / "a.txt").touch()

    delete(tmp_path, "a")

    assert {file.name for file in tmp_path.iterdir()} == {"b.jsonl", "a.txt"}


@each_of("id", ["../a", "a/b", "", ".", "..", "-a", "a\0", "a\n"])
def test_what_is_not_an_id_deletes_nothing(tmp_path, id):
    outside = save(tmp_path, "a")
    (tmp_path / "sessions").mkdir(exist_ok=True)

    with pytest.raises(SessionError, match="is not an id of a session"):
        delete(tmp_path / "sessions", id)

    assert outside.exists()


def test_what_is_not_a_file_or_not_there_is_not_deleted(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    os.mkfifo(tmp_path / "b.jsonl")

    target = save(tmp_path, "target")
    (tmp_path / "link.jsonl").symlink_to(target)

    for folder, id, says in (
        (tmp_path, "link", "it is a symbolic link"),
        (tmp_path, "a", "cannot be deleted"),
        (tmp_path, "b", "it is not a regular file"),
        (tmp_path, "c", "there is no session 'c' in"),
        (tmp_path / "absent", "a", "there is no session 'a' in"),
    ):
        with pytest.raises(SessionError, match=says):
            delete(folder, id)
    assert (target.exists(), (tmp_path / "link.jsonl").is_symlink()) == (True, True)


def test_opening_a_session_while_it_is_deleted_is_an_error(tmp_path, monkeypatch):
    """The file is deleted between the opening and the locking: nothing may be written into nowhere."""
    path = save(tmp_path, "a")
    flock = fcntl.flock

    def deleted_before(descriptor, operation):
        path.unlink(missing_ok=True)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", deleted_before)

    with pytest.raises(SessionError, match="session 'a' was deleted while it was being opened; open it again"):
        FileTranscript(tmp_path, "a")
