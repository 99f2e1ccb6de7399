"""One Ollama server as a Provider of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any, cast

import msgspec
from pluggent_hookspecs import Delta, ModelInfo, ModelRequest, ProviderError
from pluggent_provider_http.ndjson import LineFeed
from pluggent_provider_http.payload import MalformedError, Object, as_count, as_list, as_object, as_text, decode_whole
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults

from pluggent_ollama.addressing import request_headers, with_advice
from pluggent_ollama.lines import Lines
from pluggent_ollama.request import encode_request
from pluggent_ollama.settings import Server

CHAT, TAGS, SHOW = "/api/chat", "/api/tags", "/api/show"
_SHOWN = 200
"""Of so many models the window is asked for."""
_AT_ONCE = 4
_SHOW_S = 5.0
"""Seconds for all windows together; those that did not come are unknown."""
_LISTED = frozenset({"name", "model", "modified_at"})


class OllamaProvider(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too. It can list the models (ListsModels).
    """

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that are on the server, each with its window as far as the server says it.

        Raises ProviderError.
        """
        headers, faults = request_headers(self.server, Faults(self.name, self.target, path=TAGS))
        try:
            async with self.http().get(TAGS, headers, faults) as answer:
                await answer.check()
                listed = _listed(await answer.read(), faults)
        except ProviderError as error:
            raise with_advice(error) from error
        windows = await self._windows([model.id for model in listed if model.context_window is None][:_SHOWN])
        return [_with_window(model, windows.get(model.id)) for model in listed]

    async def streamed(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Ask for a stream and yield what it brings; an error says what to do at this machine."""
        try:
            async with aclosing(super().streamed(request)) as batches:
                async for batch in batches:
                    yield batch
        except ProviderError as error:
            raise with_advice(error, request.model) from error

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        body = encode_request(request, self.server, Faults(self.name, self.target))
        about = Faults(self.name, self.target, request.model, path=CHAT)
        headers, faults = request_headers(self.server, about, request.parameters)
        return Asked(CHAT, body.data, headers, faults, Lines(request, faults, body.notes), LineFeed)

    async def _windows(self, models: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        gate = asyncio.Semaphore(_AT_ONCE)

        async def look(model: str) -> None:
            async with gate:
                with suppress(ProviderError):  # a list without a window is better than none
                    if (window := await self._window(model)) is not None:
                        found[model] = window

        with suppress(TimeoutError):
            async with asyncio.timeout(_SHOW_S), asyncio.TaskGroup() as tasks:
                for model in models:
                    tasks.create_task(look(model))
        return found

    async def _window(self, model: str) -> int | None:
        headers, faults = request_headers(self.server, Faults(self.name, self.target, model, path=SHOW))
        body = msgspec.json.encode({"model": model})
        async with self.http().post(SHOW, body, headers, faults) as answer:
            await answer.check()
            data = await answer.read()
        try:
            said: object = as_object(decode_whole(data), "the answer").get("model_info")
        except MalformedError as error:
            raise faults.protocol(f"answered with what is not about a model: {error}") from error
        fields: Object = cast("Object", said) if isinstance(said, dict) else {}
        lengths = (as_count(value) for name, value in fields.items() if name.endswith(".context_length"))
        return next((length for length in lengths if length), None)


def _listed(data: bytes, faults: Faults) -> list[ModelInfo]:
    try:
        answer = as_object(decode_whole(data), "the answer")
        if answer.get("error"):
            raise faults.from_payload(answer)
        return [_model(entry) for entry in as_list(answer.get("models"), "models")]
    except (MalformedError, RecursionError) as error:
        shown = faults.shown(data) or "(empty)"
        raise faults.protocol(f"answered with what is not a list of models: {error}: {shown}") from error


def _model(entry: object) -> ModelInfo:
    fields = as_object(entry, "a model")
    name = as_text(fields.get("model")) or as_text(fields.get("name"))
    if not name:
        raise MalformedError("a model has no name")
    details = fields.get("details")
    window = as_count(cast("Object", details).get("context_length")) if isinstance(details, dict) else None
    extra: dict[str, Any] = {key: value for key, value in fields.items() if key not in _LISTED and value}
    return ModelInfo(name, "", _seconds(as_text(fields.get("modified_at"))), window or None, None, extra)


def _with_window(model: ModelInfo, window: int | None) -> ModelInfo:
    if model.context_window is not None or window is None:
        return model
    return ModelInfo(model.id, model.name, model.created, window, model.max_output_tokens, model.extra)


def _seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (ValueError, OverflowError, OSError):
        return None
