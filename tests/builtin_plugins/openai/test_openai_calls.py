"""Calls of tools there and back, whole and streamed: custom tools, vendors' fields, however the server cuts them."""

import json

import pytest
from hypothesis import example, given, settings, strategies as st
from openai_server import DONE, call, chunk, completion, event, read_stream, reply_of, request, stream_failure
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
from pluggent_openai.chat.reply import read_reply
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import Dialect, dialect_for
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


def entry(**more):
    return {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}, **more}


def test_the_signature_of_a_thought_goes_back_with_its_call():
    whole = read(entry(extra_content=SIGNED), dialect=GEMINI).message.tool_calls[0]
    in_pieces = streamed({"index": 0, **entry(extra_content=SIGNED)}, dialect=GEMINI).message.tool_calls[0]

    assert whole == in_pieces == ToolCall("c1", "add", "{}", {"openai": {"extra_content": SIGNED}})
    assert sent(whole, GEMINI) == entry(extra_content=SIGNED)
    assert sent(whole, Dialect()) == entry()


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
    pieces = [{"index": 0, **entry(extra_content=SIGNED)}, {"index": 0, "extra_content": SIGNED, "function": {}}]

    found = read_stream(
        *(event(chunk({"tool_calls": [piece]})) for piece in pieces), event(chunk({}, "stop")), dialect=GEMINI
    )

    assert [delta for delta in found if isinstance(delta, ToolCallDelta)] == [
        ToolCallDelta(0, "c1", "add", "", {"openai": {"extra_content": SIGNED}})
    ]


def test_what_a_server_does_not_take_back_is_kept_with_the_reply():
    for reply in (read(entry(score=7)), streamed({"index": 0, **entry(score=7)})):
        assert reply.message.tool_calls == (ToolCall("c1", "add"),)
        assert reply.extra["tool_calls"] == {"c1": {"score": 7}}


def test_an_unknown_kind_of_call_keeps_its_name():
    odd = {**entry(), "type": "builtin_function"}

    (found,) = read(odd).message.tool_calls

    assert found.extra == {"openai": {"type": "builtin_function"}}
    assert sent(found) == odd


def test_fields_of_other_vendors_stay_at_home():
    assert sent(ToolCall("c1", "add", "{}", {"anthropic": {"caller": 1}})) == entry()


def test_a_field_of_a_call_that_is_set_already_is_refused_by_name():
    asked = ModelRequest("m", (Message.assistant((), (ToolCall("c1", "add", "{}", {"openai": {"id": "x"}}),)),))

    with pytest.raises(ProviderError, match=r"extra\['openai'\] of call c1: 'id' is already set"):
        Writer(Dialect()).encode(asked, FAULTS, stream=False)


def calls(*pieces: dict, finish: str | None = "tool_calls", asked: ModelRequest | None = None):
    stream = [event(chunk(piece)) for piece in pieces]
    ending = [event(chunk({}, finish))] if finish else []
    return reply_of(b"".join([*stream, *ending, DONE]), asked=asked).message.tool_calls


ADD = ToolCall("call_a", "add", '{"a":1}')
SUB = ToolCall("call_b", "sub", '{"b":2}')


def test_a_call_comes_in_pieces():
    stream = [
        event(chunk(call(0, "call_a", "add", ""))),
        event(chunk(call(0, arguments='{"a"'))) + event(chunk(call(0, arguments=":1}"))),
        event(chunk({}, "tool_calls")) + DONE,
    ]

    assert read_stream(*stream) == [
        ToolCallDelta(0, "call_a", "add"),
        ToolCallDelta(0, arguments='{"a"'),
        ToolCallDelta(0, arguments=":1}"),
        Finished(FinishReason.TOOL_CALLS, model="m-1", id="c1"),
    ]


def test_calls_side_by_side_are_told_apart_by_their_index():
    assert calls(
        call(0, "call_a", "add", '{"a"'),
        call(1, "call_b", "sub", '{"b"'),
        call(0, arguments=":1}"),
        call(1, arguments=":2}"),
    ) == (ADD, SUB)


def test_a_name_may_be_repeated_in_every_piece():
    assert calls(call(0, "call_a", "add", '{"a"'), call(0, "call_a", "add", ":"), call(0, "call_a", "add", "1}")) == (
        ADD,
    )


def test_a_name_may_be_repeated_without_index_and_id():
    assert calls(call(None, None, "add", '{"a"'), call(None, None, "add", ":1}")) == (
        ToolCall("call_0", "add", '{"a":1}'),
    )


def test_a_name_may_be_sent_twice():
    assert calls(call(0, "call_a", "add"), call(0, "call_a", "add", ""), call(0, None, None, '{"a":1}')) == (ADD,)


def test_a_whole_call_may_be_sent_twice():
    assert calls(call(0, "call_a", "add", '{"a":1}'), call(0, "call_a", "add", '{"a":1}')) == (ADD,)


def test_a_missing_index_means_the_call_of_that_id():
    assert calls(
        call(None, "call_a", "add", '{"a"'), call(None, "call_b", "sub", '{"b"'), call(None, "call_a", None, ":1}"),
        call(None, "call_b", None, ":2}"),
    ) == (ADD, SUB)  # fmt: skip


def test_a_missing_index_and_id_means_the_last_call():
    assert calls(
        call(None, "call_a", "add", '{"a"'), call(None, None, None, ":1}"), call(None, "call_b", "sub"),
        call(None, None, None, '{"b":2}'),
    ) == (ADD, SUB)  # fmt: skip


def test_one_index_for_two_calls_with_ids_of_their_own():
    assert calls(
        call(0, "call_a", "add", '{"a"'),
        call(0, None, None, ":1}"),
        call(0, "call_b", "sub", '{"b"'),
        call(0, None, None, ":2}"),
    ) == (ADD, SUB)


def test_one_index_for_two_calls_of_one_tool():
    assert calls(call(0, "x", "add", '{"a":1}'), call(0, "y", "add", '{"a":2}')) == (
        ToolCall("x", "add", '{"a":1}'),
        ToolCall("y", "add", '{"a":2}'),
    )


def test_whole_calls_without_index_and_id_in_one_list():
    pieces = [
        {"function": {"name": "add", "arguments": '{"a":1}'}},
        {"function": {"name": "add", "arguments": '{"a":1}'}},
    ]

    assert calls({"tool_calls": pieces}) == (ToolCall("call_0", "add", '{"a":1}'), ToolCall("call_1", "add", '{"a":1}'))


def test_two_calls_without_arguments_index_and_id_in_one_list():
    piece = {"id": "", "function": {"name": "ping"}}

    assert calls({"tool_calls": [piece, piece]}) == (ToolCall("call_0", "ping"), ToolCall("call_1", "ping"))


@pytest.mark.parametrize("arguments", [None, "", "{}", {}, ...])
def test_no_arguments_are_an_empty_object(arguments):
    assert calls(call(0, "x", "ping", arguments)) == (ToolCall("x", "ping", "{}"),)


@pytest.mark.parametrize("first", [None, "{}", {}, ...])
def test_arguments_may_follow_after_none(first):
    assert calls(call(0, "call_a", "add", first), call(0, arguments='{"a":1}')) == (ADD,)


def test_arguments_may_be_missing_and_then_an_empty_object():
    assert calls(call(0, "x", "ping"), call(0, arguments="{}")) == (ToolCall("x", "ping", "{}"),)


def test_arguments_may_be_an_object():
    assert calls(call(0, "call_a", "add", {"a": 1})) == (ADD,)


def test_arguments_that_are_no_json_are_handed_on():
    assert calls(call(0, "x", "add", '{"a": oops')) == (ToolCall("x", "add", '{"a": oops'),)


def test_missing_ids_are_made_and_are_new_to_the_conversation():
    before = Message.assistant((), (ToolCall("call_0", "add"), ToolCall("call_1", "add")))

    made = calls(call(0, None, "add"), call(1, "", "sub"), asked=request(before))

    assert [one.id for one in made] == ["call_2", "call_3"]


def test_an_id_given_twice_is_replaced_the_second_time():
    made = calls(call(0, "x", "add", '{"a":1}'), call(1, "x", "sub", '{"b":2}'))

    assert made == (ToolCall("x", "add", '{"a":1}'), ToolCall("call_0", "sub", '{"b":2}'))


def test_an_id_given_twice_without_index_belongs_to_two_tools():
    made = calls(call(None, "x", "add", '{"a":1}'), call(None, "x", "sub", '{"b":2}'))

    assert [(one.id, one.name) for one in made] == [("x", "add"), ("call_0", "sub")]


def test_a_name_may_come_after_the_id():
    assert calls(call(0, "call_a"), call(0, None, None, '{"a"'), call(0, None, "add", ":1}")) == (ADD,)


def test_the_old_function_call_is_a_call():
    stream = event(chunk({"function_call": {"name": "add", "arguments": '{"a"'}}))
    stream += event(chunk({"function_call": {"arguments": ":1}"}})) + event(chunk({}, "function_call"))

    assert reply_of(stream).message.tool_calls == (ToolCall("call_0", "add", '{"a":1}'),)


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_calls_are_calls_whatever_the_finish_reason(finish):
    ending = event(chunk({}, finish)) if finish else b""

    assert reply_of(event(chunk(call(0, "x", "add"))), ending + DONE).finish_reason is FinishReason.TOOL_CALLS


@pytest.mark.parametrize(
    "piece", [call(0, "x"), {"tool_calls": "x"}, {"tool_calls": [7]}, {"tool_calls": [{"function": 7}]}]
)
def test_a_call_that_is_none_is_an_error(piece):
    assert stream_failure(event(chunk(piece)) + event(chunk({}, "tool_calls"))).kind is Kind.PROTOCOL


@pytest.mark.parametrize("indexes", [range(20_000), [0] * 20_000, [None] * 20_000], ids=["own", "zero", "none"])
def test_thousands_of_calls_are_refused_before_they_hold_up_the_event_loop(indexes):
    function = {"name": "add", "arguments": "{}"}
    pieces = [{"index": index, "id": f"c{at}", "function": function} for at, index in enumerate(indexes)]
    error = stream_failure(event(chunk({"tool_calls": pieces})), limit=10_000_000)

    assert "more than 1,024 tool calls" in str(error)


def pieces_of(number: int, name: str, arguments: str, quirks: dict) -> list[dict]:
    """Return one call as a server with these quirks streams it."""
    index = {"own": number, "zero": 0, "none": None}[quirks["index"]]
    id_ = {"own": f"id{number}", "same": "id", "none": None}[quirks["id"]]
    cut = quirks["cut"]
    texts = [""] * quirks["empty_first"] + [text for text in (arguments[:cut], arguments[cut:]) if text]
    return [
        call(
            index,
            id_ if quirks["id_every_time"] or position == 0 else None,
            name if quirks["name_every_time"] or position == 0 else None,
            text,
        )
        for position, text in enumerate(texts)
    ]


@given(
    st.lists(st.sampled_from(["add", "sub"]), min_size=1, max_size=4),
    st.fixed_dictionaries(
        {
            "index": st.sampled_from(["own", "zero", "none"]),
            "id": st.sampled_from(["own", "same", "none"]),
            "id_every_time": st.booleans(),
            "name_every_time": st.booleans(),
            "empty_first": st.booleans(),
            "cut": st.integers(0, 9),
        }
    ),
)
@example(
    ["add", "add", "add"],
    {"index": "zero", "id": "same", "id_every_time": False, "name_every_time": False, "empty_first": True, "cut": 0},
)
@settings(deadline=None)
def test_calls_that_follow_each_other_survive_every_mixture_of_quirks(names, quirks):
    sent = [(name, f'{{"n":{number + 1}00}}') for number, name in enumerate(names)]

    made = calls(*(piece for number, one in enumerate(sent) for piece in pieces_of(number, *one, quirks)))

    assert [(one.name, one.arguments) for one in made] == sent
    assert len({one.id for one in made}) == len(made)
