"""Images, documents, sound and video of the contract as content blocks of Converse."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from typing import Any, TypeAlias

from pluggent_hookspecs import Audio, File, Image
from pluggent_provider_http.unsendable import UnsendableError

Object: TypeAlias = dict[str, Any]

IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/toml"})
_VIDEOS = {
    "video/x-matroska": "mkv",
    "video/quicktime": "mov",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
_SOUNDS = frozenset(
    ["mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg", "mpga", "pcm", "webm"]
)
_ANY = "application/octet-stream"
_NAME_CHARS = 200
# What Bedrock takes in the name of a document.
_NO_NAME = re.compile(r"[^a-zA-Z0-9 ()\[\]-]+")


def media_block(part: Image | Audio | File) -> Object:
    """Return *part* as a block. Raises UnsendableError naming what Converse does not take."""
    match part:
        case Image():
            return _image_block(part)
        case File():
            return _file_block(part)
        case Audio(data, sound) if data and sound in _SOUNDS:
            return {"audio": {"format": sound, "source": {"bytes": data}}}
        case _:
            raise UnsendableError(f"Audio of format '{part.format}' cannot be sent, only {', '.join(sorted(_SOUNDS))}")


def _image_block(part: Image) -> Object:
    kind, data, url = part.media_type, part.data, part.url or part.file_id
    if url is not None and url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        kind, url = head.removesuffix(";base64"), None
    source = _source("an Image", data, url)
    if kind not in IMAGES:
        raise UnsendableError(f"an Image of type '{kind}' cannot be sent, only {', '.join(sorted(IMAGES))}")
    return {"image": {"format": IMAGES[kind], "source": source}}


def _source(what: str, data: str | None, url: str | None) -> Object:
    if url is not None:
        if url.startswith("s3://"):
            return {"s3Location": {"uri": url}}
        raise UnsendableError(f"{what} by a URL or an id: Converse takes data, or a url that begins with s3://")
    if not data:
        raise UnsendableError(f"{what} has neither data nor a url")
    return {"bytes": data}


def _file_block(part: File) -> Object:
    kind = _type_of(part)
    if kind.startswith("image/"):
        return _image_block(Image(url=part.url, data=part.data, media_type=kind, file_id=part.file_id))
    source = _source("a File", part.data, part.url or part.file_id)
    if kind in _VIDEOS:
        return {"video": {"format": _VIDEOS[kind], "source": source}}
    form = _DOCUMENTS.get(kind) or ("txt" if kind.startswith("text/") or kind in _TEXTS else "")
    if not form:
        known = ", ".join((*_DOCUMENTS.values(), "other texts", "images", "video"))
        raise UnsendableError(f"a File of type '{kind}' cannot be sent, only {known}")
    return {"document": {"format": form, "name": _name(part), "source": source}}


def _type_of(part: File) -> str:
    if part.media_type != _ANY:
        return part.media_type.partition(";")[0].strip().lower()
    name = part.filename or (part.url or "").partition("?")[0]
    return mimetypes.guess_type(name)[0] or _ANY


def _name(part: File) -> str:
    """Return a name that Bedrock accepts, and that two documents seldom share: names are unique in a request."""
    stem = (part.filename or "document").rpartition(".")[0] or part.filename or "document"
    plain = " ".join(_NO_NAME.sub(" ", stem).split()) or "document"
    said = f"{part.url}{part.file_id}".encode() if part.data is None else part.data.encode()
    return f"{plain[: _NAME_CHARS - 20]} {hashlib.sha256(said).hexdigest()[:6]}"
