"""Several calls in one reply: what runs side by side, in which order, and what each comes to."""

import asyncio

import pytest
from places import Log
from pluggent_hookspecs import Ask, Deny, Respond, ToolOutput, hookimpl, tool
from pluggent_hookspecs.observations import DecisionMade, ToolFinished, ToolStarted
from pluggent_host import Limits
from pluggent_host.settings import HostSettings
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from talking import WAIT_S, assert_whole, results, talking


def calls(name, *numbers):
    return tuple(call(name, f"{name}{n}", n=n) for n in numbers)


async def test_calls_of_one_reply_run_side_by_side():
    barrier = asyncio.Barrier(3)

    @tool(effects=())
    async def meet(n: int) -> int:
        """Wait for the others."""
        await barrier.wait()
        return n

    async with talking(calls("meet", 1, 2, 3), "x", tools=[meet]) as session:
        await asyncio.wait_for(session.say("go"), WAIT_S)

        assert results(session.history) == ["1", "2", "3"]


async def test_blocking_calls_run_side_by_side_in_threads():
    import threading

    barrier = threading.Barrier(3, timeout=WAIT_S)

    @tool(effects=())
    def meet(n: int) -> bool:
        """Wait for the others."""
        barrier.wait()
        return threading.current_thread() is threading.main_thread()

    async with talking(calls("meet", 1, 2, 3), "x", tools=[meet]) as session:
        await session.say("go")

        assert results(session.history) == ["false"] * 3


async def test_results_keep_the_order_of_the_calls():
    turns = [asyncio.Event() for _ in range(4)]
    turns[3].set()

    @tool(effects=())
    async def last_first(n: int) -> int:
        """End after the next one."""
        await turns[n].wait()
        if n:
            turns[n - 1].set()
        return n

    async with talking(calls("last_first", 0, 1, 2, 3), "x", tools=[last_first]) as session:
        await asyncio.wait_for(session.say("go"), WAIT_S)

        assert results(session.history) == ["0", "1", "2", "3"]
        assert_whole(session.history)


@pytest.mark.parametrize(
    "marks", [{"effects": ("shell",)}, {"effects": ("filesystem_write",)}, {"effects": ("x:paint",)}, {}]
)
async def test_calls_with_effects_run_one_after_the_other(marks):
    log = Log()
    async with talking(calls("w", 1, 2, 3), "x", tools=[log.tool("w", **marks)]) as session:
        await session.say("go")

        assert log.lines == ["w1 begins", "w1 ends", "w2 begins", "w2 ends", "w3 begins", "w3 ends"]


@pytest.mark.parametrize(
    "marks", [{"effects": ("shell",), "concurrent": True}, {"effects": ("filesystem_read", "memory")}, {"effects": ()}]
)
async def test_calls_that_read_or_say_so_run_beside_each_other(marks):
    log = Log()
    async with talking(calls("c", 1, 2, 3), "x", tools=[log.tool("c", **marks)]) as session:
        await session.say("go")

        assert log.most == 3


async def test_reading_calls_run_beside_the_ones_that_wait_for_each_other():
    log = Log()
    tools = [log.tool("w", effects=("shell",)), log.tool("r", effects=())]
    async with talking((*calls("w", 1, 2), *calls("r", 1, 2)), "x", tools=tools) as session:
        await session.say("go")

        assert log.most == 3
        assert log.lines.index("w1 ends") < log.lines.index("w2 begins")


async def test_an_exclusive_call_runs_alone_and_in_its_place():
    log = Log()
    tools = [log.tool("r", effects=()), log.tool("e", effects=(), exclusive=True)]
    batch = (*calls("r", 1, 2), *calls("e", 1), *calls("r", 3, 4))
    async with talking(batch, "x", tools=tools) as session:
        await session.say("go")

        assert log.alone("e1")
        assert set(log.lines[:4]) == {"r1 begins", "r2 begins", "r1 ends", "r2 ends"}
        assert results(session.history) == ["r1", "r2", "e1", "r3", "r4"]


async def test_all_calls_are_decided_in_order_before_any_of_them_starts():
    recorder = Recorder()
    async with talking(calls("w", 1, 2), "x", tools=[Log().tool("w", effects=())], plugins=[recorder]) as session:
        await session.say("go")

        kinds = (DecisionMade, ToolStarted)
        events = [event for event in recorder.events if isinstance(event, kinds) and event.call_id]
        assert [(type(event), event.call_id) for event in events] == [
            (DecisionMade, "w1"), (DecisionMade, "w2"), (ToolStarted, "w1"), (ToolStarted, "w2"),
        ]  # fmt: skip


async def test_a_decision_is_made_again_after_a_sibling_with_effects():
    class OnlyOnce:
        done = False

        @hookimpl
        def decide_tool_call(self, event):
            return Deny("once is enough") if self.done else None

        @hookimpl
        def observe(self, event):
            self.done = self.done or isinstance(event, ToolFinished)

    log = Log()
    async with talking(
        calls("w", 1, 2), "x", tools=[log.tool("w", effects=("shell",))], plugins=[OnlyOnce()]
    ) as session:
        await session.say("go")

        assert results(session.history) == ["w1", "Denied: once is enough"]


async def test_the_failure_of_one_call_leaves_the_others_alone():
    @tool(effects=())
    async def fail() -> str:
        """Fail."""
        raise ZeroDivisionError("oops")

    batch = (*calls("r", 1), call("fail"), call("nothing"), *calls("r", 2))
    async with talking(batch, "x", tools=[fail, Log().tool("r", effects=())]) as session:
        await session.say("go")

        assert results(session.history)[::3] == ["r1", "r2"]
        assert [message.is_error for message in session.history[2:6]] == [False, True, True, False]


async def test_a_denied_call_is_a_result_for_the_model():
    class No:
        @hookimpl
        def decide_tool_call(self, event):
            return Deny("not on Sundays") if event.arguments["n"] == 2 else None

    log = Log()
    async with talking(calls("r", 1, 2, 3), "x", tools=[log.tool("r", effects=())], plugins=[No()]) as session:
        result = await session.say("go")

        assert result.why is Why.COMPLETED
        assert results(session.history) == ["r1", "Denied: not on Sundays", "r3"]
        assert "r2 begins" not in log.lines


async def test_a_denial_can_end_the_turn_after_the_batch():
    class No:
        @hookimpl
        def decide_tool_call(self, event):
            return Deny("enough", ends_turn=True) if event.arguments["n"] == 1 else None

    async with talking(calls("r", 1, 2), "never", tools=[Log().tool("r", effects=())], plugins=[No()]) as session:
        result = await session.say("go")

        assert result.why is Why.DENIED
        assert results(session.history) == ["Denied: enough", "r2"]


async def test_too_many_denials_end_the_turn():
    class No:
        @hookimpl
        def decide_tool_call(self, event):
            return Deny("no")

    async with talking(calls("r", *range(11)), "never", tools=[Log().tool("r", effects=())], plugins=[No()]) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "denials")
        assert_whole(session.history)


# ---- asks -------------------------------------------------------------------------------

STRICT = HostSettings(strict=True)


class Answers:
    """An approver that gives *answers* in turn and keeps what it was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, event):
        self.asked.append(event)
        return self.answers.pop(0)


async def test_calls_that_need_nobody_run_before_anybody_is_asked():
    log, seen = Log(), []

    async def approver(event):
        seen.append(list(log.lines))
        return True

    tools = [log.tool("w", effects=("shell",)), log.tool("r", effects=())]
    async with talking((*calls("w", 1), *calls("r", 1)), "x", tools=tools, config=STRICT, approver=approver) as session:
        await session.say("go")

        assert seen == [["r1 begins", "r1 ends"]]
        assert results(session.history) == ["w1", "r1"]


async def test_an_unanswered_ask_ends_the_turn_with_every_call_closed():
    log = Log()
    tools = [log.tool("w", effects=("shell",)), log.tool("r", effects=())]
    async with talking((*calls("w", 1), *calls("r", 1)), "never", tools=tools, config=STRICT) as session:
        result = await session.say("go")

        assert (result.why, result.detail) == (Why.DENIED, "'w' needs approval: its effects are shell")
        assert results(session.history)[1] == "r1"
        assert log.lines == ["r1 begins", "r1 ends"]
        assert_whole(session.history)


async def test_a_refused_call_is_not_run_and_not_asked_about_again_in_this_turn():
    log, approver = Log(), Answers(False)
    one = call("w", "a", n=1)
    async with talking(
        one, call("w", "b", n=1), "x", tools=[log.tool("w", effects=("shell",))], config=STRICT, approver=approver
    ) as session:
        await session.say("go")

        assert results(session.history) == [
            "Denied: a person refused this", "Denied: a person has already refused exactly this call",
        ]  # fmt: skip
        assert (len(approver.asked), log.lines) == (1, [])


async def test_the_same_call_twice_in_one_reply_is_asked_about_once_if_refused():
    approver = Answers(False, True)
    log = Log()
    batch = (call("w", "a", n=1), call("w", "b", n=1))
    async with talking(
        batch, "x", tools=[log.tool("w", effects=("shell",))], config=STRICT, approver=approver
    ) as session:
        await session.say("go")

        assert (len(approver.asked), log.lines) == (1, [])
        assert_whole(session.history)


async def test_too_many_asks_end_the_turn():
    approver = Answers(*[True] * 6)
    async with talking(
        calls("w", *range(6)), "never", tools=[Log().tool("w", effects=("shell",))], config=STRICT, approver=approver
    ) as session:
        result = await session.say("go")

        assert (result.why, result.limit) == (Why.LIMIT, "asks")
        assert_whole(session.history)


async def test_calls_behind_an_asked_exclusive_one_wait_for_the_answer():
    log, seen = Log(), []

    async def approver(event):
        seen.append(list(log.lines))
        return True

    tools = [log.tool("r", effects=()), log.tool("e", effects=("shell",), exclusive=True)]
    async with talking((*calls("e", 1), *calls("r", 1)), "x", tools=tools, config=STRICT, approver=approver) as session:
        await session.say("go")

        assert seen == [[]]
        assert log.lines == ["e1 begins", "e1 ends", "r1 begins", "r1 ends"]


async def test_a_persons_thinking_is_not_counted_as_time_of_the_turn():
    async def approver(event):
        await asyncio.sleep(0.05)
        return True

    async with talking(
        calls("w", 1), "fine", tools=[Log().tool("w", effects=("shell",))], config=STRICT, approver=approver,
        limits=Limits(wall_s=0.04),
    ) as session:  # fmt: skip
        assert (await session.say("go")).why is Why.COMPLETED


async def test_an_approver_that_fails_leaves_the_ask_unanswered():
    def approver(event):
        raise ZeroDivisionError

    async with talking(
        calls("w", 1), "never", tools=[Log().tool("w", effects=("shell",))], config=STRICT, approver=approver
    ) as session:
        result = await session.say("go")

        assert result.why is Why.DENIED
        assert_whole(session.history)


# ---- answers ----------------------------------------------------------------------------


async def test_a_policy_can_answer_in_place_of_a_tool():
    class Cache:
        @hookimpl
        def decide_tool_call(self, event):
            return Respond(ToolOutput("cached"))

    log = Log()
    async with talking(calls("r", 1), "x", tools=[log.tool("r", effects=())], plugins=[Cache()]) as session:
        await session.say("go")

        assert (results(session.history), log.lines) == (["cached"], [])


@pytest.mark.parametrize("value", [b"bytes", object()])
async def test_an_unusable_answer_of_a_policy_is_a_denied_call(value):
    class Bad:
        @hookimpl
        def decide_tool_call(self, event):
            return Respond(value)

    log = Log()
    async with talking(calls("r", 1), "x", tools=[log.tool("r", effects=())], plugins=[Bad()]) as session:
        await session.say("go")

        assert log.lines == []
        assert session.history[2].is_error
        assert_whole(session.history)


async def test_an_answer_waits_for_the_person_another_policy_asks_for():
    class Cache:
        @hookimpl
        def decide_tool_call(self, event):
            return Respond("cached")

    class Careful:
        @hookimpl
        def decide_tool_call(self, event):
            return Ask("sure?")

    log, approver = Log(), Answers(True)
    async with talking(
        calls("r", 1), "x", tools=[log.tool("r", effects=())], plugins=[Cache(), Careful()], approver=approver
    ) as session:
        await session.say("go")

        assert [event.asks for event in approver.asked] == [(("app:careful", "sure?"),)]
        assert (results(session.history), log.lines) == (["cached"], [])


async def test_a_batch_of_a_hundred_calls_is_whole():
    model = ScriptedModel(calls("r", *range(100)), "x")
    async with talking(model=model, tools=[Log().tool("r", effects=())]) as session:
        await session.say("go")

        assert results(session.history) == [f"r{n}" for n in range(100)]
        assert_whole(session.history)
