"""What of a request is sent, in which words, and what is refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from gemini_schema import problems
from gemini_server import MODEL, contents, written
from hypothesis import given, strategies as st
from pluggent_gemini.generate.conversation import as_they_are, conversation
from pluggent_gemini.generate.parts import Pieces
from pluggent_gemini.model_traits import Model, model_of
from pluggent_gemini.settings import Server
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    CachePoint,
    File,
    Image,
    Message,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from pluggent_provider_http.unsendable import UnsendableError

ADD = ToolSpec("add", "Adds.", {"properties": {"a": {"type": "integer"}}, "required": ["a"]})
SUB = ToolSpec("sub")
HI = Message.user("hi")
CALL = ToolCall("c1", "add", '{"a": 1}')
PIXEL = Image(data="aGk=", media_type="image/webp")
VERTEX = Server(project="acme-7")


def sent(*messages: Message, **more: Any) -> dict[str, Any]:
    body, _ = written(*(messages or (HI,)), **more)
    assert problems(body) == []
    return body


def refused(*messages: Message, **more: Any) -> str:
    with pytest.raises(UnsendableError) as caught:
        written(*(messages or (HI,)), **more)
    return str(caught.value)


def parts(*content: Any) -> list[Any]:
    return list(sent(Message.user(content))["contents"][0]["parts"])


# ---- parameters -------------------------------------------------------------------------------


def test_parameters_have_their_places() -> None:
    asked = sent(
        temperature=0.5, top_p=0.9, top_k=40, max_output_tokens=99, stop=("END",), seed=7, presence_penalty=0.1,
        frequency_penalty=0.2, logprobs=3, service_tier="flex", output_schema={"type": "object"},
    )  # fmt: skip

    assert asked["generationConfig"] == {
        "temperature": 0.5, "topP": 0.9, "topK": 40, "maxOutputTokens": 99, "stopSequences": ["END"], "seed": 7,
        "presencePenalty": 0.1, "frequencyPenalty": 0.2, "responseLogprobs": True, "logprobs": 3,
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"includeThoughts": True},
    }  # fmt: skip
    assert asked["serviceTier"] == "flex"


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-3-flash", "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-3.1-pro", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("gemini-4-argon", "max", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-2.5-pro", "minimal", {"thinkingBudget": 512, "includeThoughts": True}),
        ("gemini-2.5-flash", "max", {"thinkingBudget": 24_576, "includeThoughts": True}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash", None, {"includeThoughts": True}),
        ("gemini-2.0-flash", None, None),
        ("gemini-2.0-flash", "none", None),
        ("of-my-own", None, None),
        ("of-my-own", "low", {"thinkingLevel": "LOW", "includeThoughts": True}),
    ],
)
def test_an_effort_is_said_as_the_model_understands_it(model: str, effort: str | None, config: Any) -> None:
    asked = sent(model=model, reasoning_effort=effort)

    assert asked.get("generationConfig", {}).get("thinkingConfig") == config


def test_thinking_is_not_shown_where_that_is_not_wanted() -> None:
    assert "generationConfig" not in sent(server=Server(show_thinking=False))


def test_settings_go_before_what_is_known_of_a_model() -> None:
    server = Server(models={"gemini-3-*": Model(thinking="none")})

    assert "generationConfig" not in sent(server=server)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"user": "ann"}, "parameters.user"),
        ({"metadata": {"a": "b"}}, "parameters.metadata"),
        ({"service_tier": "flex", "server": VERTEX}, "parameters.service_tier"),
        ({"reasoning_effort": "none"}, "always thinks"),
        ({"reasoning_effort": "low", "model": "gemini-2.0-flash"}, "cannot think"),
        ({"reasoning_effort": "hard"}, "unknown 'hard'"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"tool_choice": "required"}, "no tool is offered"),
        ({"tool_choice": AllowedTools(("mul",)), "tools": (ADD,)}, "mul"),
        ({"tool_choice": AllowedTools((), required=True), "tools": (ADD,)}, "allows none"),
        ({"extra": {"tools": [{"googleSearch": {}}]}}, "'tools'"),
        ({"extra": {"cached_content": "cachedContents/with-tools"}}, "'cached_content'"),
        ({"extra": {"tool_config": {}}}, "'tool_config'"),
        ({"extra": {"generationConfig": {"temperature": 1}}, "temperature": 0.5}, "generationConfig.temperature"),
        ({"extra": {"generationConfig": {"candidateCount": 2}}}, "a reply is one candidate"),
        ({"extra": {"toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}}}}, "come whole"),
        ({"tools": (attrs.evolve(ADD, name="9 lives"),)}, "'9 lives'"),
        ({"tools": (attrs.evolve(ADD, extra={"gemini": {"description": "x"}}),)}, "'description'"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    assert named in refused(**given)


def test_fields_of_the_application_join_those_of_the_provider() -> None:
    extra = {"generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"}, "new7f3a": 1}

    body, _ = written(HI, temperature=0.5, server=Server(show_thinking=False), extra=extra)

    assert body["generationConfig"] == {"temperature": 0.5, "mediaResolution": "MEDIA_RESOLUTION_LOW"}
    assert body["new7f3a"] == 1


# ---- tools ------------------------------------------------------------------------------------


def test_tools_are_declared_with_their_schemas() -> None:
    blocking = {"gemini": {"behavior": "BLOCKING"}}
    odd = ToolSpec("f", "F.", {"$ref": "#/$defs/A", "$defs": {"A": {"const": 1}}}, extra=blocking)

    (tool,) = sent(tools=(ADD, SUB, odd))["tools"]

    assert tool["functionDeclarations"] == [
        {"name": "add", "description": "Adds.", "parametersJsonSchema": {
            "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        }},
        {"name": "sub", "description": ""},
        {"name": "f", "description": "F.", "behavior": "BLOCKING",
         "parametersJsonSchema": {"$ref": "#/$defs/A", "$defs": {"A": {"enum": [1]}}}},
    ]  # fmt: skip


def test_a_schema_with_words_beside_a_reference_is_one_that_the_vendor_takes() -> None:
    where = {"$ref": "#/definitions/Town", "description": "where"}
    schema = {"properties": {"a": where}, "definitions": {"Town": {"type": "string"}}, "$schema": "x"}

    (tool,) = sent(tools=(attrs.evolve(ADD, parameters=schema),))["tools"]

    found = tool["functionDeclarations"][0]["parametersJsonSchema"]
    assert found["properties"]["a"] == {"description": "where", "anyOf": [{"$ref": "#/$defs/Town"}]}
    assert (found["$defs"], "$schema" in found) == ({"Town": {"type": "string"}}, False)


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        (AllowedTools(("add", "sub")), {"mode": "VALIDATED", "allowedFunctionNames": ["add", "sub"]}),
        (AllowedTools(("add",), required=True), {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        (AllowedTools(()), {"mode": "NONE"}),
    ],
)
def test_a_choice_of_tools_is_a_mode(choice: Any, calling: Any) -> None:
    assert sent(tools=(ADD, SUB), tool_choice=choice).get("toolConfig", {}).get("functionCallingConfig") == calling


def test_tools_of_the_vendor_come_from_the_settings_and_are_shown_beside_ours() -> None:
    server = Server(server_tools=({"googleSearch": {}},))

    both = sent(tools=(ADD,), server=server)

    assert [list(tool) for tool in both["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert both["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "toolConfig" not in sent(server=server)
    assert "toolConfig" not in sent(tools=(ADD,), server=attrs.evolve(server, project="acme-7"))
    assert "toolConfig" not in sent(tools=(ADD,), server=server, model="gemini-2.5-flash")


def test_functions_are_no_tools_of_the_vendor() -> None:
    with pytest.raises(ValueError, match="server_tools"):
        Server(server_tools=({"functionDeclarations": []},))


def test_thresholds_are_settings() -> None:
    asked = sent(server=Server(safety={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"}))

    assert asked["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


# ---- parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (PIXEL, {"inlineData": {"mimeType": "image/webp", "data": "aGk="}}),
        (Image(url="data:image/png;base64,aGk="), {"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
        (
            Image(url="https://x.test/a.jpg"),
            {"fileData": {"fileUri": "https://x.test/a.jpg", "mimeType": "image/jpeg"}},
        ),
        (Image(url="https://x.test/a"), {"fileData": {"fileUri": "https://x.test/a"}}),
        (
            Image(file_id="files/a-1"),
            {"fileData": {"fileUri": "https://gemini.test/v1beta/files/a-1"}},
        ),
        (File(file_id="gs://b/a.pdf"), {"fileData": {"fileUri": "gs://b/a.pdf", "mimeType": "application/pdf"}}),
        (File(data="aGk=", filename="a.pdf"), {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}),
        (
            File(url="https://x.test/a", media_type="video/mp4"),
            {"fileData": {"fileUri": "https://x.test/a", "mimeType": "video/mp4"}},
        ),
        (Audio("aGk=", "mp3"), {"inlineData": {"mimeType": "audio/mp3", "data": "aGk="}}),
        (Refusal("No."), {"text": "No."}),
    ],
)
def test_media_go_inside_or_by_address(part: Any, expected: Any) -> None:
    assert parts(Text("see"), part) == [{"text": "see"}, expected]


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Image(), "an Image has neither data"),
        (File(data="aGk="), "a File has no media_type"),
        (Image(url="ftp://x.test/a.png"), "url of an Image begins with"),
        (Image(url="data:image/png,hi"), "not in base64"),
        (Audio(""), "an Audio has neither"),
        (VendorPart("gemini", {}), "empty"),
    ],
)
def test_media_that_cannot_be_sent_are_refused(part: Any, named: str) -> None:
    assert named in refused(Message.user(part))


def test_cache_points_are_left_out_and_the_meta_says_so() -> None:
    point = CachePoint("1h")
    said = (Message.user((Text("hi"), point)), Message.assistant((), (CALL,)), Message.tool(CALL, (Text("2"), point)))

    body, sent_ = written(*said)

    assert problems(body) == []
    assert body["contents"][0]["parts"] == [{"text": "hi"}]
    assert sent_.notes == (
        "cache points of 2 messages were left out: this vendor keeps instruction and tools alone (cache)",
    )


def test_a_system_message_holds_text_only() -> None:
    assert "a system message holds text only" in refused(Message(Role.SYSTEM, (PIXEL,)), HI)


def test_nothing_to_say_is_refused() -> None:
    assert "no message says anything" in refused(Message.user(""))


# ---- results ----------------------------------------------------------------------------------


def history(*content: Any, **more: Any) -> tuple[Message, ...]:
    return HI, Message.assistant((), (CALL,)), Message.tool(CALL, content, **more)


def test_a_result_is_an_output_or_an_error() -> None:
    good, bad = contents(*history(Text("2")))[2], contents(*history(Text("no"), is_error=True))[2]

    assert good["parts"] == [{"functionResponse": {"id": "c1", "name": "add", "response": {"output": "2"}}}]
    assert bad["parts"][0]["functionResponse"]["response"] == {"error": "no"}


def test_images_of_a_result_are_inside_where_the_model_takes_them_else_behind() -> None:
    inline = {"inlineData": {"mimeType": "image/webp", "data": "aGk="}}
    at = Image(url="https://x.test/a.png")

    new = sent(*history(Text("see"), PIXEL, at))["contents"][2:]
    old = sent(*history(Text("see"), PIXEL), model="gemini-2.5-flash")["contents"][2:]

    assert new[0]["parts"][0]["functionResponse"]["parts"] == [inline]
    assert new[1] == {"role": "user", "parts": [{"fileData": {"fileUri": at.url, "mimeType": "image/png"}}]}
    assert "parts" not in old[0]["parts"][0]["functionResponse"]
    assert old[1] == {"role": "user", "parts": [inline]}


def test_what_was_said_between_a_call_and_its_result_stands_behind() -> None:
    said = sent(HI, Message.assistant((), (CALL,)), Message.user("wait"), Message.tool(CALL, "2"))["contents"]

    assert [list(content["parts"][0]) for content in said] == [["text"], ["functionCall", "thoughtSignature"],
                                                               ["functionResponse"], ["text"]]  # fmt: skip


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    for messages in ((HI, Message.assistant((), (CALL,))), (HI, Message.assistant((), (CALL,)), Message.user("go on"))):
        result = sent(*messages)["contents"][2]["parts"][0]["functionResponse"]
        assert result["response"] == {"error": "(no result was recorded)"}


def test_a_result_without_a_call_is_said_by_the_user() -> None:
    said = sent(HI, Message.tool(CALL, (Text("2"), PIXEL)))["contents"]

    assert said == [
        {"role": "user", "parts": [
            {"text": "hi"}, {"text": "Result of an earlier call of add:\n2"},
            {"inlineData": {"mimeType": "image/webp", "data": "aGk="}},
        ]},
    ]  # fmt: skip


def test_a_result_without_a_name_has_that_of_its_call() -> None:
    nameless = Message(Role.TOOL, (Text("2"),), tool_call_id="c1")

    assert (
        sent(HI, Message.assistant((), (CALL,)), nameless)["contents"][2]["parts"][0]["functionResponse"]["name"]
        == "add"
    )


def test_arguments_that_are_no_object_go_back_as_they_were_written() -> None:
    broken = attrs.evolve(CALL, arguments='{"a": ')

    (part,) = sent(HI, Message.assistant((), (broken,)), Message.tool(broken, "no"))["contents"][1]["parts"]

    assert part["functionCall"]["args"] == {"_invalid": '{"a": '}


def test_replies_in_a_row_are_one_content_unless_results_stand_between() -> None:
    together = sent(HI, Message.assistant("a"), Message.assistant("b"))["contents"]
    apart = sent(HI, Message.assistant("a", (CALL,)), Message.assistant("b"), Message.user("c"))["contents"]

    assert together[1]["parts"] == [{"text": "a"}, {"text": "b"}]
    assert [content["role"] for content in apart] == ["user", "model", "user", "model", "user"]


def test_a_conversation_begins_with_a_user() -> None:
    assert sent(Message.assistant("hello"), HI)["contents"][0]["parts"] == [{"text": "(earlier messages are left out)"}]


def test_a_message_is_encoded_once_for_a_model() -> None:
    message = Message.user("hi")

    sent(message)
    before = dict(message._memo)  # noqa: SLF001 (what is kept)
    sent(message, Message.assistant("x"))

    assert message._memo == before  # noqa: SLF001 (as above)
    sent(message, model=f"{MODEL}-2")
    assert len(message._memo) == 2  # noqa: SLF001 (as above)


TURNS = st.sampled_from([
    (HI,), (Message.assistant("yes"),), (Message.assistant("", (CALL,)), Message.tool(CALL, "2")),
    (Message.assistant("", (CALL, attrs.evolve(CALL, id="c2"))), Message.tool(CALL, "2"),
     Message.tool(attrs.evolve(CALL, id="c2"), "3")),
    (Message.tool(CALL, "2"),), (Message.assistant("", (CALL,)),), (Message.system("Be brief."),), (Message.user(""),),
    (Message.assistant("", (CALL,)), Message.tool(CALL, (Text("see"), PIXEL, Image(url="https://x.test/a.png")))),
    (attrs.evolve(HI, extra={"gemini": {"own": 1}}),),
])  # fmt: skip


@given(st.lists(TURNS, max_size=8))
def test_a_conversation_that_keeps_the_rules_is_sent_as_one_that_is_arranged(turns: list[tuple[Message, ...]]) -> None:
    messages = [message for turn in turns for message in turn]
    pieces = Pieces(MODEL, model_of(MODEL), "https://gemini.test")
    found = pieces.of(messages)
    start = next((place for place, piece in enumerate(found) if piece.speaker != "system"), len(found))

    quick = as_they_are(messages, found, start)

    if quick is not None:
        # An empty message at the end changes nothing but that the quick way is not taken.
        slow = conversation([*messages, Message.user("")], pieces)
        assert b",".join(quick) == slow.contents
