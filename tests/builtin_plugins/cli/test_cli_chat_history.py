import os
import stat

import pytest
from pluggent_host.cli.chat_history import FILE_NAME, KEPT, History


def test_entries_are_there_again_in_their_order(tmp_path):
    history = History(tmp_path / "state")
    for entry in ("one", "two\nlines", "ünïcode \x1b 漢字 \ud800"):
        assert history.add(entry)

    assert History(tmp_path / "state").entries == ["one", "two\nlines", "ünïcode \x1b 漢字 \ud800"]
    file = tmp_path / "state" / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("entry", [" secret", "\tsecret", "", "  ", "x" * 100_001, "said twice"])
def test_what_is_private_or_idle_is_kept_nowhere(tmp_path, entry):
    history = History(tmp_path)
    history.add("said twice")

    assert not history.add(entry)
    assert history.entries == History(tmp_path).entries == ["said twice"]


def test_a_private_chat_reads_and_does_not_write(tmp_path):
    History(tmp_path).add("before")
    history = History(None, reads=tmp_path)
    assert history.add("private")

    assert history.entries == ["before", "private"]
    assert History(tmp_path).entries == ["before"]


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path):
    file = tmp_path / FILE_NAME
    file.write_text('"before"\n')
    file.chmod(0o644)
    History(tmp_path).add("now")

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_damaged_lines_are_left_out(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b'"one"\n{"a": 1}\n\xff\nnonsense\n""\n"two"\n"torn')

    assert History(tmp_path).entries == ["one", "two"]


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_what_is_no_file_is_neither_read_nor_written(tmp_path, kind):
    state, target = tmp_path / "state", tmp_path / "target"
    state.mkdir()
    target.write_text("")
    file = state / FILE_NAME
    {"folder": file.mkdir, "link": lambda: file.symlink_to(target), "pipe": lambda: os.mkfifo(file)}[kind]()

    history = History(state)
    history.add("entry")

    assert history.entries == ["entry"]
    assert target.read_text() == ""


def test_the_file_is_shortened_when_it_has_grown_long(tmp_path):
    (tmp_path / FILE_NAME).write_text("".join(f'"entry {number}"\n' for number in range(2 * KEPT + 1)))

    history = History(tmp_path)

    assert history.entries[0] == f"entry {KEPT + 1}"
    assert len((tmp_path / FILE_NAME).read_text().splitlines()) == KEPT
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]
