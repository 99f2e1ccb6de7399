"""Text of files: encodings that give every byte back, lines, and what is no text. Pure."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # UTF-32 first: its little-endian mark begins with that of UTF-16
_SURROGATES = re.compile("[\ud800-\udfff]")
HEAD = 8_192
"""Bytes in which a NUL says that a file is binary."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive (or a document made of one)"),
    (b"\x1f\x8b", "gzip data"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ", "xz data"), (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program or library"), (b"MZ", "a Windows program"), (b"SQLite format 3", "an SQLite database"),
    (b"\xca\xfe\xba\xbe", "a Java class or a macOS program"), (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"OggS", "Ogg media"), (b"ID3", "MP3 sound"), (b"fLaC", "FLAC sound"), (b"\0asm", "a WebAssembly module"),
)  # fmt: skip
_IMAGES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
           (b"GIF89a", "image/gif"))  # fmt: skip


def image_type(data: bytes) -> str:
    """Return the media type of an image that models see, "" for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if data.startswith(magic)), "")


def binary_type(data: bytes) -> str:
    """Return what binary *data* is, as far as its beginning says it."""
    if data[4:8] == b"ftyp":
        return "MP4 media"
    if data[:4] == b"RIFF":
        return "RIFF media"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "binary data")


def is_binary(head: bytes) -> bool:
    r"""Say whether a file that begins with *head* is no text.

    >>> is_binary(b"a\0b"), is_binary("a".encode("utf-16")), is_binary(b"abc")
    (True, False, False)
    """
    return b"\0" in head[:HEAD] and not head.startswith(tuple(mark for mark, _ in _MARKS))


class Text(NamedTuple):
    """The text of a file, and all that is needed to get its bytes back from it."""

    text: str
    encoding: str
    mark: bytes
    invalid: int = 0
    """Bytes that are not UTF-8 in a file that otherwise is; in ``text`` they are lone surrogates."""

    def encode(self, text: str) -> bytes:
        """Return *text* as this file has it. Raises UnicodeEncodeError."""
        errors = "surrogatepass" if self.encoding.startswith("utf-16") else "strict"
        if not self.invalid:
            return self.mark + text.encode(self.encoding, errors)
        return self.mark + text.encode(self.encoding, "surrogateescape")

    @property
    def described(self) -> str:
        """The encoding in words, "" for plain UTF-8."""
        if self.invalid:
            return f"UTF-8 with {self.invalid:,} invalid bytes, shown as \N{REPLACEMENT CHARACTER} and kept"
        if self.encoding == "utf-8":
            return "UTF-8 with a byte order mark" if self.mark else ""
        return self.encoding.upper() if self.mark else f"not UTF-8; read as {self.encoding}"


def decode(data: bytes, fallback: str) -> Text | None:
    r"""Return the text of *data*, None if it is binary. ``decode(data, f).encode(text)`` gives *data* back.

    The byte order mark decides, else UTF-8. What is mostly UTF-8 keeps its invalid bytes; anything else is read
    as *fallback*, in which every byte is a character.

    >>> decode(b"caf\xe9", "latin-1")
    Text(text='café', encoding='latin-1', mark=b'', invalid=0)
    """
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if not mark and is_binary(data):
        return None
    try:
        errors = "surrogatepass" if encoding.startswith("utf-16") else "strict"
        return Text(data[len(mark) :].decode(encoding, errors), encoding, mark)
    except UnicodeDecodeError:
        return None if encoding != "utf-8" else _with_invalid_bytes(data, mark, fallback)


def _with_invalid_bytes(data: bytes, mark: bytes, fallback: str) -> Text:
    text = data[len(mark) :].decode("utf-8", "surrogateescape")
    invalid = len(_SURROGATES.findall(text))
    valid = len(text) - len(text.encode("ascii", "ignore")) - invalid
    if mark or valid > invalid:
        return Text(text, "utf-8", mark, invalid)
    return Text(data.decode(fallback), fallback, b"")


def clean(text: str) -> str:
    r"""Return *text* without lone surrogates: they are no text to a model.

    >>> clean("a\udcff") == "a\ufffd"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


LONGEST_NAME = 1_000


def one_line(path: str) -> str:
    r"""Return *path* as text that is one line, whatever is in it.

    >>> one_line("a b.txt"), one_line("a\nb")
    ('a b.txt', "'a\\nb'")
    """
    text = clean(path)
    return text if text.isprintable() and len(text) < LONGEST_NAME else repr(text[:LONGEST_NAME])


def has_crlf(text: str) -> bool:
    """Say whether a line of *text* ends with CRLF."""
    return "\r" in text and "\r\n" in text  # the first is many times faster


def line_end(text: str) -> str:
    r"""Return the line end that most lines of *text* have.

    >>> line_end("a\r\nb\r\nc\n"), line_end("a")
    ('\r\n', '\n')
    """
    if "\r" not in text:  # many times faster than to look for both
        return "\n"
    windows = text.count("\r\n")
    return "\r\n" if windows * 2 > text.count("\n") else "\n"


def cut(line: str, most: int) -> str:
    r"""Return *line*, without its line end, if need be cut to *most* characters, which it says.

    >>> cut("abcdef\r", 4)
    'abcd… [2 more characters]'
    """
    line = line.removesuffix("\r")
    return line if len(line) <= most else f"{line[:most]}… [{len(line) - most:,} more characters]"


def numbered(lines: list[str], first: int, most: int) -> str:
    r"""Return *lines* with their numbers, from *first*, each at most *most* characters long.

    >>> numbered(["a", "b"], 9, 80)
    ' 9\ta\n10\tb'
    """
    width = len(str(first + len(lines) - 1))
    return "\n".join(f"{number:>{width}}\t{cut(line, most)}" for number, line in enumerate(lines, first))


def amount(number: int, noun: str) -> str:
    """Return *number* and *noun*, in the plural if need be.

    >>> amount(1, "line"), amount(1200, "line"), amount(2, "match")
    ('1 line', '1,200 lines', '2 matches')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
