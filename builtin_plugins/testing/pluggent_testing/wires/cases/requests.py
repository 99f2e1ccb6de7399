"""What arrives of a request at the server: all of it, or a refusal in words; inherited by WireConformance."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    FinishReason,
    Image,
    Json,
    Message,
    Part,
    Provider,
    ProviderError,
    Reasoning,
    Text,
    ToolCall,
    thaw,
)

from pluggent_testing.providers.asking import AWKWARD, TOOLS, WEATHER, Ask, Tell, both, outcome, refusal, refuses
from pluggent_testing.providers.requests import CHOICES, NEEDLE, OTHERS_PART, PARAMETERS, PARTS
from pluggent_testing.wires.format import Says
from pluggent_testing.wires.http_server import Plan, Step, Steps, answer
from pluggent_testing.wires.server import HELLO, WireServer, holds, strings
from pluggent_testing.wires.suite import WireSuite

CALL = ToolCall("call_7f3a", "weather", '{"city": "Rome"}')
OTHERS_EXTRA: Mapping[str, Json] = {"no-such-vendor": {"others-7f3a": True}}


class WireRequests(WireSuite):
    """Nothing that was said is lost on the way; nothing that belongs to another vendor is sent."""

    @both
    def test_a_request_asks_for_what_was_wanted(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            assert self.wire.wants_stream(server.asked[-1]) is not self.asks_whole(ask)

        told(story)

    @both
    def test_one_call_is_one_request(self, told: Tell, server: WireServer, ask: Ask) -> None:
        plans: tuple[Plan | Steps, ...] = (
            server.reply(HELLO),
            answer(b"", 503),
            answer(b"", 429, {"retry-after": "0"}),
            (Step.CLOSE,),
        )

        async def story(provider: Provider) -> None:
            for number, plan in enumerate(plans):
                server.will(plan)
                await outcome(provider, self.request(), ask)
                # The host decides what is tried again, and policies are asked each time.
                assert len(server.asked) == number + 1, "it was tried again without asking"

        told(story)

    @both
    def test_the_model_is_the_one_that_was_named(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request(model="some/model:7f3a"))
            assert self.wire.names_model(server.asked[-1], "some/model:7f3a")

        told(story)

    @both
    def test_every_word_of_a_conversation_arrives(self, told: Tell, server: WireServer, ask: Ask) -> None:
        words = [f"word-{number}-{text}" for number, text in enumerate(AWKWARD.values())]
        history = (
            Message.system(words[0]),
            Message.user(words[1]),
            Message.assistant(words[2]),
            Message.user((Text(words[3]), Text(words[4]))),
            Message.assistant(words[5], (CALL,)),
            Message.tool(CALL, words[6]),
            Message.user(words[7]),
        )

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request(*history, tools=TOOLS), ask)
            texts = list(strings(body))
            assert [word for word in words if not any(word in text for text in texts)] == []

        told(story)

    @both
    def test_calls_and_their_results_arrive_together(self, told: Tell, server: WireServer, ask: Ask) -> None:
        calls = tuple(ToolCall(f"call_{n}_7f3a", "weather", json.dumps({"city": f"town-{n}"})) for n in range(3))
        results = [Message.tool(call, f"result-{call.id}", is_error=call is calls[1]) for call in calls]
        history = (Message.user("hi"), Message.assistant((), calls), *results)

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request(*history, tools=TOOLS), ask)
            texts = list(strings(body))
            for call in calls:
                assert texts.count(call.id) == len(("call", "result")), f"the id {call.id} is not twice in the request"
                assert any(f"result-{call.id}" in text for text in texts)
                city = json.loads(call.arguments)
                assert call.arguments in texts or holds(body, city), f"the arguments of {call.id} are lost"

        told(story)

    @both
    def test_tools_arrive_whole(self, told: Tell, server: WireServer, ask: Ask) -> None:
        tool = attrs.evolve(
            WEATHER,
            description="Needle 天气",
            parameters={
                "type": "object",
                "properties": {"where": {"$ref": "#/$defs/Town"}, "when": {"enum": ["now", None, 1, 1.5]}},
                "$defs": {"Town": {"type": "string", "pattern": "^\\w+$"}},
                "required": ["where"],
            },
            extra=OTHERS_EXTRA,
        )

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request(tools=[tool, TOOLS[1]]), ask)
            texts = list(strings(body))
            assert {"weather", "Needle 天气", "add"} <= set(texts)
            assert holds(body, thaw(tool.parameters)), "the schema of the parameters is another one"
            assert "others-7f3a" not in texts, "a field of another vendor was sent"

        told(story)

    # ---- parts ----------------------------------------------------------------------------

    @both
    @pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
    def test_a_part_arrives_or_is_refused_by_name(self, told: Tell, server: WireServer, ask: Ask, part: Part) -> None:
        request = self.request(Message.user((Text("look"), part)))

        async def story(provider: Provider) -> None:
            sent = await self.sent(provider, server, request, ask)
            assert refuses(sent, type(part).__name__) or _has_needle(sent), f"dropped in silence, or: {sent}"

        told(story)

    @both
    @pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
    def test_a_part_of_a_result_arrives_or_is_refused_by_name(
        self, told: Tell, server: WireServer, ask: Ask, part: Part
    ) -> None:
        history = (Message.user("hi"), Message.assistant((), (CALL,)), Message.tool(CALL, (Text("see"), part)))

        async def story(provider: Provider) -> None:
            sent = await self.sent(provider, server, self.request(*history, tools=TOOLS), ask)
            assert refuses(sent, type(part).__name__) or _has_needle(sent), f"dropped in silence, or: {sent}"

        told(story)

    @both
    @pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
    def test_a_part_that_a_model_made_arrives_is_named_or_refused(
        self, told: Tell, server: WireServer, ask: Ask, part: Part
    ) -> None:
        history = (Message.user("hi"), Message.assistant((Text("here"), part)), Message.user("again"))
        name = type(part).__name__.lower()

        async def story(provider: Provider) -> None:
            sent = await self.sent(provider, server, self.request(*history), ask)
            named = not isinstance(sent, ProviderError) and any(name in text.lower() for text in strings(sent))
            assert refuses(sent, name) or _has_needle(sent) or named, f"dropped in silence, or: {sent}"

        told(story)

    @both
    def test_an_image_without_anything_in_it_is_refused(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            assert refuses(await refusal(provider, self.request(Message.user(Image())), ask), "image")

        told(story)

    # ---- what belongs to a vendor ---------------------------------------------------------

    @both
    def test_nothing_of_another_vendor_is_sent(self, told: Tell, server: WireServer, ask: Ask) -> None:
        call = attrs.evolve(CALL, extra=OTHERS_EXTRA)
        answered = attrs.evolve(Message.assistant((OTHERS_PART, Text("hm")), (call,)), extra=OTHERS_EXTRA)
        history = (Message.user("hi"), answered, Message.tool(call, "22"), Message.user("again"))

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request(*history, tools=TOOLS), ask)
            assert not isinstance(body, ProviderError), f"a conversation goes from one vendor to the next: {body}"
            assert not {"others-7f3a", "needle-7f3a", "no-such-vendor"} & set(strings(body))

        told(story)

    @both
    def test_the_vendors_own_fields_go_back_to_it(self, told: Tell, server: WireServer, ask: Ask) -> None:
        asked = attrs.evolve(Message.user("hi"), extra={self.wire.format: {"own_7f3a": {"deep": [1]}}})

        async def story(provider: Provider) -> None:
            sent = await self.sent(provider, server, self.request(asked), ask)
            assert refuses(sent, "own_7f3a") or holds(sent, {"deep": [1]}), "a field of the vendor's own was dropped"

        told(story)

    @both
    def test_the_vendors_own_fields_of_calls_and_tools_go_back_to_it(
        self, told: Tell, server: WireServer, ask: Ask
    ) -> None:
        own = {self.wire.format: {"own_7f3a": {"deep": [2]}}}
        call = (Message.user("hi"), Message.assistant((), (attrs.evolve(CALL, extra=own),)), Message.tool(CALL, "22"))
        requests = (
            self.request(*call, tools=TOOLS),
            self.request("hi", tools=[attrs.evolve(WEATHER, extra=own), TOOLS[1]]),
        )

        async def story(provider: Provider) -> None:
            for request in requests:
                sent = await self.sent(provider, server, request, ask)
                assert refuses(sent, "own_7f3a") or holds(sent, {"deep": [2]}), "a field of the vendor's own is lost"

        told(story)

    @both
    def test_a_reply_that_paused_is_gone_on_with(self, told: Tell, server: WireServer, ask: Ask) -> None:
        if FinishReason.PAUSED not in self.wire.finish:
            pytest.skip("replies of this format do not pause")
        paused = attrs.evolve(HELLO, message=Message.assistant("So far"), finish_reason=FinishReason.PAUSED)
        server.will(server.reply(paused))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request())
            body = await self.sent(provider, server, self.request("hi", reply.message), ask)
            assert "So far" in strings(body)

        told(story)

    @both
    def test_fields_of_a_reply_of_one_vendor_go_back(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self.needs(Says.MESSAGE_FIELDS)
        own = {self.wire.format: {"own_7f3a": {"deep": [1]}}}
        server.will(server.reply(attrs.evolve(HELLO, message=attrs.evolve(HELLO.message, extra=own))))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request())
            body = await self.sent(provider, server, self.request("hi", reply.message, "again"), ask)
            assert holds(body, {"deep": [1]}), f"a field of the reply was lost; its extra is {reply.message.extra}"

        told(story)

    @both
    def test_the_vendors_own_part_goes_back_to_it(self, told: Tell, server: WireServer, ask: Ask) -> None:
        part = self.wire.vendor_part
        if part is None:
            pytest.skip("this wire names no part of the vendor's own")
        server.will(server.reply(attrs.evolve(HELLO, message=Message.assistant((part, Text("hm"))))))

        async def story(provider: Provider) -> None:
            reply = await ask(provider, self.request())
            assert part in reply.message.content, f"expected {part} in {reply.message.content}"
            body = await self.sent(provider, server, self.request("hi", reply.message, "again"), ask)
            assert holds(body, thaw(part.value))

        told(story)

    @both
    def test_signed_thinking_is_handed_back_unread(self, told: Tell, server: WireServer, ask: Ask) -> None:
        self.needs(Says.THINKING, Says.SIGNATURES)
        thought = Message.assistant((Reasoning("I think.", "c2lnbmVkLTdmM2E="),), (CALL,))
        server.will(server.reply(attrs.evolve(HELLO, message=thought, finish_reason=FinishReason.TOOL_CALLS)))

        async def story(provider: Provider) -> None:
            asked = self.request("hi", tools=TOOLS)
            reply = await ask(provider, asked)
            history = (*asked.messages, reply.message, Message.tool(reply.message.tool_calls[0], "22"))
            body = await self.sent(provider, server, self.request(*history, tools=TOOLS), ask)
            assert {"I think.", "c2lnbmVkLTdmM2E="} <= set(strings(body))

        told(story)

    # ---- the whole of it ------------------------------------------------------------------

    @both
    def test_the_same_request_is_the_same_bytes(self, told: Tell, server: WireServer, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for _ in range(2):
                # New objects each time, as after a restart: the vendor's cache goes by bytes.
                said = (Message.system("Be brief."), Message.assistant((), (CALL,)), Message.tool(CALL, "22"))
                await ask(provider, self.request("hi", *said, "again", tools=TOOLS, parameters=self.parameters))
            assert len({sent.body for sent in server.asked}) == 1

        told(story)

    @both
    def test_a_large_request_arrives(self, told: Tell, server: WireServer, ask: Ask) -> None:
        text = "天气 " * 700_000

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request(text), ask)
            assert any(text.strip() in each for each in strings(body))

        told(story)

    # ---- secrets --------------------------------------------------------------------------

    @both
    def test_the_key_is_sent_and_neither_logged_nor_in_the_body(
        self, told: Tell, server: WireServer, ask: Ask, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)

        async def story(provider: Provider) -> None:
            await ask(provider, self.request())

        told(story)
        (sent,) = server.asked
        assert any(server.key in value for value in sent.headers.values()), "the key was not sent"
        assert server.key not in sent.body.decode()
        assert server.key not in caplog.text, "the key is in a log"


def _has_needle(sent: object) -> bool:
    texts = () if isinstance(sent, ProviderError) else strings(sent)
    return any(NEEDLE in text or "needle-7f3a" in text for text in texts)


class WireParameters(WireSuite):
    """A parameter is sent, or refused by name; none is left out in silence, and none said twice."""

    @both
    @pytest.mark.parametrize("name", PARAMETERS)
    def test_a_parameter_arrives_or_is_refused_by_name(
        self, told: Tell, server: WireServer, ask: Ask, name: str
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(**{name: PARAMETERS[name]}), ask)
            assert refuses(sent, name) or sent != without, f"{name} was left out in silence"

        told(story)

    @both
    @pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
    def test_a_choice_of_tools_arrives_or_is_refused(
        self, told: Tell, server: WireServer, ask: Ask, choice: Any
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(tool_choice=choice), ask)
            assert refuses(sent, "tool_choice", "allowed") or sent != without, "tool_choice was left out in silence"

        told(story)

    @both
    def test_extra_parameters_go_into_the_request_as_they_are(self, told: Tell, server: WireServer, ask: Ask) -> None:
        extra: Mapping[str, Json] = {"own_7f3a": {"deep": (1, 2.5, None, True, "天气")}}

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request_with(extra=extra), ask)
            assert body["own_7f3a"] == {"deep": [1, 2.5, None, True, "天气"]}

        told(story)

    @both
    def test_extra_parameters_cannot_set_what_the_provider_sets(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for name in self.wire.own_fields:
                error = await outcome(provider, self.request_with(extra={name: "7f3a"}), ask)
                assert refuses(error, name), f"'{name}' in extra: {error}"

        told(story)

    @both
    @pytest.mark.parametrize("name", PARAMETERS)
    def test_extra_parameters_cannot_say_a_second_time_what_a_parameter_says(
        self, told: Tell, server: WireServer, ask: Ask, name: str
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(**{name: PARAMETERS[name]}), ask)
            if isinstance(sent, ProviderError):
                pytest.skip(f"{name} is refused anyway")
            for field in {field for field in sent if field not in without or sent[field] != without[field]}:
                both_ways = self.request_with(**{name: PARAMETERS[name], "extra": {field: "7f3a"}})
                error = await outcome(provider, both_ways, ask)
                assert refuses(error, field), f"'{field}' was set by {name} and by extra: {error}"

        told(story)
