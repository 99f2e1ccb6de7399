"""Failing models, a clock that only waiting moves, and hosts with the retry plugin in front of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from pluggent_hookspecs import (
    Message,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    Provider,
    ProviderError,
    ProviderErrorKind,
    Usage,
    hookimpl,
)
from pluggent_host import Host
from pluggent_host.session import Session
from pluggent_host.settings import HostSettings
from pluggent_retry.clock import Clock
from pluggent_retry.plugin import Retry
from pluggent_retry.settings import BreakerSettings
from pluggent_testing.fakes import Recorder, Reply, ScriptedModel

Kind = ProviderErrorKind
STARTED = 1_795_000_000.0
"""The wall clock's seconds when a test begins: 2026-11-18 11:06:40 UTC."""


class Time:
    """Stands still but for sleepers, who pass at once; ``waits`` is what they waited.

    With ``hold`` they never wake by themselves; ``asleep`` is set when one sleeps.
    """

    def __init__(self, *, hold: bool = False) -> None:
        self.passed_s = 0.0
        self.waits: list[float] = []
        self.asleep = asyncio.Event()
        self._hold = hold

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.passed_s, lambda: STARTED + self.passed_s, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.asleep.set()
        if self._hold:
            await asyncio.Event().wait()
        until = self.passed_s + seconds
        await asyncio.sleep(0)  # others may go to sleep at the same moment
        self.passed_s = max(self.passed_s, until)


@attrs.frozen(eq=False)
class Place:
    """An open host whose model, called ``scripted``, does what the test says."""

    host: Host
    session: Session
    model: ScriptedModel
    time: Time
    recorder: Recorder
    retry: Retry


@asynccontextmanager
async def retrying(
    *replies: Reply,
    plugins: Iterable[object] = (),
    time: Time | None = None,
    drawn: float = 0.5,
    cut: int | None = None,
    config: HostSettings = HostSettings(),  # noqa: B008 (an immutable tuple)
    model: str = "scripted/m",
    breaker: BreakerSettings = BreakerSettings(),  # noqa: B008 (frozen)
    **settings: Any,
) -> AsyncGenerator[Place]:
    """Open a host in which *drawn* is every random number and *settings* are those of the plugin."""
    time = Time() if time is None else time
    scripted, recorder = ScriptedModel(*replies, cut=cut), Recorder()
    retry = Retry(Retry.Settings(**settings, breaker=breaker), clock=time.clock, draw=lambda: drawn)
    given = [retry, scripted, recorder, *plugins]
    async with (
        Host.open(model=model, plugins=given, installed=False, config=config) as host,
        await host.session() as session,
    ):
        yield Place(host, session, scripted, time, recorder, retry)


def failure(kind: ProviderErrorKind = Kind.UNAVAILABLE, message: str = "no", **facts: Any) -> ProviderError:
    """Return what a provider raises."""
    return ProviderError(kind, message, provider="scripted", **facts)


class Other(ScriptedModel):
    """Another model, whose name the test chooses."""

    def __init__(self, name: str, *replies: Reply, cut: int | None = None) -> None:
        super().__init__(*replies, cut=cut)
        self.name = name
        self.target = f"memory:{name}"


class Flaky:
    """A provider called ``flaky`` that fails while ``down``, and counts who asks it. ``hold`` keeps calls inside."""

    name = "flaky"
    target = "memory:flaky"

    def __init__(self) -> None:
        self.down = True
        self.asked = 0
        self.inside = 0
        self.arrived = asyncio.Event()
        self.hold: asyncio.Event | None = None

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> list[Provider]:
        return [self]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.asked += 1
        self.inside += 1
        self.arrived.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
            if self.down:
                raise ProviderError(Kind.UNAVAILABLE, "no", provider=self.name)
        finally:
            self.inside -= 1
        return ModelResponse(Message.assistant("well"), usage=Usage(1, 1))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any]:
        raise AssertionError("these tests do not stream")
        yield
