"""Images and documents of the contract as content blocks of the Messages API."""

from __future__ import annotations

import base64
import binascii
import mimetypes
from typing import Any, TypeAlias

from pluggent_hookspecs import Audio, File, Image
from pluggent_provider_http.unsendable import UnsendableError

Object: TypeAlias = dict[str, Any]

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_ANY = "application/octet-stream"
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})


def media_block(part: Image | Audio | File) -> Object:
    """Return *part* as a block. Raises UnsendableError naming what the API does not take."""
    if isinstance(part, Image):
        return {"type": "image", "source": _image_source(part)}
    if isinstance(part, File):
        return _file_block(part)
    if part.transcript:
        return {"type": "text", "text": part.transcript}
    raise UnsendableError("the Messages API takes no sound; send what is said as text, or as Audio with a transcript")


def _image_source(part: Image) -> Object:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is None:
        return _image_data(part.media_type, part.data)
    if part.url.startswith("data:"):
        head, _, data = part.url.removeprefix("data:").partition(",")
        return _image_data(head.removesuffix(";base64"), data)
    return _at(part.url)


def _image_data(media_type: str, data: str | None) -> Object:
    if not data:
        raise UnsendableError("an Image has neither data, nor a url, nor a file_id")
    if media_type not in IMAGE_TYPES:
        raise UnsendableError(f"an Image of type '{media_type}' cannot be sent, only {', '.join(sorted(IMAGE_TYPES))}")
    return {"type": "base64", "media_type": media_type, "data": data}


def _at(url: str) -> Object:
    if not url.startswith(("https://", "http://")):
        raise UnsendableError("a url of an Image or a File begins with https:// or http://")
    return {"type": "url", "url": url}


def _file_block(part: File) -> Object:
    kind = _type_of(part)
    if kind.startswith("image/"):
        return media_block(Image(url=part.url, data=part.data, media_type=kind, file_id=part.file_id))
    block: Object = {"type": "document", "source": _document_source(part, kind)}
    if part.filename:
        block["title"] = part.filename
    return block


def _type_of(part: File) -> str:
    if part.media_type != _ANY:
        return part.media_type.partition(";")[0].strip().lower()
    name = part.filename or (part.url or "").partition("?")[0]
    return mimetypes.guess_type(name)[0] or _ANY


def _document_source(part: File, kind: str) -> Object:
    if part.file_id is not None:
        return {"type": "file", "file_id": part.file_id}
    if part.url is not None:
        return _at(part.url)
    if not part.data:
        raise UnsendableError("a File has neither data, nor a url, nor a file_id")
    if kind == _PDF:
        return {"type": "base64", "media_type": _PDF, "data": part.data}
    if kind.startswith("text/") or kind in _TEXTS:
        return {"type": "text", "media_type": "text/plain", "data": _text_in(part.data)}
    raise UnsendableError(f"a File of type '{kind}' cannot be sent, only PDF, text and images")


def _text_in(data: str) -> str:
    try:
        text = base64.b64decode(data, validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise UnsendableError("a File of text is not UTF-8 in base64") from error
    if not text.strip():
        raise UnsendableError("a File of text is empty")
    return text
