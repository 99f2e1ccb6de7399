"""Images, sound and documents of the contract as parts of the Gemini API, and back."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pluggent_hookspecs import Audio, File, Image
from pluggent_provider_http.unsendable import UnsendableError

Object: TypeAlias = dict[str, Any]

_ANY = "application/octet-stream"
_IMAGE = Image().media_type  # which says nothing where only a URL is given
_PLACES = ("https", "http", "gs")
_FILES = "files/"
_SOUNDS = frozenset({"wav", "mp3", "aiff", "aac", "ogg", "flac"})


def media_part(part: Image | Audio | File, files_url: str) -> Object:
    """Return *part* as ``inlineData`` or ``fileData``; ids of files are looked up below *files_url*.

    Raises UnsendableError naming what the API does not take.

    >>> media_part(Image(data="aGk="), "https://example.org/v1beta")
    {'inlineData': {'mimeType': 'image/png', 'data': 'aGk='}}
    """
    if isinstance(part, Audio):
        return _inline(f"audio/{part.format.lower()}", part.data, part)
    if part.file_id is not None:
        return _at(_file_url(part.file_id, files_url), part)
    if part.url is None:
        return _inline(_type_of(part), part.data, part)
    if part.url.startswith("data:"):
        head, _, data = part.url.removeprefix("data:").partition(",")
        if not head.endswith(";base64"):
            raise UnsendableError(f"the data: URL of {_a(part)} is not in base64")
        return _inline(head.removesuffix(";base64").partition(";")[0], data, part)
    return _at(part.url, part)


def _inline(media_type: str, data: str | None, part: Image | Audio | File) -> Object:
    if not data:
        raise UnsendableError(f"{_a(part)} has neither data, nor a url, nor a file_id")
    if media_type == _ANY:
        raise UnsendableError(f"{_a(part)} has no media_type, and the API wants one, such as application/pdf")
    return {"inlineData": {"mimeType": media_type, "data": data}}


def _at(url: str, part: Image | File) -> Object:
    if urlsplit(url).scheme not in _PLACES:
        raise UnsendableError(f"the url of {_a(part)} begins with https://, http:// or gs://")
    media_type = mimetypes.guess_type(urlsplit(url).path)[0]
    if media_type is None and part.media_type not in (_ANY, _IMAGE):
        media_type = part.media_type
    return {"fileData": {"fileUri": url, **({"mimeType": media_type} if media_type else {})}}


def _file_url(id: str, files_url: str) -> str:
    if urlsplit(id).scheme in _PLACES:
        return id
    return f"{files_url}/{_FILES}{id.removeprefix(_FILES)}"


def _type_of(part: Image | File) -> str:
    given = part.media_type.partition(";")[0].strip().lower()
    if given != _ANY or not isinstance(part, File):
        return given
    return mimetypes.guess_type(part.filename or "")[0] or _ANY


def _a(part: Image | Audio | File) -> str:
    return f"an {type(part).__name__}" if isinstance(part, Image | Audio) else "a File"


def shown_media(data: Mapping[str, Any]) -> Image | Audio | None:
    """Return ``inlineData`` of a reply as a part of the contract; None for what the contract has no part for.

    >>> shown_media({"mimeType": "image/jpeg", "data": "aGk="}) == Image(data="aGk=", media_type="image/jpeg")
    True
    """
    media_type, content = data.get("mimeType"), data.get("data")
    if set(data) != {"mimeType", "data"} or not isinstance(media_type, str) or not isinstance(content, str):
        return None
    kind, _, format = media_type.partition("/")
    if kind == "image" and content:
        return Image(data=content, media_type=media_type)
    if kind == "audio" and format in _SOUNDS and content:
        return Audio(content, format)
    return None
