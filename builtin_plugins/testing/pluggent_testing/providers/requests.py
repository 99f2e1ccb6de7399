"""What a provider promises about the requests it is given; inherited by the classes of providers.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    File,
    Image,
    Message,
    ModelResponse,
    Part,
    Provider,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    VendorPart,
)

from pluggent_testing.providers.asking import (
    AWKWARD,
    TOOLS,
    WEATHER,
    Ask,
    Tell,
    both,
    conversation,
    outcome,
    refusal,
    refuses,
)
from pluggent_testing.providers.suite import SCHEMA, Suite
from pluggent_testing.providers.values import check_reply, check_written_down, snapshot

PARAMETERS: Mapping[str, object] = {
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 64,
    "stop": ("END-OF-IT",),
    "seed": 7,
    "presence_penalty": 0.25,
    "frequency_penalty": 0.25,
    "reasoning_effort": "low",
    "parallel_tool_calls": False,
    "output_schema": SCHEMA,
    "top_k": 5,
    "logprobs": 2,
    "service_tier": "auto",
    "user": "person-7",
    "metadata": {"ticket": "7"},
}
"""A value for each parameter. What a vendor has no word for is refused by name."""

CHOICES: Mapping[str, object] = {
    "none": "none",
    "required": "required",
    "the name of a tool": WEATHER.name,
    "allowed tools": AllowedTools((WEATHER.name,)),
    "one of the allowed tools": AllowedTools((WEATHER.name,), required=True),
}

NEEDLE = "bmVlZGxlLTdmM2E="
"""The base64 data of parts: what has to be found in a request, or refused."""

PARTS: Mapping[str, Part] = {
    "an image by URL": Image(url="https://example.org/needle-7f3a.png"),
    "an image": Image(data=NEEDLE),
    "an image by id": Image(file_id="needle-7f3a"),
    "sound": Audio(NEEDLE),
    "a file": File(data=NEEDLE, filename="a.pdf", media_type="application/pdf"),
    "a file by URL": File(url="https://example.org/needle-7f3a.pdf", media_type="application/pdf"),
    "a file by id": File(file_id="needle-7f3a"),
}
OTHERS_PART = VendorPart("no-such-vendor", {"type": "needle-7f3a"})

_CALL = ToolCall("call_1", "weather", '{"city": "Rome"}')

CONVERSATIONS: Mapping[str, tuple[Message, ...]] = {
    "nothing": (),
    "an instruction alone": (Message.system("Be brief."),),
    "an instruction first": (Message.system("Be brief."), Message.user("hi")),
    "two instructions": (Message.system("Be brief."), Message.system("Be kind."), Message.user("hi")),
    "a developer's instruction": (Message(Role.DEVELOPER, (Text("Be brief."),)), Message.user("hi")),
    "an instruction in the middle": (Message.user("hi"), Message.system("Be brief."), Message.user("again")),
    "two questions in a row": (Message.user("hi"), Message.user("are you there?")),
    "an empty question": (Message.user(""),),
    "an empty part": (Message.user((Text(""),)),),
    "many parts": (Message.user((Text("a"), Text("b"), Text(""), Text("c"))),),
    "white space": (Message.user(" \n "),),
    "an empty answer": (Message.user("hi"), Message.assistant(), Message.user("again")),
    "an answer at the end": (Message.user("hi"), Message.assistant("Well,")),
    "an answer at the start": (Message.assistant("hi"), Message.user("hello")),
    "a refusal": (Message.user("hi"), Message.assistant(Refusal("No.")), Message.user("again")),
    "thinking": (
        Message.user("hi"),
        Message.assistant((Reasoning("hm", "signed-7f3a"), Reasoning("unsigned"), Text("hello"))),
        Message.user("again"),
    ),
    "a call without a result": (Message.user("hi"), Message.assistant((), (_CALL,)), Message.user("again")),
    "a result without a call": (Message.user("hi"), Message.tool(_CALL, "22")),
    "a result of no call at all": (Message.user("hi"), Message(Role.TOOL, (Text("22"),))),
    "an empty result": (Message.user("hi"), Message.assistant((), (_CALL,)), Message.tool(_CALL, "")),
    "arguments that are no JSON": (
        Message.user("hi"),
        Message.assistant((), (ToolCall("call_1", "weather", '{"city": '),)),
        Message.tool(_CALL, "these arguments are no JSON", is_error=True),
    ),
    "a call of another vendor": (
        Message.user("hi"),
        Message.assistant((), (ToolCall("strange id: é/+=" + "x" * 80, "weather", "{}"),)),
        Message.tool(ToolCall("strange id: é/+=" + "x" * 80, "weather"), "22"),
    ),
}
"""Conversations that occur; some vendors refuse some of them."""


class Requests(Suite):
    """A request is left alone, sent whole, or refused in words."""

    @both
    def test_a_request_is_left_as_it_was(self, told: Tell, ask: Ask) -> None:
        request = self.request(Message.system("Be brief."), *conversation(2), "Say hello.", tools=TOOLS)
        before, messages, tools = snapshot(request), request.messages, request.tools

        async def story(provider: Provider) -> None:
            await ask(provider, request)
            assert snapshot(request) == before, "the request has changed"
            assert (request.messages, request.tools) == (messages, tools)

        told(story)

    @both
    def test_one_request_can_be_made_twice(self, told: Tell, ask: Ask) -> None:
        request = self.request("Say hello.", tools=TOOLS)

        async def story(provider: Provider) -> None:
            first, second = [check_reply(await ask(provider, request)) for _ in range(2)]
            if self.deterministic:
                assert first.message.text == second.message.text

        told(story)

    @both
    @pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
    def test_any_text_can_be_said(self, told: Tell, ask: Ask, text: str) -> None:
        async def story(provider: Provider) -> None:
            check_reply(await ask(provider, self.request(Message.system(text), f"Say hello. {text}")))

        told(story)

    @both
    def test_a_lone_surrogate_is_sent_or_refused(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for text in ("\ud800", "a\udfffb"):
                answer = await outcome(provider, self.request(text), ask)
                if isinstance(answer, ModelResponse):
                    check_written_down(answer, ModelResponse)
                else:
                    assert answer.kind is Kind.BAD_REQUEST

        told(story)

    @both
    def test_a_long_conversation_goes_on(self, told: Tell, ask: Ask) -> None:
        request = self.request(*conversation(self.long_history // 2), "Say hello.")

        async def story(provider: Provider) -> None:
            check_reply(await ask(provider, request))

        told(story)

    @both
    def test_tools_may_be_none_or_have_no_parameters(self, told: Tell, ask: Ask) -> None:
        bare = (attrs.evolve(WEATHER, parameters={}), attrs.evolve(TOOLS[1], parameters={}, description=""))

        async def story(provider: Provider) -> None:
            for tools in ((), bare):
                check_reply(await ask(provider, self.request("Say hello.", tools=tools)))

        told(story)

    @both
    @pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
    def test_a_conversation_is_answered_or_refused(self, told: Tell, ask: Ask, messages: tuple[Message, ...]) -> None:
        request = attrs.evolve(self.request(tools=TOOLS if self.tools else ()), messages=messages)

        async def story(provider: Provider) -> None:
            answer = await outcome(provider, request, ask)
            if isinstance(answer, ModelResponse):
                check_reply(answer)

        told(story)

    @both
    @pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
    def test_a_part_is_taken_or_refused_by_name(self, told: Tell, ask: Ask, part: Part) -> None:
        request = self.request(Message.user((Text("Say hello."), part)))

        async def story(provider: Provider) -> None:
            answer = await outcome(provider, request, ask)
            if isinstance(answer, ModelResponse):
                check_reply(answer)
            else:
                assert refuses(answer, type(part).__name__), f"this does not say what cannot be sent: {answer}"

        told(story)

    @both
    def test_a_part_of_another_vendor_is_left_out(self, told: Tell, ask: Ask) -> None:
        history = (Message.user("hi"), Message.assistant((OTHERS_PART, Text("hello"))), Message.user("Say hello."))

        async def story(provider: Provider) -> None:
            check_reply(await ask(provider, self.request(*history)))

        told(story)

    # ---- parameters -----------------------------------------------------------------------

    @both
    @pytest.mark.parametrize("name", PARAMETERS)
    def test_a_parameter_is_honoured_or_refused_by_name(self, told: Tell, ask: Ask, name: str) -> None:
        request = self.request_with(**{name: PARAMETERS[name]})

        async def story(provider: Provider) -> None:
            answer = await outcome(provider, request, ask)
            if isinstance(answer, ModelResponse):
                check_reply(answer)
            else:
                assert refuses(answer, name), f"this does not name {name}: {answer}"

        told(story)

    @both
    @pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
    def test_a_choice_of_tools_is_honoured_or_refused(self, told: Tell, ask: Ask, choice: Any) -> None:
        request = self.request_with(tool_choice=choice)

        async def story(provider: Provider) -> None:
            answer = await outcome(provider, request, ask)
            if isinstance(answer, ModelResponse):
                check_reply(answer)
            else:
                assert refuses(answer, "tool_choice", "allowed"), f"this does not name tool_choice: {answer}"

        told(story)

    @both
    def test_numbers_that_are_none_are_no_other_error(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for value in (math.nan, math.inf):
                answer = await outcome(provider, self.request_with(temperature=value), ask)
                assert isinstance(answer, ModelResponse) or answer.kind is Kind.BAD_REQUEST

        told(story)

    # ---- errors ---------------------------------------------------------------------------

    @both
    def test_an_unknown_model_is_a_provider_error(self, told: Tell, ask: Ask) -> None:
        if self.any_model:
            pytest.skip("here every name is that of a model")

        async def story(provider: Provider) -> None:
            error = await refusal(provider, self.request(model="no-such-model-7f3a"), ask)
            assert not error.retryable, "an unknown model is not worth another try"

        told(story)

    @both
    def test_the_next_request_after_an_error_is_answered(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await outcome(provider, self.request("\ud800"), ask)
            check_reply(await ask(provider, self.request()))

        told(story)
