"""Keeps the output of a program: head and tail in memory, the whole in a file up to a limit, lines as they arrive."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import attrs

_EXCLUSIVE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@attrs.frozen
class Kept:
    """What is left of an output: all of it in ``head``, or ``head`` and ``tail`` with a gap between.

    ``in_file`` is how many bytes the file has; ``problem`` says why they are fewer than ``size``.
    """

    head: str
    tail: str
    size: int
    lines: int
    in_file: int
    problem: str

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return not self.tail


class Collector:
    """Takes the output of a program in pieces, in bounded memory.

    >>> collector = Collector(head_bytes=4, tail_bytes=4)
    >>> for piece in (b"0123", b"4567", b"89"):
    ...     collector.feed("stdout", piece)
    >>> kept = collector.kept()
    >>> kept.head, kept.tail, kept.size
    ('0123', '6789', 10)
    """

    def __init__(
        self,
        *,
        head_bytes: int = 16_384,
        tail_bytes: int = 32_768,
        file: Path | None = None,
        file_bytes: int = 16 << 20,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._size = self._lines = self._in_file = 0
        self._last = b"\n"
        self._problem = ""
        self._file_bytes = file_bytes
        self._file = -1 if file is None else os.open(file, _EXCLUSIVE, 0o600)
        self._on_text = on_text
        # Each stream has its own, since a character may be cut where the other stream writes.
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def feed(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take a piece."""
        self._size += len(data)
        self._lines += data.count(b"\n")
        self._last = data[-1:] or self._last
        self._write(data)
        if (free := self._head_bytes - len(self._head)) > 0:
            self._head += data[:free]
            data_left = data[free:]
        else:
            data_left = data
        self._tail += data_left[-self._tail_bytes :]
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]
        if self._on_text is not None and (text := self._decoders[stream].decode(data)):
            self._on_text(text)

    def _write(self, data: bytes) -> None:
        if self._file < 0:
            return
        if self._in_file + len(data) > self._file_bytes:
            self._problem = self._problem or "the rest is beyond the limit of what is kept"
            data = data[: self._file_bytes - self._in_file]
        try:
            while data:
                written = os.write(self._file, data)
                self._in_file += written
                data = data[written:]
        except OSError as error:
            self._problem = f"the rest could not be kept: {error.strerror or error}"
            self.close()

    def kept(self) -> Kept:
        """Return what is kept of all that came so far."""
        tail = bytes(self._tail[-self._tail_bytes :])
        head = bytes(self._head)
        if self._size <= len(head) + len(tail):
            head, tail = head + tail, b""
        lines = self._lines + (self._size > 0 and self._last != b"\n")
        return Kept(_text(head), _text(tail, cut=True), self._size, lines, self._in_file, self._problem)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1


def _text(data: bytes, *, cut: bool = False) -> str:
    """Return *data* as text; what is left at its beginning of a character that was *cut* is dropped."""
    if cut:
        data = data[next((n for n, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0) :]  # noqa: PLR2004 (UTF-8)
    return data.decode("utf-8", "replace")
