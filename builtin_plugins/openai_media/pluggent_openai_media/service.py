"""The server's side: images, speech and transcriptions asked for, and what comes back read as what is not trusted.

https://developers.openai.com/api/reference/resources/images, …/audio (November 2026)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pluggent_provider_http.access import Access, identity_of
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.multipart import Upload, form
from pluggent_provider_http.payload import MalformedError, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.provider import HttpServer
from pluggent_provider_http.server_errors import Faults

from pluggent_openai_media.formats import image_format, speech_format
from pluggent_openai_media.settings import MediaSettings

if TYPE_CHECKING:  # it takes long to import, and only requests need it
    import httpx2

_GENERATE, _EDIT, _SPEAK, _TRANSCRIBE = "/images/generations", "/images/edits", "/audio/speech", "/audio/transcriptions"
_JSON = "application/json"
_NAME = "openai-media"


class Service:
    """Asks one server. Methods raise ProviderError."""

    def __init__(
        self,
        settings: MediaSettings,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        access = Access(
            _NAME, settings, target_of(settings.base_url), identity_of(settings, settings.auth), f"{_JSON}, */*"
        )
        self._server = HttpServer(_NAME, settings, client, transport, access=access)
        self._settings = settings

    async def image(self, asked: Mapping[str, str]) -> bytes:
        """Return an image made of the fields *asked*: ``prompt``, ``size``, and so on."""
        model = self._settings.image_model
        body = msgspec.json.encode({"model": model, **asked})
        return _image(*await self._post(_GENERATE, model, _JSON, body))

    async def edited_image(self, asked: Mapping[str, str], images: Sequence[Upload]) -> bytes:
        """Return an image made of *images* as the fields *asked* say."""
        model = self._settings.image_model
        return _image(*await self._post(_EDIT, model, *form({"model": model, **asked}, images)))

    async def speech(self, asked: Mapping[str, str]) -> bytes:
        """Return the sound of a text: of ``input``, ``voice``, ``response_format`` and ``instructions``."""
        model = self._settings.speech_model
        data, faults = await self._post(_SPEAK, model, _JSON, msgspec.json.encode({"model": model, **asked}))
        if not speech_format(data):
            raise faults.protocol(f"answered with what is not sound: {faults.shown(data) or '(empty)'}")
        return data

    async def transcript(self, asked: Mapping[str, str], recording: Upload) -> str:
        """Return what is said in *recording*."""
        model = self._settings.transcription_model
        content_type, body = form({"model": model, "response_format": "json", **asked}, [recording])
        data, faults = await self._post(_TRANSCRIBE, model, content_type, body)
        try:
            answer = as_object(decode_whole(data), "it")
            if answer.get("error"):
                raise faults.from_payload(answer)
            text = answer.get("text")
            if not isinstance(text, str):
                raise MalformedError("it has no text")  # noqa: TRY301 (with what decoding raises)
        except (MalformedError, RecursionError) as error:
            raise _unreadable("a transcript", data, faults, error) from error
        return text

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        await self._server.close()

    async def _post(self, path: str, model: str, content_type: str, body: bytes) -> tuple[bytes, Faults]:
        await self._server.prepare()
        headers, faults = self._server.access.headers(model, path)
        async with self._server.http().post(path, body, headers | {"content-type": content_type}, faults) as answer:
            await self._server.check(answer)
            return await answer.read(), faults


def _image(data: bytes, faults: Faults) -> bytes:
    try:
        answer = as_object(decode_whole(data), "it")
        if answer.get("error"):
            raise faults.from_payload(answer)
        first = as_object(next(iter(as_list(answer.get("data"), "data")), None), "an image")
        if first.get("url") and not first.get("b64_json"):
            raise MalformedError("it has a URL in the place of the image, and none is followed")  # noqa: TRY301
        image = binascii.a2b_base64(as_text(first.get("b64_json")), strict_mode=True)
    except (MalformedError, RecursionError, binascii.Error) as error:
        raise _unreadable("an image", data, faults, error) from error
    if not image_format(image):
        raise faults.protocol("sent what is not a whole PNG, JPEG or WebP image")
    return image


def _unreadable(what: str, data: bytes, faults: Faults, error: Exception) -> Exception:
    shown = faults.shown(data, 200) or "(empty)"
    return faults.protocol(f"answered with what is not {what}: {str(error) or type(error).__name__}: {shown}")


def as_base64(data: bytes) -> str:
    """Return *data* as messages carry it."""
    return base64.b64encode(data).decode("ascii")
