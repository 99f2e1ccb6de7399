"""How many tokens a request is taken for before anybody has counted them."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from typing import Any

import attrs
import pytest
from fake_plugins import plugin
from hypothesis import given, strategies as st
from pluggent_hookspecs import (
    Audio,
    Delta,
    File,
    Image,
    Json,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    Reasoning,
    ReasoningDelta,
    Refusal,
    Reply,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
    Usage,
    UsageDelta,
    VendorPart,
    tool,
)
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_host.operations.token_estimate import (
    ELSEWHERE_TOKENS,
    IMAGE_TOKENS,
    LOW_IMAGE_TOKENS,
    input_tokens,
    used_so_far,
)
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


EARLY = UsageDelta(Usage(input=100, output=1))


@pytest.mark.parametrize("early", [(), (EARLY,)], ids=["no usage", "usage at the start"])
@pytest.mark.parametrize("delta", [TextDelta("x" * 4_000), ToolCallDelta(0, "c1", "add", "x" * 4_000)], ids=type)
@pytest.mark.parametrize("ending", [ProviderError(ProviderErrorKind.STREAM_BROKEN, "cut"), asyncio.CancelledError()])
async def test_what_had_come_of_a_stream_that_ended_early_counts(early: Any, delta: Any, ending: BaseException) -> None:
    class Breaking(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[tuple[Delta, ...]]:
            yield (*early, delta)
            raise ending

    async with talking(model=Breaking()) as session:
        with pytest.raises(ProviderError):  # noqa: PT012 (the stream ends in it)
            async with session.stream("x" * 400) as events:
                async for _ in events:
                    pass

        assert (session.usage.input, session.usage.estimated) == (100, True)
        assert 1_000 <= (session.usage.output or 0) <= 1_001


def test_what_was_reported_counts_as_reported_and_what_came_after_it_by_its_length() -> None:
    reply = Reply()
    reply.add((TextDelta("x" * 400), ToolCallDelta(0, "c1", "add", "x" * 400), UsageDelta(Usage(input=9, output=7))))
    request = ModelRequest("m", (Message.user("x" * 400),))

    assert used_so_far(request, reply) == Usage(input=9, output=7)
    reply.add((ToolCallDelta(0, "", "", "x" * 400), TextDelta("x" * 40), ReasoningDelta("x" * 40)))
    assert used_so_far(request, reply) == Usage(input=9, output=7 + 120, estimated=True)
    reply.add((UsageDelta(Usage(output=8)), TextDelta("x" * 40)))
    assert used_so_far(request, reply) == Usage(input=100, output=8 + 10, estimated=True)
    reply.add((UsageDelta(Usage(input=9)),))
    assert used_so_far(request, reply) == Usage(input=9, output=330, estimated=True)
