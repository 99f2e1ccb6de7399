"""Writing whole files: never over what was not read or has changed, atomic, with mode, and undone."""

import os
import stat
from pathlib import Path

import pytest
from file_hands import Hands, tree
from pluggent_hookspecs import ToolError
from pluggent_workspace_files import atomic


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


def test_a_new_file_is_made_with_its_folders(hands):
    said = hands("write_file", path="src/new/a.py", content="a\nb\n")

    assert tree(hands.workspace) == {"src": None, "src/new": None, "src/new/a.py": b"a\nb\n"}
    assert said == "made src/new/a.py: 2 lines, 4 bytes [made 2 folders]"


def test_a_file_that_was_not_read_is_not_overwritten(hands):
    (hands.workspace / "a.txt").write_text("precious\n")

    with pytest.raises(ToolError, match="was not read in this session, so it was not overwritten"):
        hands("write_file", path="a.txt", content="x\n")
    hands("read_file", path="a.txt")
    hands("write_file", path="a.txt", content="x\n")
    assert (hands.workspace / "a.txt").read_text() == "x\n"


@pytest.mark.parametrize("tool", ["edit_file", "write_file"])
def test_a_file_that_changed_since_it_was_read_is_a_conflict(hands, tool):
    (hands.workspace / "a.txt").write_text("one\n")
    hands("read_file", path="a.txt")
    (hands.workspace / "a.txt").write_text("one\ntwo\n")
    more = {"edits": [{"old_text": "one", "new_text": "x"}]} if tool == "edit_file" else {"content": "x\n"}

    with pytest.raises(ToolError, match="has changed since it was read in this session, so nothing was done"):
        hands(tool, path="a.txt", **more)
    hands("read_file", path="a.txt")
    hands(tool, path="a.txt", **more)
    assert (hands.workspace / "a.txt").read_text().startswith("x\n")


def test_what_a_session_wrote_it_has_read(hands):
    hands("write_file", path="a.txt", content="one\n")
    hands.edit("a.txt", "one", "two")

    hands("write_file", path="a.txt", content="three\n")

    assert (hands.workspace / "a.txt").read_text() == "three\n"


def test_what_another_session_read_does_not_count(hands):
    hands("write_file", path="a.txt", content="one\n")
    hands.context.session_id = "s2"

    with pytest.raises(ToolError, match="was not read in this session"):
        hands("write_file", path="a.txt", content="x")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444, 0o4755])
def test_the_mode_is_kept(hands, mode):
    file = hands.workspace / "a.sh"
    file.write_text("one\n")
    file.chmod(mode)

    hands.edit("a.sh", "one", "two")

    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_the_umask(hands):
    before = os.umask(0o027)
    try:
        hands("write_file", path="a.txt", content="x")
    finally:
        os.umask(before)

    assert stat.S_IMODE((hands.workspace / "a.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept(hands):
    file = hands.workspace / "a.txt"
    file.write_text("one\n")
    os.chown(file, 1234, 2345)

    hands.edit("a.txt", "one", "two")

    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 2345)


def test_other_hard_links_keep_the_old_content_and_it_is_said(hands):
    file, other = hands.workspace / "a.txt", hands.workspace / "b.txt"
    file.write_text("one\n")
    other.hardlink_to(file)

    said = hands.edit("a.txt", "one", "two")

    assert other.read_text() == "one\n"
    assert "1 hard link elsewhere keeps the old content" in said


def test_a_link_inside_is_written_through(hands):
    file = hands.workspace / "real.txt"
    file.write_text("one\n")
    (hands.workspace / "link.txt").symlink_to("real.txt")

    hands.edit("link.txt", "one", "two")

    assert file.read_text() == "two\n"
    assert (hands.workspace / "link.txt").is_symlink()


def test_line_ends_and_encoding_of_an_existing_file_are_kept(hands):
    file = hands.workspace / "a.txt"
    file.write_bytes("caf\u00e9\r\n".encode("utf-16"))
    hands("read_file", path="a.txt")

    hands("write_file", path="a.txt", content="th\u00e9\nx\n")

    assert file.read_bytes() == "th\u00e9\r\nx\r\n".encode("utf-16")


def test_the_same_content_writes_nothing(hands):
    hands("write_file", path="a.txt", content="x\n")
    before = (hands.workspace / "a.txt").stat()

    assert hands("write_file", path="a.txt", content="x\n") == "a.txt is already so; nothing was written"
    assert (hands.workspace / "a.txt").stat().st_ino == before.st_ino


@pytest.mark.parametrize("path", [".", "src", "a.txt/b.txt"])
def test_where_no_file_can_be_the_error_says_why(hands, path):
    (hands.workspace / "src").mkdir()
    (hands.workspace / "a.txt").write_text("x")
    before = tree(hands.workspace)

    with pytest.raises(ToolError, match=r"is a folder|is not a folder"):
        hands("write_file", path=path, content="x")
    assert tree(hands.workspace) == before


# What happens in the middle of a write


def test_a_change_between_reading_and_writing_is_a_conflict(hands, monkeypatch):
    file = hands.workspace / "a.txt"
    file.write_text("one\n")
    write = atomic._write  # type: ignore[attr-defined]  # noqa: SLF001 (the moment in the middle)

    def and_then(*arguments):
        write(*arguments)
        file.write_text("one, by another program\n")

    monkeypatch.setattr(atomic, "_write", and_then)

    with pytest.raises(ToolError, match="was changed by another program in the meantime"):
        hands.edit("a.txt", "one", "two")
    assert tree(hands.workspace) == {"a.txt": b"one, by another program\n"}


def test_a_file_that_appears_before_a_new_one_is_written_is_not_overwritten(hands, monkeypatch):
    file = hands.workspace / "a.txt"
    write = atomic._write  # type: ignore[attr-defined]  # noqa: SLF001 (the moment in the middle)

    def and_then(*arguments):
        write(*arguments)
        file.write_text("by another program\n")

    monkeypatch.setattr(atomic, "_write", and_then)

    with pytest.raises(ToolError, match="has appeared in the meantime, so nothing was written"):
        hands("write_file", path="a.txt", content="x\n")
    assert tree(hands.workspace) == {"a.txt": b"by another program\n"}


@pytest.mark.parametrize("call", ["write", "fsync", "fchmod", "replace"])
def test_a_disk_that_refuses_leaves_the_old_file_alone(hands, monkeypatch, call):
    hands("write_file", path="a.txt", content="one\n")

    def refuse(*arguments, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, refuse)

    with pytest.raises(ToolError, match=r"could not be written: No space left on device. It is as it was before"):
        hands.edit("a.txt", "one", "two")
    monkeypatch.undo()
    assert tree(hands.workspace) == {"a.txt": b"one\n"}


def test_a_new_file_that_cannot_be_written_leaves_no_folder_behind(hands, monkeypatch):
    def refuse(*arguments, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(ToolError, match="No space left"):
        hands("write_file", path="new/folder/a.txt", content="x")
    monkeypatch.undo()
    assert tree(hands.workspace) == {}


# Undo


@pytest.mark.parametrize("content", [b"one\n", b"one\r\n", b"one \xff\xfe\n", "one\n".encode("utf-16")])
def test_undo_puts_the_very_bytes_back(hands, content):
    file = hands.workspace / "a.txt"
    file.write_bytes(content)
    file.chmod(0o751)
    output = hands.call("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two\nthree"}])

    hands.undo(output)

    assert file.read_bytes() == content
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


def test_undo_of_a_new_file_deletes_it(hands):
    hands.undo(hands.call("write_file", path="a.txt", content="x"))

    assert tree(hands.workspace) == {}


@pytest.mark.parametrize("is_new", [True, False])
def test_undo_over_a_later_change_is_a_conflict(hands, is_new):
    file = hands.workspace / "a.txt"
    if not is_new:
        file.write_text("one\n")
        hands("read_file", path="a.txt")
    output = hands.call("write_file", path="a.txt", content="two\n")
    file.write_text("three\n")

    with pytest.raises(ToolError, match=r"was changed since, so it was not (put back|deleted)"):
        hands.undo(output)
    assert file.read_text() == "three\n"


def test_an_undone_change_can_be_made_again(hands):
    file = hands.workspace / "a.txt"
    file.write_text("one\n")
    output = hands.call("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}])
    (call,) = output.undo
    undone = hands.call(call.tool, **dict(call.arguments))

    hands.undo(undone)

    assert file.read_text() == "two\n"


def test_what_is_too_large_to_keep_cannot_be_undone(tmp_path):
    hands = Hands(tmp_path, undo_bytes=3)
    (tmp_path / "a.txt").write_text("one\n")

    assert hands.call("edit_file", path="a.txt", edits=[{"old_text": "one", "new_text": "two"}]).undo == ()
