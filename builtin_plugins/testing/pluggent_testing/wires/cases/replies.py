"""What a provider makes of good replies; inherited by WireConformance."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    FinishReason,
    Json,
    ListsModels,
    Message,
    ModelResponse,
    Provider,
    Reasoning,
    Refusal,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    thaw,
)

from pluggent_testing.providers.asking import AWKWARD, WAIT_S, Ask, Tell, both, deltas_of, streamed, whole
from pluggent_testing.providers.values import (
    calls_of,
    calls_of_message,
    check_deltas,
    check_reply,
    check_written_down,
)
from pluggent_testing.wires.format import Says
from pluggent_testing.wires.formats.openai import OpenAIWire
from pluggent_testing.wires.http_server import Received, Step, Steps, answer
from pluggent_testing.wires.server import HELLO, MODELS, WireServer, holds, packings
from pluggent_testing.wires.suite import WireSuite, content_of

CALLS = (
    ToolCall("call_a", "weather", '{"city": "Rome"}'),
    ToolCall("call_b", "add", '{"a": 2, "b": 3}'),
    ToolCall("call_c", "weather", '{"city": "北京 🎉"}'),
)


def _reply(
    content: Any, calls: tuple[ToolCall, ...] = (), reason: FinishReason = FinishReason.STOP, **usage: Any
) -> ModelResponse:
    counted = Usage(input=100, output=50, **usage)
    reason = FinishReason.TOOL_CALLS if calls else reason
    return ModelResponse(Message.assistant(content, calls), reason, counted, "model-1", "reply-9")


TEXT = HELLO
CALLING = _reply((), CALLS)
SIGNED = (Reasoning("First I think. ", "c2lnbmVkLTdmM2E="), Text("Then I speak."))
REPLIES: Mapping[str, tuple[ModelResponse, tuple[Says, ...]]] = {
    "text": (TEXT, ()),
    "one call": (_reply((), CALLS[:1]), ()),
    "calls side by side": (CALLING, ()),
    "words before the calls": (_reply("Let me look that up.", CALLS), ()),
    "calls without arguments": (_reply((), (ToolCall("call_a", "now", "{}"), ToolCall("call_b", "now", "{}"))), ()),
    "the same call twice": (_reply((), (attrs.evolve(CALLS[0], id="call_x"), CALLS[0])), ()),
    "white space": (_reply("  \n two lines\n\n"), ()),
    "a long text": (_reply("All work and no play. " * 700), ()),
    "cut at its limit": (_reply("It was", reason=FinishReason.LENGTH), ()),
    "thinking": (_reply((Reasoning("First I think. "), Text("Then I speak."))), (Says.THINKING,)),
    "signed thinking": (_reply(SIGNED), (Says.THINKING, Says.SIGNATURES)),
    "signed thinking before calls": (_reply(SIGNED[:1], CALLS), (Says.THINKING, Says.SIGNATURES)),
    "two thoughts": (
        _reply((SIGNED[0], Reasoning("I think again. ", "c2lnbmVkLTIy"), SIGNED[1])),
        (Says.THINKING, Says.SIGNATURES, Says.ORDER),
    ),
    "thinking between texts": (
        _reply((Text("First I speak. "), *SIGNED)),
        (Says.THINKING, Says.SIGNATURES, Says.ORDER),
    ),
    "no count of tokens": (attrs.evolve(TEXT, usage=Usage()), ()),
    "a refusal": (_reply(Refusal("I will not.")), (Says.REFUSALS,)),
    "tokens from the cache": (_reply("hi", cached=64), (Says.CACHED,)),
    "nothing from the cache": (_reply("hi", cached=0), (Says.CACHED,)),
    "tokens into the cache": (_reply("hi", cached=20, cache_write=30), (Says.CACHED, Says.CACHE_WRITES)),
    "tokens of thinking": (_reply("hi", reasoning=32), (Says.THINKING_TOKENS,)),
    "tokens of sound": (_reply("hi", audio=8, input_audio=16), (Says.AUDIO_TOKENS,)),
    **{f"text with {name}": (_reply(text), ()) for name, text in AWKWARD.items()},
    **{
        f"a call with {name}": (_reply((), (ToolCall("call_a", "weather", json.dumps({"city": text})),)), ())
        for name, text in AWKWARD.items()
    },
}
"""Replies, and what a wire must have words for to give them."""

ARGUMENTS: Mapping[str, str] = {
    "white space": '{ "city" :\n"Rome" }',
    "a key twice": '{"city": "Rome", "city": "Oslo"}',
    "escapes": '{"city": "\\u0052ome \\/ \\ud83c\\udf89"}',
    "numbers": '{"city": 1.0, "a": 1e2, "b": 12345678901234567890, "c": 1.2345678901234567890, "d": -0}',
    "half of it": '{"city": "Ro',
    "no JSON": "city=Rome",
    "a list": '["Rome"]',
    "deep": '{"a":' * 200 + "1" + "}" * 200,
}
"""Arguments that a provider neither parses nor repairs."""

SPLIT: Mapping[str, str] = {
    "a pair": "a\ud83c|\udf89b",
    "two pairs": "\ud83c|\udf89\ud83d|\udc69",
    "half a pair, and no other": "a\ud83c|b",
    "the other half alone": "a|\udf89b",
    "half a pair at the end": "a|b\ud83c",
}
"""Texts with escaped surrogates; the bar is where one event ends and the next begins."""

NO_COUNTS = (b"-100", b"NaN", b"-Infinity", b"1e999", b'"100"', b"100.5", b"true", b"[]", b"1" + b"0" * 40)
"""What stands in place of a count of tokens."""

LISTED = {"text": TEXT, "calls": CALLING}


class WireReplies(WireSuite):
    """Every reply arrives as it was told, however it was sent."""

    @both
    @pytest.mark.parametrize("name", REPLIES)
    def test_a_reply_is_read_as_it_was_told(self, told: Tell, server: WireServer, ask: Ask, name: str) -> None:
        expected, words = REPLIES[name]
        self.needs(*words)
        server.will(server.reply(expected))

        async def story(provider: Provider) -> None:
            reply = check_reply(await ask(provider, self.request(tools=self.some_tools)))
            check_written_down(reply, ModelResponse)
            if self.asks_whole(ask) and Says.ARGUMENTS_AS_TEXT not in self.wire.says:
                assert _decoded(reply) == _decoded(expected)
            else:
                assert content_of(reply) == content_of(expected)
            assert reply.usage == expected.usage
            if self.wire.names_replies:
                assert (reply.model, reply.id) == (expected.model, expected.id)

        told(story)

    @pytest.mark.parametrize("name", ["text", "calls side by side", "words before the calls", "signed thinking"])
    def test_a_whole_and_a_streamed_message_are_the_same(self, told: Tell, server: WireServer, name: str) -> None:
        expected, words = REPLIES[name]
        self.needs(*words)
        server.will(server.reply(expected), server.reply(expected))

        async def story(provider: Provider) -> None:
            request = self.request(tools=self.some_tools)
            one, other = [(await ask(provider, request)).message for ask in (whole, streamed)]
            assert one.content == other.content
            assert calls_of_message(one) == calls_of_message(other)
            assert one.extra == other.extra

        told(story)

    @both
    def test_log_probabilities_come_back_in_extra(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self.needs(Says.LOGPROBS)
        tokens: list[Json] = [
            {"token": word, "logprob": -0.5, "bytes": None, "top_logprobs": []} for word in ("Hel", "lo")
        ]
        server.will(server.reply(attrs.evolve(HELLO, extra={"logprobs": {"content": tokens}})))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request_with(logprobs=0))
            assert [token for token in tokens if not holds(thaw(reply.extra), token)] == [], f"extra is {reply.extra}"

        told(story)

    def test_events_that_say_nothing_change_nothing(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        idle = b"".join(self.wire.idle_events)
        server.will(server.by_event([idle + event for event in self.wire.events(CALLING)]))

        async def story(provider: Provider) -> None:
            reply = await streamed(provider, self.request(tools=self.some_tools))
            assert content_of(reply) == content_of(CALLING)
            assert reply.usage == CALLING.usage
            if self.wire.names_replies:
                assert (reply.model, reply.id) == (CALLING.model, CALLING.id)

        told(story)

    def test_what_comes_after_the_end_changes_nothing(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        events = self.wire.events(TEXT)
        server.will(server.by_event([*events, *events[1:]]))

        async def story(provider: Provider) -> None:
            deltas = await deltas_of(provider, self.request())
            check_deltas(deltas)
            assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == TEXT.message.text

        told(story)

    @pytest.mark.parametrize("name", packings(OpenAIWire()))
    @pytest.mark.parametrize("expected", LISTED.values(), ids=LISTED)
    def test_a_stream_is_read_however_it_is_cut(
        self, told: Tell, server: WireServer, expected: ModelResponse, name: str
    ) -> None:
        self.needs_streams()
        if name not in packings(self.wire):
            pytest.skip("for server-sent events alone")
        server.will(server.reply(expected, packings(self.wire)[name]))

        async def story(provider: Provider) -> None:
            deltas = await deltas_of(provider, self.request(tools=self.some_tools))
            check_deltas(deltas)
            collected = Reply()
            collected.add(deltas)
            assert content_of(collected.response()) == content_of(expected)
            assert collected.response().usage == expected.usage

        told(story)

    def test_a_stream_is_handed_on_as_it_comes(self, told: Tell, server: WireServer) -> None:
        self.needs_streams()
        events = self.wire.events(TEXT)
        server.will(server.by_event([*events[: len(events) // 2], Step.GO, *events[len(events) // 2 :]]))

        async def story(provider: Provider) -> None:
            async with aclosing(provider.stream(self.request())) as stream:
                text = ""
                while not text:
                    # The rest is sent only when this has come.
                    batch = await asyncio.wait_for(anext(stream), WAIT_S)
                    text = "".join(delta.text for delta in batch if isinstance(delta, TextDelta))
                server.go()
                async for batch in stream:
                    text += "".join(delta.text for delta in batch if isinstance(delta, TextDelta))
            assert text == TEXT.message.text

        told(story)

    @both
    @pytest.mark.parametrize("text", ARGUMENTS.values(), ids=ARGUMENTS)
    def test_arguments_are_neither_parsed_nor_repaired(
        self, told: Tell, server: WireServer, ask: Ask, text: str
    ) -> None:
        if self.asks_whole(ask):
            self.needs(Says.ARGUMENTS_AS_TEXT)
        if self.wire.arguments_are_objects:
            pytest.skip("in this format arguments are objects")
        server.will(server.reply(_reply((), (ToolCall("call_a", "weather", text),))))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request(tools=self.some_tools))
            assert [call.arguments for call in reply.message.tool_calls] == [text]

        told(story)

    @both
    @pytest.mark.parametrize("reason", FinishReason)
    def test_why_a_reply_ended_is_told(self, told: Tell, server: WireServer, ask: Ask, reason: FinishReason) -> None:
        if reason not in self.wire.finish:
            pytest.skip("this format has no word for it")
        calls = CALLS[:1] if reason is FinishReason.TOOL_CALLS else ()
        server.will(server.reply(_reply("some words", calls, reason)))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request(tools=self.some_tools))
            assert reply.finish_reason is reason
            assert reply.message.text == "some words"

        told(story)

    @both
    def test_an_unknown_reason_is_another_one(self, told: Tell, server: WireServer, ask: Ask) -> None:
        known, new = (json.dumps(word).encode() for word in (self.wire.finish[FinishReason.STOP], "new-7f3a"))

        server.will(server.changed(HELLO, lambda data: data.replace(known, new)))

        async def story(provider: Provider) -> None:
            assert (await ask(provider, self.request())).finish_reason is FinishReason.OTHER

        told(story)

    @pytest.mark.parametrize("text", SPLIT.values(), ids=SPLIT)
    def test_an_escaped_character_in_two_events_is_one_character(
        self, told: Tell, server: WireServer, text: str
    ) -> None:
        self.needs_streams()
        events = self.wire.events(_reply("a"))
        at = next(at for at, event in enumerate(events) if b'"a"' in event)
        pieces = json.dumps(text)[1:-1].split("|")
        halves = [self._saying(events[at], b'"%b"' % piece.encode()) for piece in pieces]
        said = json.dumps(text.replace("|", "")).encode()  # what is said again of the whole text
        server.will(server.by_event([*events[:at], *halves, *(self._saying(e, said) for e in events[at + 1 :])]))

        async def story(provider: Provider) -> None:
            reply = check_reply(await streamed(provider, self.request()))
            check_written_down(reply, ModelResponse)
            assert reply.message.text == _joined_pairs(text.replace("|", ""))

        told(story)

    def _saying(self, event: bytes, said: bytes) -> bytes:
        """Return *event* with *said* where it says "a"."""
        return self.wire.with_data(event, self.wire.data(event).replace(b'"a"', said))

    @both
    @pytest.mark.parametrize("count", NO_COUNTS, ids=lambda count: count.decode())
    def test_what_is_no_count_is_unknown(self, told: Tell, server: WireServer, ask: Ask, count: bytes) -> None:
        counted = _reply("Hello.")
        server.will(server.changed(counted, lambda data: data.replace(b": 100", b": " + count)))

        async def story(provider: Provider) -> None:
            reply = check_reply(await ask(provider, self.request()))
            check_written_down(reply, ModelResponse)
            assert (reply.message.text, reply.usage.output) == (counted.message.text, counted.usage.output)
            assert reply.usage.input is None

        told(story)

    def test_many_calls_in_one_reply_are_not_mixed_up(self, told: Tell, server: WireServer) -> None:
        calls = tuple(ToolCall(f"call_{n}", "add", json.dumps({"a": n, "b": n * n})) for n in range(60))
        server.will(server.reply(_reply((), calls)))

        async def story(provider: Provider) -> None:
            reply = await streamed(provider, self.request(tools=self.some_tools))
            assert [call.id for call in reply.message.tool_calls] == [call.id for call in calls]
            assert calls_of(reply) == [(call.name, json.loads(call.arguments)) for call in calls]

        told(story)

    @both
    def test_an_answer_is_read_as_compressed_as_it_was_wanted(self, told: Tell, server: WireServer, ask: Ask) -> None:
        def plan(asked: Received) -> Steps:
            stream = self.wire.wants_stream(asked)
            body = b"".join(self.wire.events(HELLO)) if stream else self.wire.whole(HELLO)
            kind = self.wire.stream_type if stream else "application/json"
            if "gzip" not in asked.headers.get("accept-encoding", ""):
                return answer(body, kind=kind)
            return answer(gzip.compress(body), headers={"content-encoding": "gzip"}, kind=kind)

        server.will(plan)

        async def story(provider: Provider) -> None:
            assert content_of(await ask(provider, self.request())) == content_of(HELLO)

        told(story)

    def test_the_models_of_the_server_are_listed(self, told: Tell, server: WireServer) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, ListsModels):
                pytest.skip("this provider lists no models")
            listed = await provider.list_models()
            dated = [(model.id, model.created if self.wire.dates_models else None) for model in MODELS]
            assert [(model.id, model.created) for model in listed] == dated

        told(story)


def _decoded(reply: ModelResponse) -> list[object]:
    parts, _, reason = content_of(reply)
    return [parts, reason, [(call.id, call.name, json.loads(call.arguments)) for call in reply.message.tool_calls]]


def _joined_pairs(text: str) -> str:
    """Return *text* with each pair of surrogates as the character that it means, and U+FFFD for one that stands alone.

    A half that nothing continues stays in place.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
