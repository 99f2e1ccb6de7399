"""Whole replies, as real servers write them."""

import json

import pytest
from each_of import each_of
from openai_server import STOP, chunk, completion, event, reply_of, request
from pluggent_hookspecs import (
    Audio,
    FinishReason,
    Image,
    Message,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    ReplyMeta,
    Text,
    ToolCall,
    Usage,
    VendorPart,
)
from pluggent_openai.chat.reply import read_reply
from pluggent_openai.dialects import Dialect, dialect_for
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1", "m")


def read(value, asked=None, dialect=None) -> ModelResponse:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_reply(data, asked or request(), dialect or Dialect(), FAULTS)


def failure(value) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read(value)
    return caught.value


def content(message):
    return read(completion(message)).message.content


def test_the_reply_of_openai_is_read_whole():
    answer = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m-1",
        "choices": [{
            "index": 0, "logprobs": None, "finish_reason": "tool_calls",
            "message": {
                "role": "assistant", "content": None, "refusal": None, "annotations": [],
                "tool_calls": [{"id": "call_1", "type": "function",
                                "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}],
            },
        }],
        "usage": {
            "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 2, "audio_tokens": 1},
        },
        "system_fingerprint": "fp", "service_tier": "default",
    }  # fmt: skip

    assert read(answer) == ModelResponse(
        Message.assistant((), (ToolCall("call_1", "add", '{"a":1,"b":2}'),)),
        FinishReason.TOOL_CALLS,
        Usage(input=9, output=5, cached=4, reasoning=2, audio=1, input_audio=0),
        "m-1",
        "chatcmpl-1",
        {"created": 1, "system_fingerprint": "fp"},
        ReplyMeta(service_tier="default"),
    )


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"content": "a"}, (Text("a"),)),
        ({"content": None}, ()),
        ({}, ()),
        ({"content": [{"type": "text", "text": "a"}, "b"]}, (Text("a"), Text("b"))),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, (Refusal("no"),)),
        ({"content": [{"type": "image_url", "image_url": {"url": "u"}}]}, (Image(url="u"),)),
        (
            {"content": [{"type": "image_url", "image_url": "data:image/gif;base64,QQ=="}]},
            (Image(data="QQ==", media_type="image/gif"),),
        ),
        ({"content": "a", "images": [{"type": "image_url", "image_url": {"url": "u"}}]}, (Text("a"), Image(url="u"))),
        (
            {"content": [{"type": "reference", "reference_ids": [1]}]},
            (VendorPart("openai", {"type": "reference", "reference_ids": [1]}),),
        ),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "s"}]},
            (Reasoning("hm", "openai:s"),),
        ),
        ({"content": None, "refusal": "no"}, (Refusal("no"),)),
        ({"content": "a", "reasoning_content": "hm"}, (Reasoning("hm"), Text("a"))),
        ({"content": "a", "reasoning": "hm"}, (Reasoning("hm"), Text("a"))),
        ({"content": None, "audio": {"id": "au", "data": "QUJD", "transcript": "x"}}, (Audio("QUJD", transcript="x"),)),
    ],
)
def test_content_is_read_in_every_form(message, parts):
    assert content(message) == parts


def test_sound_is_sent_back_by_its_id():
    reply = read(completion({"content": None, "audio": {"id": "au", "data": "QUJD", "expires_at": 7}}))

    assert reply.message.extra == {"openai": {"audio": {"id": "au"}}}
    assert reply.extra == {"audio": {"expires_at": 7}}


def test_unknown_fields_of_a_message_are_kept_with_it_if_the_server_takes_them_back():
    answer = completion({"content": "a", "reasoning_details": [{"x": 1}], "annotations": [{"y": 2}], "nothing": None})

    elsewhere, openai = read(answer, dialect=dialect_for("http://127.0.0.1:8000/v1")), read(answer)

    assert elsewhere.message.extra == {"openai": {"reasoning_details": ({"x": 1},), "annotations": ({"y": 2},)}}
    assert openai.message.extra == {"openai": {"annotations": ({"y": 2},)}}
    assert openai.extra == {"message": {"reasoning_details": ({"x": 1},)}}


@pytest.mark.parametrize(
    ("arguments", "text"), [('{"a":1}', '{"a":1}'), ({"a": 1}, '{"a":1}'), (None, "{}"), ("", "{}"), ("oops", "oops")]
)
def test_arguments_become_text(arguments, text):
    reply = read(completion({"tool_calls": [{"id": "x", "function": {"name": "add", "arguments": arguments}}]}))

    assert reply.message.tool_calls == (ToolCall("x", "add", text),)


def test_missing_arguments_are_an_empty_object():
    assert (
        read(completion({"tool_calls": [{"id": "x", "function": {"name": "f"}}]})).message.tool_calls[0].arguments
        == "{}"
    )


@pytest.mark.parametrize("given", [[None, None], ["", ""], ["x", "x"], [7, None]])
def test_every_call_gets_an_id_of_its_own(given):
    pieces = [{"id": id_, "function": {"name": "f"}} for id_ in given]

    ids = [call.id for call in read(completion({"tool_calls": pieces})).message.tool_calls]

    assert ids == (["x", "call_0"] if given == ["x", "x"] else ["call_0", "call_1"])


def test_the_old_function_call_is_a_call():
    reply = read(completion({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"))

    assert (reply.message.tool_calls, reply.finish_reason) == ((ToolCall("call_0", "f"),), FinishReason.TOOL_CALLS)


def test_usage_that_is_missing_is_unknown_and_not_zero():
    assert read(completion({"content": "a"})).usage == Usage()
    assert read(completion({"content": "a"}, usage=None)).usage == Usage()
    assert read(completion({"content": "a"}, usage={"prompt_tokens": 3, "prompt_cache_hit_tokens": 2})).usage == Usage(
        input=3, cached=2
    )


def test_usage_that_is_not_possible_is_unknown_and_kept_as_the_server_wrote_it():
    negative = read(completion({"content": "a"}, usage={"prompt_tokens": -5, "completion_tokens": 7, "cost": -1}))
    more_than_all = {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 6}}
    shares = read(completion({"content": "a"}, usage=more_than_all))

    assert (negative.usage, negative.extra) == (Usage(output=7), {"usage": {"prompt_tokens": -5, "cost": -1}})
    assert (shares.usage, shares.extra) == (Usage(input=5, output=7), {"usage": {"impossible": {"cached": 6}}})


@pytest.mark.parametrize("cost", [-0.5, True, "1"])
def test_a_cost_that_is_no_amount_is_unknown(cost):
    reply = read(completion({"content": "a"}, usage={"cost": cost}), dialect=dialect_for("https://openrouter.ai/api"))

    assert (reply.usage, reply.extra) == (Usage(), {"usage": {"cost": cost}})


def test_thinking_that_is_counted_beside_the_output_belongs_to_it():
    details = {"completion_tokens_details": {"reasoning_tokens": 40}}
    reply = read(
        completion({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 52} | details)
    )

    assert reply.usage == Usage(input=5, output=47, reasoning=40)


@each_of("said", [None, "", "null"])
def test_a_reply_that_does_not_say_why_it_ended_has_not_simply_stopped(said):
    calling = read(completion({"tool_calls": [{"function": {"name": "f"}}]}, said))

    assert read(completion({"content": "a"}, said)).finish_reason is FinishReason.OTHER
    assert calling.finish_reason is FinishReason.TOOL_CALLS


EMPTY_CALLS = [
    {"tool_calls": {}}, {"tool_calls": ""}, {"tool_calls": [{}]}, {"tool_calls": [None]},
    {"tool_calls": [{"index": 0, "type": "function", "function": {"name": "", "arguments": ""}}]},
    {"tool_calls": [{"id": "", "function": None}]}, {"function_call": {"name": "", "arguments": ""}},
    {"function_call": {"name": None}}, {"function_call": {}},
]  # fmt: skip


@each_of("calls", EMPTY_CALLS)
def test_an_empty_call_beside_a_text_refuses_no_reply(calls):
    reply = read(completion({"content": "a", **calls}))
    streamed = reply_of(*[event(chunk({"content": text, **calls})) for text in ("a", "")], STOP)

    assert reply.message == streamed.message == Message.assistant("a")
    assert reply.finish_reason is streamed.finish_reason is FinishReason.STOP


def test_a_reply_that_ended_for_calls_and_has_none_ended_for_another_reason():
    reply = read(completion({"content": "a", "tool_calls": []}, "tool_calls"))

    assert (reply.finish_reason, reply.extra) == (FinishReason.OTHER, {"finish_reason": "tool_calls"})


def test_an_unknown_finish_reason_is_kept():
    reply = read(completion({"content": "a"}, "bored"))

    assert (reply.finish_reason, reply.extra) == (FinishReason.OTHER, {"finish_reason": "bored"})


def test_a_reply_that_says_stop_without_content_is_legal():
    assert read(completion({"content": ""})).message == Message.assistant("")


@pytest.mark.parametrize(
    "value",
    [
        b"", b"  ", b"<html>Sign in</html>", b"{oops", b"null", b"7", b'"text"', b"[]", b"[" * 100_000,
        b'{"a":' * 100_000, b'data: {"choices":[]}\n\n', {}, {"choices": []}, {"choices": None}, {"choices": [7]},
        {"choices": [{}]}, {"choices": [{"message": "hi"}]}, completion({"content": 7}),
        completion({"content": [{"type": ""}]}), completion({"content": None}, None),
        completion({"tool_calls": "x"}), completion({"tool_calls": [7]}), completion({"tool_calls": [{}]}),
        completion({"tool_calls": [{"function": {"name": ""}}]}),
        completion({"tool_calls": [{"type": "custom", "custom": {}}]}), completion({"tool_calls": [{"custom": 7}]}),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_a_protocol_error_and_no_empty_success(value):
    assert failure(value).kind is Kind.PROTOCOL


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"error": {"message": "x", "code": 429}}, Kind.RATE_LIMITED),
        ({"object": "error", "message": "x", "code": 400}, Kind.BAD_REQUEST),
        ({"choices": [{"error": {"message": "x", "code": 502}, "message": {}}]}, Kind.UNAVAILABLE),
    ],
)
def test_an_error_with_status_200_is_raised_as_its_kind(value, kind):
    assert failure(value).kind is kind


def test_an_extra_field_that_python_cannot_nest_is_a_protocol_error():
    deep = b'{"a":' * 990 + b"1" + b"}" * 990

    error = failure(b'{"choices":[{"message":{"content":"a","x":' + deep + b'},"finish_reason":"stop"}]}')

    assert error.kind is Kind.PROTOCOL
