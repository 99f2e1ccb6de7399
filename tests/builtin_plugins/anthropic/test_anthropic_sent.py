"""The README's tables of what is sent: every row has its case here, every case its row."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic_server import FAULTS, call, request, sent, text
from pluggent_anthropic.request import encode_request
from pluggent_anthropic.settings import Server, Settings
from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Message,
    ModelParameters,
    ProviderError,
    ProviderErrorKind as Kind,
    Reasoning,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
)
from workspace import each_row, names_in, same, tables

README = Path(__file__).parents[3] / "builtin_plugins" / "anthropic" / "README.md"
TABLES = tables(README)
SENT, BLOCKS = TABLES["field from"], TABLES["content block from"]
REFUSED = TABLES["of the contract what happens"]
ADD = ToolSpec("add", "Adds", {"properties": {"a": {"type": "integer"}}})
OURS = {"anthropic": {"model": "m"}}


def body(*messages: Message, tools: Any = (), settings: Any = None, model: str = "opus-5", **parameters: Any) -> Any:
    asked = request(*messages, model=model, tools=tools, parameters=ModelParameters(**parameters))
    return sent(asked, **(settings or {}))


def user(*parts: Any) -> list[Any]:
    return body(Message.user(parts))["messages"][0]["content"]


def replied(*parts: Any, **more: Any) -> list[Any]:
    said = Message(Role.ASSISTANT, parts, **{"extra": OURS, **more})
    return body(Message.user("q"), said, Message.user("r"))["messages"][1]["content"]


def answered(*parts: Any, **more: Any) -> Any:
    made = ToolCall("toolu_1", "add")
    said = (Message.user("q"), Message.assistant((), (made,)), Message.tool(made, parts, **more))
    return body(*said)["messages"][2]["content"][0]


def refusal(*messages: Message, **parameters: Any) -> str:
    with pytest.raises(ProviderError) as caught:
        body(*messages, **parameters)
    assert caught.value.kind is Kind.BAD_REQUEST
    return str(caught.value)


def betas(**more: Any) -> tuple[str, ...]:
    asked = request(parameters=ModelParameters(extra=more))
    return encode_request(asked, Server(base_url="http://x"), FAULTS, stream=False).betas


def tool(**extra: Any) -> Any:
    return body(tools=[ToolSpec("add", "Adds", extra={"anthropic": extra})])["tools"][0]


def data(said: str) -> str:
    return base64.b64encode(said.encode()).decode()


def check_thinking() -> None:
    assert body(reasoning_effort="high")["thinking"] == {"type": "adaptive"}
    assert body(reasoning_effort="none")["thinking"] == {"type": "disabled"}
    old = body(reasoning_effort="medium", model="opus-4-1")
    assert old["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert "output_config" not in old


def check_format() -> None:
    found = body(output_schema={"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}})
    inner = {"a": {"type": "integer", "description": '{"minimum":1}'}}
    schema = {"type": "object", "properties": inner, "additionalProperties": False}
    assert found["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


def check_tool_choice() -> None:
    chosen = {choice: body(tools=[ADD], tool_choice=choice).get("tool_choice") for choice in
              ("auto", "required", "none", "add")}  # fmt: skip
    assert chosen == {
        "auto": None, "required": {"type": "any"}, "none": {"type": "none"}, "add": {"type": "tool", "name": "add"},
    }  # fmt: skip


def check_marks() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert body(tools=[ADD], settings={"cache": "1h"})["tools"][0]["cache_control"] == mark
    marked = Message(Role.USER, (Text("a"),), extra={"anthropic": {"cache_control": mark}})
    assert body(marked)["messages"][0]["content"] == [text("a", cache_control=mark)]
    assert tool(cache_control=mark)["cache_control"] == mark
    assert user(VendorPart("anthropic", text("a", cache_control=mark))) == [text("a", cache_control=mark)]


def check_fields_of_messages() -> None:
    own = {"anthropic": {"own": [1]}}
    asked = Message(Role.USER, (Text("a"),), extra=own)
    assert body(asked)["messages"][0] == {"role": "user", "own": [1], "content": [text("a")]}
    nested = Message(Role.USER, (Text("a"),), extra={"anthropic": {"own": {"content": ["x"]}}})
    assert body(nested, Message.user("b"))["messages"] == [
        {"role": "user", "own": {"content": ["x"]}, "content": [text("a"), text("b")]}
    ]
    result = Message(Role.TOOL, (Text("r"),), tool_call_id="toolu_1", extra=own)
    made = Message.assistant((), (ToolCall("toolu_1", "add"),))
    assert body(Message.user("q"), made, result)["messages"][2]["content"][0]["own"] == [1]


def check_roles() -> None:
    said = (Message.user("q"), Message.assistant("a"), Message.user("r"), Message.system("s"))
    assert [one["role"] for one in body(*said)["messages"]] == ["user", "assistant", "user", "system"]
    assert answered(Text("x"))["type"] == "tool_result"
    assert len(body(*said, model="opus-4-1")["messages"][2]["content"]) == 2


def check_server_tools() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    assert body(settings={"server_tools": [search]})["tools"] == [search]
    assert body(settings={"server_tools": [search]}, tools=[ADD])["tools"][1:] == [search]


def check_max_tokens() -> None:
    assert body(max_output_tokens=7)["max_tokens"] == 7
    assert body(settings={"max_tokens": 99})["max_tokens"] == 99
    assert (body()["max_tokens"], body(model="x-3-haiku-2024")["max_tokens"]) == (32_000, 4_096)


def check_any_extra() -> None:
    extra = {"container": {"id": "c"}, "context_management": {"edits": []},
             "inference_geo": "eu", "speed": "fast", "brand_new": 1}  # fmt: skip
    found = body(extra=extra)
    assert {name: found[name] for name in extra} == extra


def check_declared() -> None:
    (found,) = body(tools=[ADD])["tools"]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert found == {"name": "add", "description": "Adds", "input_schema": schema}


SENT_CASES: dict[str, Callable[[], None]] = {
    "`model`": same(lambda: body()["model"], "opus-5"),
    "`max_tokens`": check_max_tokens,
    "`system`": same(
        lambda: body(Message.system("a"), Message(Role.DEVELOPER, (Text("b"),)), Message.user("q"))["system"],
        [text("a"), text("b")],
    ),
    "`messages[].role`": check_roles,
    "`stop_sequences`": same(lambda: body(stop=("x", "y"))["stop_sequences"], ["x", "y"]),
    "`temperature`": same(lambda: body(temperature=0.5)["temperature"], 0.5),
    "`top_p`": same(lambda: body(top_p=0.5)["top_p"], 0.5),
    "`top_k`": same(lambda: body(top_k=5)["top_k"], 5),
    "`service_tier`": same(lambda: body(service_tier="standard_only")["service_tier"], "standard_only"),
    "`metadata.user_id`": same(lambda: body(user="u1")["metadata"], {"user_id": "u1"}),
    "`thinking`": check_thinking,
    "`output_config.effort`": same(lambda: body(reasoning_effort="xhigh")["output_config"], {"effort": "xhigh"}),
    "`output_config.format`": check_format,
    "`tool_choice`": check_tool_choice,
    "`tool_choice.disable_parallel_tool_use`": same(
        lambda: body(tools=[ADD], parallel_tool_calls=False)["tool_choice"],
        {"type": "auto", "disable_parallel_tool_use": True},
    ),
    "`tools[].name`, `description`, `input_schema`": check_declared,
    "`tools[].strict` and other fields of a declaration": same(
        lambda: (tool(strict=True)["strict"], tool(defer_loading=True)["defer_loading"]), (True, True)
    ),
    "`tools[]` of the vendor": check_server_tools,
    "`stream`": same(lambda: (sent(request(), stream=True).get("stream"), sent(request()).get("stream")), (True, None)),
    "`cache_control` on blocks": check_marks,
    "`cache_control` at the top": same(
        lambda: body(extra={"cache_control": {"type": "ephemeral"}})["cache_control"], {"type": "ephemeral"}
    ),
    "`messages[]` any other field": check_fields_of_messages,
    "`container`, `context_management`, `inference_geo`, `speed` and any other": check_any_extra,
    "header `anthropic-beta`": same(
        lambda: (betas(betas=["x-1"]), betas(), Settings(betas="y").betas), (("x-1",), (), ("y",))
    ),
    "header `anthropic-version`": same(lambda: Settings().version, "2023-06-01"),
}

CITED = [{"type": "char_location"}]
KINDS = ("search_result", "container_upload", "new")


def check_result() -> None:
    assert answered(Text("r"))["content"] == "r"
    found = answered(Text("r"), Image(data="x"), File(file_id="f"))["content"]
    assert [one["type"] for one in found] == ["text", "image", "document"]
    assert "content" not in answered(Text(" "))


BLOCK_CASES: dict[str, Callable[[], None]] = {
    "`text`": same(
        lambda: [*user(Text("a"), Audio("x", transcript="said")), *replied(Refusal("no"))],
        [text("a"), text("said"), text("no")],
    ),
    "`text` with `citations`": same(
        lambda: replied(Text("ab"), extra={"anthropic": {"blocks": [1, {"text": 1, "citations": CITED}]}}),
        [text("a"), text("b", citations=CITED)],
    ),
    "`image` base64": same(
        lambda: user(Image(data="x", media_type="image/webp"), Image(url="data:image/gif;base64,y")),
        [{"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
         for kind, data in (("image/webp", "x"), ("image/gif", "y"))],
    ),
    "`image` url": same(
        lambda: user(Image(url="https://x/y")), [{"type": "image", "source": {"type": "url", "url": "https://x/y"}}]
    ),
    "`image` file": same(
        lambda: user(Image(file_id="f")), [{"type": "image", "source": {"type": "file", "file_id": "f"}}]
    ),
    "`document` base64": same(
        lambda: user(File(data="x", media_type="application/pdf"))[0]["source"],
        {"type": "base64", "media_type": "application/pdf", "data": "x"},
    ),
    "`document` text": same(
        lambda: user(File(data=data("a: 1 \N{SNOWMAN}"), media_type="text/yaml; charset=utf-8"))[0]["source"],
        {"type": "text", "media_type": "text/plain", "data": "a: 1 \N{SNOWMAN}"},
    ),
    "`document` url": same(
        lambda: user(File(url="https://x/y.pdf")), [{"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}}]
    ),
    "`document` file": same(
        lambda: user(File(file_id="f")), [{"type": "document", "source": {"type": "file", "file_id": "f"}}]
    ),
    "`document` title": same(lambda: user(File(data="x", filename="a.pdf"))[0]["title"], "a.pdf"),
    "`tool_use`": same(
        lambda: replied(tool_calls=(ToolCall("t", "add", '{"a":1}', {"anthropic": {"caller": {"type": "direct"}}}),)),
        [call(id="t", arguments={"a": 1}, caller={"type": "direct"})],
    ),
    "`tool_result`": check_result,
    "`tool_result` is_error": same(
        lambda: (answered(Text("r"), is_error=True)["is_error"], answered(Text("r")).get("is_error")), (True, None)
    ),
    "`thinking`": same(
        lambda: replied(Reasoning("t", "s"), Text("a"))[0], {"type": "thinking", "thinking": "t", "signature": "s"}
    ),
    "`redacted_thinking`, `server_tool_use`, results of the vendor's tools": same(
        lambda: replied(
            VendorPart("anthropic", {"type": "redacted_thinking", "data": "x"}),
            VendorPart("anthropic", {"type": "server_tool_use", "id": "s", "input": {}}),
            VendorPart("anthropic", {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
        ),
        [
            {"type": "redacted_thinking", "data": "x"},
            {"type": "server_tool_use", "id": "s", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        ],
    ),
    "`search_result`, `container_upload` and any other": same(
        lambda: user(*(VendorPart("anthropic", {"type": kind}) for kind in KINDS)),
        [{"type": kind} for kind in KINDS],
    ),
}  # fmt: skip


def check_no_word() -> None:
    for name, value in (("seed", 1), ("presence_penalty", 0.5), ("frequency_penalty", 0.5), ("logprobs", 0)):
        assert name in refusal(**{name: value})


REFUSED_CASES: dict[str, Callable[[], None]] = {
    "`seed`, `presence_penalty`, `frequency_penalty`, `logprobs`": check_no_word,
    "`background`": same(lambda: "parameters.background" in refusal(background=True), True),
    "`metadata`": same(lambda: "parameters.metadata" in refusal(metadata={"a": "b"}), True),
    "`Audio` without a transcript": same(lambda: "sound" in refusal(Message.user(Audio("x"))), True),
    "`Image.detail`": same(
        lambda: user(Image(url="https://x/y", detail="low"))[0]["source"], {"type": "url", "url": "https://x/y"}
    ),
    "`VendorPart` of another vendor": same(lambda: user(VendorPart("openai", {"type": "x"}), Text("a")), [text("a")]),
    "images and sound in a reply": same(
        lambda: replied(Image(data="x"), Audio("y")), [text("(image not shown)"), text("(audio not shown)")]
    ),
}


@each_row(SENT, SENT_CASES)
def test_a_field_is_sent_as_the_table_says(row):
    assert row in SENT
    SENT_CASES[row]()


@each_row(BLOCKS, BLOCK_CASES)
def test_a_block_is_sent_as_the_table_says(row):
    assert row in BLOCKS
    BLOCK_CASES[row]()


@each_row(REFUSED, REFUSED_CASES)
def test_what_has_no_word_is_treated_as_the_table_says(row):
    assert row in REFUSED
    REFUSED_CASES[row]()


def test_the_tables_name_every_parameter_of_the_contract():
    written = README.read_text("utf-8")

    assert {name for name in names_in(ModelParameters) if f"`{name}" not in written} == set()


def test_the_table_of_settings_is_complete():
    shown = {name.strip("` ") for row in TABLES["setting default"] for name in row.split(",")}

    assert shown == names_in(Settings)
