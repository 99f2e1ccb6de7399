from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    Delta,
    File,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ProvideEvent,
    Provider,
    ProviderError,
    ProviderErrorKind,
    Reply,
    Text,
    ToolSpec,
    Usage,
    VendorPart,
)
from pluggent_offline.plugin import Offline
from pluggent_offline.provider import OfflineProvider
from pluggent_offline.script import answer

WEATHER = ToolSpec(
    "weather",
    "Tell the weather.\n\nMore words.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
    },
)
MIX = ToolSpec(
    "mix",
    parameters={
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": ["number", "null"]},
            "either": {"anyOf": [{"type": ["array", "null"]}, {"type": "null"}]},
            "any": True,
            "reference": {"$ref": "#/$defs/Thing"},
        },
        "required": ["n", "any"],
    },
)


def request(
    *messages: Message | str, tools: tuple[ToolSpec, ...] = (WEATHER, MIX), **parameters: object
) -> ModelRequest:
    said = tuple(Message.user(message) if isinstance(message, str) else message for message in messages)
    return ModelRequest("demo", said, tools, ModelParameters(**parameters))  # pyright: ignore[reportArgumentType]


def reply(
    *messages: Message | str, tools: tuple[ToolSpec, ...] = (WEATHER, MIX), **parameters: object
) -> ModelResponse:
    return answer(request(*messages, tools=tools, **parameters))


def wanted(response: ModelResponse) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in response.message.tool_calls]


def with_results(said: Message, *results: str, failed: bool = False) -> tuple[Message, ...]:
    pairs = zip(said.tool_calls, results, strict=True)
    return (said, *(Message.tool(call, result, is_error=failed) for call, result in pairs))


def refused(*messages: Message | str, tools: tuple[ToolSpec, ...] = (WEATHER, MIX), **parameters: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        reply(*messages, tools=tools, **parameters)
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    return caught.value


async def streamed(sent: ModelRequest) -> list[list[Delta]]:
    return [list(batch) async for batch in OfflineProvider().stream(sent)]


def test_the_plugin_offers_the_provider_offline():
    (provider,) = Offline().provide_providers(ProvideEvent())

    assert isinstance(provider, Provider)
    assert (provider.name, provider.target) == ("offline", "offline:")


def test_a_typed_call_becomes_a_tool_call():
    response = reply('weather city="New York" unit=celsius')

    assert wanted(response) == [("weather", {"city": "New York", "unit": "celsius"})]
    assert (response.finish_reason, response.model) == (FinishReason.TOOL_CALLS, "demo")


def test_calls_joined_by_and_are_made_at_once():
    response = reply("weather city=北京 & mix n=2")

    assert wanted(response) == [("weather", {"city": "北京"}), ("mix", {"n": 2})]
    assert len({call.id for call in response.message.tool_calls}) == 2


def test_the_next_round_follows_when_results_are_in_and_all_are_quoted_at_the_end():
    text = "weather city=Rome & weather city=Oslo ; mix n=1"
    first = reply(text)
    second = reply(text, *with_results(first.message, "22 °C", "9 °C"))
    last = reply(
        text, *with_results(first.message, "22 °C", "9 °C"), *with_results(second.message, "no\nreally", failed=True)
    )

    assert wanted(second) == [("mix", {"n": 1})]
    assert last.message.text == "weather: 22 °C\nweather: 9 °C\nmix failed: no\n  really"
    assert last.finish_reason is FinishReason.STOP


def test_call_ids_are_unique_in_a_conversation():
    text = "mix n=1 ; mix n=2"
    first = reply(text)
    second = reply(text, *with_results(first.message, "a"))
    third = reply(
        text, *with_results(first.message, "a"), *with_results(second.message, "b"), Message.assistant("c"), text
    )

    assert len({each.message.tool_calls[0].id for each in (first, second, third)}) == 3


def test_only_what_followed_the_last_user_message_counts():
    done = with_results(reply("mix n=1").message, "old result")

    response = reply("mix n=1", *done, Message.assistant("mix: old result"), "mix n=2")

    assert wanted(response) == [("mix", {"n": 2})]


def test_calls_go_one_by_one_where_parallel_calls_are_not_wanted():
    text = "mix n=1 & mix n=2"
    first = reply(text, parallel_tool_calls=False)
    second = reply(text, *with_results(first.message, "a"), parallel_tool_calls=False)

    assert (wanted(first), wanted(second)) == ([("mix", {"n": 1})], [("mix", {"n": 2})])


def test_anything_else_is_answered_honestly_with_what_can_be_typed():
    text = reply("What is the weather like?").message.text

    assert "no model is behind me" in text
    assert "- weather - Tell the weather.\n  type: weather city=<text> [unit=celsius|fahrenheit]\n" in text
    assert (
        "- mix\n  type: mix n=<whole number> [x=<number>|null] [either=[…]|null] any=<value> [reference=<value>]"
        in text
    )
    assert "pluggent setup" in text
    assert "did you mean" not in text


def test_without_tools_it_says_so():
    assert "No tools are offered here" in reply("hello", tools=()).message.text


def test_a_conversation_without_a_person_is_answered_too():
    assert "no model is behind me" in reply(Message.system("hello")).message.text


@pytest.mark.parametrize("typo", ["wether city=Rome", "Weather city=Rome", "mix n=1 ; weathr city=Rome"])
def test_a_typo_gets_the_nearest_name_and_nothing_is_run(typo: str):
    response = reply(typo)

    assert wanted(response) == []
    assert "did you mean 'weather'?" in response.message.text


def test_a_tool_that_is_gone_in_the_next_round_is_named_beside_the_results():
    text = "mix n=1 ; weather city=Rome"
    done = with_results(reply(text).message, "result")

    response = reply(text, *done, tools=(MIX,))

    assert response.message.text.startswith("mix: result\n\n'weather' (character 11) is not offered any more")


def test_a_mistake_is_shown_where_it_is():
    text = reply("weather 北京 x=1").message.text

    assert "expected an argument, key=value, found '北京' (character 9)\n\n  weather 北京 x=1\n          ^" in text
    assert "It is typed: weather city=<text> [unit=celsius|fahrenheit]" in text


def test_a_mistake_in_a_long_text_is_shown_with_its_surroundings():
    text = reply(f"mix a={'x' * 500}\n 界 b\n c=1").message.text

    assert "\n   界 b\n   ^\n" in text


def test_tools_that_are_forbidden_are_not_called():
    assert "no tool may be called" in reply("mix n=1", tool_choice="none").message.text


def test_what_cannot_be_looked_at_is_named_beside_the_results():
    picture, report = Image(data="AA=="), File(data="AA==", filename="report.pdf", media_type="application/pdf")
    message = Message.user((Text("mix n=1"), picture, report, Audio("AA=="), VendorPart("another", {"type": "x"})))

    first = reply(message)
    last = reply(message, *with_results(first.message, "a"))

    assert wanted(first) == [("mix", {"n": 1})]
    assert last.message.text == (
        "mix: a\n\nI was also given what I cannot look at, for I read text only: "
        "image image/png, file report.pdf application/pdf, audio wav."
    )


def test_a_picture_alone_is_answered_in_words():
    text = reply(Message.user(Image(url=f"https://example.org/{'a' * 300}"))).message.text

    assert "no model is behind me" in text
    assert f"image https://example.org/{'a' * 180}…." in text


def test_results_that_are_no_text_are_named():
    said = reply("mix n=1").message
    shown = Message.tool(said.tool_calls[0], (Text("see "), Image(data="AA==")))

    assert reply("mix n=1", said, shown).message.text == "mix: see [image image/png]"
    assert reply("mix n=1", *with_results(said, "")).message.text == "mix: (no text)"


def test_structured_output_is_the_smallest_value_that_the_schema_allows():
    schema = {"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}, "required": ["city"]}

    response = reply("Where is the Eiffel tower?", output_schema=schema)

    assert (json.loads(response.message.text), response.finish_reason) == ({"city": "a"}, FinishReason.STOP)


def test_calls_are_made_before_the_structured_output():
    text, schema = "mix n=1", {"type": "object"}
    first = reply(text, output_schema=schema)

    last = reply(text, *with_results(first.message, "a"), output_schema=schema)

    assert wanted(first) == [("mix", {"n": 1})]
    assert last.message.text == "{}"


def test_a_schema_that_no_value_is_found_for_is_refused():
    error = refused("hello", output_schema={"type": "integer", "minimum": 3, "maximum": 2})

    assert "parameters.output_schema: $: no number was found in its range" in str(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reasoning_effort", "low"),
        ("logprobs", 0),
        ("service_tier", "auto"),
        ("user", "a"),
        ("metadata", {"a": "b"}),
        ("extra", {"a": 1}),
    ],
)
def test_a_parameter_that_means_nothing_here_is_refused_by_name(name: str, value: Any):
    error = refused("hello", **{name: value})

    assert str(error).startswith(f"offline: parameters.{name}: ")


def test_where_nothing_is_drawn_by_lot_every_way_of_drawing_gives_the_same():
    sampled = reply("hello", temperature=2.0, top_p=0.1, top_k=1, seed=7, presence_penalty=1.0, frequency_penalty=-1.0)

    assert sampled == reply("hello")


@pytest.mark.parametrize("choice", ["weather", AllowedTools(("weather",))])
def test_a_tool_that_is_not_allowed_now_is_not_called(choice: object):
    text = "mix n=1 & weather city=Rome"

    assert wanted(reply("weather city=Rome", tool_choice=choice)) == [("weather", {"city": "Rome"})]
    if isinstance(choice, AllowedTools):
        assert "'mix' is not offered here" in reply(text, tool_choice=choice).message.text.replace(" (character 1)", "")
    else:
        assert "tool_choice" in str(refused(text, tool_choice=choice))


def test_a_call_that_has_to_be_made_is_made_or_refused():
    text = "mix n=1"
    done = with_results(reply(text, tool_choice="required").message, "a")

    assert "not a call that I can make" in str(refused("hello", tool_choice="required"))
    assert "none is offered" in str(refused(text, tools=(), tool_choice="required"))
    assert "no tool 'nothing' is offered" in str(refused(text, tool_choice="nothing"))
    assert reply(text, *done, tool_choice="required").message.text == "mix: a"


def test_a_reply_ends_before_a_word_that_stops_it():
    assert reply("hello", stop=("offline", "pluggent")).message.text == "I am "


async def test_the_one_model_is_listed():
    (model,) = await OfflineProvider().list_models()

    assert (model.id, "no model is behind it" in model.name) == ("demo", True)


def test_a_lone_surrogate_in_a_mistake_is_not_repeated():
    assert "\ud800" not in reply("weather city=\ud800").message.text


def test_a_reply_ends_at_the_limit_of_words():
    response = reply("hello", max_output_tokens=4)

    assert response.message.text == "I am pluggent's offline"
    assert (response.finish_reason, response.usage.output) == (FinishReason.LENGTH, 4)


def test_usage_counts_words():
    assert reply("mix n=1 any=x").usage == Usage(input=3, output=5, cost_usd=0.0)


async def test_a_reply_is_streamed_word_by_word():
    sent = request("hello")
    batches = await streamed(sent)

    collected = Reply()
    for batch in batches:
        collected.add(batch)
    assert len(batches) > 50
    assert collected.response() == await OfflineProvider().complete(sent)


async def test_a_long_reply_is_streamed_line_by_line():
    sent = request("hello", tools=tuple(ToolSpec(f"tool_{number}", "Do something.") for number in range(30)))
    whole = await OfflineProvider().complete(sent)
    batches = await streamed(sent)

    collected = Reply()
    for batch in batches:
        collected.add(batch)
    assert len(batches) == len(whole.message.text.splitlines()) + 1
    assert collected.response() == whole


async def test_calls_are_streamed_too():
    sent = request("mix n=1 & mix n=2")
    collected = Reply()
    for batch in await streamed(sent):
        collected.add(batch)

    assert collected.response() == answer(sent)


@given(st.text(), st.booleans())
async def test_any_text_gets_the_same_reply_each_time(text: str, tools: bool):
    sent = request(text, tools=(WEATHER,) if tools else ())
    collected = Reply()
    for batch in await streamed(sent):
        collected.add(batch)

    assert collected.response() == answer(sent) == answer(sent)
