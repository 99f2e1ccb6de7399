"""What the cases of the provider suite are told with: ways of asking, requests, what is left behind."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import pytest
from pluggent_hookspecs import (
    Delta,
    Json,
    Message,
    ModelRequest,
    ModelResponse,
    Opens,
    PluginContext,
    ProvideEvent,
    Provider,
    ProviderError,
    ProviderErrorKind as Kind,
    Reply,
    ToolSpec,
)

Made: TypeAlias = "Provider | Awaitable[Provider] | AbstractAsyncContextManager[Provider]"
"""What ``make_provider`` may return. A context manager has to be one that can be entered again."""

Story: TypeAlias = Callable[[Provider], Coroutine[Any, Any, None]]
Tell: TypeAlias = Callable[[Story], None]
Ask: TypeAlias = Callable[[Provider, ModelRequest], Awaitable[ModelResponse]]

Wanted: TypeAlias = tuple[str, Mapping[str, Json]]
"""A call that is wished for: the tool's name and its arguments."""

WAIT_S = 10.0
"""How long is waited for what is sure to come."""

AWKWARD = {
    "Chinese and emoji": "北京的天气 🎉 👩‍👩‍👧‍👦",
    "right to left": "مرحبا שלום",
    "line separators": "a\u2028b\u2029c\x85d\r\ne\rf\ng\td",
    "combining": "a\u0308 is not \xe4",
    "control characters": "\x00 \x07 \x1b[31m \x7f",
    "quotes": '"\'`\\ \\n \\u0041 {"a": 1} </script> &amp; data: x\n\ndata: [DONE]\n\n',
    "one that is no character": "\ufffe \uffff \U0010ffff",
    "spaces": "  two before, two behind  ",
}
"""Texts that have to arrive as they are."""

WEATHER = ToolSpec(
    "weather",
    "Tell the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    effects=(),
)
ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
    effects=(),
)
TOOLS = (WEATHER, ADD)


class _Lent:
    """What a host lends a plugin."""

    plugin = "plugin-under-test"
    host_version = "0"

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        return (pattern,)

    async def model_named(self, name: str) -> str:
        return name


class _OffersProviders(Protocol):
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]: ...


class opened:  # noqa: N801 (read as a word: return opened(MyPlugin(...)))
    """The provider of a plugin object, the plugin open meanwhile as a host would open it.

    *name* picks one of several providers; without it the first counts. Can be entered again.
    """

    def __init__(self, plugin: _OffersProviders, name: str = "") -> None:
        self._plugin = plugin
        self._name = name
        self._lifetime: AbstractAsyncContextManager[object] | None = None

    async def __aenter__(self) -> Provider:
        lent: PluginContext = _Lent()
        if isinstance(self._plugin, Opens):
            self._lifetime = self._plugin.open(lent)
            await self._lifetime.__aenter__()
        offered = {provider.name: provider for provider in self._plugin.provide_providers(ProvideEvent())}
        assert offered, "the plugin offers no provider"
        return offered[self._name] if self._name else next(iter(offered.values()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lifetime, self._lifetime = self._lifetime, None
        if lifetime is not None:
            await lifetime.__aexit__(kind, error, trace)


@asynccontextmanager
async def provided(made: Made) -> AsyncGenerator[Provider]:
    """Yield the provider that ``make_provider`` made, closed at the end if it said how."""
    if isinstance(made, AbstractAsyncContextManager):
        async with made as provider:
            yield provider
    elif isinstance(made, Provider):
        yield made
    else:
        yield await made


# ---- asking ------------------------------------------------------------------------------


async def whole(provider: Provider, request: ModelRequest) -> ModelResponse:
    """Ask for a whole reply."""
    return await provider.complete(request)


async def streamed(provider: Provider, request: ModelRequest) -> ModelResponse:
    """Ask for a stream and return the reply that its deltas make."""
    reply = Reply()
    async with aclosing(provider.stream(request)) as stream:
        async for batch in stream:
            reply.add(batch)
    return reply.response()


async def deltas_of(provider: Provider, request: ModelRequest) -> list[Delta]:
    """Ask for a stream and return its deltas in a row."""
    return [delta for batch in await batches_of(provider, request) for delta in batch]


async def batches_of(provider: Provider, request: ModelRequest) -> list[Sequence[Delta]]:
    """Ask for a stream and return its batches as they came."""
    async with aclosing(provider.stream(request)) as stream:
        return [batch async for batch in stream]


both = pytest.mark.parametrize("ask", [whole, streamed], ids=["whole", "streamed"])
"""Runs a test once with ``complete`` and once with ``stream``."""


async def refusal(provider: Provider, request: ModelRequest, ask: Ask) -> ProviderError:
    """Ask, and return the ProviderError that it raises. Anything else, a reply included, fails the test."""
    error = await outcome(provider, request, ask)
    assert isinstance(error, ProviderError), f"expected a ProviderError, got the reply {error}"
    return error


async def outcome(provider: Provider, request: ModelRequest, ask: Ask) -> ModelResponse | ProviderError:
    """Ask, and return the reply or the ProviderError. Any other exception fails the test."""
    try:
        return await ask(provider, request)
    except ProviderError as error:
        return _checked(error, provider)
    except Exception as error:
        raise AssertionError(f"raised {type(error).__name__} ({error}); only ProviderError is promised") from error


def _checked(error: ProviderError, provider: Provider) -> ProviderError:
    assert error.provider == provider.name, f"the error does not say whose it is: provider={error.provider!r}"
    assert error.message.strip(), "the error says nothing"
    return error


@contextmanager
def noted(what: str) -> Generator[None]:
    """Say in a failure which of many cases it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the case: {what}")
        raise


def refuses(error: ModelResponse | ProviderError, *names: str) -> bool:
    """Tell whether *error* is a refusal of the request that has one of *names* in its sentence."""
    if not isinstance(error, ProviderError) or error.kind is not Kind.BAD_REQUEST:
        return False
    said = error.message.lower()
    return any(name.lower() in said for name in names)


def conversation(rounds: int) -> tuple[Message, ...]:
    """Return a history of *rounds* questions with answers, in the order of a real one."""
    messages: list[Message] = []
    for number in range(rounds):
        messages += (Message.user(f"Question {number}?"), Message.assistant(f"Answer {number}."))
    return tuple(messages)


# ---- what is left behind -----------------------------------------------------------------


def tasks() -> set[asyncio.Task[Any]]:
    """Return the tasks of this loop that have not ended."""
    return {task for task in asyncio.all_tasks() if not task.done()}


async def new_tasks(before: set[asyncio.Task[Any]]) -> list[str]:
    """Return the tasks that were not there *before*, when what is ending has had time to end."""
    for _ in range(100):
        if tasks() <= before:
            return []
        await asyncio.sleep(0)
    return [repr(task) for task in tasks() - before]


def sockets() -> int:
    """Return how many network sockets this process has open; 0 where the system does not tell."""
    count = 0
    for name in _descriptors():
        try:
            count += stat.S_ISSOCK(os.fstat(int(name)).st_mode)
        except OSError:
            continue  # the one that listed the folder
    return count


def _descriptors() -> list[str]:
    folder = Path("/dev/fd")
    return [file.name for file in folder.iterdir() if file.name.isdecimal()] if folder.is_dir() else []


async def no_more_sockets_than(before: int) -> bool:
    """Tell whether the sockets that were opened since are closed again, soon if not yet."""
    deadline = asyncio.get_running_loop().time() + WAIT_S
    while sockets() > before:
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
