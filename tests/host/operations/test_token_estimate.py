"""How many tokens a request is taken for before anybody has counted them."""

import base64
from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    Audio,
    File,
    Image,
    Json,
    Message,
    ModelParameters,
    ModelRequest,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolSpec,
    VendorPart,
    tool,
)
from pluggent_host.operations.token_estimate import ELSEWHERE_TOKENS, IMAGE_TOKENS, LOW_IMAGE_TOKENS, input_tokens
from pluggent_testing.fakes import ScriptedModel, call
from talking import talking

CAT = "https://example.org/cat.png"


def tokens(*content: Any, **more: Any) -> int:
    return input_tokens(ModelRequest("m", (Message.user(content),), **more))


def encoded(size: int) -> str:
    return base64.b64encode(b"x" * size).decode()


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Text("x" * 400), 100),
        (Text("abc"), 0),
        (Text("天" * 400), 300),
        (Text("\ud800" * 4), 3),
        (Refusal("x" * 400), 100),
        (Reasoning("x" * 400, "s" * 40), 110),
        (Image(url=CAT), IMAGE_TOKENS),
        (Image(data=encoded(500_000)), IMAGE_TOKENS),
        (Image(url=CAT, detail="low"), LOW_IMAGE_TOKENS),
        (Audio(encoded(160_000)), 100),
        (File(encoded(60_000), media_type="application/pdf"), 3_000),
        (File(encoded(400), media_type="text/markdown"), 100),
        (File(file_id="f1"), ELSEWHERE_TOKENS),
        (File(url="https://example.org/a.pdf"), ELSEWHERE_TOKENS),
    ],
    ids=lambda value: type(value).__name__ if attrs.has(type(value)) else str(value),
)
def test_every_part_counts_for_what_it_is(part: Any, expected: int) -> None:
    assert tokens(part) == expected


def test_a_part_of_a_vendors_own_counts_by_its_length() -> None:
    value: dict[str, Json] = {"text": "x" * 4_000}

    assert 1_000 <= tokens(VendorPart("openai", value)) <= 1_020


def test_calls_and_their_results_and_definitions_and_the_form_of_the_answer_count() -> None:
    asked = ToolCall("c", "n" * 4, "x" * 396)
    messages = (Message.assistant("", (asked,)), Message.tool(asked, "y" * 400))
    spec = ToolSpec("n" * 4, "d" * 396, {"type": "object"})
    parameters = ModelParameters(output_schema={"type": "object"})

    assert input_tokens(ModelRequest("m", messages)) == 200
    assert tokens(Text(""), tools=(spec,)) == (400 + len('{"type":"object"}')) // 4
    assert tokens(Text(""), parameters=parameters) == len('{"type":"object"}') // 4


@given(st.lists(st.text(), max_size=5))
def test_whatever_is_said_can_be_counted(texts: list[str]) -> None:
    sizes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)

    assert tokens(*map(Text, texts)) == sizes // 4


async def test_a_ledger_is_told_the_estimate_of_the_whole_request() -> None:
    @tool(effects=())
    def add(a: int) -> int:
        """Add."""
        return a

    told: list[int] = []
    ledger = plugin(reserve=lambda event: told.extend([event.input_tokens] if event.model else []), settle=None)
    model = ScriptedModel(call("add", a=1), "ok")
    async with talking(model=model, tools=[add], plugins=[ledger]) as session:
        await session.say(["x" * 400, Image(url=CAT)])

    assert told == [input_tokens(request) for request in model.requests]
    assert all(each > 100 + IMAGE_TOKENS + len("addAdd.") // 4 for each in told)
