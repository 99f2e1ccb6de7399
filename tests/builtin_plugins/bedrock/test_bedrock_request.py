"""Every request that the contract allows becomes one that Converse takes, or is refused by name."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from bedrock_server import SONNET, sent
from hypothesis import given, strategies as st
from pluggent_bedrock.model_traits import Model
from pluggent_bedrock.request import encode_count, encode_request
from pluggent_bedrock.settings import Server
from pluggent_hookspecs import (
    AllowedTools,
    Audio,
    CachePoint,
    File,
    Image,
    Message,
    ModelParameters,
    ModelRequest,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from pluggent_provider_http.unsendable import UnsendableError

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
NOW = ToolSpec("now")
A, B = ToolCall("t-a", "add", '{"a": 1}'), ToolCall("t-b", "add", '{"a": 2}')
HI = Message.user("hi")
PDF = base64.b64encode(b"%PDF").decode()
SONNET_4 = "anthropic.sonnet-4-20250514-v1:0"
NOVA, OSS, QWEN = "us.amazon.nova-micro-v1:0", "openai.gpt-oss-120b-1:0", "qwen.qwen3-32b-v1:0"


def refusal(*messages: Message, model: str = SONNET, **parameters: Any) -> str:
    with pytest.raises(UnsendableError) as caught:
        sent(*(messages or (HI,)), model=model, **parameters)
    return str(caught.value)


def content(*messages: Message) -> list:
    return sent(*messages)["messages"][-1]["content"]


# ---- parameters ---------------------------------------------------------------------------


def test_a_plain_question_is_a_short_request():
    assert sent(Message.system("Be brief."), HI) == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}], "system": [{"text": "Be brief."}],
    }  # fmt: skip


def test_parameters_stand_where_converse_has_them():
    body = sent(
        HI, temperature=0.5, top_p=0.9, max_output_tokens=64, stop=("END",), service_tier="flex", metadata={"t": "7"}
    )

    assert body["inferenceConfig"] == {"temperature": 0.5, "topP": 0.9, "maxTokens": 64, "stopSequences": ["END"]}
    assert (body["serviceTier"], body["requestMetadata"]) == ({"type": "flex"}, {"t": "7"})


@pytest.mark.parametrize(
    ("model", "effort", "said"),
    [
        (SONNET, "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        (SONNET, "none", {"thinking": {"type": "disabled"}}),
        (SONNET_4, "low", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (OSS, "high", {"reasoning_effort": "high"}),
        (QWEN, "xhigh", {"reasoning_config": "high"}),
        ("amazon.nova-2-lite-v1:0", "low", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        ("amazon.nova-2-lite-v1:0", "none", {"reasoningConfig": {"type": "disabled"}}),
    ],
)
def test_effort_is_said_in_the_words_of_each_model(model, effort, said):
    assert sent(HI, model=model, reasoning_effort=effort) == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}], "additionalModelRequestFields": said,
    }  # fmt: skip


def test_effort_of_a_model_that_is_not_known_is_said_in_converses_own_word():
    assert sent(HI, model="acme.x", reasoning_effort="low")["outputConfig"] == {"effort": "low"}


def test_a_budget_leaves_tokens_for_the_answer():
    said = sent(HI, model=SONNET_4, reasoning_effort="max", max_output_tokens=2000)

    assert said["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 1999


@pytest.mark.parametrize(
    ("model", "said"), [(SONNET, {"top_k": 20}), (NOVA, {"inferenceConfig": {"topK": 20}})], ids=["anthropic", "nova"]
)
def test_top_k_is_a_field_of_the_model(model, said):
    assert sent(HI, model=model, top_k=20)["additionalModelRequestFields"] == said


def test_a_schema_of_the_output_is_text_in_the_request():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}}
    form = sent(HI, output_schema=schema)["outputConfig"]["textFormat"]

    assert form["type"] == "json_schema"
    assert json.loads(form["structure"]["jsonSchema"]["schema"]) == {
        "type": "object", "properties": {"age": {"type": "integer", "description": '{"minimum":0}'}},
        "additionalProperties": False,
    }  # fmt: skip


def test_what_goes_into_the_request_as_it_is_joins_what_is_there():
    extra = {"additionalModelRequestFields": {"anthropic_beta": ["x"]}, "promptVariables": {"a": {"text": "b"}}}
    body = sent(HI, reasoning_effort="none", extra=extra)

    assert body["additionalModelRequestFields"] == {"thinking": {"type": "disabled"}, "anthropic_beta": ["x"]}
    assert body["promptVariables"] == {"a": {"text": "b"}}


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        ("parameters.seed", {"seed": 1}),
        ("parameters.user", {"user": "a"}),
        ("parameters.parallel_tool_calls", {"parallel_tool_calls": False}),
        ("parameters.logprobs", {"logprobs": 1}),
        ("unknown 'loud'", {"reasoning_effort": "loud"}),
        ("leaves no tokens", {"reasoning_effort": "low", "max_output_tokens": 1024, "model": SONNET_4}),
        ("cannot think", {"reasoning_effort": "low", "model": NOVA}),
        ("cannot be switched off", {"reasoning_effort": "none", "model": OSS}),
        ("parameters.top_k", {"top_k": 1, "model": OSS}),
        ("parameters.temperature is nan", {"temperature": float("nan")}),
        ("'messages' is already set", {"extra": {"messages": []}}),
        ("'toolConfig' is already set", {"extra": {"toolConfig": {}}}),
        ("'inferenceConfig' is already set", {"temperature": 0.5, "extra": {"inferenceConfig": {}}}),
        ("'additionalModelRequestFields.thinking' is already set",
         {"reasoning_effort": "none", "extra": {"additionalModelRequestFields": {"thinking": {}}}}),
        ("names what is not offered", {"tool_choice": AllowedTools(("x",))}),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_by_name(words, parameters):
    assert words in refusal(**parameters)


def test_the_guardrail_and_the_tools_of_the_vendor_that_a_request_may_have_are_sent():
    guardrail = {"guardrailIdentifier": "g1", "guardrailVersion": "DRAFT", "trace": "enabled"}
    server = Server(guardrail=guardrail, server_tools=("nova_grounding",))
    body = sent(HI, server=server, model=NOVA)

    assert body["guardrailConfig"] == guardrail
    assert body["toolConfig"] == {"tools": [{"systemTool": {"name": "nova_grounding"}}]}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"guardrail": {"id": "x"}}, "unknown 'id'"),
        ({"guardrail": {"trace": "enabled"}}, "needs guardrailIdentifier"),
        ({"region": "EU (Ireland)"}, "such as us-east-1"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings, words):
    with pytest.raises(ValueError, match=words.replace("(", ".")):
        Server(**settings)


# ---- tools --------------------------------------------------------------------------------


def test_tools_are_declared():
    strict = ToolSpec("now", extra={"bedrock": {"strict": True}})

    assert sent(HI, tools=(ADD, strict))["toolConfig"] == {
        "tools": [
            {"toolSpec": {"name": "add", "description": "Adds.",
                          "inputSchema": {"json": {"type": "object", "properties": {"a": {"type": "integer"}}}}}},
            {"toolSpec": {"name": "now", "strict": True,
                          "inputSchema": {"json": {"type": "object", "properties": {}}}}},
        ]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "said", "offered"),
    [
        ("auto", None, ["add", "now"]),
        ("required", {"any": {}}, ["add", "now"]),
        ("now", {"tool": {"name": "now"}}, ["add", "now"]),
        (AllowedTools(("now",)), None, ["now"]),
        (AllowedTools(("now",), required=True), {"any": {}}, ["now"]),
    ],
)
def test_a_choice_of_tools_is_said(choice, said, offered):
    config = sent(HI, tools=(ADD, NOW), tool_choice=choice)["toolConfig"]

    assert config.get("toolChoice") == said
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == offered


def test_no_calls_wanted_offers_no_tools():
    assert "toolConfig" not in sent(HI, tools=(ADD,), tool_choice="none")


def test_calls_of_a_history_are_declared_where_no_tool_is_offered():
    history = (HI, Message.assistant((), (A,)), Message.tool(A, "1"), Message.user("on"))

    for offered, choice in (((), "auto"), ((ADD, NOW), "none")):
        (tool,) = sent(*history, tools=offered, tool_choice=choice)["toolConfig"]["tools"]
        assert (tool["toolSpec"]["name"], "do not call" in tool["toolSpec"]["description"]) == ("add", True)


def test_a_name_that_bedrock_does_not_take_is_refused():
    with pytest.raises(UnsendableError, match="letters, digits"):
        encode_request(ModelRequest(SONNET, (HI,), (ToolSpec("a.b"),)), Server())


# ---- messages -----------------------------------------------------------------------------


def test_results_come_first_in_the_order_of_their_calls_and_errors_say_so():
    body = sent(
        HI, Message.assistant("ok", (A, B)), Message.user("wait"), Message.tool(B, "2", is_error=True), tools=(ADD,)
    )

    assert body["messages"][2]["content"] == [
        {"toolResult": {"toolUseId": "t-a", "content": [{"text": "(no result was recorded)"}], "status": "error"}},
        {"toolResult": {"toolUseId": "t-b", "content": [{"text": "2"}], "status": "error"}},
        {"text": "wait"},
    ]


@pytest.mark.parametrize(
    ("model", "said", "apart"),
    [
        (SONNET, (Text("on"),), False),
        (SONNET, (Text("see"), File(data=PDF, filename="a.pdf")), True),
        (NOVA, (Text("see"), File(data=PDF, filename="a.pdf")), False),
        ("us.meta.llama4-scout-17b-instruct-v1:0", (Text("on"),), True),
        ("us.mistral.pixtral-large-2502-v1:0", (Text("on"),), True),
        ("us.writer.palmyra-x4-v1:0", (Text("on"),), True),
    ],
)
def test_what_follows_results_has_a_turn_of_its_own_where_the_model_wants_it(model, said, apart):
    history = (HI, Message.assistant((), (A,)), Message.tool(A, "1"), Message.user(said))
    turns = sent(*history, model=model, tools=(ADD,))["messages"]

    assert len(turns) == (5 if apart else 3)
    assert (turns[3]["content"] == [{"text": "(no answer)"}]) if apart else ("text" in turns[2]["content"][1])


def test_a_result_without_content_says_so():
    body = sent(HI, Message.assistant((), (A,)), Message.tool(A, ""), tools=(ADD,))

    assert body["messages"][2]["content"] == [
        {"toolResult": {"toolUseId": "t-a", "content": [{"text": "(no output)"}]}}
    ]


def test_ids_of_other_vendors_are_fitted_and_its_own_are_kept():
    own, other = ToolCall("functions.add:0", "add"), ToolCall("call|1", "add")
    body = sent(HI, Message.assistant((), (own, other)), Message.tool(own, "1"), Message.tool(other, "2"), tools=(ADD,))
    uses = [block["toolUse"]["toolUseId"] for block in body["messages"][1]["content"]]

    assert uses[0] == "functions.add:0"
    assert uses[1].startswith("call_1_")


def test_thinking_goes_back_with_its_signature_to_its_own_format_alone():
    own = Message(Role.ASSISTANT, (Reasoning("a", "sig"), Reasoning("b"), Text("c")), extra={"bedrock": {}})
    foreign = Message.assistant((Reasoning("a", "sig"), Text("c")))

    thought = {"reasoningContent": {"reasoningText": {"text": "a", "signature": "sig"}}}
    assert sent(HI, own, HI)["messages"][1]["content"] == [thought, {"text": "c"}]
    assert sent(HI, foreign, HI)["messages"][1]["content"] == [{"text": "c"}]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Image(data="aGk="), {"image": {"format": "png", "source": {"bytes": "aGk="}}}),
        (Image(url="data:image/jpeg;base64,aGk="), {"image": {"format": "jpeg", "source": {"bytes": "aGk="}}}),
        (Image(url="s3://bucket-1/a.png"), {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket-1/a.png"}}}}),
        (File(data="aGk=", media_type="image/webp"), {"image": {"format": "webp", "source": {"bytes": "aGk="}}}),
        (File(data="aGk=", filename="a.mp4"), {"video": {"format": "mp4", "source": {"bytes": "aGk="}}}),
        (File(url="s3://bucket-1/a.mov"), {"video": {"format": "mov", "source": {"s3Location": {"uri": "s3://bucket-1/a.mov"}}}}),
        (Audio("aGk=", "mp3"), {"audio": {"format": "mp3", "source": {"bytes": "aGk="}}}),
        (Audio("aGk=", "wav", "said"), {"text": "said"}),
        (Refusal("No."), {"text": "No."}),
        (VendorPart("bedrock", {"cachePoint": {"type": "default"}}), {"cachePoint": {"type": "default"}}),
    ],
)  # fmt: skip
def test_parts_are_blocks(part, block):
    assert content(Message.user((Text("see"), part)))[1] == block


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.pdf", "pdf"), ("a.csv", "csv"), ("a.docx", "docx"), ("a.md", "md"), ("a.html", "html"), ("a.json", "txt"),
     ("a.py", "txt"), ("a.xlsx", "xlsx")],
)  # fmt: skip
def test_documents_have_a_format_and_a_name(name, form):
    document = content(Message.user((Text("see"), File(data=PDF, filename=name))))[1]["document"]

    assert (document["format"], document["source"]) == (form, {"bytes": PDF})
    assert document["name"].startswith("a ")


def test_documents_have_names_that_bedrock_takes_and_no_two_have_one():
    same = File(data=PDF, filename="Quarter_3  (fin@l).v2.pdf")
    messages = [Message.user((same, same)), Message.assistant("ok"), Message.user((Text("again"), same))]
    body = sent(*messages)
    names = [block["document"]["name"] for turn in body["messages"] for block in turn["content"] if "document" in block]

    assert len({*names}) == 3
    assert names[0].startswith("Quarter 3 (fin l) v2 ")
    assert sent(*messages) == body


def test_documents_in_results_have_names_of_their_own_too():
    result = Message.tool(A, (File(data=PDF, filename="a.pdf"),))
    other = Message.tool(B, (File(data=PDF, filename="a.pdf"),))
    results = sent(HI, Message.assistant((), (A, B)), result, other, tools=(ADD,))["messages"][-1]["content"]

    names = [
        part["document"]["name"] for each in results for part in each["toolResult"]["content"] if "document" in part
    ]
    assert len(set(names)) == len(names) == 2


def test_a_document_alone_gets_a_text_beside_it():
    found = content(Message.user(File(data=PDF, filename="a.pdf")))

    assert found[1]["text"] == f"(attached: {found[0]['document']['name']})"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Image(url="https://example.org/a.png"), "an Image by a URL"),
        (Image(data="aGk=", media_type="image/tiff"), "type 'image/tiff'"),
        (Image(), "neither data nor a url"),
        (File(url="https://example.org/a.pdf"), "a File by a URL"),
        (File(data="aGk=", filename="a.zip"), "application/zip"),
        (Audio("aGk=", "midi"), "Audio of format 'midi'"),
        (VendorPart("bedrock", {"a": 1, "b": 2}), "one member"),
    ],
)
def test_a_part_that_converse_does_not_take_is_refused_by_name(part, words):
    assert words in refusal(Message.user((Text("see"), part)))


def test_a_system_message_in_the_middle_is_a_block_or_a_turn():
    history = (HI, Message.system("Be brief."), Message.assistant("ok"), HI)

    assert sent(*history)["messages"][0]["content"][1] == {"text": "<system>\nBe brief.\n</system>"}
    server = Server(cache="off", models={"*": Model(system_turns=True)})
    request = ModelRequest(SONNET, history)
    assert [turn["role"] for turn in json.loads(encode_request(request, server).data)["messages"]][:2] == [
        "user",
        "system",
    ]


# ---- the cache ----------------------------------------------------------------------------


def marks(body: dict) -> list[str]:
    """Return where the cache points of a request stand."""
    tools = [
        f"tools[{at}]" for at, tool in enumerate(body.get("toolConfig", {}).get("tools", ())) if "cachePoint" in tool
    ]
    system = [f"system[{at}]" for at, block in enumerate(body.get("system", ())) if "cachePoint" in block]
    turns = [f"messages[{at}]" for at, turn in enumerate(body["messages"]) if "cachePoint" in turn["content"][-1]]
    return [*tools, *system, *turns]


LONG = (Message.system("Be brief."), HI, Message.assistant("ok"), Message.user("on"))


def test_cache_points_stand_behind_tools_system_and_the_users_last_turns():
    assert marks(sent(*LONG, tools=(ADD,), server=Server())) == ["tools[1]", "system[1]", "messages[0]", "messages[2]"]
    assert marks(sent(*LONG, tools=(ADD,), server=Server(), model=NOVA)) == ["system[1]", "messages[0]", "messages[2]"]


def test_cache_points_last_as_long_as_the_setting_says_where_the_model_can():
    def ttl(model: str) -> object:
        return sent(*LONG, server=Server(cache="1h"), model=model)["system"][1]["cachePoint"].get("ttl")

    assert (ttl(SONNET), ttl(NOVA)) == ("1h", None)


@pytest.mark.parametrize(
    ("messages", "server", "model"),
    [
        ((HI,), Server(), SONNET),
        (LONG, Server(cache="off"), SONNET),
        (LONG, Server(), OSS),
        (LONG, Server(models={"*": Model()}), SONNET),
    ],
    ids=["first question", "off", "a model that cannot", "the settings know better"],
)
def test_nothing_is_marked_for_nothing(messages, server, model):
    assert marks(sent(*messages, server=server, model=model)) == []


def test_points_of_the_application_are_the_only_ones():
    point = VendorPart("bedrock", {"cachePoint": {"type": "default"}})
    body = sent(Message.system("s"), Message.user((Text("a"), point)), *LONG[2:], server=Server())

    assert marks(body) == ["messages[0]"]


def test_cache_points_of_the_contract_stand_where_they_are():
    point = CachePoint()
    said = Message.user((Text("a long text"), CachePoint("1h"), Text("and a question"), point))
    history = (Message(Role.SYSTEM, (Text("s"), point)), said, Message.assistant((Text("I add."), point), (A,)))
    body = sent(*history, Message.tool(A, (Text("2"), point)), tools=(ADD,), server=Server())
    plain, hour = {"cachePoint": {"type": "default"}}, {"cachePoint": {"type": "default", "ttl": "1h"}}

    assert body["system"] == [{"text": "s"}, plain]
    first, reply, result = (turn["content"] for turn in body["messages"])
    assert first == [{"text": "a long text"}, hour, {"text": "and a question"}, plain]
    assert ["toolUse" in block for block in reply] == [False, True, False]
    assert (reply[-1], result[-1]) == (plain, plain)
    assert marks(body) == ["system[1]", "messages[0]", "messages[1]", "messages[2]"]


def test_cache_points_are_left_out_for_models_that_take_none_and_a_note_says_so():
    said = Message.user((Text("a"), CachePoint(), Text("b")))
    both = encode_request(ModelRequest(OSS, (said, Message.assistant((Text("c"), CachePoint())), HI)), Server())

    assert "cachePoint" not in both.data.decode()
    assert both.notes == ("cache points of 2 messages were left out: this model is not known to take them",)
    assert encode_request(ModelRequest(SONNET, (said,)), Server()).notes == ()


@pytest.mark.parametrize(
    ("parts", "words"),
    [((CachePoint(), Text("a")), "nothing stands before it"), ((Text("a"), CachePoint("30m")), "5m or 1h, not '30m'")],
)
def test_a_cache_point_that_cannot_be_is_refused(parts, words):
    assert words in refusal(Message.user(parts))


@pytest.mark.parametrize(("wished", "said"), [("1h", "1h"), ("5m", None), ("auto", None), ("off", "nothing")])
def test_a_request_says_for_itself_how_long_the_vendor_keeps_it(wished, said):
    (turn,) = sent(HI, server=Server(), cache=wished)["messages"]
    ttls = [block["cachePoint"].get("ttl") for block in turn["content"] if "cachePoint" in block]

    assert ttls == ([] if wished in ("off", "auto") else [said])


def test_a_time_that_bedrock_does_not_know_is_refused():
    assert "parameters.cache" in refusal(cache="30m")


# ---- counting -----------------------------------------------------------------------------


def test_what_is_counted_is_the_prompt_alone():
    request = ModelRequest(SONNET, (HI,), (ADD,), ModelParameters(temperature=0.5, reasoning_effort="none"))
    body = json.loads(encode_count(request, Server(guardrail={"guardrailIdentifier": "g", "guardrailVersion": "1"})))
    whole = json.loads(encode_request(request, Server(cache="off")).data)

    assert body == {"input": {"converse": {name: whole[name] for name in (
        "messages", "toolConfig", "additionalModelRequestFields")}}}  # fmt: skip


# ---- any conversation -----------------------------------------------------------------------

PARTS = st.sampled_from(
    [Text("a"), Text(" "), Refusal("no"), Reasoning("r", "sig"), Reasoning("r"), File(data=PDF, filename="a.pdf"),
     VendorPart("bedrock", {"reasoningContent": {"redactedContent": "YQ=="}}), VendorPart("acme", {"a": 1}),
     Image(data="aGk=")]
)  # fmt: skip
CALLS = st.lists(st.sampled_from([A, B, ToolCall("call|1", "x.y", "oops")]), max_size=3)


@st.composite
def a_message(draw):
    role = draw(st.sampled_from(["user", "assistant", "tool", "system"]))
    if role == "system":
        return Message.system(draw(st.sampled_from(["s", " "])))
    parts = tuple(draw(st.lists(PARTS, max_size=3)))
    if role == "assistant":
        extra = draw(st.sampled_from([{}, {"bedrock": {}}]))
        return Message(Role.ASSISTANT, parts, tuple(draw(CALLS)), extra=extra)
    said = tuple(part for part in parts if not isinstance(part, VendorPart))
    return Message.tool(draw(st.sampled_from([A, B])), said) if role == "tool" else Message(Role.USER, said)


@given(st.lists(a_message(), max_size=8), st.sampled_from([Server(), Server(cache="off")]))
def test_any_conversation_keeps_the_rules_or_is_refused_in_words(messages, server):
    try:
        sent(*messages, server=server)
    except UnsendableError as error:
        assert "no message says anything" in str(error)  # noqa: PT017 (most conversations are not refused)
