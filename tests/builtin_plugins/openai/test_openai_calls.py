"""Calls of custom tools and calls with vendors' fields: there and back, whole and streamed."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from openai_server import DONE, chunk, completion, event, read_stream, reply_of, request, stream_failure
from pluggent_hookspecs import (
    Finished,
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    ToolCall,
    ToolCallDelta,
)
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_openai.reply import read_reply
from pluggent_openai.request import Writer
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1", "m")
GEMINI = dialect_for("https://generativelanguage.googleapis.com/v1beta/openai/")
SIGNED = {"google": {"thought_signature": "c2ln"}}
CUSTOM = {"openai": {"type": "custom"}}


def read(*calls, dialect=None) -> ModelResponse:
    data = json.dumps(completion({"content": None, "tool_calls": list(calls)}, "tool_calls")).encode()
    return read_reply(data, request(), dialect or Dialect(), FAULTS)


def streamed(*pieces, dialect=None) -> ModelResponse:
    stream = b"".join(event(chunk({"tool_calls": [piece]})) for piece in pieces)
    return reply_of(stream + event(chunk({}, "tool_calls")) + DONE, dialect=dialect)


def sent(call: ToolCall, dialect=None):
    asked = ModelRequest("m", (Message.assistant((), (call,)), Message.tool(call, "ok")))
    body = json.loads(Writer(dialect or Dialect()).encode(asked, FAULTS, stream=False))
    return body["messages"][0]["tool_calls"][0]


def custom(text: str, id_: str = "c1") -> dict[str, object]:
    return {"id": id_, "type": "custom", "custom": {"name": "shell", "input": text}}


# ---- custom tools -----------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(deadline=None)
def test_the_text_of_a_custom_call_comes_in_as_an_argument_and_goes_out_as_text(text):
    (call,) = read(custom(text)).message.tool_calls

    assert (call.id, call.name, json.loads(call.arguments), call.extra) == ("c1", "shell", {"input": text}, CUSTOM)
    assert sent(call) == custom(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6), st.booleans())
@settings(deadline=None)
def test_a_custom_call_in_pieces_is_the_same_as_a_whole_one(texts, index):
    number = {"index": 0} if index else {}
    first = {**custom(texts[0]), **number}
    pieces = [{**number, "custom": {"input": text}} for text in texts[1:]]

    assert streamed(first, *pieces).message == read(custom("".join(texts))).message


def test_the_arguments_of_a_custom_call_are_whole_json_at_the_end_only():
    pieces = [{"index": 0, **custom("ls ")}, {"index": 0, "custom": {"input": '"a"'}}]

    assert read_stream(
        *(event(chunk({"tool_calls": [piece]})) for piece in pieces), event(chunk({}, "tool_calls")) + DONE
    ) == [
        ToolCallDelta(0, "c1", "shell", '{"input":"ls ', CUSTOM),
        ToolCallDelta(0, arguments='\\"a\\"'),
        ToolCallDelta(0, arguments='"}'),
        Finished(FinishReason.TOOL_CALLS, model="m-1", id="c1"),
    ]


def test_custom_calls_and_functions_stand_side_by_side():
    add = {"index": 1, "id": "c2", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}

    calls = streamed({"index": 0, **custom("ls")}, add, {"index": 0, "custom": {"input": " -l"}}).message.tool_calls

    assert calls == (ToolCall("c1", "shell", '{"input":"ls -l"}', CUSTOM), ToolCall("c2", "add", '{"a":1}'))


def test_a_piece_may_leave_out_its_type():
    call = {"index": 0, "id": "c1", "custom": {"name": "shell", "input": "ls"}}

    assert streamed(call).message.tool_calls == (ToolCall("c1", "shell", '{"input":"ls"}', CUSTOM),)


@pytest.mark.parametrize("arguments", ["oops", "{}", '{"input": 7}', "[1]", "[" * 5000])
def test_arguments_that_hold_no_text_go_out_as_they_are(arguments):
    assert sent(ToolCall("c1", "shell", arguments, CUSTOM))["custom"]["input"] == arguments


def test_a_custom_call_of_the_past_is_a_function_for_servers_that_know_no_others():
    found = sent(ToolCall("c1", "shell", '{"input":"ls"}', CUSTOM), Dialect(custom_tools=False))

    assert found == {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"input":"ls"}'}}


@pytest.mark.parametrize("piece", [{"custom": 7}, {"custom": {"input": "x"}}])
def test_a_custom_call_that_is_none_is_an_error(piece):
    call = {"index": 0, "id": "x", "type": "custom", **piece}

    assert stream_failure(event(chunk({"tool_calls": [call]})) + event(chunk({}, "stop"))).kind is Kind.PROTOCOL


# ---- vendors' fields --------------------------------------------------------------------


def call(**more):
    return {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}, **more}


def test_the_signature_of_a_thought_goes_back_with_its_call():
    whole = read(call(extra_content=SIGNED), dialect=GEMINI).message.tool_calls[0]
    in_pieces = streamed({"index": 0, **call(extra_content=SIGNED)}, dialect=GEMINI).message.tool_calls[0]

    assert whole == in_pieces == ToolCall("c1", "add", "{}", {"openai": {"extra_content": SIGNED}})
    assert sent(whole, GEMINI) == call(extra_content=SIGNED)
    assert sent(whole, Dialect()) == call()


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_signature_may_come_with_any_piece(late):
    pieces = [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
    ]
    pieces[late]["extra_content"] = SIGNED

    found = streamed(*pieces, dialect=GEMINI).message.tool_calls

    assert found == (ToolCall("c1", "add", '{"a":1}', {"openai": {"extra_content": SIGNED}}),)


def test_a_field_that_is_repeated_is_told_once():
    pieces = [{"index": 0, **call(extra_content=SIGNED)}, {"index": 0, "extra_content": SIGNED, "function": {}}]

    found = read_stream(
        *(event(chunk({"tool_calls": [piece]})) for piece in pieces), event(chunk({}, "stop")), dialect=GEMINI
    )

    assert [delta for delta in found if isinstance(delta, ToolCallDelta)] == [
        ToolCallDelta(0, "c1", "add", "", {"openai": {"extra_content": SIGNED}})
    ]


def test_what_a_server_does_not_take_back_is_kept_with_the_reply():
    for reply in (read(call(score=7)), streamed({"index": 0, **call(score=7)})):
        assert reply.message.tool_calls == (ToolCall("c1", "add"),)
        assert reply.extra["tool_calls"] == {"c1": {"score": 7}}


def test_a_kind_of_call_that_nobody_has_heard_of_keeps_its_name():
    odd = {**call(), "type": "builtin_function"}

    (found,) = read(odd).message.tool_calls

    assert found.extra == {"openai": {"type": "builtin_function"}}
    assert sent(found) == odd


def test_fields_of_other_vendors_stay_at_home():
    assert sent(ToolCall("c1", "add", "{}", {"anthropic": {"caller": 1}})) == call()


def test_a_field_of_a_call_that_is_set_already_is_refused_by_name():
    asked = ModelRequest("m", (Message.assistant((), (ToolCall("c1", "add", "{}", {"openai": {"id": "x"}}),)),))

    with pytest.raises(ProviderError, match=r"extra\['openai'\] of call c1: 'id' is already set"):
        Writer(Dialect()).encode(asked, FAULTS, stream=False)
