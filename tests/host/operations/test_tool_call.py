"""One tool call: what reaches the tool, what comes back, and every way in which it can fail."""

import asyncio
import contextlib
import json
from typing import Any, cast

import pytest
from fake_plugins import Person, plugin
from places import Stuck
from pluggent_hookspecs import Allow, Deny, Message, ModelResponse, ToolContext, ToolError, ToolOutput, hookimpl, tool
from pluggent_hookspecs.messages import Image, Text, ToolCall
from pluggent_hookspecs.observations import ToolProgressed
from pluggent_host import Host, Limits
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, call
from pluggent_transcript.entries import Settled
from talking import assert_whole, results, said, talking


async def outcome(*calls, tools, **options):
    """Run one batch and return the texts of its results; the turn completes."""
    result, session = await said(tuple(calls), tools=tools, **options)
    assert result.why is Why.COMPLETED
    return results(session.history)


def returning(value):
    @tool(name="give", effects=())
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
    ("arguments", "problems"),
    [
        ("[1]", ["expected a JSON object, got an array"]),
        ('{"b": "x", "c": 1}', ["$.a", "$.b", "$.c"]),
    ],
)
async def test_every_problem_of_the_arguments_is_explained(arguments, problems):
    (text,) = await outcome(ToolCall("c", "add", arguments), tools=[add])

    assert text.startswith("Error: invalid arguments for 'add': ")
    assert all(problem in text for problem in problems)


async def test_empty_arguments_are_an_empty_object():
    assert await outcome(ToolCall("c", "give", ""), tools=[returning("given")]) == ["given"]


@pytest.mark.parametrize("arguments", [{"a": 1}, None, 12])
async def test_a_provider_that_gives_no_text_as_arguments_is_at_fault(arguments):
    reply = ModelResponse(Message.assistant((), (ToolCall("c", "add", arguments),)))
    async with talking(reply, "fine", tools=[add]) as session:
        with contextlib.suppress(Exception):
            await session.say("go")

        assert_whole(session.history)
        assert (await session.say("again")).text in {"fine", "done"}


# ---- what a tool may return -------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [("t", "t"), (None, ""), ({"b": 1, "a": [None]}, '{"b":1,"a":[null]}'), (22.5, "22.5"), (True, "true"), ("", "")],
)
async def test_plain_values_reach_the_model_as_text(value, text):
    assert await outcome(call("give"), tools=[returning(value)]) == [text]


async def test_parts_reach_the_model_as_they_are():
    parts = (Text("look"), Image(data="aGk="))
    _, session = await said(call("give"), tools=[returning(ToolOutput(parts))])

    assert session.history[2].content == parts


LOOP: list[object] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value", [b"\xff" * 10, object(), {1, object()}, float("nan"), LOOP, ToolOutput(cast("Any", 12)), lambda: 1]
)
async def test_values_that_cannot_be_said_are_errors_for_the_model(value):
    _, session = await said(call("give"), tools=[returning(value)])

    assert session.history[2].is_error


async def test_twenty_megabytes_are_cut_and_kept_whole_in_the_transcript():
    _, session = await said(call("give"), tools=[returning("天" * 7_000_000)])

    (text,) = results(session.history)
    (entry,) = [entry for entry in session.records() if isinstance(entry, Settled)]
    assert len(text.encode()) <= Limits().result_bytes
    assert "bytes shown" in text
    assert len(entry.whole or "") == 7_000_000


async def test_a_result_as_long_as_the_limit_is_not_cut():
    assert await outcome(call("give"), tools=[returning("x" * 100)], limits=Limits(result_bytes=100)) == ["x" * 100]


# ---- how a tool may fail ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ToolError("the shop is closed"), "Error: the shop is closed"),
        *[(error, "Error: 'fail' ") for error in (ValueError("oops"), SystemExit(3), GeneratorExit("oops"))],
        *[(error, "Error: 'fail' ") for error in (asyncio.CancelledError("oops"), TimeoutError())],
    ],
    ids=repr,
)
@pytest.mark.parametrize("blocking", [False, True])
async def test_whatever_a_tool_raises_is_a_result_for_the_model(error, says, blocking):
    @tool(name="fail", effects=())
    def in_a_thread() -> str:
        """Fail."""
        raise error

    @tool(name="fail", effects=())
    async def in_the_loop() -> str:
        """Fail."""
        raise error

    (text,) = await outcome(call("fail"), tools=[in_a_thread if blocking else in_the_loop])

    assert text.startswith(says)


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_call_that_hangs_is_given_up_at_its_deadline(swallows, monkeypatch):
    monkeypatch.setattr("pluggent_host.operations.tool_call.STOPPING_S", 0.01)
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


async def test_a_blocking_tool_that_hangs_asks_until_its_thread_ends():
    """Policy 21."""
    person, stuck = Person(False), Stuck()
    with stuck.freed():
        tools = [stuck.tool(timeout_s=0.02)]
        _, session = await said(call("stuck"), call("stuck", n=1), tools=tools, approver=person)

        assert stuck.contexts[0].cancelled
    first, second = results(session.history)
    assert first.startswith("Error: 'stuck' did not answer within 0.02 s.")
    assert second.startswith("Denied: ")
    assert "still running" in str(person.asked[0].asks)


@pytest.mark.parametrize(
    "hooks",
    [{"decide_tool_result": Deny("no results today")}, {"decide_tool_call": Allow("anything goes")}],
    ids=["its result is withheld", "a policy allows it"],
)
async def test_a_call_that_timed_out_is_doubtful_even_if(hooks):
    """Policy 35."""
    person, runs = Person(False), []

    @tool(timeout_s=0.01)
    async def hang() -> str:
        """Hang."""
        runs.append(1)
        await asyncio.Event().wait()
        return ""

    await said(call("hang"), call("hang"), tools=[hang], plugins=[plugin(**hooks)], approver=person)

    assert (len(runs), len(person.asked)) == (1, 1)


# ---- contexts ---------------------------------------------------------------------------


async def test_a_tool_is_told_where_it_is_and_given_its_key(tmp_path):
    @tool(effects=())
    async def where(context: ToolContext) -> list[str]:
        """Tell."""
        assert 0 < context.remaining_s() <= 60
        ids = [context.session_id, context.turn_id, context.call_id, context.idempotency_key]
        return [*ids, str(context.workspace)]

    _, session = await said(call("where", "c1"), tools=[where], workspace=tmp_path)

    told = json.loads(results(session.history)[0])
    assert told == [session.id, "t1", "c1", f"{session.id}.t1.0.0", str(tmp_path)]


async def test_progress_is_told_from_any_thread():
    recorder = Recorder()

    @tool(effects=())
    def work(context: ToolContext) -> str:
        """Work."""
        context.progress(1, 2, "half")
        return ""

    await outcome(call("work"), tools=[work], plugins=[recorder])

    (event,) = recorder.of(ToolProgressed)
    assert (event.name, event.done, event.total, event.message) == ("work", 1, 2, "half")


async def test_the_digest_of_a_call_tells_long_arguments_apart():
    digests = []

    class Watching:
        @hookimpl
        def decide_tool_call(self, event):
            digests.append(event.digest)

    @tool(effects=())
    def measure(text: str) -> int:
        """Count characters."""
        return len(text)

    texts = ("a" * 200_000, "a" * 199_999 + "b", "b" + "a" * 199_999, "a" * 200_000)
    for text in texts:
        async with (
            Host.open(tools=[measure], policies=[Watching()]) as host,
            await host.session(id="one") as session,
        ):
            await session.call_tool("measure", {"text": text})

    assert len(set(digests)) == 3
    assert digests[0] == digests[3]
