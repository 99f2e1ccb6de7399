"""Which lines of a chat are kept for the next one, and how."""

import os
import stat
from pathlib import Path

import pytest
from pluggent_cli.chat.history import FILE_NAME, MOST_BYTES, PrivateHistory


def kept(folder: Path) -> list[str]:
    """Return what the next chat reads, oldest first."""
    return list(PrivateHistory(folder, saves=True).load_history_strings())[::-1]


def test_entries_are_there_again_in_their_order(tmp_path):
    history = PrivateHistory(tmp_path / "state", saves=True)
    for entry in ("one", "two\nlines", "ünïcode \x1b 漢字", "+ # lone surrogate \ud800"):
        history.append_string(entry)

    assert kept(tmp_path / "state") == ["one", "two\nlines", "ünïcode \x1b 漢字", "+ # lone surrogate ?"]
    file = tmp_path / "state" / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_private_entry_is_not_kept_and_a_private_chat_reads_and_does_not_write(tmp_path):
    history = PrivateHistory(tmp_path, saves=True)
    history.append_string("said")
    for entry in (" secret", "\tsecret", "", "  ", "x" * 100_001):
        history.append_string(entry)
    assert history.get_strings() == kept(tmp_path) == ["said"]

    private = PrivateHistory(tmp_path, saves=False)
    private.append_string("private")
    assert private.load_history_strings() == kept(tmp_path) == ["said"]
    assert private.get_strings() == ["private"]


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path):
    file = tmp_path / FILE_NAME
    file.write_text("\n# before\n+before\n")
    file.chmod(0o644)

    PrivateHistory(tmp_path, saves=True).append_string("now")

    assert kept(tmp_path) == ["before", "now"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_damaged_lines_are_left_out(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"\n# \xff\n+one\n\xff\nnonsense\n\n# x\n+two\n+torn")

    assert kept(tmp_path)[0] == "one"
    assert len(kept(tmp_path)) == 2


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_not_a_file_is_neither_read_nor_written(tmp_path, kind):
    state, target = tmp_path / "state", tmp_path / "target"
    state.mkdir()
    target.write_text("\n# x\n+secret\n")
    file = state / FILE_NAME
    {"folder": file.mkdir, "link": lambda: file.symlink_to(target), "pipe": lambda: os.mkfifo(file)}[kind]()

    history = PrivateHistory(state, saves=True)
    read = history.load_history_strings()
    history.append_string("entry")

    assert (read, history.get_strings()) == ([], ["entry"])
    assert target.read_text() == "\n# x\n+secret\n"


def test_the_file_is_cut_to_its_newer_half_when_it_has_grown_long(tmp_path):
    history = PrivateHistory(tmp_path, saves=True)
    entries = [f"{number} {'x' * 90_000}" for number in range(14)]
    for entry in entries:
        history.append_string(entry)

    assert (tmp_path / FILE_NAME).stat().st_size < MOST_BYTES
    assert 4 < len(kept(tmp_path)) < len(entries)
    assert kept(tmp_path) == entries[-len(kept(tmp_path)) :]
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]
