"""The plugin: hooks at every place where a text leaves the host, and a filter for streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar

import attrs
from pluggent_hookspecs import (
    ConfigError,
    DeltaEvent,
    EmbeddingRequest,
    EmbeddingRequestEvent,
    InputEvent,
    MemoryItem,
    MemoryResultEvent,
    MemoryWriteEvent,
    Message,
    ModelRequest,
    ModelRequestEvent,
    ModelResponse,
    ModelResponseEvent,
    OutputEvent,
    PluginContext,
    ToolOutput,
    ToolResultEvent,
    Window,
    hookimpl,
)
from pluggent_hookspecs.secrets import Secret

from pluggent_redact.contents import Contents
from pluggent_redact.forms import SHORTEST_FORM, forms
from pluggent_redact.large_values import is_large
from pluggent_redact.patterns import pattern
from pluggent_redact.settings import RedactSettings
from pluggent_redact.shapes import SHAPES
from pluggent_redact.stream_engine import WINDOW, Engine, Finder, literals_of

V = TypeVar("V")
Items: TypeAlias = Sequence[MemoryItem]

AGAIN = 8
"""What is held back of a stream is looked into again when it has grown by this part of itself.

So every character of a stream is looked at a bounded number of times, however small its pieces are.
"""


class Redact:
    """The plugin behind the entry point ``redact``: what it finds is replaced by ``[redacted:kind]``.

    The secrets of the settings are read again for every request, so that a rotated one is known;
    what they were before stays hidden. One that cannot be read refuses to open the host.
    """

    Settings = RedactSettings

    def __init__(self, settings: RedactSettings = RedactSettings()) -> None:  # noqa: B008 (frozen)
        self._settings = settings
        shapes = (one for one in SHAPES if one.kind not in settings.off)
        own = (pattern(one.kind, one.match, ignore_case=one.ignore_case) for one in settings.patterns)
        self._finders: tuple[Finder, ...] = (*shapes, *own)
        self._values: dict[str, None] = {}
        self._contents: Contents | None = None

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        """Read the secrets. Raises ConfigError naming every one that cannot be read or is too short."""
        self._contents = None
        self._read()
        yield

    @hookimpl(band="security")
    def transform_input(self, event: InputEvent) -> Message | Awaitable[Message | None] | None:
        """Take secrets out of what was said, before anything is stored."""
        contents, message = self._read(), event.message
        return _done(lambda: _new(contents.message(message), message), large=is_large(message))

    @hookimpl(band="security")
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """Take secrets out of every message that goes to a model, and of what else the request carries.

        A tool with a secret in its definition is left out: no other plugin may change what it says of itself.
        """
        contents, request = self._read(), event.request
        messages = [message for message in request.messages if contents.is_new(message)]
        tools = [tool for tool in request.tools if contents.is_new(tool)]
        return _done(lambda: _redacted(contents, request), large=is_large(messages, tools, request.parameters))

    @hookimpl(band="security", incremental=WINDOW)
    def transform_model_response(
        self, event: ModelResponseEvent
    ) -> ModelResponse | Awaitable[ModelResponse | None] | None:
        """Take secrets out of a reply, its reasoning included; tools get what the model wrote for them."""
        contents, response = self._current(), event.response
        large = is_large(response.message, response.extra)
        return _done(lambda: _new(contents.response(response), response), large=large)

    @hookimpl(band="security", incremental=WINDOW)
    def transform_output(self, event: OutputEvent) -> Message | Awaitable[Message | None] | None:
        """Take secrets out of what a person is shown."""
        contents, message = self._current(), event.message
        return _done(lambda: _new(contents.reply(message), message), large=is_large(message))

    @hookimpl(band="security")
    def transform_delta(self, event: DeltaEvent) -> Window:
        """Show as much of a stream as no further text can turn into a secret."""
        engine, size = self._current().engine, len(event.text)
        seen, inside, held = event.state if isinstance(event.state, tuple) else (0, -1, 0)
        assert isinstance(seen, int), "it is what the last Window gave"
        assert isinstance(inside, int), "it is what the last Window gave"
        assert isinstance(held, int), "it is what the last Window gave"
        if not event.final and size - held < held // AGAIN:
            return Window("", keep=size, state=event.state)
        step = engine.step(event.text, seen, inside, final=event.final)
        kept = size - step.start
        return Window(step.show, keep=kept, state=(step.seen, step.inside, kept))

    @hookimpl(band="security")
    def transform_tool_result(self, event: ToolResultEvent) -> ToolOutput | Awaitable[ToolOutput | None] | None:
        """Take secrets out of a result: for the model, the person, as data, in media."""
        contents, output = self._read(), event.output
        return _done(lambda: _new(contents.output(output), output), large=is_large(output))

    @hookimpl(band="security")
    def transform_embedding_request(
        self, event: EmbeddingRequestEvent
    ) -> EmbeddingRequest | Awaitable[EmbeddingRequest | None] | None:
        """Take secrets out of texts that go to an embedder."""
        contents, request = self._read(), event.request

        def work() -> EmbeddingRequest | None:
            texts = tuple(map(contents.engine.redact, request.texts))
            return None if texts == request.texts else attrs.evolve(request, texts=texts)

        return _done(work, large=is_large(request.texts))

    @hookimpl(band="security")
    def transform_memory_write(self, event: MemoryWriteEvent) -> Items | Awaitable[Items | None] | None:
        """Take secrets out of what is to be remembered."""
        return self._items(event.items)

    @hookimpl(band="security")
    def transform_memory_result(self, event: MemoryResultEvent) -> Items | Awaitable[Items | None] | None:
        """Take secrets out of what was remembered before this plugin was there."""
        return self._items(event.items)

    def _items(self, items: tuple[MemoryItem, ...]) -> Items | Awaitable[Items | None] | None:
        contents = self._read()

        def work() -> Items | None:
            made = [contents.item(item) for item in items]
            return None if all(new is old for new, old in zip(made, items, strict=True)) else made

        return _done(work, large=is_large(items))

    # ---- secrets -----------------------------------------------------------------------

    def _current(self) -> Contents:
        return self._contents or self._read()

    def _read(self) -> Contents:
        """Return what redacts, with the values that the secrets have by now."""
        known = len(self._values)
        problems: list[str] = []
        for secret in self._settings.secrets:
            self._values.update(dict.fromkeys(self._value(secret, problems)))
        if problems and self._contents is None:
            raise ConfigError("[plugins.pluggent-redact] secrets", problems)
        if self._contents is None or len(self._values) > known:
            key = None if self._settings.fingerprint is None else self._settings.fingerprint.reveal().encode()
            self._contents = Contents(Engine(literals_of(tuple(self._values)), self._finders, key))
        return self._contents

    def _value(self, secret: Secret, problems: list[str]) -> tuple[str, ...]:
        try:
            value = secret.reveal().strip()
        except ConfigError as error:
            problems += [f"{secret!r}: {problem}" for problem in error.problems]
            return ()
        if len(value) < SHORTEST_FORM:
            problems.append(f"{secret!r} has fewer than {SHORTEST_FORM} characters, and would be found in any text")
            return ()
        return forms(value)


def _redacted(contents: Contents, request: ModelRequest) -> ModelRequest | None:
    """Return *request* without secrets, None if it has none."""
    messages = tuple(map(contents.message, request.messages))
    tools = tuple(tool for tool in request.tools if contents.is_clean(tool))
    given = contents.parameters(request.parameters)
    same = all(new is old for new, old in zip(messages, request.messages, strict=True))
    if same and len(tools) == len(request.tools) and given is request.parameters:
        return None
    return attrs.evolve(request, messages=messages, tools=tools, parameters=given)


def _done(work: Callable[[], V], *, large: bool) -> V | Awaitable[V]:
    """Do *work*, beside the event loop if it is *large*."""
    return asyncio.to_thread(work) if large else work()


def _new(made: V, before: V) -> V | None:
    """Return *made* unless it is what was there before: None leaves that."""
    return None if made is before else made
