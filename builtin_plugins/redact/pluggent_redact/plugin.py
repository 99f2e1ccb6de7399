"""The plugin: hooks at every place where a text leaves the host, and a filter for streams."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import quote

import attrs
from pluggent_hookspecs import (
    ConfigError,
    DeltaEvent,
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
from pluggent_redact.engine import WINDOW, Engine, Finder, literals_of
from pluggent_redact.patterns import pattern
from pluggent_redact.settings import RedactSettings
from pluggent_redact.shapes import SHAPES

V = TypeVar("V")

SHORTEST_SECRET = 6
"""Characters; a shorter one would be found in ordinary words."""


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
    def transform_input(self, event: InputEvent) -> Message | None:
        """Take secrets out of what was said, before anything is stored."""
        return _new(self._read().message(event.message), event.message)

    @hookimpl(band="security")
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest | None:
        """Take secrets out of every message that goes to a model, and of what else the request carries."""
        contents, request = self._read(), event.request
        messages = tuple(map(contents.message, request.messages))
        given = request.parameters
        extra, metadata = contents.json(given.extra), contents.json(given.metadata)
        user = contents.maybe(given.user)
        if extra is not given.extra or metadata is not given.metadata or user is not given.user:
            given = attrs.evolve(given, extra=extra, metadata=metadata, user=user)
        same = all(new is old for new, old in zip(messages, request.messages, strict=True))
        if same and given is request.parameters:
            return None
        return attrs.evolve(request, messages=messages, parameters=given)

    @hookimpl(band="security", incremental=WINDOW)
    def transform_model_response(self, event: ModelResponseEvent) -> ModelResponse | None:
        """Take secrets out of a reply, its reasoning included; tools get what the model wrote for them."""
        message = self._current().reply(event.response.message)
        return None if message is event.response.message else attrs.evolve(event.response, message=message)

    @hookimpl(band="security", incremental=WINDOW)
    def transform_output(self, event: OutputEvent) -> Message | None:
        """Take secrets out of what a person is shown."""
        return _new(self._current().reply(event.message), event.message)

    @hookimpl(band="security")
    def transform_delta(self, event: DeltaEvent) -> Window:
        """Show as much of a stream as no further text can turn into a secret."""
        engine = self._current().engine
        seen, inside = event.state if isinstance(event.state, tuple) else (0, -1)
        assert isinstance(seen, int), "it is what the last Window gave"
        assert isinstance(inside, int), "it is what the last Window gave"
        step = engine.step(event.text, seen, inside, final=event.final)
        return Window(step.show, keep=len(event.text) - step.start, state=(step.seen, step.inside))

    @hookimpl(band="security")
    def transform_tool_result(self, event: ToolResultEvent) -> ToolOutput | None:
        """Take secrets out of a result: for the model, the person, as data, in media."""
        return _new(self._read().output(event.output), event.output)

    @hookimpl(band="security")
    def transform_memory_write(self, event: MemoryWriteEvent) -> Sequence[MemoryItem] | None:
        """Take secrets out of what is to be remembered."""
        return self._items(event.items)

    @hookimpl(band="security")
    def transform_memory_result(self, event: MemoryResultEvent) -> Sequence[MemoryItem] | None:
        """Take secrets out of what was remembered before this plugin was there."""
        return self._items(event.items)

    def _items(self, items: tuple[MemoryItem, ...]) -> Sequence[MemoryItem] | None:
        made = [self._read().item(item) for item in items]
        return None if all(new is old for new, old in zip(made, items, strict=True)) else made

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
        if len(value) < SHORTEST_SECRET:
            problems.append(f"{secret!r} has fewer than {SHORTEST_SECRET} characters, and would be found in any text")
            return ()
        return forms(value)


def forms(value: str) -> tuple[str, ...]:
    r"""Return how *value* may be written: as it is, in JSON, in a URL, in base64.

    >>> forms("a/b cdé")
    ('a/b cdé', 'a/b cd\\u00e9', 'a%2Fb%20cd%C3%A9', 'YS9iIGNkw6k')
    """
    data = value.encode(errors="replace")
    plain = base64.b64encode(data).decode().rstrip("=")
    written = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(data, safe=""), plain)
    return tuple(dict.fromkeys((value, *written)))


def _new(made: V, before: V) -> V | None:
    """Return *made* unless it is what was there before: None leaves that."""
    return None if made is before else made
