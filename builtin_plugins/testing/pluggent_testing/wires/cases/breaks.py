"""What a provider makes of replies that break off or are too long; inherited by WireConformance."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping, Sequence

import pytest
from pluggent_hookspecs import ModelRequest, ModelResponse, Provider, ProviderErrorKind as Kind, Reply

from pluggent_testing.providers.asking import Ask, Tell, both, noted, outcome, refusal, streamed, whole
from pluggent_testing.wires.cases.replies import LISTED, TEXT
from pluggent_testing.wires.http_server import Endless, Received, Step, Steps, answer, head, until_closed
from pluggent_testing.wires.server import WireServer
from pluggent_testing.wires.suite import WireSuite, assert_error, content_of

BROKEN = (Kind.STREAM_BROKEN, Kind.PROTOCOL, Kind.UNAVAILABLE)
LOST = (Kind.STREAM_BROKEN, Kind.UNAVAILABLE)

GARBAGE: Mapping[str, bytes] = {
    "no JSON": b"{nothing",
    "HTML": b"<html></html>",
    "a list": b"[1, 2]",
    "null": b"null",
    "half of an object": b'{"id": "rep',
    "not UTF-8": b'{"id": "\xff\xfe"}',
    "deep": b'{"a":' * 100_000,
}
"""The data of events that are none, in the middle of a stream."""


class Breaks(WireSuite):
    """A reply that is not whole is an error, never a shorter reply."""

    @pytest.mark.parametrize("expected", LISTED.values(), ids=LISTED)
    @pytest.mark.parametrize("how", ["broken off", "ended well", "closed"])
    def test_a_stream_that_is_cut_between_events_is_an_error(
        self, told: Tell, server: WireServer, expected: ModelResponse, how: str
    ) -> None:
        events = self.wire.events(expected)
        kind = self.wire.stream_type
        cuts = [events[:count] for count in range(len(events))]
        plans = {
            "broken off": [server.by_event(sent, ends=False) for sent in cuts],
            "ended well": [server.by_event(sent) for sent in cuts],
            "closed": [until_closed(kind, sent) for sent in cuts],
        }
        self._cut(told, server, plans[how], expected)

    @pytest.mark.parametrize("expected", LISTED.values(), ids=LISTED)
    def test_a_stream_that_is_cut_inside_an_event_is_an_error(
        self, told: Tell, server: WireServer, expected: ModelResponse
    ) -> None:
        events = self.wire.events(expected)
        cuts = [
            (b"".join(events[:count]), event[:size])
            for count, event in enumerate(events)
            for size in (len(event) // 4, len(event) // 2, len(event) - 3)
        ]
        self._cut(told, server, [server.by_event(sent, ends=size % 2 == 0) for size, sent in enumerate(cuts)], expected)

    def _cut(self, told: Tell, server: WireServer, cuts: Sequence[Steps], expected: ModelResponse) -> None:
        self.needs_streams()

        async def story(provider: Provider) -> None:
            for number, steps in enumerate(cuts):
                server.will(steps)
                with noted(f"cut {number}: {steps}"):
                    reply = await outcome(provider, self.request(tools=self.some_tools), streamed)
                    if isinstance(reply, ModelResponse):
                        # All but the last words of the protocol may have come; the reply is whole then.
                        assert content_of(reply) == content_of(expected), f"cut, and passed on as whole: {reply}"
                    else:
                        assert_error(reply, *BROKEN)

        told(story)

    def test_what_came_before_a_stream_broke_is_handed_on(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        events = self.wire.events(TEXT)
        server.will(server.by_event(events[:-3], ends=False))

        async def story(provider: Provider) -> None:
            reply = Reply()

            async def listen(asked: Provider, request: ModelRequest) -> ModelResponse:
                async for batch in asked.stream(request):
                    reply.add(batch)
                return reply.response()

            assert_error(await outcome(provider, self.request(), listen), Kind.STREAM_BROKEN)
            assert TEXT.message.text.startswith(reply.message().text)
            assert reply.message().text, "what had come was dropped"

        told(story)

    @pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
    def test_garbage_in_the_middle_of_a_stream_is_an_error(self, told: Tell, server: WireServer, data: bytes) -> None:
        self.needs_streams()
        events = self.wire.events(TEXT)

        async def story(provider: Provider) -> None:
            for at in (1, len(events) // 2):
                garbage = self.wire.with_data(events[at], data)
                server.will(server.by_event([*events[:at], garbage, *events[at:]]))
                assert_error(await outcome(provider, self.request(), streamed), Kind.PROTOCOL, Kind.STREAM_BROKEN)

        told(story)

    def test_a_whole_reply_that_is_cut_is_an_error(self, told: Tell, server: WireServer) -> None:
        self.needs_whole_replies()
        body = self.wire.whole(TEXT)
        length = {"content-type": "application/json", "content-length": str(len(body))}

        async def story(provider: Provider) -> None:
            for size in (0, 1, len(body) // 2, len(body) - 1):
                with noted(f"{size} of {len(body)} bytes"):
                    server.will((head(200, length) + body[:size], Step.CLOSE))
                    assert_error(await outcome(provider, self.request(), whole), *LOST)
                    server.will(until_closed("application/json", [body[:size]]))
                    assert_error(await outcome(provider, self.request(), whole), *BROKEN)

        told(story)

    @both
    def test_a_connection_that_is_lost_is_worth_another_try(self, told: Tell, server: WireServer, ask: Ask) -> None:
        lost: tuple[Steps, ...] = (
            (Step.CLOSE,),
            (Step.RESET,),
            (b"HTTP/1.1 200 OK\r\ncontent-ty", Step.CLOSE),
            (head(200, {"content-type": self.wire.stream_type, "transfer-encoding": "chunked"}), Step.RESET),
        )

        async def story(provider: Provider) -> None:
            for steps in lost:
                server.will(steps)
                with noted(str(steps)):
                    error = await refusal(provider, self.request(), ask)
                    assert error.retryable, f"{error.kind}: {error}"
            await ask(provider, self.request())

        told(story)

    @both
    def test_a_connection_that_was_closed_between_two_calls_is_no_matter(
        self, told: Tell, server: WireServer, ask: Ask
    ) -> None:
        def plan(asked: Received) -> Steps:
            return (*server.reply(TEXT)(asked), Step.CLOSE)

        server.will(*[plan] * 4)

        async def story(provider: Provider) -> None:
            for _ in range(4):
                answer = await outcome(provider, self.request(), ask)
                assert isinstance(answer, ModelResponse) or answer.retryable, f"{answer.kind}: {answer}"
                await asyncio.sleep(0.01)  # until the close has arrived

        told(story)

    @both
    def test_what_is_not_http_is_an_error(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for data in (b"hello\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x28" * 10, b"HTTP/9.9 abc\r\n\r\n"):
                server.will((data, Step.CLOSE))
                await refusal(provider, self.request(), ask)

        told(story)

    @both
    def test_a_server_that_is_not_there_is_unavailable(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            server.stop()
            assert_error(await outcome(provider, self.request(), ask), Kind.UNAVAILABLE)

        told(story)

    # ---- too much -------------------------------------------------------------------------

    @both
    def test_a_reply_without_an_end_is_given_up(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self._needs_a_bound()
        much = Endless(b"x" * 65_536, self.max_bytes * 40)
        start = b'{"id": "' if self.asks_whole(ask) else b"data: "

        async def story(provider: Provider) -> None:
            server.will(server.by_event([start, much]))
            assert_error(await outcome(provider, self.request(), ask), Kind.PROTOCOL)
            assert await server.was_left(), "all of it was read"

        told(story)

    def test_a_stream_without_an_end_is_given_up(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        self._needs_a_bound()
        events = self.wire.events(TEXT)
        middle = len(events) // 2
        again = Endless(events[middle] * 200, self.max_bytes * 40)

        async def story(provider: Provider) -> None:
            server.will(server.by_event([*events[:middle], again]))
            assert_error(await outcome(provider, self.request(), streamed), Kind.PROTOCOL)
            assert await server.was_left(), "all of it was read"

        told(story)

    @both
    def test_what_is_large_only_when_it_is_unpacked_is_given_up(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self._needs_a_bound()
        bomb = gzip.compress(b'{"id": "' + b"x" * (self.max_bytes * 40) + b'"}')

        async def story(provider: Provider) -> None:
            server.will(answer(bomb, headers={"content-encoding": "gzip"}))
            assert_error(await outcome(provider, self.request(), ask), Kind.PROTOCOL)

        told(story)

    @both
    def test_an_error_without_an_end_is_an_error(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self._needs_a_bound()
        much = Endless(b"x" * 65_536, self.max_bytes * 40)

        async def story(provider: Provider) -> None:
            server.will((head(500, {"content-type": "text/html"}), much, Step.CLOSE))
            error = assert_error(await outcome(provider, self.request(), ask), Kind.UNAVAILABLE)
            assert error.status == 500  # noqa: PLR2004 (as it was sent)
            assert await server.was_left(), "all of it was read"

        told(story)

    def _needs_a_bound(self) -> None:
        if not self.bounds_size:
            pytest.skip("this provider knows no limit of a reply's size")
