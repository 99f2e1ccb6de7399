"""Forms with files, as uploads are sent: RFC 7578."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

import attrs


@attrs.frozen
class Upload:
    """A file in the field *field*. ``filename`` is one of our own: the path of a file is not told."""

    field: str
    filename: str
    media_type: str
    data: bytes = attrs.field(repr=False)


def form(fields: Mapping[str, str], uploads: Iterable[Upload]) -> tuple[str, bytes]:
    """Return the content type and the body of a form. Names and file names are quoted ASCII.

    >>> content_type, body = form({"model": "m"}, [Upload("file", "audio.wav", "audio/wav", b"RIFF")])
    >>> body.count(content_type.partition("boundary=")[2].encode())
    3
    """
    boundary = secrets.token_hex(16)  # in no content, with all that chance can do
    pieces: list[bytes] = []
    for name, value in fields.items():
        pieces += (f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode(), value.encode())
        pieces.append(b"\r\n")
    for upload in uploads:
        head = f'Content-Disposition: form-data; name="{upload.field}"; filename="{upload.filename}"'
        pieces += (
            f"--{boundary}\r\n{head}\r\nContent-Type: {upload.media_type}\r\n\r\n".encode(),
            upload.data,
            b"\r\n",
        )
    pieces.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)
