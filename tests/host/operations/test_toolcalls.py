"""One tool call: what reaches the tool, what comes back, and every way in which it can fail."""

import asyncio
import contextlib
import json
from typing import Any, cast

import pytest
from places import Stuck
from pluggent_hookspecs import (
    Allow,
    Deny,
    Message,
    ModelResponse,
    ToolContext,
    ToolError,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_hookspecs.messages import Image, Text, ToolCall
from pluggent_hookspecs.observations import ToolProgressed
from pluggent_host import Limits
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.transcript.entries import Settled
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, call
from talking import WAIT_S, assert_whole, results, talking


async def outcome(*calls, tools, **options):
    """Run one batch and return the texts of its results; the history is whole."""
    async with talking(tuple(calls), "x", tools=tools, **options) as session:
        result = await asyncio.wait_for(session.say("go"), WAIT_S)

        assert result.why is Why.COMPLETED
        assert_whole(session.history)
        return results(session.history)


def returning(value, **marks):
    @tool(name="give", effects=(), **marks)
    async def give() -> object:
        """Give."""
        return value

    return give


@tool(effects=())
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


# ---- what the model may write -----------------------------------------------------------


async def test_an_unknown_tool_is_named_with_the_nearest_one():
    (text,) = await outcome(call("ad", a=1), tools=[add])

    assert text == "Error: there is no tool 'ad'; did you mean 'add'? Offered are: add."


@pytest.mark.parametrize("name", ["", "a" * 10_000, "add\n", "ad\ud800d", "__class__"])
async def test_any_name_can_be_unknown(name):
    (text,) = await outcome(ToolCall("c", name, "{}"), tools=[add])

    assert text.startswith("Error: there is no tool ")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"a": 1', "not valid JSON"),
        ("[1]", "expected a JSON object, got an array"),
        ("1", "expected a JSON object, got a number"),
        ('"{}"', "expected a JSON object, got a string"),
        ("null", "expected a JSON object, got null"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": 1e999}', "number out of range"),
        ('{"a": "\\ud800"}', "lone surrogate"),
        ("[" * 5_000, "nested more than"),
        ('{"a": 1}x', "not valid JSON"),
    ],
)
async def test_arguments_that_are_no_json_object_are_explained(arguments, problem):
    (text,) = await outcome(ToolCall("c", "add", arguments), tools=[add])

    assert text.startswith("Error: invalid arguments for 'add': ")
    assert problem in text


async def test_every_problem_of_the_arguments_is_named_with_its_path():
    (text,) = await outcome(ToolCall("c", "add", '{"b": "x", "c": 1}'), tools=[add])

    assert all(path in text for path in ("$.a", "$.b", "$.c"))


async def test_empty_arguments_are_an_empty_object():
    assert await outcome(ToolCall("c", "give", ""), tools=[returning("given")]) == ["given"]


async def test_defaults_are_filled_in_before_policies_look():
    seen = []

    class Watch:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments_json)

    await outcome(call("add", a=1), tools=[add], plugins=[Watch()])

    assert seen == [b'{"a":1,"b":1}']


async def test_of_a_key_written_twice_the_last_wins_for_policies_and_tool_alike():
    seen = []

    class Watch:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append(event.arguments["a"])

    assert await outcome(ToolCall("c", "add", '{"a": 1, "a": 5}'), tools=[add], plugins=[Watch()]) == ["6"]
    assert seen == [5]


async def test_big_integers_arrive_whole():
    assert await outcome(call("add", a=2**100, b=1), tools=[add]) == [str(2**100 + 1)]


# ---- what a tool may return -------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [("t", "t"), (None, ""), ({"b": 1, "a": [None]}, '{"b":1,"a":[null]}'), (22.5, "22.5"), (True, "true"), ("", "")],
)
async def test_plain_values_reach_the_model_as_text(value, text):
    assert await outcome(call("give"), tools=[returning(value)]) == [text]


async def test_parts_reach_the_model_as_they_are():
    parts = (Text("look"), Image(data="aGk="))
    async with talking(call("give"), "x", tools=[returning(ToolOutput(parts))]) as session:
        await session.say("go")

        assert session.history[2].content == parts


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value", [b"\xff" * 10, object(), {1, object()}, float("nan"), LOOP, ToolOutput(cast("Any", 12)), lambda: 1]
)
async def test_values_that_cannot_be_said_are_errors_for_the_model(value):
    async with talking(call("give"), "x", tools=[returning(value)]) as session:
        await session.say("go")

        assert session.history[2].is_error
        assert_whole(session.history)


async def test_twenty_megabytes_are_cut_and_kept_whole_in_the_transcript():
    async with talking(call("give"), "x", tools=[returning("天" * 7_000_000)]) as session:
        await session.say("go")

        (text,) = results(session.history)
        (entry,) = [entry for entry in session.records() if isinstance(entry, Settled)]
        assert len(text.encode()) <= Limits().result_bytes
        assert "bytes shown" in text
        assert len(entry.whole or "") == 7_000_000


async def test_a_result_as_long_as_the_limit_is_not_cut():
    assert await outcome(call("give"), tools=[returning("x" * 100)], limits=Limits(result_bytes=100)) == ["x" * 100]


# ---- how a tool may fail ----------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("oops"), SystemExit(3), GeneratorExit("oops"), asyncio.CancelledError("oops"), TimeoutError()]
)
@pytest.mark.parametrize("blocking", [False, True])
async def test_whatever_a_tool_raises_is_a_result_for_the_model(error, blocking):
    @tool(name="fail", effects=())
    def in_a_thread() -> str:
        """Fail."""
        raise error

    @tool(name="fail", effects=())
    async def in_the_loop() -> str:
        """Fail."""
        raise error

    (text,) = await outcome(call("fail"), tools=[in_a_thread if blocking else in_the_loop])

    assert text.startswith("Error: 'fail' ")


async def test_the_words_of_a_tool_error_are_for_the_model():
    @tool(effects=())
    def fail() -> str:
        """Fail."""
        raise ToolError("the shop is closed")

    assert await outcome(call("fail"), tools=[fail]) == ["Error: the shop is closed"]


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_call_that_hangs_is_given_up_at_its_deadline(swallows):
    release = asyncio.Event()

    @tool(effects=(), timeout_s=0.02)
    async def hang() -> str:
        """Hang."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise
        return ""

    try:
        (text,) = await outcome(call("hang"), tools=[hang], config=HostSettings(timeouts=Timeouts(close_s=0.01)))
    finally:
        release.set()

    assert text == "Error: 'hang' did not answer within 0.02 s. It may have taken effect."


@pytest.mark.parametrize("effects", [("shell",), None])
async def test_a_blocking_tool_that_hangs_asks_until_its_thread_ends(effects):
    asked = []

    async def approver(event):
        asked.append(event.asks)
        return False

    stuck, marks = Stuck(), {} if effects is None else {"effects": effects}
    with stuck.freed():
        async with talking(
            call("stuck"), call("stuck", n=1), "x", tools=[stuck.tool(timeout_s=0.02, **marks)], approver=approver
        ) as session:
            await session.say("go")

            assert results(session.history)[0].startswith("Error: 'stuck' did not answer within 0.02 s.")
            assert results(session.history)[1].startswith("Denied: ")
            assert "still running" in str(asked)


async def test_a_tool_learns_that_nobody_waits_for_it_any_more():
    stuck = Stuck()
    with stuck.freed():
        await outcome(call("stuck"), tools=[stuck.tool(timeout_s=0.02, effects=())])

        assert stuck.contexts[0].cancelled


async def test_a_finished_call_lends_nothing_any_more():
    contexts = []

    @tool(effects=())
    async def keep(context: ToolContext) -> str:
        """Keep the context."""
        contexts.append(context)
        return ""

    recorder = Recorder()
    async with talking(call("keep"), "x", tools=[keep, add], plugins=[recorder]) as session:
        await session.say("go")
        (context,) = contexts

        assert context.cancelled
        context.progress(1)
        with pytest.raises(Exception, match="limit"):
            await context.call_tool("add", {"a": 1})
        await asyncio.sleep(0)
        assert recorder.of(ToolProgressed) == []


async def test_a_call_that_timed_out_is_unsure_even_if_its_result_is_withheld():
    asked = []

    async def approver(event):
        asked.append(event.asks)
        return False

    class Withhold:
        @hookimpl
        def decide_tool_result(self, event):
            return Deny("no results today")

    @tool(effects=("shell",), timeout_s=0.01)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    async with talking(
        call("hang"), call("hang"), "x", tools=[hang], plugins=[Withhold()], approver=approver
    ) as session:
        await session.say("go")

        assert len(asked) == 1


async def test_an_allowing_policy_does_not_lift_the_doubt_about_an_interrupted_call():
    asked, runs = [], []

    async def approver(event):
        asked.append(event.asks)
        return False

    class Permissive:
        @hookimpl
        def decide_tool_call(self, event):
            return Allow("anything goes")

    @tool(effects=("shell",), timeout_s=0.01)
    async def hang() -> str:
        """Hang."""
        runs.append(1)
        await asyncio.Event().wait()
        return ""

    async with talking(
        call("hang"), call("hang"), "x", tools=[hang], plugins=[Permissive()], approver=approver
    ) as session:
        await session.say("go")

        assert (len(runs), len(asked)) == (1, 1)


# ---- contexts ---------------------------------------------------------------------------


async def test_a_tool_is_told_where_it_is_and_given_its_key(tmp_path):
    @tool(effects=())
    async def where(context: ToolContext) -> dict[str, object]:
        """Tell."""
        assert 0 < context.remaining_s() <= 60
        return {
            "ids": [context.session_id, context.turn_id, context.call_id, context.idempotency_key],
            "folder": str(context.workspace),
        }

    async with talking(call("where", "c1"), "x", tools=[where], workspace=tmp_path) as session:
        await session.say("go")

        told = json.loads(results(session.history)[0])
        assert told == {"ids": [session.id, "t1", "c1", f"{session.id}.t1.0.0"], "folder": str(tmp_path)}


async def test_progress_is_told_from_any_thread():
    recorder = Recorder()

    @tool(effects=())
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(1, 2, "half")
        return ""

    await outcome(call("work"), tools=[work], plugins=[recorder])

    assert [(event.name, event.done, event.total, event.message) for event in recorder.of(ToolProgressed)] == [
        ("work", 1, 2, "half")
    ]


@pytest.mark.parametrize("arguments", [{"a": 1}, None, 12])
async def test_a_provider_that_gives_no_text_as_arguments_is_at_fault(arguments):
    reply = ModelResponse(Message.assistant((), (ToolCall("c", "add", arguments),)))
    async with talking(reply, "fine", tools=[add]) as session:
        with contextlib.suppress(Exception):
            await session.say("go")

        assert_whole(session.history)
        assert (await session.say("again")).text in {"fine", "done"}
