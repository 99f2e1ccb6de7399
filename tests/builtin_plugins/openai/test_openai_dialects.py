"""Which server is known by which name, and what that changes in a request."""

import json
import re
from pathlib import Path

import attrs
import pytest
from pluggent_hookspecs import (
    AllowedTools,
    File,
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
)
from pluggent_openai import dialects as compat
from pluggent_openai.chat.request import Writer
from pluggent_openai.dialects import SERVERS, Dialect, dialect_for
from pluggent_openai.settings import Server, Settings
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("openai", "http://x/v1")
ADD, SUB = ToolSpec("add", "Adds."), ToolSpec("sub")
CALL = ToolCall("call_1", "add", "{}")


def body(dialect: Dialect, *messages: Message, tools=(), stream=False, **parameters):
    asked = ModelRequest("m", messages or (Message.user("hi"),), tools, ModelParameters(**parameters))
    return json.loads(Writer(dialect).encode(asked, FAULTS, stream=stream))


def refusal(dialect: Dialect, *messages: Message, tools=(), stream=False, **parameters) -> str:
    with pytest.raises(ProviderError) as caught:
        body(dialect, *messages, tools=tools, stream=stream, **parameters)
    assert caught.value.kind is ProviderErrorKind.BAD_REQUEST
    return str(caught.value)


def like(name: str) -> Dialect:
    return dialect_for("http://x/v1", {"like": name})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://r1.openai.azure.com/openai/v1", "azure"),
        ("https://r1.services.ai.azure.com/openai/v1", "azure"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.together.xyz/v1", "together"),
        ("https://api.fireworks.ai/inference/v1", "fireworks"),
        ("https://api.x.ai/v1", "xai"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://127.0.0.1:1234/v1", "lmstudio"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://api.moonshot.ai/v1", "moonshot"),
        ("https://api.cerebras.ai/v1", "cerebras"),
        ("https://api.z.ai/api/paas/v4", "zai"),
        ("https://router.huggingface.co/v1", "huggingface"),
        ("https://acme-eu1.snowflakecomputing.com/api/v2/cortex/v1", "snowflake"),
        ("https://api.studio.nebius.com/v1", "nebius"),
        ("https://api.tokenfactory.nebius.com/v1", "nebius"),
        ("https://api.sambanova.ai/v1", "sambanova"),
    ],
)
def test_a_server_is_known_by_its_host(url, name):
    assert dialect_for(url) == like(name)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "https://api.openai.com.evil.test/v1", "https://x.test", ""]
)
def test_an_unknown_server_is_asked_for_nothing_that_some_refuse(url):
    dialect = dialect_for(url)

    assert dialect.max_tokens == "max_tokens"
    assert (dialect.user, dialect.developer, dialect.custom_tools, dialect.top_k) == ("user", False, False, False)


def test_openai_itself_is_what_the_fields_default_to():
    assert dialect_for("https://api.openai.com/v1") == Dialect()


@pytest.mark.parametrize("name", SERVERS)
def test_every_entry_of_the_table_can_be_used(name):
    assert body(like(name), tools=(ADD,), stream=True)["stream"] is True


def test_an_entry_can_be_changed_field_by_field():
    changed = dialect_for("https://api.deepseek.com/v1", {"top_k": True, "returns": ["a", "b"]})

    assert changed == attrs.evolve(like("deepseek"), top_k=True, returns=("a", "b"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"top_kk": True}, "'top_kk' is unknown; did you mean 'top_k'?"),
        ({"zzz": True}, "'zzz' is unknown; known are like, max_tokens"),
        ({"like": "absent"}, "there is no server 'absent'; known are openai"),
        ({"top_k": 1}, "top_k: expected true or false, got 1"),
        ({"max_tokens": "tokens"}, "max_tokens: expected one of 'max_completion_tokens', 'max_tokens'"),
        ({"user": None}, "user: expected one of"),
        ({"logprobs": True}, "logprobs: expected one of 'flag', 'count', ''"),
        ({"seed": 1}, "seed: expected a text, got 1"),
        ({"tool_choice": ["all"]}, "'all' is none"),
        ({"returns": [1]}, "returns: expected a list of names"),
        ({"call_id_chars": -1}, "call_id_chars: expected a whole number from 0"),
    ],
)
def test_a_wrong_change_is_refused_by_name(changes, said):
    for make in (Settings, lambda **given: Server(base_url="http://x", **given)):
        with pytest.raises(ValueError, match="compat: ") as caught:
            make(compat=changes)

        assert said in str(caught.value)


def test_settings_keep_what_they_were_given():
    given = {"top_k": True}
    server = Server(base_url="http://x", compat=given)
    given["nonsense"] = True

    assert dict(server.compat) == {"top_k": True}


def test_every_entry_of_the_table_names_its_source():
    text = Path(compat.__file__).read_text("utf-8")
    entries = re.findall(r'((?:    #[^\n]*\n)+)    "([a-z.]+)": \(', text)

    assert [name for _, name in entries] == list(SERVERS)
    assert [name for comment, name in entries if not re.search(r"https://|\.py:", comment)] == []


# ---- what the table changes -------------------------------------------------------------


def test_names_of_fields_are_the_servers():
    mistral = body(like("mistral"), max_output_tokens=5, seed=7)
    groq = body(like("groq"), max_output_tokens=5, seed=7, user="u")

    assert (mistral["max_tokens"], mistral["random_seed"]) == (5, 7)
    assert (groq["max_completion_tokens"], groq["seed"], groq["user"]) == (5, 7, "u")


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("openai", {"top_k": 5}, "top_k"),
        ("mistral", {"user": "u"}, "user"),
        ("groq", {"logprobs": 1}, "logprobs"),
        ("gemini", {"metadata": {"a": "b"}}, "metadata"),
        ("gemini", {"service_tier": "flex"}, "service_tier"),
    ],
)
def test_what_a_server_has_no_word_for_is_refused_with_what_to_set(name, given, field):
    said = refusal(like(name), **given)

    assert f"parameters.{field}: this server is not known to have such a field" in said
    assert f"compat = {{ {field} = " in said


def test_the_hint_of_a_refusal_mends_it():
    hints = {"top_k": True, "user": "user", "logprobs": "flag", "metadata": True, "service_tier": True, "seed": "seed"}
    given = {"top_k": 1, "user": "u", "logprobs": 1, "metadata": {"a": "b"}, "service_tier": "flex", "seed": 1}
    nothing = {"user": "", "logprobs": "", "metadata": False, "service_tier": False, "seed": ""}

    for field, value in hints.items():
        bare = dialect_for("http://x", nothing)
        assert f"compat = {{ {field} = " in refusal(bare, **{field: given[field]})
        assert field in body(dialect_for("http://x", {**nothing, field: value}), **{field: given[field]})


def test_log_probabilities_are_a_number_where_the_server_wants_one():
    assert body(like("together"), logprobs=3)["logprobs"] == 3
    assert body(like("openai"), logprobs=3)["logprobs"] is True


def test_a_top_k_is_sent_to_servers_that_have_one():
    assert body(like("vllm"), top_k=5)["top_k"] == 5


def test_a_developer_is_the_system_where_developers_are_unknown():
    said = Message(Role.DEVELOPER, (Text("a"),))

    assert body(like("deepseek"), said)["messages"] == [{"role": "system", "content": "a"}]
    assert body(like("openai"), said)["messages"] == [{"role": "developer", "content": "a"}]


def test_a_schema_is_told_in_words_where_the_server_knows_none():
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    history = (Message.system("Be brief."), Message(Role.DEVELOPER, (Text("b"),)), Message.user("hi"))

    sent = body(like("deepseek"), *history, output_schema=schema)

    assert sent["response_format"] == {"type": "json_object"}
    assert [entry["role"] for entry in sent["messages"]] == ["system", "system", "system", "user"]
    words = sent["messages"][2]["content"]
    assert "JSON" in words
    assert json.loads(words.partition("\n")[2]) == schema


def test_strict_is_left_out_where_it_is_refused():
    tool = ToolSpec("add", extra={"openai": {"strict": True}})
    sent = body(like("ollama"), tools=(tool,), output_schema={"type": "object", "properties": {}})

    assert "strict" not in sent["tools"][0]["function"]
    assert "strict" not in sent["response_format"]["json_schema"]
    assert body(like("openai"), tools=(tool,))["tools"][0]["function"]["strict"] is True


def test_usage_is_not_asked_for_where_the_options_are_refused():
    assert "stream_options" not in body(like("mistral"), stream=True)
    said = refusal(like("mistral"), stream=True, extra={"stream_options": {"include_obfuscation": False}})
    assert "stream_options" in said


def test_files_by_url_go_to_servers_that_fetch_them():
    file = Message.user(File(url="https://x/a.pdf", filename="a.pdf"))

    (sent,) = body(like("openrouter"), file)["messages"]

    assert sent["content"] == [{"type": "file", "file": {"filename": "a.pdf", "file_data": "https://x/a.pdf"}}]
    assert "file_url = true" in refusal(like("openai"), file)


def test_an_earlier_refusal_is_text_for_servers_without_refusals():
    (sent,) = body(like("vllm"), Message.assistant(Refusal("no")))["messages"]

    assert sent["content"] == "no"


# ---- thinking ---------------------------------------------------------------------------


def test_thinking_goes_back_in_the_field_of_each_server():
    thought = Message.assistant((Reasoning("hm", "openai:sig"), Text("a")))

    assert body(like("deepseek"), thought)["messages"][0]["reasoning_content"] == "hm"
    assert body(like("groq"), thought)["messages"][0]["reasoning"] == "hm"
    assert body(like("openai"), thought)["messages"] == [{"role": "assistant", "content": "a"}]
    assert body(like("mistral"), thought)["messages"][0]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "sig"},
        {"type": "text", "text": "a"},
    ]


def test_the_signature_of_another_vendor_is_not_sent():
    (sent,) = body(like("mistral"), Message.assistant(Reasoning("hm", "anthropic-sig")))["messages"]

    assert sent["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]


def test_a_server_that_insists_gets_the_field_of_thinking_beside_every_call():
    calling, talking = Message.assistant((), (CALL,)), Message.assistant("a")

    sent = body(like("deepseek"), calling, Message.tool(CALL, "1"), talking)["messages"]

    assert sent[0]["reasoning_content"] == ""
    assert "reasoning_content" not in sent[2]


def test_details_of_thinking_go_back_to_the_server_that_gave_them_and_to_no_other():
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    thought = Message(
        Role.ASSISTANT,
        (Reasoning("hm"), Text("a")),
        extra={"openai": {"reasoning_details": details, "annotations": [1]}},
    )

    assert body(like("openrouter"), thought)["messages"] == [
        {"role": "assistant", "content": "a", "reasoning_details": details}
    ]
    assert body(like("groq"), thought)["messages"] == [{"role": "assistant", "content": "a", "reasoning": "hm"}]


# ---- tools ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "choice", "sent", "offered"),
    [
        ("vllm", AllowedTools(("add",)), None, ["add"]),
        ("vllm", AllowedTools(("add",), required=True), {"type": "function", "function": {"name": "add"}}, ["add"]),
        ("vllm", AllowedTools(("add", "sub"), required=True), "required", ["add", "sub"]),
        ("vllm", AllowedTools(()), None, None),
        ("vllm", "none", "none", ["add", "sub"]),
        ("ollama", "none", None, None),
        ("ollama", AllowedTools(("sub",)), None, ["sub"]),
        ("moonshot", "add", {"type": "function", "function": {"name": "add"}}, ["add", "sub"]),
        ("moonshot", AllowedTools(("add",), required=True), {"type": "function", "function": {"name": "add"}}, ["add"]),
    ],
)
def test_a_choice_is_made_with_the_forms_that_the_server_has(name, choice, sent, offered):
    found = body(like(name), tools=(ADD, SUB), tool_choice=choice)

    assert found.get("tool_choice") == sent
    assert ([tool["function"]["name"] for tool in found["tools"]] if "tools" in found else None) == offered


def test_one_tool_is_required_by_offering_no_other_where_names_are_not_known():
    found = body(dialect_for("http://x", {"tool_choice": ["required"]}), tools=(ADD, SUB), tool_choice="sub")

    assert found["tool_choice"] == "required"
    assert [tool["function"]["name"] for tool in found["tools"]] == ["sub"]


@pytest.mark.parametrize("choice", ["required", "add", AllowedTools(("add", "sub"), required=True)])
def test_a_choice_that_cannot_be_made_is_refused(choice):
    assert "tool_choice = ['required']" in refusal(like("ollama"), tools=(ADD, SUB), tool_choice=choice)


def test_side_by_side_cannot_be_asked_for_where_there_is_no_such_field():
    assert "parallel_tool_calls = true" in refusal(like("together"), tools=(ADD,), parallel_tool_calls=False)


def test_ids_of_calls_have_the_length_that_the_server_wants_and_still_belong_together():
    fits = ToolCall("abcDEF123", "add", "{}")
    history = (Message.assistant((), (CALL, fits)), Message.tool(CALL, "1"), Message.tool(fits, "2"))

    sent = body(like("mistral"), *history)["messages"]

    ids = [call["id"] for call in sent[0]["tool_calls"]]
    assert ids == [sent[1]["tool_call_id"], sent[2]["tool_call_id"]]
    assert ids[1] == "abcDEF123"
    assert re.fullmatch("[A-Za-z0-9]{9}", ids[0])


def test_one_message_is_encoded_for_each_dialect_and_never_taken_for_another():
    said = Message(
        Role.ASSISTANT,
        (Reasoning("hm"), Refusal("no")),
        (
            CALL,
            ToolCall("call_2", "shell", '{"input":"ls"}', {"openai": {"type": "custom", "extra_content": {"a": 1}}}),
        ),
        extra={"openai": {"extra_content": {"a": 1}, "reasoning_details": [1], "audio": {"id": "a"}}},
    )
    fresh = [Message(said.role, said.content, said.tool_calls, extra=said.extra) for _ in SERVERS]

    shared = [body(like(name), said) for name in SERVERS]

    assert shared == [body(like(name), message) for name, message in zip(SERVERS, fresh, strict=True)]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("message", {"reasoning": "x"}), ("message", {"reasoning_required": True}), ("message", {"developer": False}),
        ("message", {"refusals": False}), ("message", {"file_url": True}), ("message", {"returns": ()}),
        ("message", {"call_id_chars": 9}), ("message", {"custom_tools": False}),
        ("tool", {"custom_tools": False}), ("tool", {"strict": False}),
    ],
)  # fmt: skip
def test_the_place_in_the_memo_depends_on_what_encoding_depends_on(kind, changes):
    assert getattr(Dialect(**changes), f"{kind}_key") != getattr(Dialect(), f"{kind}_key")
