"""Formats of images and sound: by the name of a file, and by its first and last bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pluggent_hookspecs import ToolError

IMAGES: Mapping[str, str] = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}
SPEECH: Mapping[str, str] = {".mp3": "mp3", ".wav": "wav", ".flac": "flac", ".opus": "opus", ".aac": "aac"}
RECORDINGS: Mapping[str, str] = {
    ".flac": "flac", ".m4a": "mp4", ".mp3": "mpeg", ".mp4": "mp4", ".mpeg": "mpeg", ".mpga": "mpeg", ".ogg": "ogg",
    ".wav": "wav", ".webm": "webm",
}  # fmt: skip
"""What OpenAI transcribes, with its media type: https://developers.openai.com/api/docs/guides/speech-to-text"""

_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_JPEG, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"
_ADTS_LAYER = 0x06
_SYNC = 0xE0


def format_of(path: Path, known: Mapping[str, str]) -> str:
    """Return the format that the name of *path* says. Raises ToolError if it is none of the *known* ones.

    >>> format_of(Path("a/cat.JPG"), IMAGES)
    'jpeg'
    """
    try:
        return known[path.suffix.lower()]
    except KeyError:
        raise ToolError(f"{path.name}: expected a name that ends in {', '.join(known)}") from None


def image_format(data: bytes) -> str:
    """Return the format of a whole image; "" for what is none, or was cut.

    >>> image_format(b"RIFF" + (12).to_bytes(4, "little") + b"WEBPVP8 data"), image_format(b"<html>")
    ('webp', '')
    """
    if data.startswith(_PNG) and data.endswith(_PNG_END):
        return "png"
    if data.startswith(_JPEG) and data.rstrip(b"\0").endswith(_JPEG_END):
        return "jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and int.from_bytes(data[4:8], "little") + 8 <= len(data):
        return "webp"
    return ""


def speech_format(data: bytes) -> str:
    """Return the format of what begins as sound; "" for what does not.

    >>> speech_format(b"ID3..."), speech_format(b'{"error": "no"}')
    ('mp3', '')
    """
    starts = {b"ID3": "mp3", b"fLaC": "flac", b"OggS": "opus"}
    if found := next((name for start, name in starts.items() if data.startswith(start)), ""):
        return found
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "wav"
    if len(data) > 1 and data[0] == 0xFF and data[1] & _SYNC == _SYNC:  # noqa: PLR2004 (all bits)
        return "mp3" if data[1] & _ADTS_LAYER else "aac"
    return ""
