"""Requests bit for bit, as ancestors of this wire format and servers of today read them; what only it can carry."""

import json

import pytest
from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import Dialect
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
CALL = ToolCall("call_1", "add", '{"a":1,"b":2}')


def body(*messages, dialect=None, stream=False, tools=(), **parameters) -> bytes:
    asked = ModelRequest("m", messages or (Message.user("hi"),), tools, ModelParameters(**parameters))
    return Writer(dialect or Dialect()).encode(asked, FAULTS, stream=stream)


def message(value: Message, dialect=None):
    before = (Message.assistant((), (CALL,)),) if value.role is Role.TOOL else ()
    after = [Message.tool(call, "3") for call in value.tool_calls]
    return json.loads(body(*before, value, *after, dialect=dialect))["messages"][len(before)]


def rest(**parameters):
    sent = json.loads(body(tools=(ADD,), **parameters))
    return {name: value for name, value in sent.items() if name not in ("model", "messages", "tools")}


def refusal(*messages, **parameters) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        body(*messages, **parameters)
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    return caught.value


def test_a_request_has_these_bytes_and_no_others():
    assert (
        body(Message.system("Be brief."), Message.user("hé \u2028"))
        == (
            '{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hé \u2028"}]}'
        ).encode()
    )


def test_a_tool_round_has_these_bytes_and_no_others():
    sent = body(Message.user("add"), Message.assistant((), (CALL,)), Message.tool(CALL, "3"), tools=(ADD,), stream=True)

    assert sent == (
        b'{"model":"m","messages":[{"role":"user","content":"add"},'
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",'
        b'"function":{"name":"add","arguments":"{\\"a\\":1,\\"b\\":2}"}}]},'
        b'{"role":"tool","content":"3","tool_call_id":"call_1"}],'
        b'"tools":[{"type":"function","function":{"name":"add","description":"Adds.",'
        b'"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],'
        b'"stream":true,"stream_options":{"include_usage":true}}'
    )


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (Message.system("a"), {"role": "system", "content": "a"}),
        (Message(Role.DEVELOPER, (Text("a"),)), {"role": "developer", "content": "a"}),
        (Message.user(""), {"role": "user", "content": ""}),
        (Message(Role.USER, (Text("a"),), name="ann"), {"role": "user", "content": "a", "name": "ann"}),
        (
            Message.user((Text("a"), Text("b"))),
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        (
            Message.user(Image(url="https://x/p.png", detail="low")),
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://x/p.png", "detail": "low"}}]},
        ),
        (
            Message.user(Image(data="QUJD", media_type="image/jpeg")),
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}]},
        ),
        (
            Message.user(Audio("QUJD", "mp3")),
            {"role": "user", "content": [
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}]},
        ),
        (
            Message.user(File(file_id="f-1")),
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "f-1"}}]},
        ),
        (
            Message.user(File(data="QUJD", filename="a.pdf", media_type="application/pdf")),
            {"role": "user", "content": [
                {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}}]},
        ),
        (Message.assistant("a"), {"role": "assistant", "content": "a"}),
        (Message.assistant(()), {"role": "assistant", "content": ""}),
        (
            Message.assistant(Refusal("no")),
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        ),
        (Message.assistant((Reasoning("hm"), Text("a"))), {"role": "assistant", "content": "a"}),
        (
            Message.assistant((Text("a"), Image(url="https://x/p.png"), Audio("QUJD", transcript="said"))),
            {"role": "assistant", "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "(image not shown)"},
                {"type": "text", "text": "said"}]},
        ),
        (
            Message(Role.ASSISTANT, (Text("a"),), extra={"openai": {"audio": {"id": "au"}, "tags": ["x"]}}),
            {"role": "assistant", "content": "a", "audio": {"id": "au"}, "tags": ["x"]},
        ),
        (Message.tool(CALL, (Text("a"), Text("b"))), {"role": "tool", "content": "a\nb", "tool_call_id": "call_1"}),
    ],
)  # fmt: skip
def test_every_role_and_part_has_its_form(given, sent):
    assert message(given) == sent


def test_arguments_that_are_no_json_are_sent_back_as_they_were():
    sent = message(Message.assistant((), (ToolCall("c", "add", '{"a": oops'),)))

    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a": oops'


def test_earlier_thinking_is_sent_to_the_servers_that_want_it():
    thinking = Message.assistant((Reasoning("hm"), Text("a")))

    assert message(thinking, Dialect(reasoning="reasoning_content")) == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "hm",
    }
    assert "reasoning_content" not in message(thinking)


def test_pictures_of_tools_follow_all_results_of_their_batch():
    second = ToolCall("call_2", "look", "{}")
    picture = Image(url="https://x/p.png")
    sent = json.loads(
        body(
            Message.assistant((), (CALL, second)),
            Message.tool(CALL, (Text("one"), picture)),
            Message.tool(second, (picture,)),
            Message.assistant("seen"),
        )
    )["messages"]

    assert [entry["role"] for entry in sent] == ["assistant", "tool", "tool", "user", "assistant"]
    assert [entry["content"] for entry in sent[1:3]] == ["one", "(what it returned follows in a message of the user)"]
    shown = {"type": "image_url", "image_url": {"url": "https://x/p.png"}}
    assert sent[3]["content"] == [
        {"type": "text", "text": "Returned by tool 'add' (call call_1):"},
        shown,
        {"type": "text", "text": "Returned by tool 'look' (call call_2):"},
        shown,
    ]


def test_pictures_of_the_last_batch_come_last():
    asks = Message.assistant((), (CALL,))
    sent = json.loads(body(asks, Message.tool(CALL, Image(url="https://x/p.png"))))["messages"]

    assert [entry["role"] for entry in sent] == ["assistant", "tool", "user"]


def test_a_message_and_a_tool_are_encoded_once():
    talk, spec = Message.user("hi"), ToolSpec("add")
    kept = body(talk, tools=(spec,))
    made = []

    def encode(_):
        made.append(1)

    assert body(talk, tools=(spec,)) == kept
    talk.memo(Dialect().message_key, encode)
    spec.memo(Dialect().tool_key, encode)
    assert made == []


@pytest.mark.parametrize(
    ("parameters", "sent"),
    [
        ({}, {}),
        ({"temperature": 0.0}, {"temperature": 0.0}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"max_output_tokens": 5}, {"max_completion_tokens": 5}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"seed": 0}, {"seed": 0}),
        ({"presence_penalty": -1.0}, {"presence_penalty": -1.0}),
        ({"frequency_penalty": 1.5}, {"frequency_penalty": 1.5}),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"tool_choice": "add"}, {"tool_choice": {"type": "function", "function": {"name": "add"}}}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"extra": {"verbosity": "low", "metadata": {"a": ["b"]}}}, {"verbosity": "low", "metadata": {"a": ["b"]}}),
    ],
)
def test_every_parameter_has_its_field(parameters, sent):
    assert rest(**parameters) == sent


def test_older_servers_get_max_tokens():
    sent = json.loads(body(dialect=Dialect(max_tokens="max_tokens"), max_output_tokens=5))

    assert (sent["max_tokens"], "max_completion_tokens" in sent) == (5, False)


def test_nothing_about_tools_is_sent_without_tools():
    sent = json.loads(body(tool_choice="required", parallel_tool_calls=True))

    assert sorted(sent) == ["messages", "model"]


def test_a_tool_without_parameters_takes_an_empty_object():
    (sent,) = json.loads(body(tools=(ToolSpec("now"),)))["tools"]

    assert sent["function"] == {"name": "now", "parameters": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("schema", "name", "strict"),
    [
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, "output", True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "output", False),
        (
            {"type": "object", "properties": {"a": {"oneOf": [{}]}}, "required": ["a"], "additionalProperties": False},
            "output",
            False,
        ),
        ({"title": "A day!", "type": "object", "properties": {}}, "A_day_", False),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}},
             "required": ["a"], "additionalProperties": False},
            "output", False,
        ),
    ],
)  # fmt: skip
def test_an_output_schema_is_strict_where_it_keeps_the_rules_of_strict(schema, name, strict):
    assert rest(output_schema=schema) == {
        "response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": strict}}
    }


@pytest.mark.parametrize("name", ["model", "messages", "tools", "stream", "temperature"])
def test_an_extra_parameter_that_is_set_already_is_refused_by_name(name):
    assert f"'{name}'" in str(refusal(temperature=0.5, extra={name: 1}))


def test_an_extra_parameter_may_stand_for_a_field_that_is_not_set():
    assert rest(extra={"temperature": 0.1}) == {"temperature": 0.1}


def test_an_extra_field_of_a_message_that_is_set_already_is_refused_by_name():
    assert "'content'" in str(refusal(Message(Role.USER, (Text("a"),), extra={"openai": {"content": "b"}})))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Message.user("\ud800"), "surrogate"),
        (Message(Role.TOOL, (Text("a"),)), "tool_call_id"),
        (Message(Role.SYSTEM, (Image(url="https://x"),)), "role system cannot hold Image"),
        (Message.user(Image()), "Image has neither data"),
        (Message.user(File()), "File has neither data"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_reason(given, said):
    assert said in str(refusal(given))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_say_is_refused(value):
    assert "parameters.top_p" in str(refusal(top_p=value))


def test_a_big_integer_is_sent_as_it_is():
    assert rest(extra={"n": 1 << 70}) == {"n": 1 << 70}


EMPTY_CALL, LOOK = ToolCall("call_1", "add", "{}"), ToolCall("call_2", "look", "{}")
MARKED = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
PICTURE = Image(url="https://x/p.png")
SHOWN = {"type": "image_url", "image_url": {"url": "https://x/p.png"}}


def messages(*said: Message, dialect=None):
    asked = ModelRequest("m", said)
    return json.loads(Writer(dialect or Dialect()).encode(asked, Faults("openai", "http://x/v1"), stream=False))[
        "messages"
    ]


def refusal_of(*said: Message) -> str:
    with pytest.raises(ProviderError) as caught:
        messages(*said)
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    return str(caught.value)


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.USER, Role.ASSISTANT])
def test_a_part_of_this_vendor_is_sent_as_it_is(role):
    (sent,) = messages(Message(role, (VendorPart("openai", MARKED), Text("b"))))

    assert sent["content"] == [MARKED, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.USER, Role.ASSISTANT])
def test_a_part_of_another_vendor_is_left_out(role):
    foreign = VendorPart("anthropic", {"type": "thinking"})

    assert messages(Message(role, (foreign, Text("b"))))[0]["content"] == "b"
    assert messages(Message(role, (foreign,)))[0]["content"] == ""


def test_a_vendors_part_of_a_tool_follows_like_a_picture():
    returned = (Text("one"), VendorPart("openai", MARKED), VendorPart("x", {"y": 1}))
    sent = messages(Message.assistant((), (EMPTY_CALL,)), Message.tool(EMPTY_CALL, returned))

    assert sent[2]["content"] == [{"type": "text", "text": "Returned by tool 'add' (call call_1):"}, MARKED]


def test_pictures_sound_and_files_of_tools_all_reach_the_model_under_the_call_that_returned_them():
    sent = messages(
        Message.assistant((), (EMPTY_CALL, LOOK)),
        Message.tool(EMPTY_CALL, (Text("one"), PICTURE, Audio("QQ==", "mp3"))),
        Message.tool(LOOK, (File(data="QQ==", media_type="application/pdf"),)),
    )

    assert [entry["role"] for entry in sent] == ["assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[3]["content"]] == ["text", "image_url", "input_audio", "text", "file"]
    assert [part["text"] for part in sent[3]["content"] if part["type"] == "text"] == [
        "Returned by tool 'add' (call call_1):",
        "Returned by tool 'look' (call call_2):",
    ]


def test_a_result_without_a_name_is_labelled_by_its_call():
    asks = Message.assistant((), (ToolCall("call_9", "add"),))
    sent = messages(asks, Message(Role.TOOL, (PICTURE,), tool_call_id="call_9"))

    assert sent[2]["content"] == [{"type": "text", "text": "Returned by tool call call_9:"}, SHOWN]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Image(file_id="f-1"), "Image: chat completions takes no file_id; give url or data"),
        (File(url="https://x/a.pdf"), "File: this server is not known to fetch files by url"),
        (Image(), "Image has neither data nor a reference"),
        (VendorPart("openai", {"x": float("nan")}), "a VendorPart.x is nan"),
    ],
)
def test_what_the_api_cannot_carry_is_refused_with_what_to_do(part, said):
    assert said in refusal_of(Message.user(part))


def test_data_comes_before_a_url_and_an_id_before_both():
    (sent,) = messages(Message.user((File(url="https://x", data="QQ=="), File(url="https://x", file_id="f"))))

    assert [part["file"] for part in sent["content"]] == [
        {"file_data": "data:application/octet-stream;base64,QQ=="},
        {"file_id": "f"},
    ]


# ---- extra ------------------------------------------------------------------------------


@pytest.mark.parametrize("role", list(Role))
def test_fields_of_this_wire_are_sent_in_their_message_and_those_of_others_are_not(role):
    said = Message(
        role, (Text("a"),), tool_call_id=CALL.id if role is Role.TOOL else None,
        extra={"openai": {"prefix": True, "deep": {"a": [1]}}, "anthropic": {"x": 1}},
    )  # fmt: skip

    sent = message(said)

    assert (sent["prefix"], sent["deep"]) == (True, {"a": [1]})
    assert "x" not in sent


def test_citations_stay_at_home():
    (sent,) = messages(Message(Role.ASSISTANT, (Text("a"),), extra={"openai": {"annotations": [{"type": "x"}]}}))

    assert sent == {"role": "assistant", "content": "a"}


def test_sound_goes_back_by_its_id_or_else_by_its_words():
    said = Message(
        Role.ASSISTANT, (Text("a"), Audio("QQ==", transcript="said")), extra={"openai": {"audio": {"id": "x"}}}
    )

    (by_id,) = messages(said)
    (by_words,) = messages(said, dialect=Dialect(returns=()))

    assert by_id == {"role": "assistant", "content": "a", "audio": {"id": "x"}}
    assert [part["text"] for part in by_words["content"]] == ["a", "said"]
    assert messages(Message(Role.ASSISTANT, said.content[1:], extra=said.extra)) == [
        {"role": "assistant", "content": None, "audio": {"id": "x"}}
    ]


def test_fields_that_are_no_object_are_refused():
    assert "extra['openai']: expected an object" in refusal_of(Message(Role.USER, (Text("a"),), extra={"openai": "x"}))
