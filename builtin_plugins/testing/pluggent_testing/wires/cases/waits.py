"""What a provider does while a server takes its time; inherited by WireConformance."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TypeAlias

import pytest
from pluggent_hookspecs import ModelResponse, Provider, ProviderErrorKind as Kind

from pluggent_testing.providers.asking import (
    WAIT_S,
    Ask,
    Tell,
    both,
    new_tasks,
    no_more_sockets_than,
    outcome,
    sockets,
    streamed,
    tasks,
    whole,
)
from pluggent_testing.providers.values import check_reply
from pluggent_testing.wires.http_server import Endless, Pause, Step, Steps, head
from pluggent_testing.wires.server import HELLO, WireServer
from pluggent_testing.wires.suite import WireSuite, assert_error, content_of, hasty

Hangs: TypeAlias = Callable[[WireServer], Steps]
A_MOMENT_S = 0.1
PATIENCES = 8
"""After how many times its patience a provider has to have given up."""


def _whole_head(server: WireServer) -> bytes:
    return head(200, {"content-type": "application/json", "content-length": str(len(server.wire.whole(HELLO)))})


def _some_events(server: WireServer) -> list[bytes]:
    events = server.wire.events(HELLO)
    return events[: len(events) // 2]


def _half_an_event(server: WireServer) -> bytes:
    return server.wire.events(HELLO)[-1][:3]


def _nothing(_: WireServer) -> Steps:
    return (Step.HANG,)


HANGS: Mapping[str, tuple[Ask, Hangs]] = {
    "a whole reply of which nothing comes": (whole, _nothing),
    "a whole reply of which half a head comes": (whole, lambda _: (b"HTTP/1.1 200 OK\r\ncont", Step.HANG)),
    "a whole reply of which the head comes": (whole, lambda server: (_whole_head(server), Step.HANG)),
    "a whole reply of which some comes": (
        whole,
        lambda server: (_whole_head(server), server.wire.whole(HELLO)[:20], Step.HANG),
    ),
    "a stream of which nothing comes": (streamed, _nothing),
    "a stream of which the head comes": (streamed, lambda server: server.by_event([Step.HANG])),
    "a stream of which some comes": (streamed, lambda server: server.by_event([*_some_events(server), Step.HANG])),
    "a stream of which half an event comes": (
        streamed,
        lambda server: server.by_event([*_some_events(server), _half_an_event(server), Step.HANG]),
    ),
    "an error of which the head comes": (
        whole,
        lambda _: (head(500, {"content-type": "text/plain", "content-length": "100"}), Step.HANG),
    ),
}
"""Where a server can stop: how it was asked, and what it does."""

hangs = pytest.mark.parametrize("name", HANGS)


class Waits(WireSuite):
    """Every wait has its limit, a slow reply is read, and who does not want to wait is let go."""

    def _hang(self, server: WireServer, name: str) -> tuple[Ask, Steps]:
        ask, steps = HANGS[name]
        if name.startswith("a stream"):
            self.needs_streams()
        if name.startswith("a whole"):
            self.needs_whole_replies()
        return ask, steps(server)

    @hasty
    @hangs
    def test_a_server_that_stops_is_given_up_in_time(self, told: Tell, server: WireServer, name: str) -> None:
        ask, steps = self._hang(server, name)
        server.will(steps)

        async def story(provider: Provider) -> None:
            started = monotonic()
            answer = await outcome(provider, self.request(), ask)
            # An error whose words never come is still what its status says.
            assert_error(answer, *((Kind.UNAVAILABLE, Kind.TIMEOUT) if "error" in name else (Kind.TIMEOUT,)))
            assert monotonic() - started < PATIENCES * server.patience_s, "too late"
            assert await server.was_left(), "the connection was left open"

        told(story)

    @hasty
    @both
    def test_a_slow_reply_is_read_to_its_end(self, told: Tell, server: WireServer, ask: Ask) -> None:
        pause = Pause(server.patience_s / 4)
        body, events = self.wire.whole(HELLO), self.wire.events(HELLO)
        quarter, half = len(body) // 6, len(events) // 2
        whole_slowly: list[bytes | Step | Pause] = [pause, _whole_head(server)]
        for start in range(0, len(body), quarter):
            whole_slowly += [pause, body[start : start + quarter]]
        slowly: list[bytes | Step | Pause | Endless] = [
            pause,
            events[0],
            pause,
            *events[1:half],
            pause,
            events[half],
            pause,
            *events[half + 1 :],
        ]
        server.will(server.either(whole_slowly, server.by_event(slowly)))

        async def story(provider: Provider) -> None:
            assert content_of(await ask(provider, self.request())) == content_of(HELLO)

        told(story)

    # ---- cancellation ---------------------------------------------------------------------

    @hangs
    def test_a_cancelled_call_closes_its_connection(self, told: Tell, server: WireServer, name: str) -> None:
        ask, steps = self._hang(server, name)

        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            await server.was_asked()
            before, open_before = tasks(), sockets()
            server.will(steps)
            call = asyncio.create_task(_asking(provider, ask, self))
            await server.was_asked()
            for _ in range(10):
                await asyncio.sleep(0)
            started = monotonic()
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(call, WAIT_S)
            assert call.cancelled(), "the call went on"
            assert monotonic() - started < server.patience_s / 2, "the cancellation waited for a time limit"
            assert await server.was_left(), "the connection was left open"
            assert await new_tasks(before - {call}) == []
            assert await no_more_sockets_than(open_before), "a socket was left open"
            check_reply(await ask(provider, self.request()))

        told(story)

    @hangs
    def test_the_callers_own_time_limit_counts(self, told: Tell, server: WireServer, name: str) -> None:
        ask, steps = self._hang(server, name)
        server.will(steps)

        async def story(provider: Provider) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(A_MOMENT_S):
                    await ask(provider, self.request())
            assert await server.was_left(), "the connection was left open"

        told(story)

    def test_a_stream_that_is_closed_early_closes_its_connection(self, told: Tell, server: WireServer) -> None:
        _, steps = self._hang(server, "a stream of which some comes")
        server.will(steps)

        async def story(provider: Provider) -> None:
            stream = provider.stream(self.request())
            await anext(stream)
            await stream.aclose()
            assert await server.was_left(), "the connection was left open"

        told(story)

    @hasty
    def test_a_stream_without_a_reader_holds_up_no_other(self, told: Tell, server: WireServer) -> None:
        _, steps = self._hang(server, "a stream of which some comes")
        server.will(steps)

        async def story(provider: Provider) -> None:
            stream = provider.stream(self.request())
            await anext(stream)
            for ask in (whole, streamed):
                check_reply(await ask(provider, self.request()))
            # The limit is for the server, not for the reader: it has not run out meanwhile.
            await asyncio.sleep(server.patience_s * 1.2)
            check_reply(await whole(provider, self.request()))
            await stream.aclose()

        told(story)

    @both
    def test_one_call_that_is_cancelled_disturbs_no_other(self, told: Tell, server: WireServer, ask: Ask) -> None:
        server.will((Step.HANG,))

        async def story(provider: Provider) -> None:
            call = asyncio.create_task(_asking(provider, ask, self))
            await server.was_asked()
            others = [asyncio.create_task(_asking(provider, ask, self)) for _ in range(8)]
            call.cancel()
            for reply in await asyncio.gather(*others):
                check_reply(reply)
            with contextlib.suppress(asyncio.CancelledError):
                await call

        told(story)


async def _asking(provider: Provider, ask: Ask, suite: WireSuite) -> ModelResponse:
    return await ask(provider, suite.request())
