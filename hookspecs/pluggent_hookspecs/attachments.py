"""Makes message parts of files: images, sound, documents. The content of a file decides its type, not its name."""

from __future__ import annotations

import base64
import mimetypes
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Audio, File, Image

__all__ = ["attachment", "audio", "file", "image"]

LIMIT_BYTES = 20 * 1024 * 1024
"""The default limit for a file."""

_HEAD_BYTES = 16
_IMAGES: Mapping[str, Callable[[bytes], bool]] = {
    "image/png": lambda head: head.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda head: head.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda head: head.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WEBP",
}
_SOUNDS: Mapping[str, Callable[[bytes], bool]] = {
    "wav": lambda head: head.startswith(b"RIFF") and head[8:12] == b"WAVE",
    "flac": lambda head: head.startswith(b"fLaC"),
    "ogg": lambda head: head.startswith(b"OggS"),
    "m4a": lambda head: head[4:8] == b"ftyp",
    "mp3": lambda head: head.startswith(b"ID3") or (head[:1] == b"\xff" and head[1:2] in b"\xfb\xfa\xf3\xf2\xe3\xe2"),
}
_PDF = b"%PDF-"
_AUDIO_BRANDS = (b"M4A ", b"M4B ")
"""Of the files that begin like M4A, most are video or images."""


def image(path_or_url: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Image:
    """Return the image in a file (PNG, JPEG, GIF or WebP), or at an ``http(s)://`` URL that the vendor fetches.

    Blocks while it reads: in async code, ``await asyncio.to_thread(image, path)``. Raises ConfigError for a file
    that cannot be read, is larger than *limit_bytes* or is not such an image, and for any other kind of URL.

    >>> image("https://example.com/cat.png").url
    'https://example.com/cat.png'
    """
    text = os.fspath(path_or_url)
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        if not rest or not text.isprintable() or " " in text:
            raise ConfigError(text, ["is not an image URL"])
        return Image(url=text)
    if separator and scheme.isalpha() and not Path(text).exists():
        raise ConfigError(text, ["give the path of a file, or a URL that begins with https:// or http://"])
    data = _content(text, limit_bytes)
    media_type = _kind(data, _IMAGES)
    if media_type is None:
        raise ConfigError(text, ["is not a picture in the format PNG, JPEG, GIF or WebP, whatever its name says"])
    return Image(data=_encoded(data), media_type=media_type)


def audio(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> Audio:
    """Return the sound in a file: WAV, MP3, FLAC, Ogg or M4A; each vendor takes some of them.

    Blocks while it reads. Raises ConfigError as ``image`` does.
    """
    text = os.fspath(path)
    data = _content(text, limit_bytes)
    format = _kind(data, _SOUNDS)
    if format is None:
        raise ConfigError(text, ["is not a sound in the format WAV, MP3, FLAC, Ogg or M4A, whatever its name says"])
    return Audio(_encoded(data), format)


def file(path: str | os.PathLike[str], *, limit_bytes: int = LIMIT_BYTES) -> File:
    """Return a document, named by the last part of its path.

    The media type follows the content for PDF and images, else the name (default: ``application/octet-stream``).
    Blocks while it reads. Raises ConfigError for a file that cannot be read or is larger than *limit_bytes*.
    """
    text = os.fspath(path)
    return _file(_content(text, limit_bytes), Path(text).name)


def attachment(data: bytes, name: str = "") -> Image | Audio | File:
    """Return the part for *data*, which came from the file *name*: an image or a sound in a known format, else a File.

    Reads nothing. The media type of a File follows the content for PDF, else the name.

    >>> attachment(b"%PDF-1.7", "paper.txt").media_type
    'application/pdf'
    """
    if (media_type := _kind(data, _IMAGES)) is not None:
        return Image(data=_encoded(data), media_type=media_type)
    sound = _kind(data, _SOUNDS)
    if sound is not None and (sound != "m4a" or data[8:12] in _AUDIO_BRANDS):
        return Audio(_encoded(data), sound)
    return _file(data, Path(name).name)


def _file(data: bytes, name: str) -> File:
    known = "application/pdf" if data.startswith(_PDF) else _kind(data, _IMAGES)
    media_type = known or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return File(data=_encoded(data), filename=name or None, media_type=media_type)


def _kind(data: bytes, kinds: Mapping[str, Callable[[bytes], bool]]) -> str | None:
    head = data[:_HEAD_BYTES]
    return next((kind for kind, fits in kinds.items() if fits(head)), None)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _content(path: str, limit_bytes: int) -> bytes:
    """Return the content of the file *path*. Waits for no pipe, reads no device."""
    try:
        with open(Path(path).expanduser(), "rb", opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ConfigError(path, ["is not an ordinary file"])
            data = opened.read(limit_bytes + 1)
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path; an unknown ~user
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(path, [f"cannot be read: {reason}"]) from error
    if len(data) > limit_bytes:
        raise ConfigError(path, [f"is larger than {limit_bytes:,} bytes; make it smaller"])
    if not data:
        raise ConfigError(path, ["is empty"])
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Open *path* as open() does; a pipe without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)
