"""What only this wire understands, and what it cannot carry."""

import json

import pytest
from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Message,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    Role,
    Text,
    ToolCall,
    VendorPart,
)
from pluggent_openai.dialects import Dialect
from pluggent_openai.request import Writer
from pluggent_provider_http.server_errors import Faults

CALL, LOOK = ToolCall("call_1", "add", "{}"), ToolCall("call_2", "look", "{}")
MARKED = {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}
PICTURE = Image(url="https://x/p.png")
SHOWN = {"type": "image_url", "image_url": {"url": "https://x/p.png"}}


def messages(*said: Message, dialect=None):
    asked = ModelRequest("m", said)
    return json.loads(Writer(dialect or Dialect()).encode(asked, Faults("openai", "http://x/v1"), stream=False))[
        "messages"
    ]


def refusal(*said: Message) -> str:
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
    sent = messages(Message.tool(CALL, (Text("one"), VendorPart("openai", MARKED), VendorPart("x", {"y": 1}))))

    assert sent[1]["content"] == [{"type": "text", "text": "Returned by tool 'add' (call call_1):"}, MARKED]


def test_pictures_sound_and_files_of_tools_all_reach_the_model_under_the_call_that_returned_them():
    sent = messages(
        Message.assistant((), (CALL, LOOK)),
        Message.tool(CALL, (Text("one"), PICTURE, Audio("QQ==", "mp3"))),
        Message.tool(LOOK, (File(data="QQ==", media_type="application/pdf"),)),
    )

    assert [entry["role"] for entry in sent] == ["assistant", "tool", "tool", "user"]
    assert [part["type"] for part in sent[3]["content"]] == ["text", "image_url", "input_audio", "text", "file"]
    assert [part["text"] for part in sent[3]["content"] if part["type"] == "text"] == [
        "Returned by tool 'add' (call call_1):",
        "Returned by tool 'look' (call call_2):",
    ]


def test_a_result_without_a_name_is_labelled_by_its_call():
    sent = messages(Message(Role.TOOL, (PICTURE,), tool_call_id="call_9"))

    assert sent[1]["content"] == [{"type": "text", "text": "Returned by tool call call_9:"}, SHOWN]


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
    assert said in refusal(Message.user(part))


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
        role, (Text("a"),), tool_call_id="c" if role is Role.TOOL else None,
        extra={"openai": {"prefix": True, "deep": {"a": [1]}}, "anthropic": {"x": 1}},
    )  # fmt: skip

    (sent,) = messages(said)

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
    assert "extra['openai']: expected an object" in refusal(Message(Role.USER, (Text("a"),), extra={"openai": "x"}))
