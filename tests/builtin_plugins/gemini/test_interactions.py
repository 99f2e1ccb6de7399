"""Interactions: events and steps as replies, replies as steps of the next request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st
from interactions_schema import problems
from odd_server import OddServer, json_answer
from pluggent_gemini.interactions.events import Events
from pluggent_gemini.interactions.request import encode_request
from pluggent_gemini.plugin import Gemini
from pluggent_gemini.settings import Server, Settings, declared
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    CachePoint,
    CountsTokens,
    Delta,
    File,
    FinishReason,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Reply,
    Secret,
    Text,
    ToolCall,
    ToolSpec,
    Usage,
    VendorPart,
    thaw,
)
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.reply_reader import ReplyReader
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UnsendableError
from pluggent_testing.providers.asking import opened

TARGET = "https://gemini.test/v1beta"
MODEL = "gemini-3-flash"
FAULTS = Faults("gemini", TARGET, MODEL)
ASKED = ModelRequest(MODEL, (Message.user("hi"),))
TOOL = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
SEARCH: dict[str, Any] = {
    "type": "google_search_call",
    "id": "gs_1",
    "arguments": {"queries": ["Rome"]},
    "signature": "c2VhcmNo",
}
STEPS: tuple[dict[str, Any], ...] = (
    {"type": "thought", "summary": [{"type": "text", "text": "**Plan** I add."}], "signature": "c2lnbmVk"},
    {
        "type": "model_output",
        "content": [
            {"type": "text", "text": "Let me see.", "annotations": [{"type": "url_citation", "url": "https://a.test"}]}
        ],
    },
    SEARCH,
    {"type": "thought", "signature": "c2Vjb25k"},
    {"type": "function_call", "id": "c_1", "name": "add", "arguments": {"a": 1.0}},
    {"type": "function_call", "id": "c_2", "name": "add", "arguments": {"a": 2}},
)


def interaction(status: str = "completed", *steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "i_1", "object": "interaction", "model": MODEL, "status": status, "steps": [*steps], **more}


def streamed(*steps: Mapping[str, Any], status: str = "completed", **more: Any) -> list[dict[str, Any]]:
    """Return the events of a reply, texts and arguments in two pieces each."""
    end = {**interaction(status), **more}
    del end["steps"]
    events: list[dict[str, Any]] = [{"event_type": "interaction.created", "interaction": interaction("in_progress")}]
    for index, step in enumerate(steps):
        events += step_events(index, step)
    return [*events, {"event_type": "interaction.completed", "interaction": end}]


def step_events(index: int, step: Mapping[str, Any]) -> list[dict[str, Any]]:
    head = {name: value for name, value in step.items() if name in ("type", "id", "name", "call_id")}
    told = [{"event_type": "step.delta", "index": index, "delta": delta} for delta in pieces_of(step)]
    stop = {"event_type": "step.stop", "index": index}
    return [{"event_type": "step.start", "index": index, "step": head}, *told, stop]


def pieces_of(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match step["type"]:
        case "thought":
            for content in step.get("summary", ()):
                yield {"type": "thought_summary", "content": content}
            yield {"type": "thought_signature", "signature": step["signature"]}
        case "model_output":
            for content in step["content"]:
                if content["type"] != "text":
                    yield content
                    continue
                yield from ({"type": "text", "text": half} for half in halves(content["text"]))
                if notes := content.get("annotations"):
                    yield {"type": "text_annotation_delta", "annotations": notes}
        case "function_call":
            for half in halves(json.dumps(step["arguments"])):
                yield {"type": "arguments_delta", "arguments": half}
        case kind:
            yield {**{name: value for name, value in step.items() if name not in ("id", "call_id")}, "type": kind}


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def sse(*events: Mapping[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def read(body: bytes) -> tuple[list[Delta], ProviderError | None]:
    reader = ReplyReader(Events(ASKED, TARGET, FAULTS), FAULTS)
    found = reader.feed(body)
    return [*found, *(reader.end() if reader.failure is None and not reader.done else ())], reader.failure


def reply_of(*events: Mapping[str, Any]) -> ModelResponse:
    """Return the reply of a stream, or of a whole answer if it is one value with steps."""
    deltas, failure = read(json.dumps(events[0]).encode() if "steps" in events[0] else sse(*events))
    if failure is not None:
        raise failure
    reply = Reply()
    reply.add(deltas)
    return reply.response()


def failure_of(*events: Mapping[str, Any]) -> ProviderError:
    _, failure = read(json.dumps(events[0]).encode() if "steps" in events[0] else sse(*events))
    assert failure is not None
    return failure


def written(*messages: Message, server: Server | None = None, target: str = TARGET, **more: Any) -> dict[str, Any]:
    """Return the body of a request as JSON; it keeps the schema."""
    model, tools = more.pop("model", MODEL), more.pop("tools", ())
    server = server or Server(api="interactions")
    request = ModelRequest(model, messages, tools, ModelParameters(**more), offered("gemini", declared(server)))
    body: dict[str, Any] = json.loads(encode_request(request, server, target).data)
    assert problems(body, signed=model == MODEL) == []
    return body


def notes(*messages: Message, target: str = TARGET) -> tuple[str, ...]:
    return encode_request(ModelRequest(MODEL, messages), Server(api="interactions"), target).notes


def results(reply: ModelResponse) -> list[Message]:
    return [Message.tool(call, "3") for call in reply.message.tool_calls]


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
def test_steps_are_a_reply_and_go_back_as_they_came(whole: bool) -> None:
    reply = reply_of(interaction("requires_action", *STEPS)) if whole else reply_of(*streamed(*STEPS))

    assert reply.message.content == (
        Reasoning("**Plan** I add.", "c2lnbmVk"),
        Text("Let me see."),
        VendorPart("gemini_interactions", SEARCH, "google_search"),
        Reasoning("", "c2Vjb25k"),
    )
    calls = [(call.id, call.name, json.loads(call.arguments)) for call in reply.message.tool_calls]
    assert calls == [("c_1", "add", {"a": 1.0}), ("c_2", "add", {"a": 2})]
    assert (reply.finish_reason, reply.id, reply.model) == (FinishReason.TOOL_CALLS, "i_1", MODEL)
    sent = written(Message.user("hi"), reply.message, *results(reply))["input"]
    assert sent[1:-2] == [*STEPS]
    assert notes(Message.user("hi"), reply.message, *results(reply)) == ()


def test_arguments_stay_in_the_letters_of_the_model() -> None:
    body = json.dumps(interaction("completed", {"type": "function_call", "id": "c", "name": "add", "arguments": {}}))
    deltas, failure = read(body.replace('"arguments": {}', '"arguments": {"a" : 1.50}').encode())
    reply = Reply()
    reply.add(deltas)

    assert failure is None
    assert reply.response().message.tool_calls[0].arguments == '{"a" : 1.50}'


@given(st.lists(st.sampled_from([*STEPS, {"type": "model_output", "content": [{"type": "text", "text": "天气"}]}])))
def test_a_stream_and_a_whole_answer_are_the_same_reply(steps: list[dict[str, Any]]) -> None:
    usage = {"total_input_tokens": 3, "total_output_tokens": 2}

    stream = reply_of(*streamed(*steps, usage=usage))
    whole = reply_of(interaction("completed", *steps, usage=usage))

    def shown(reply: ModelResponse) -> Any:
        calls = [(call.name, json.loads(call.arguments)) for call in reply.message.tool_calls]
        back = written(Message.user("hi"), reply.message, *results(reply), model="gemini-2.5-pro")["input"]
        return reply.message.content, calls, reply.finish_reason, reply.usage, back

    assert shown(stream) == shown(whole)


@given(st.data())
def test_steps_that_a_server_makes_at_once_are_shown_one_after_another(data: st.DataObject) -> None:
    queues = [step_events(index, step) for index, step in enumerate(STEPS)]
    mixed: list[dict[str, Any]] = [queue.pop(0) for queue in queues]
    while left := [queue for queue in queues if queue]:
        mixed.append(data.draw(st.sampled_from(left)).pop(0))
    first, *_, last = streamed()

    assert reply_of(first, *mixed, last).message == reply_of(*streamed(*STEPS)).message


@pytest.mark.parametrize(
    ("status", "steps", "reason", "kept"),
    [
        ("completed", STEPS[1:2], FinishReason.STOP, None),
        ("completed", STEPS, FinishReason.TOOL_CALLS, None),
        ("requires_action", STEPS, FinishReason.TOOL_CALLS, None),
        ("requires_action", STEPS[1:2], FinishReason.OTHER, "requires_action"),
        ("incomplete", STEPS[1:2], FinishReason.LENGTH, None),
        ("budget_exceeded", STEPS[1:2], FinishReason.OTHER, "budget_exceeded"),
        ("new_7f3a", STEPS[1:2], FinishReason.OTHER, "new_7f3a"),
    ],
)
def test_a_status_says_why_a_reply_ended(
    status: str, steps: tuple[dict[str, Any], ...], reason: FinishReason, kept: str | None
) -> None:
    for reply in (reply_of(*streamed(*steps, status=status)), reply_of(interaction(status, *steps))):
        assert (reply.finish_reason, reply.extra.get("status")) == (reason, kept)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (interaction("failed", errors=[{"code": "prohibited_content", "message": "No."}]), Kind.REFUSED),
        (
            interaction("failed", {"type": "model_output", "error": {"code": 13, "message": "It broke"}}),
            Kind.UNAVAILABLE,
        ),
        (interaction("failed", error={"code": "rate_limit_exceeded", "message": "Later."}), Kind.RATE_LIMITED),
        (interaction("failed", errors=[{"code": "malformed_function_call", "message": "x"}]), Kind.UNAVAILABLE),
        (interaction("failed"), Kind.UNAVAILABLE),
        (interaction("cancelled"), Kind.STREAM_BROKEN),
        (interaction("in_progress"), Kind.PROTOCOL),
        (interaction("queued"), Kind.PROTOCOL),
        (interaction("completed"), Kind.PROTOCOL),
        ({"steps": []}, Kind.PROTOCOL),
    ],
)
def test_what_is_no_reply_is_an_error_of_its_kind(answer: dict[str, Any], kind: Kind) -> None:
    assert failure_of(answer).kind is kind


def test_what_is_unknown_is_kept_and_never_fatal() -> None:
    new_step = {"type": "dream", "id": "d_1", "scenes": [{"text": "sheep"}]}
    new_content = {"type": "smell", "data": "cm9zZQ=="}
    new_event = {"event_type": "interaction.moved", "where": "elsewhere"}
    events = streamed(new_step, {"type": "model_output", "content": [new_content, {"type": "text", "text": "Hm."}]})

    reply = reply_of(events[0], new_event, *events[1:])

    assert reply.message.content == (
        VendorPart("gemini_interactions", new_step),
        VendorPart("gemini_interactions", new_content),
        Text("Hm."),
    )
    assert reply.extra["events"] == (new_event,)
    body = encode_request(ModelRequest(MODEL, (*ASKED.messages, reply.message)), Server(api="interactions"), TARGET)
    assert json.loads(body.data)["input"][1:] == [
        new_step,
        {"type": "model_output", "content": [new_content, {"type": "text", "text": "Hm."}]},
    ]


def test_media_of_a_reply_are_parts() -> None:
    picture = {"type": "image", "mime_type": "image/jpeg", "data": "aGk="}
    sound = {"type": "audio", "mime_type": "audio/l16", "data": "aGk=", "sample_rate": 24_000}

    reply = reply_of(*streamed({"type": "model_output", "content": [picture, sound]}))

    assert reply.message.content == (
        Image(data="aGk=", media_type="image/jpeg"),
        VendorPart("gemini_interactions", sound),
    )
    assert written(Message.user("hi"), reply.message)["input"][1]["content"] == [picture, sound]


def test_tokens_are_counted_with_thoughts_and_tools() -> None:
    usage = {
        "total_input_tokens": 10, "total_tool_use_tokens": 5, "total_cached_tokens": 4, "total_output_tokens": 7,
        "total_thought_tokens": 3, "total_tokens": 25, "grounding_tool_count": [{"type": "google_search", "count": 2}],
    }  # fmt: skip

    reply = reply_of(*streamed(*STEPS, usage=usage, service_tier="flex", created="2026-11-01T00:00:00Z"))

    assert reply.usage == Usage(input=15, output=10, cached=4, reasoning=3)
    assert reply.meta.service_tier == "flex"
    assert reply.extra == {
        "created": "2026-11-01T00:00:00Z",
        "usage": {"total_tool_use_tokens": 5, "grounding_tool_count": ({"type": "google_search", "count": 2},)},
    }


@pytest.mark.parametrize(
    "events",
    [
        [{"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "x"}}],
        [{"event_type": "step.start", "step": {"type": "thought"}}],
        [{"event_type": "step.start", "index": 0, "step": {}}],
        [{"event_type": "step.start", "index": 0, "step": {"type": "function_call", "id": "c"}}],
        [{"index": 0}],
        [{"event_type": "step.stop", "index": 7}],
        [{"event_type": "interaction.completed"}],
    ],
)
def test_what_does_not_add_up_is_a_protocol_error(events: list[dict[str, Any]]) -> None:
    assert failure_of({"event_type": "interaction.created", "interaction": {}}, *events).kind is Kind.PROTOCOL


def test_a_stream_that_breaks_off_is_worth_another_try() -> None:
    failure = failure_of(*streamed(*STEPS)[:-1])

    assert (failure.kind, failure.retryable) == (Kind.STREAM_BROKEN, True)


# ---- requests -----------------------------------------------------------------------------


def changed(reply: ModelResponse) -> Message:
    return attrs.evolve(reply.message, content=(Text("Something else."),))


def test_a_reply_that_was_changed_goes_back_without_thoughts_and_own_steps() -> None:
    reply = reply_of(*streamed(*STEPS))
    history = (Message.user("hi"), changed(reply), *results(reply))

    sent = written(*history)["input"]

    assert [step["type"] for step in sent] == [
        "user_input", "model_output", "thought", "function_call", "function_call", "function_result", "function_result",
    ]  # fmt: skip
    assert "c2lnbmVk" not in json.dumps(sent)
    (note,) = notes(*history)
    assert "the thinking of one earlier reply was left out" in note


@pytest.mark.parametrize("place", [{"model": "gemini-3-pro"}, {"target": "https://other.test"}], ids=str)
def test_signatures_count_for_one_model_at_one_server(place: dict[str, Any]) -> None:
    reply = reply_of(*streamed(*STEPS))

    sent = written(Message.user("hi"), reply.message, *results(reply), **place)

    assert not {"c2lnbmVk", "c2VhcmNo", "c2Vjb25k"} & {step.get("signature") for step in sent["input"]}


def test_any_history_becomes_input_that_keeps_the_rules() -> None:
    first, second = ToolCall("c_1", "9 lives", "no JSON"), ToolCall("c_2", "add", '{"a": 1}')
    picture = Image(data="aGk=")
    history = (
        Message.system("Be brief."),
        Message.system("Be kind."),
        Message.assistant("Before all.", (first, second)),
        Message.tool(second, (Text("see"), picture, Audio("aGk=", "wav")), is_error=True),
        Message.system("Now be long."),
        Message.user((Text("again"), CachePoint(), File(data="aGk=", media_type="application/pdf"))),
        Message.tool(ToolCall("c_9", "gone", "{}"), "late"),
    )

    body = written(*history, tools=(TOOL,), model="gemini-2.5-pro")

    assert body["system_instruction"] == "Be brief.\n\nBe kind."
    assert [step["type"] for step in body["input"]] == [
        "user_input", "model_output", "function_call", "function_call", "function_result", "function_result",
        "user_input", "user_input", "user_input", "user_input",
    ]  # fmt: skip
    assert body["input"][2]["arguments"] == {"_invalid": "no JSON"}
    assert body["input"][2]["name"] == "_9_lives"
    assert body["input"][4] == {
        "type": "function_result", "call_id": "c_2", "name": "add", "is_error": True, "result": "see",
    }  # fmt: skip
    assert body["input"][5]["result"] == "(no result was recorded)"
    assert [content["type"] for content in body["input"][6]["content"]] == ["image", "audio"]
    assert notes(*history) == ("cache points of a message were left out: this API caches by itself",)


def test_images_of_results_stand_inside_for_models_that_take_them() -> None:
    call = ToolCall("c_1", "look", "{}")

    sent = written(Message.user("hi"), Message.assistant((), (call,)), Message.tool(call, (Image(data="aGk="),)))

    assert sent["input"][-1]["result"] == [{"type": "image", "mime_type": "image/png", "data": "aGk="}]


def test_parameters_have_the_words_of_the_api() -> None:
    server = Server(
        api="interactions",
        safety={"HARM_CATEGORY_HARASSMENT": "BLOCK_ONLY_HIGH"},
        server_tools=({"googleSearch": {}}, {"type": "code_execution"}),
    )

    body = written(
        Message.user("hi"),
        server=server,
        tools=(TOOL,),
        tool_choice="add",
        max_output_tokens=9,
        stop=("END",),
        seed=7,
        reasoning_effort="max",
        output_schema={"type": "object"},
        service_tier="flex",
        metadata={"team": "a"},
        extra={"generation_config": {"image_config": {"aspect_ratio": "1:1"}}},
    )

    assert {name: value for name, value in body.items() if name not in ("input", "model")} == {
        "tools": [
            {"type": "function", "name": "add", "description": "Add.", "parameters": thaw(TOOL.parameters)},
            {"type": "google_search"},
            {"type": "code_execution"},
        ],
        "generation_config": {
            "max_output_tokens": 9, "stop_sequences": ["END"], "seed": 7, "thinking_level": "high",
            "thinking_summaries": "auto", "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["add"]}},
            "image_config": {"aspect_ratio": "1:1"},
        },
        "response_format": {"type": "text", "mime_type": "application/json", "schema": {"type": "object"}},
        "safety_settings": [{"type": "harassment", "threshold": "block_only_high"}],
        "service_tier": "flex",
        "labels": {"team": "a"},
        "store": False,
        "stream": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "any"),
        (AllowedTools(("add",)), {"allowed_tools": {"mode": "validated", "tools": ["add"]}}),
        (AllowedTools(("add",), required=True), {"allowed_tools": {"mode": "any", "tools": ["add"]}}),
    ],
)
def test_a_choice_of_tools_has_the_words_of_the_api(choice: Any, sent: Any) -> None:
    config = written(Message.user("hi"), tools=(TOOL,), tool_choice=choice)["generation_config"]

    assert config.get("tool_choice") == sent


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"top_k": 3}, "top_k"),
        ({"logprobs": 1}, "logprobs"),
        ({"cache": "5m"}, "cache"),
        ({"reasoning_effort": "none"}, "reasoning_effort"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"extra": {"previous_interaction_id": "i_0"}}, "previous_interaction_id"),
        ({"extra": {"previousInteractionId": "i_0"}}, "previousInteractionId"),
        ({"extra": {"generationConfig": {}}}, "generationConfig"),
        ({"extra": {"background": True}}, "background"),
        ({"extra": {"generation_config": {"thinking_summaries": "none"}}}, "generation_config"),
    ],
)
def test_what_the_api_has_no_word_for_is_refused_by_name(parameters: dict[str, Any], word: str) -> None:
    with pytest.raises(UnsendableError, match=word):
        written(Message.user("hi"), **parameters)


def test_explicit_caches_are_for_the_other_api() -> None:
    with pytest.raises(ValueError, match="cache_ttl_s: explicit caches are for api"):
        Settings(api="interactions", cache_ttl_s=600)


async def test_tokens_are_counted_by_the_other_api() -> None:
    settings = Settings(api="interactions", api_key=Secret.of("key-7f3a"), server_tools=({"type": "code_execution"},))
    async with (
        OddServer(json_answer({"totalTokens": 7})) as server,
        opened(Gemini(attrs.evolve(settings, base_url=server.url))) as provider,
    ):
        assert isinstance(provider, CountsTokens)
        count = await provider.count(ModelRequest(MODEL, (Message.user("hi"),), (TOOL,)))

    (sent,) = server.requests
    assert (count, sent.line) == (7, f"POST /v1/models/{MODEL}:countTokens HTTP/1.1")
    assert [set(tool) for tool in sent.json["generateContentRequest"]["tools"]] == [{"functionDeclarations"}]
