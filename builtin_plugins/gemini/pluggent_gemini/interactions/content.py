"""Images, sound and documents of the contract as contents of a step, and back."""

from __future__ import annotations

from typing import Any, TypeAlias

from pluggent_hookspecs import Audio, File, Image
from pluggent_provider_http.payload import as_fields, as_text

from pluggent_gemini.media import media_part, shown_media

Object: TypeAlias = dict[str, Any]

_KINDS = ("image", "audio", "video")


def media_content(part: Image | Audio | File, files_url: str) -> Object:
    """Return *part* as a content; ids of files are looked up below *files_url*.

    Raises UnsendableError naming what the API does not take.

    >>> media_content(Image(data="aGk="), "https://example.org/v1beta")
    {'type': 'image', 'mime_type': 'image/png', 'data': 'aGk='}
    """
    made = media_part(part, files_url)
    inline, file = as_fields(made.get("inlineData")), as_fields(made.get("fileData"))
    media_type = as_text(inline.get("mimeType") or file.get("mimeType"))
    kind = _kind_of(media_type, part)
    typed = {"mime_type": media_type} if media_type else {}
    return {"type": kind, **typed, **({"data": inline["data"]} if inline else {"uri": file["fileUri"]})}


def _kind_of(media_type: str, part: Image | Audio | File) -> str:
    kind = media_type.partition("/")[0]
    if kind in _KINDS:
        return kind
    return "image" if isinstance(part, Image) else "document"


def shown_content(content: Any) -> Image | Audio | None:
    """Return a content of a reply as a part of the contract; None for what the contract has no part for.

    >>> shown_content({"type": "image", "mime_type": "image/jpeg", "data": "aGk="})
    Image(url=None, data='aGk=', media_type='image/jpeg', detail=None, file_id=None)
    """
    fields = as_fields(content)
    if set(fields) != {"type", "mime_type", "data"}:
        return None
    found = shown_media({"mimeType": fields["mime_type"], "data": fields["data"]})
    return found if found is not None and fields["type"] == type(found).__name__.lower() else None
