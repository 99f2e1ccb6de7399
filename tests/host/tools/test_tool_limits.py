"""Limits of single tools, and the warning that a model gets before a turn is ended."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Deny, ToolContext, Usage, hookimpl, tool
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.models import FinishReason, ModelResponse
from pluggent_host import Limits, ToolLimits, Why
from pluggent_host.turns.next_step import LAST_ROUND, NEARLY_SPENT
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Said
from talking import assert_whole, hosting, talking


@tool(effects=())
def search(text: str) -> str:
    """Search."""
    return f"found {text}"


def few(calls: int, name: str = "search") -> Limits:
    return Limits(per_tool={name: ToolLimits(calls=calls)})


def results(session: Any) -> list[str]:
    return [message.text for message in session.history if message.tool_call_id]


@pytest.mark.parametrize("name", ["search", "app:tools:tool/search"])
async def test_calls_above_the_limit_are_refused_and_the_last_one_says_so(name: str):
    """Parallel calls count in their order."""
    replies = call("search", "1", text="a"), (call("search", "2", text="b"), call("search", "3", text="c"))
    async with talking(*replies, tools=[search], limits=few(2, name)) as session:
        result = await session.say("go")

        assert result.why is Why.COMPLETED
        assert results(session) == [
            "found a",
            "found b\n\n(That was the last call of 'search' that this turn allows.)",
            "Error: the calls of 'search' that one turn allows (2) are used up. Go on without it.",
        ]
        assert_whole(session.history)


async def test_a_denied_call_does_not_count():
    class Once:
        denied = False

        @hookimpl
        def decide_tool_call(self, event: Any) -> Deny | None:
            denied, self.denied = self.denied, True
            return None if denied else Deny("not this one")

    replies = call("search", "1", text="a"), call("search", "2", text="b"), "ok", call("search", "3", text="c")
    async with talking(*replies, tools=[search], limits=few(1), plugins=[Once()]) as session:
        await session.say("go")

        assert [text.split("\n")[0] for text in results(session)] == ["Denied: not this one", "found b"]
        await session.say("again")
        assert results(session)[2].startswith("found c"), "every turn begins anew"


async def test_calls_below_a_tool_count_too():
    @tool(effects=())
    async def twice(context: ToolContext) -> str:
        """Search twice."""
        first = await context.call_tool("search", {"text": "a"})
        second = await context.call_tool("search", {"text": "b"})
        return f"{first.for_model} {second.for_model}"

    async with talking(call("twice"), tools=[search, twice], limits=few(1)) as session:
        await session.say("go")

        assert "used up" in results(session)[0]


async def test_time_and_size_of_one_tool_can_be_set():
    @tool(effects=(), idempotent=True)
    async def slow(context: ToolContext) -> str:
        """Say how long there is."""
        return f"{context.remaining_s():.0f}"

    limits = Limits(per_tool={"slow": ToolLimits(timeout_s=7.4), "search": ToolLimits(result_bytes=256)})
    async with talking((call("slow"), call("search", text="x" * 1000)), tools=[slow, search], limits=limits) as session:
        await session.say("go")

        assert results(session)[0] == "7"
        assert len(results(session)[1].encode()) <= 256


async def test_a_name_that_no_tool_has_is_an_error_where_it_is_given():
    async with hosting(tools=[search]) as host:
        with pytest.raises(ConfigError, match="'serch' is not a tool of this session; did you mean 'search'"):
            await host.session(limits=few(1, "serch"))
        session = await host.session()
        with pytest.raises(ConfigError, match="serch"):
            await session.say("x", limits=few(1, "serch"))
        await session.say("x", limits=few(1, "other-plugin:tool/serch"))


async def test_the_model_reads_a_warning_with_the_last_request():
    model = ScriptedModel(call("search", "1", text="a"), call("search", "2", text="b"), "my answer")
    async with talking(model=model, tools=[search], limits=Limits(tool_rounds=2)) as session:
        result = await session.say("go")

    assert result.text == "my answer"
    assert [request.messages[-1].text for request in model.requests] == ["go", "found a", LAST_ROUND]


async def test_the_model_reads_that_the_tokens_are_nearly_spent_in_every_request_from_then_on():
    def spending(number: int) -> ModelResponse:
        return ModelResponse(
            Message.assistant((), (call("search", str(number), text=str(number)),)), usage=Usage(input=30)
        )

    model = ScriptedModel(*(spending(number) for number in range(4)), "my answer")
    async with talking(model=model, tools=[search], limits=Limits(tokens=130)) as session:
        result = await session.say("go")

    last = [request.messages[-1].text for request in model.requests]
    warning = NEARLY_SPENT.format("token budget")
    assert result.text == "my answer"
    assert last == ["go", "found 0", "found 1", "found 2", warning]
    assert [message.text for message in model.requests[-1].messages].count(warning) == 1


async def test_a_warning_is_no_part_of_the_conversation_and_stays_on_record(tmp_path: Path):
    model = ScriptedModel(call("search", "1", text="a"), "my answer", "another", "and one more")
    limits = Limits(tool_rounds=1)
    async with hosting(model=model, tools=[search], limits=limits, state_dir=tmp_path) as host:
        async with await host.session("s") as session:
            await session.say("go")
            await session.say("go on")
            told = [(entry.message.text, entry.by) for entry in session.records() if isinstance(entry, Said)]
        async with await host.session("s") as session:
            await session.say("in another process")
            kept = [message.text for message in session.history]
            exchange = await session.undo()

    assert model.requests[1].messages[-1].text == LAST_ROUND
    assert all(LAST_ROUND not in [message.text for message in request.messages] for request in model.requests[2:])
    assert kept == ["go", "", "found a", "my answer", "go on", "another", "in another process", "and one more"]
    assert (LAST_ROUND, "host's warning") in told
    assert exchange is not None
    assert exchange.message.text == "in another process"


async def test_a_paused_reply_is_continued():
    paused = ModelResponse(Message.assistant("first half,"), FinishReason.PAUSED, Usage(input=1))
    model = ScriptedModel(paused, " second half")
    async with talking(model=model) as session:
        result = await session.say("go")

        assert [message.text for message in session.history] == ["go", "first half,", " second half"]
    assert (result.why, result.text) == (Why.COMPLETED, "first half, second half")
    assert [message.text for message in model.requests[1].messages] == ["go", "first half,"]
