"""What is made of the result of a tool that lists or reads: what text, parts and data of it agree on, and no more."""

import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptResult, PromptMessage, ReadResourceResult, TextContent, TextResourceContents
from pluggent_hookspecs import Audio, File, Image, Text, ToolOutput
from pluggent_mcp.client import content
from pluggent_mcp.serving.sources.tool_results import (
    contents,
    entries,
    failure,
    messages,
    prompts,
    resources,
    templates,
)

PAGE = {"uri": "a://b", "mimeType": "text/plain", "text": "the key\nis K-1"}
BYTES = {"uri": "a://b", "mimeType": "image/png"}


def listing(*found, text=None):
    return ToolOutput(json.dumps(found) if text is None else text, data={"entries": list(found)})


def read(text, *found):
    return ToolOutput(text, data={"contents": list(found)})


def wire(found):
    return [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]


# ---- one thing ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        read("Untrusted:\nthe key\nis K-1\n(the end)", PAGE),
        read(json.dumps(PAGE), PAGE),
        read((Text("[a://b]"), Text("the key\nis K-1")), PAGE),
    ],
)
def test_what_the_text_has_too_is_served_however_it_is_told(output):
    assert wire(contents(output, "read", "a://b")) == [PAGE]


@pytest.mark.parametrize(
    "output",
    [
        read("the key\nis [redacted]", PAGE),  # taken out of the text alone
        read("the key\nis K-1", PAGE | {"text": "the key\nis [redacted]"}),  # out of the data alone
        read("the key\nis K-1", PAGE | {"uri": "a://elsewhere"}),
        read("the key\n[... cut: 8 of 14 bytes shown ...]", PAGE),
        read((Text("the key\nis K-1"), Image(data="eA==")), PAGE),  # a caller put an image there
        read("[image/png of 9 bytes left out]", BYTES),
        read((Image(url="https://x.test/y.png"),), BYTES),
        read("", PAGE["text"]),
        read("", {"text": ""}),
        ToolOutput("the key\nis K-1"),
        ToolOutput("the key\nis K-1", data={"contents": None}),
        ToolOutput("the key\nis K-1", data=["contents"]),
    ],
)
def test_what_does_not_fit_together_is_not_served(output):
    with pytest.raises(MCPError, match="what 'read' returned is not served") as raised:
        contents(output, "read", "a://b")

    assert raised.value.code == -32603
    assert "K-1" not in str(raised.value)


def test_bytes_are_those_that_the_hooks_let_through():
    one, two = {"uri": "a://b", "mimeType": "audio/x-y"}, {"uri": "a://c"}
    parts = (Audio("QUE=", "x-y"), File(data="Qg==", filename="a://c", media_type="text/csv"))

    assert wire(contents(read(parts, one, two), "read", "a://b")) == [
        {"uri": "a://b", "mimeType": "audio/x-y", "blob": "QUE="},
        {"uri": "a://c", "mimeType": "text/csv", "blob": "Qg=="},
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": {"type": "text", "text": "hello"}},
        {"role": "user", "content": {"type": "text", "text": "another"}},
        {"role": "user", "content": {"type": "no such", "text": "hello"}},
        {"role": "user", "content": {"type": "image", "mimeType": "image/png"}},
        {"role": "user", "content": "hello"},
        {"content": {"type": "text", "text": "hello"}},
        "hello",
    ],
)
def test_a_message_that_is_none_is_not_served(message):
    with pytest.raises(MCPError, match="what 'get' returned is not served"):
        messages(ToolOutput("hello", data={"messages": [message]}), "get")


def test_what_the_other_half_makes_of_a_server_is_what_is_served_again():
    odd = 'a "quoted"\\ line\u2028\n\n  and é\n'
    page = ReadResourceResult(contents=[TextResourceContents(uri="a://b", mime_type="text/x", text=odd)])
    talk = GetPromptResult(messages=[PromptMessage(role="assistant", content=TextContent(text=odd))])

    assert contents(content.resource(page), "read", "a://b") == page.contents
    assert messages(content.prompt(talk), "get") == talk.messages


# ---- lists -------------------------------------------------------------------------------


def test_of_a_list_what_the_text_has_not_is_left_out_and_counted():
    one, two = {"uri": "a://one", "name": "one", "description": "a\tb"}, {"uri": "a://two", "name": "two"}

    assert entries(listing(one, two)) == ([one, two], 0)
    assert entries(listing(one, two, text=json.dumps(one) + " [... cut ...]")) == ([one], 1)
    assert entries(listing(one, 5, "two")) == ([one], 2)


@pytest.mark.parametrize("data", [None, [], {"entries": 5}, {"entries": {}}, "entries"])
def test_what_is_no_list_is_an_error(data):
    with pytest.raises(MCPError, match="what a list returned is not served"):
        entries(ToolOutput("[]", data=data))


def test_entries_that_are_not_what_they_should_be_are_left_out():
    assert resources([{"uri": 5}, {"template": "a://{b}"}, {"uri": "a://b", "size": "big"}, {}]) == []
    assert templates([{"uri": "a://b"}, {"template": None}]) == []
    assert prompts([{"title": "no name"}, {"name": "b", "arguments": [{"required": True}]}]) == []
    assert [each.name for each in resources([{"uri": "a://b"}])] == ["a://b"]


# ---- failures ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "uri", "protocol", "code"),
    [
        (None, "a://b", "2026-07-28", -32603),
        ({"code": -32601}, "a://b", "2026-07-28", -32603),
        ({"code": -32002}, "a://b", "2026-07-28", -32602),
        ({"code": -32602}, "a://b", "2025-11-25", -32002),
        ({"code": -32002}, "", "2025-11-25", -32602),
    ],
)
def test_a_failure_has_the_code_that_its_protocol_wants(data, uri, protocol, code):
    error = failure(ToolOutput("it says no", is_error=True, data=data), protocol, uri)

    assert (error.code, error.message) == (code, "it says no")
