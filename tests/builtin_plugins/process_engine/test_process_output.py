"""Output that is kept: nothing is lost or doubled, however it was cut into pieces, and memory is bounded."""

import os

from hypothesis import given, strategies as st
from pluggent_process_engine.output import Collector

PIECES = st.lists(st.binary(max_size=40), max_size=20)


@given(PIECES, st.integers(1, 50), st.integers(1, 50))
def test_head_and_tail_are_the_ends_of_the_whole(pieces, head, tail):
    collector = Collector(head_bytes=head, tail_bytes=tail)
    for piece in pieces:
        collector.feed("stdout", piece)
    whole = b"".join(pieces)

    kept = collector.kept()

    assert kept.size == len(whole)
    assert (
        kept.lines == len(whole.splitlines())
        if b"\r" not in whole and not set(whole) & set(b"\v\f\x1c\x1d\x1e\x85")
        else True
    )
    if len(whole) <= head + tail:
        assert (kept.head, kept.tail) == (whole.decode("utf-8", "replace"), "")
    else:
        assert kept.head == whole[:head].decode("utf-8", "replace")
        assert whole[-tail:].decode("utf-8", "replace").endswith(kept.tail)


@given(st.text(), st.integers(1, 5))
def test_the_person_sees_whole_characters(text, size):
    data = text.encode("utf-8", "replace")
    said: list[str] = []
    collector = Collector(on_text=said.append)

    for begin in range(0, len(data), size):
        collector.feed("stdout", data[begin : begin + size])

    assert "".join(said) == data.decode()


def test_memory_is_bounded_by_what_is_kept():
    collector = Collector(head_bytes=1_000, tail_bytes=1_000)

    for _ in range(1_000):
        collector.feed("stdout", b"x" * 65_536)

    kept = collector.kept()
    assert (len(kept.head), len(kept.tail), kept.size) == (1_000, 1_000, 65_536_000)


def test_the_whole_is_in_a_file_of_the_user_alone_up_to_its_limit(tmp_path):
    file = tmp_path / "output"
    collector = Collector(file=file, file_bytes=10)

    for piece in (b"0123456", b"789ABC", b"DEF"):
        collector.feed("stdout", piece)
    collector.close()

    assert file.read_bytes() == b"0123456789"
    assert file.stat().st_mode & 0o777 == 0o600
    assert (collector.kept().in_file, collector.kept().problem) == (10, "the rest is beyond the limit of what is kept")


def test_a_full_disk_loses_the_file_and_not_the_output(tmp_path):
    collector = Collector(file=tmp_path / "output")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, collector._file)  # noqa: SLF001 (there is no other way to fill a disk here)
    os.close(full)

    collector.feed("stdout", b"some")
    collector.feed("stdout", b" more")

    assert collector.kept().head == "some more"
    assert "No space left" in collector.kept().problem
