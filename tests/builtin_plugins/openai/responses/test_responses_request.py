"""What a request of the Responses API holds: items in their places, nothing that lies, nothing that is refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    File,
    Image,
    Message,
    ProviderError,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from pluggent_openai.dialects import Dialect, dialect_for
from responses_schema import problems
from responses_server import SERVER, call, custom_call, message, search, sent, text, thought, whole

USER = Message.user("hi")
CALL = ToolCall("call_1", "add", '{"a":1}')
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
HELLO = message(text("Hello"), phase="final_answer")
GRAMMAR = {"syntax": "lark", "definition": "x"}


def items(*messages: Message, **more: Any) -> list[dict[str, Any]]:
    """Return the input, which the vendor would take."""
    body, _ = sent(messages, **more)
    assert problems(body) == []
    return body["input"]


def plainly(item: dict[str, Any]) -> dict[str, Any]:
    """Return *item* as it is sent back: with what the schema wants and the vendor left out."""
    if item["type"] != "message":
        return item
    return {**item, "content": [{"logprobs": [], **part} if "text" in part else part for part in item["content"]]}


# ---- replies --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        [HELLO],
        [thought("hm"), HELLO],
        [thought(), HELLO],
        [thought("one", "two", ""), HELLO],
        [thought("hm", content=[{"type": "reasoning_text", "text": "I think"}]), HELLO],
        [thought("hm", signature=None, content=[{"type": "reasoning_text", "text": "I think"}]), HELLO],
        [thought("hm"), message(text("Let me see."), phase="commentary"), thought(id="rs_2", signature="more"), HELLO],
        [thought("hm"), call(), call("call_2", namespace="math")],
        [thought(), custom_call(words='say "hi"')],
        [thought(), search(), message(text("It rains.", annotations=[{"type": "url_citation", "url": "https://x"}]))],
        [message(text("I cannot"), {"type": "refusal", "refusal": "No."}, text(" really"))],
    ],
    ids=lambda output: "+".join(item["type"] for item in output),
)  # fmt: skip
def test_the_items_of_a_reply_go_back_as_they_came(output):
    reply = whole(*output).message
    results = [Message.tool(call, "done") for call in reply.tool_calls]

    back = items(USER, reply, *results, Message.user("again"))

    assert back[1 : 1 + len(output)] == [plainly(item) for item in output]


def test_of_a_picture_that_was_made_goes_back_what_the_vendor_takes():
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "QQ==", "size": "1x1"}

    assert items(USER, whole(picture).message)[1] == {
        name: picture[name] for name in ("type", "id", "status", "result")
    }


def test_a_reply_that_was_changed_since_goes_back_without_its_thinking():
    reply = whole(thought("the key is 7f3a"), message(text("It is 7f3a.")), call()).message
    redacted = attrs.evolve(reply, content=(Reasoning("hm", "sealed"), Text("It is [secret].")))

    body, written = sent([USER, redacted, Message.tool(CALL, "1")])

    assert problems(body) == []
    assert body["input"][1:3] == [
        {"role": "assistant", "content": "It is [secret]."},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
    ]
    assert "sealed" not in str(body)
    assert [note.partition(" was")[0] for note in written.notes] == ["the thinking of one earlier reply"]


@pytest.mark.parametrize("changed", [{"server": "https://other.test/v1"}, {"thinking": False}], ids=str)
def test_thinking_goes_back_to_its_own_server_alone_and_only_if_wanted(changed):
    reply = whole(thought("hm"), HELLO).message

    body, written = sent([USER, reply, reply], **changed)

    assert problems(body) == []
    assert body["input"][1] == {"role": "assistant", "content": "Hello", "phase": "final_answer"}
    assert "sealed" not in str(body)
    assert "2 earlier replies" in written.notes[0]


def test_thinking_that_is_only_a_name_stays_here():
    body, written = sent([USER, whole(thought("hm", signature=None), call()).message, Message.tool(CALL, "1")])

    assert problems(body) == []
    assert [item.get("type") for item in body["input"]] == [None, "function_call", "function_call_output"]
    assert "id" not in body["input"][1]
    assert "not encrypted" in written.notes[0]


@pytest.mark.parametrize(
    "entries",
    [[7], [{}], [{"type": "function_call"}], [{"type": "part", "number": 9}], [{"type": "message"}], 7],
    ids=str,
)
def test_a_list_of_items_that_cannot_be_is_none(entries):
    reply = whole(thought("hm"), HELLO).message
    own: Any = reply.extra["openai_responses"]
    odd = attrs.evolve(reply, extra={"openai_responses": {**own, "items": entries}})

    assert items(USER, odd)[1:] == [{"role": "assistant", "content": "Hello"}]


def test_thinking_that_led_to_nothing_is_left_out():
    cut = whole(thought("hm"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})

    body, written = sent([USER, cut.message, Message.user("again")])

    assert body["input"] == [{"role": "user", "content": "hi"}, {"role": "user", "content": "again"}]
    assert "cut off" in written.notes[0]


def test_what_other_vendors_think_and_keep_is_left_out():
    foreign = Message.assistant(
        (Reasoning("hm", "signed"), VendorPart("anthropic", {"type": "x"}), Text("Hello")), (CALL,)
    )

    assert items(USER, foreign, Message.tool(CALL, "1")) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello"},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
    ]


# ---- calls and results ----------------------------------------------------------------------


def test_a_call_without_a_result_gets_one_and_a_result_without_a_call_is_said():
    lost = ToolCall("call_9", "now")

    assert items(Message.assistant((), (CALL,)), Message.assistant("well"), Message.tool(lost, "noon")) == [
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        {"role": "assistant", "content": "well"},
        {"role": "user", "content": [
            {"type": "input_text", "text": "Returned by a tool call (now) that is not in this conversation:"},
            {"type": "input_text", "text": "noon"},
        ]},
        {"type": "function_call_output", "call_id": "call_1", "output": "(no result was recorded)"},
    ]  # fmt: skip


@pytest.mark.parametrize("made", [call(input="ls"), {**custom_call(), "arguments": "ls"}], ids=["function", "custom"])
def test_a_field_of_another_kind_of_call_keeps_no_conversation_from_going_on_elsewhere(made):
    reply = whole(made).message
    answered = Message.tool(reply.tool_calls[0], "1")

    for dialect in (dialect_for("https://api.openai.com/v1", {}), dialect_for("http://127.0.0.1:8000/v1", {})):
        kinds = [item["type"] for item in items(USER, reply, answered, dialect=dialect)[1:]]

        assert len(kinds) == 2
        assert kinds[1] == f"{kinds[0]}_output"


def test_an_id_that_is_too_long_is_the_same_short_one_for_the_call_and_its_result():
    long = ToolCall("x" * 100, "add")

    first, second = items(Message.assistant((), (long,)), Message.tool(long, "1"))

    assert len(first["call_id"]) == 64
    assert first["call_id"] == second["call_id"]


def test_a_result_may_hold_pictures_and_files():
    result = Message.tool(CALL, (Text("see"), Image(data="QQ=="), File(data="QQ==", filename="a.txt")))

    assert items(Message.assistant((), (CALL,)), result)[1]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QQ=="},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:application/octet-stream;base64,QQ=="},
    ]


# ---- what is said -----------------------------------------------------------------------------


def test_what_people_and_applications_say():
    said = items(
        Message.system("Be brief."),
        Message(Role.DEVELOPER, (Text("Be kind."),)),
        Message.user((Text("look"), Image(url="https://x/y.png", detail="low"), Image(file_id="f1"),
                      File(url="https://x/a.pdf"), File(file_id="f2"),
                      VendorPart("openai_responses", {"type": "input_text", "text": "own"}))),
        Message.assistant((Refusal("No."), Image(url="https://x"), Audio("QQ==", transcript="hum"))),
    )  # fmt: skip

    assert said == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "detail": "low", "image_url": "https://x/y.png"},
            {"type": "input_image", "detail": "auto", "file_id": "f1"},
            {"type": "input_file", "file_url": "https://x/a.pdf"},
            {"type": "input_file", "file_id": "f2"},
            {"type": "input_text", "text": "own"},
        ]},
        {"role": "assistant", "content": "No."},
        {"role": "assistant", "content": "(image not shown)"},
        {"role": "assistant", "content": "hum"},
    ]  # fmt: skip


def test_a_server_without_developers_is_told_as_the_system():
    developer = Message(Role.DEVELOPER, (Text("Be kind."),))

    assert items(developer, dialect=dialect_for("http://127.0.0.1:8000/v1"))[0]["role"] == "system"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Message.user(Audio("QQ==")), "Audio: the Responses API takes no sound; set api = 'chat'"),
        (Message.user(Image()), "Image has neither data nor a reference"),
        (Message(Role.SYSTEM, (Image(url="https://x"),)), "a message of role system cannot hold Image"),
        (Message(Role.TOOL, (Text("1"),)), "a message of role tool has no tool_call_id"),
        (attrs.evolve(USER, extra={"openai_responses": {"role": "x"}}), "'role' is already set"),
        (attrs.evolve(USER, extra={"openai_responses": 7}), "expected an object, got int"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_said_is_named(said, problem):
    with pytest.raises(ProviderError, match=problem.replace("(", r"\(")):
        sent([said])


# ---- parameters and tools ---------------------------------------------------------------------

FIELDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "sampling": ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    "max_output_tokens": ({"max_output_tokens": 64}, {"max_output_tokens": 64}),
    "effort": ({"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}),
    "effort and summary": (
        {"reasoning_effort": "high", "extra": {"reasoning": {"summary": "auto"}}},
        {"reasoning": {"effort": "high", "summary": "auto"}},
    ),
    "schema and verbosity": (
        {"output_schema": {"title": "day", "type": "object", "properties": {}, "additionalProperties": False},
         "extra": {"text": {"verbosity": "low"}}},
        {"text": {
            "format": {"type": "json_schema", "name": "day", "strict": True, "schema": {
                "title": "day", "type": "object", "properties": {}, "additionalProperties": False}},
            "verbosity": "low",
        }},
    ),
    "logprobs and more": (
        {"logprobs": 2, "extra": {"include": ["reasoning.encrypted_content"]}},
        {"top_logprobs": 2, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]},
    ),
    "encrypted thinking": (
        {"logprobs": 0, "dialect": dialect_for("https://api.x.ai/v1", {"like": "azure"})},
        {"top_logprobs": 0, "include": ["message.output_text.logprobs", "reasoning.encrypted_content"]},
    ),
    "user": ({"user": "u-1"}, {"safety_identifier": "u-1"}),
    "tier": ({"service_tier": "flex"}, {"service_tier": "flex"}),
    "metadata": ({"metadata": {"team": "a"}}, {"metadata": {"team": "a"}}),
    "stored": ({"extra": {"store": True}}, {"store": True}),
    "unknown": ({"extra": {"truncation": "auto"}}, {"truncation": "auto"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_a_parameter_is_the_field_of_this_api(name):
    parameters, expected = FIELDS[name]

    body, _ = sent([USER], **parameters)

    assert problems(body) == []
    assert {key: value for key, value in body.items() if key not in ("model", "input")} == {"store": False, **expected}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("add", {"type": "function", "name": "add"}),
        (AllowedTools(("add",), required=True),
         {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}),
    ],
    ids=str,
)  # fmt: skip
def test_a_choice_of_tools(choice, expected):
    body, _ = sent([USER], tools=[ADD], tool_choice=choice, parallel_tool_calls=False)

    assert problems(body) == []
    assert (body.get("tool_choice"), body["parallel_tool_calls"]) == (expected, False)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({}, {"type": "function", "name": "add", "description": "Adds.", "strict": False}),
        ({"openai": {"strict": True}}, {"type": "function", "name": "add", "description": "Adds.", "strict": True}),
        ({"openai": {"strict": True}, "openai_responses": {"strict": False, "defer_loading": True}},
         {"type": "function", "name": "add", "description": "Adds.", "strict": False, "defer_loading": True}),
        ({"openai": {"type": "custom", "format": {"type": "grammar", "grammar": GRAMMAR}}},
         {"type": "custom", "name": "add", "description": "Adds.",
          "format": {"type": "grammar", **GRAMMAR}}),
    ],
    ids=["plain", "strict", "both", "custom"],
)  # fmt: skip
def test_a_tool(extra, expected):
    body, _ = sent([USER], tools=[attrs.evolve(ADD, extra=extra)])

    assert problems(body) == []
    (tool,) = body["tools"]
    tool.pop("parameters", None)
    assert tool == expected


def test_a_server_without_custom_tools_is_offered_a_function():
    custom = attrs.evolve(ADD, extra={"openai": {"type": "custom", "format": {"type": "text"}}})

    body, _ = sent([USER], tools=[custom], dialect=Dialect(custom_tools=False, strict=False))

    assert body["tools"] == [
        {"type": "function", "name": "add", "description": "Adds.", "parameters": ADD.parameters}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"stop": ("a",)}, "parameters.stop: the Responses API has no word for it"),
        ({"seed": 1}, "parameters.seed"),
        ({"presence_penalty": 0.5}, "parameters.presence_penalty"),
        ({"top_k": 5}, "parameters.top_k"),
        ({"temperature": float("nan")}, "parameters.temperature is nan"),
        ({"extra": {"previous_response_id": "r"}}, "each request has the whole conversation"),
        ({"extra": {"prompt": {"id": "pmpt_1"}}}, "tools of its own, which no policy would see"),
        ({"extra": {"background": True}}, "it is parameters.background"),
        ({"reasoning_effort": "low", "extra": {"reasoning": {"effort": "high"}}}, "'reasoning' is already set"),
        ({"reasoning_effort": "low", "extra": {"reasoning": "high"}}, "'reasoning' is already set"),
    ],
    ids=str,
)
def test_what_the_api_has_no_word_for_is_refused_by_name(parameters, problem):
    with pytest.raises(ProviderError, match=problem):
        sent([USER], **parameters)


def test_the_server_that_items_are_told_by_is_kept_with_them():
    kept: Any = whole(HELLO).message.extra["openai_responses"]

    assert kept["server"] == SERVER
