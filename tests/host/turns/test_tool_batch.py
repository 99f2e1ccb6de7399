"""Several calls in one reply: what runs concurrently, in which order, and the outcome of each."""

import asyncio
import threading

import pytest
from fake_plugins import Person, about, plugin
from places import Log
from pluggent_hookspecs import Ask, Deny, Respond, ToolOutput, tool
from pluggent_hookspecs.observations import DecisionMade, ToolStarted
from pluggent_host import Limits
from pluggent_host.settings import HostSettings
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import Recorder, call
from talking import WAIT_S, results, said

STRICT = HostSettings(strict=True)


def calls(name, *numbers):
    return tuple(call(name, f"{name}{n}", n=n) for n in numbers)


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def tools(log):
    """Return ``w`` that has an effect, ``r`` that reads, and ``e`` that reads and runs alone."""
    return [log.tool("w"), log.tool("r", effects=()), log.tool("e", effects=(), exclusive=True)]


# ---- order ------------------------------------------------------------------------------


async def test_results_keep_the_order_of_the_calls_whichever_ends_first():
    turns = [asyncio.Event() for _ in range(4)]
    turns[3].set()

    @tool(effects=())
    async def last_first(n: int) -> int:
        """End after the next one."""
        await turns[n].wait()
        turns[n - 1].set()
        return n

    _, session = await said(calls("last_first", 0, 1, 2, 3), tools=[last_first])

    assert results(session.history) == ["0", "1", "2", "3"]


async def test_blocking_calls_run_concurrently_in_threads():
    barrier = threading.Barrier(3, timeout=WAIT_S)

    @tool(effects=())
    def meet(n: int) -> bool:
        """Wait for the others."""
        barrier.wait()
        return threading.current_thread() is threading.main_thread()

    _, session = await said(calls("meet", 1, 2, 3), tools=[meet])

    assert results(session.history) == ["false"] * 3


@pytest.mark.parametrize(
    ("marks", "most"),
    [
        *[({"effects": (effect,)}, 1) for effect in ("shell", "filesystem_write", "x:paint")],
        ({}, 1),
        ({"effects": ("shell",), "concurrent": True}, 3),
        ({"effects": ("filesystem_read", "memory")}, 3),
        ({"effects": ()}, 3),
    ],
)
async def test_calls_with_effects_run_one_after_the_other_and_those_that_read_concurrently(marks, most, log):
    await said(calls("c", 1, 2, 3), tools=[log.tool("c", **marks)], permits=True)

    assert log.most == most
    if most == 1:
        assert log.lines == [f"c{n} {what}" for n in (1, 2, 3) for what in ("begins", "ends")]


async def test_reading_calls_run_beside_the_ones_that_wait_for_each_other(log, tools):
    await said((*calls("w", 1, 2), *calls("r", 1, 2)), tools=tools)

    assert log.most == 3
    assert log.lines.index("w1 ends") < log.lines.index("w2 begins")


async def test_an_exclusive_call_runs_alone_and_in_its_place(log, tools):
    _, session = await said((*calls("r", 1, 2), *calls("e", 1), *calls("r", 3, 4)), tools=tools)

    assert log.alone("e1")
    assert set(log.lines[:4]) == {"r1 begins", "r2 begins", "r1 ends", "r2 ends"}
    assert results(session.history) == ["r1", "r2", "e1", "r3", "r4"]


async def test_all_calls_are_decided_in_order_before_any_of_them_starts(tools):
    recorder = Recorder()
    await said(calls("r", 1, 2), tools=tools, plugins=[recorder])

    events = [event for event in recorder.events if isinstance(event, DecisionMade | ToolStarted) and event.call_id]
    assert [(type(event), event.call_id) for event in events] == [
        (DecisionMade, "r1"), (DecisionMade, "r2"), (ToolStarted, "r1"), (ToolStarted, "r2"),
    ]  # fmt: skip


async def test_a_batch_of_a_hundred_calls_is_whole(tools):
    _, session = await said(calls("r", *range(100)), tools=tools)

    assert results(session.history) == [f"r{n}" for n in range(100)]


# ---- decisions --------------------------------------------------------------------------


async def test_the_failure_of_one_call_leaves_the_others_alone(tools):
    @tool(effects=())
    async def fail() -> str:
        """Fail."""
        raise ZeroDivisionError("oops")

    batch = (*calls("r", 1), call("fail"), call("nothing"), *calls("r", 2))
    _, session = await said(batch, tools=[fail, *tools])

    assert results(session.history)[::3] == ["r1", "r2"]
    assert [message.is_error for message in session.history[2:6]] == [False, True, True, False]


@pytest.mark.parametrize(
    ("ends_turn", "why"), [(False, Why.COMPLETED), (True, Why.DENIED)], ids=["goes on", "ends the turn"]
)
async def test_a_denied_call_is_a_result_for_the_model_and_can_end_the_turn(ends_turn, why, log, tools):
    no = plugin(decide_tool_call=lambda e: Deny("no", ends_turn=ends_turn) if e.arguments["n"] == 2 else None)
    result, session = await said(calls("r", 1, 2, 3), tools=tools, plugins=[no])

    assert (result.why, results(session.history)) == (why, ["r1", "Denied: no", "r3"])
    assert "r2 begins" not in log.lines


# ---- asks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "ran", "lines"),
    [
        ((*calls("w", 1), *calls("r", 1)), ["r1"], ["r1", "w1"]),
        ((*calls("x", 1), *calls("r", 1)), [], ["x1", "r1"]),
    ],
    ids=["nothing waits for a plain call", "all behind an exclusive call wait"],
)
async def test_calls_that_need_no_approval_run_first_except_behind_an_exclusive_one(batch, ran, lines, log, tools):
    """Policy 18."""
    seen = []
    tools = [*tools, log.tool("x", exclusive=True)]
    _, session = await said(batch, tools=tools, config=STRICT, approver=lambda _: seen.append(list(log.lines)) or True)

    def told(names):
        return [f"{name} {what}" for name in names for what in ("begins", "ends")]

    assert (seen, log.lines) == ([told(ran)], told(lines))
    assert results(session.history) == [each.id for each in batch]


async def test_an_unanswered_ask_ends_the_turn_with_every_call_closed(log, tools):
    def failing(event):
        raise ZeroDivisionError

    for approver in (None, failing):
        log.lines.clear()
        result, session = await said((*calls("w", 1), *calls("r", 1)), tools=tools, config=STRICT, approver=approver)

        assert (result.why, result.detail) == (Why.DENIED, "'w' needs approval: its effects are not declared")
        assert results(session.history)[1] == "r1"
        assert log.lines == ["r1 begins", "r1 ends"]


async def test_what_is_behind_an_exclusive_call_without_an_approval_does_not_run(log, tools):
    """Policy 18."""
    tools = [*tools, log.tool("x", exclusive=True)]
    result, _ = await said((*calls("r", 1), *calls("x", 2), *calls("r", 3)), tools=tools, config=STRICT)

    assert (result.why, log.lines) == (Why.DENIED, ["r1 begins", "r1 ends"])


async def test_a_refused_call_is_not_run_and_not_asked_about_again_in_this_turn(log, tools):
    """Policy 17."""
    one, same = call("w", "a", n=1), call("w", "b", n=1)
    for replies in ((one, same), ((one, same),)):
        person = Person(False, True)
        _, session = await said(*replies, tools=tools, config=STRICT, approver=person)

        assert results(session.history) == [
            "Denied: a person refused this", "Denied: a person has already refused exactly this call",
        ]  # fmt: skip
        assert (len(person.asked), log.lines) == (1, [])


async def test_the_time_that_a_person_takes_is_not_time_of_the_turn(tools):
    async def approver(event):
        await asyncio.sleep(0.05)
        return True

    limits = Limits(wall_s=0.04)
    result, _ = await said(calls("w", 1), tools=tools, config=STRICT, approver=approver, limits=limits)

    assert result.why is Why.COMPLETED


# ---- answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [ToolOutput("cached"), b"bytes", object()], ids=["usable", "bytes", "object"])
async def test_a_policy_can_answer_in_place_of_a_tool_and_an_unusable_answer_is_a_denial(value, log, tools):
    _, session = await said(calls("r", 1), tools=tools, plugins=[about("r", Respond(value))])

    assert log.lines == []
    if isinstance(value, ToolOutput):
        assert results(session.history) == ["cached"]
    else:
        assert session.history[2].is_error


async def test_an_answer_waits_for_the_person_another_policy_asks_for(log, tools):
    person = Person(True)
    policies = [about("r", Respond("cached")), plugin("Careful", decide_tool_call=Ask("sure?"))]
    _, session = await said(calls("r", 1), tools=tools, plugins=policies, approver=person)

    assert [event.asks for event in person.asked] == [(("app:careful", "sure?"),)]
    assert (results(session.history), log.lines) == (["cached"], [])
