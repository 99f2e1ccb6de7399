"""What policies make of a batch: nothing overtakes an unapproved exclusive call, nothing passes the output hooks."""

from pluggent_hookspecs import Deny, ToolOutput, hookimpl, tool
from pluggent_host.settings import HostSettings
from pluggent_host.turns.step import Why
from pluggent_testing.fakes import Recorder, call
from talking import assert_whole, talking


def calls(name, *numbers):
    return tuple(call(name, f"{name}{n}", n=n) for n in numbers)


async def test_what_stands_behind_an_exclusive_call_that_nobody_approved_does_not_run():
    """Policy 18."""
    ran = []

    @tool(effects=("shell",), exclusive=True)
    async def alone(n: int) -> str:
        """Run alone."""
        ran.append("alone")
        return "alone"

    @tool(effects=())
    async def free(n: int) -> str:
        """Run beside others."""
        ran.append(f"free {n}")
        return "free"

    reply = (*calls("free", 1), *calls("alone", 2), *calls("free", 3))
    async with talking(reply, tools=[alone, free], config=HostSettings(strict=True)) as session:
        result = await session.say("go")

        assert ran == ["free 1"]
        assert result.why is Why.DENIED
        assert_whole(session.history)


async def test_what_a_result_holds_for_the_person_is_told_by_the_output_hooks_alone():
    """Policy 25."""
    recorder = Recorder()

    @tool(effects=())
    async def both(n: int) -> ToolOutput:
        """Say one thing to the model and another to the person."""
        return ToolOutput("for the model", for_user="for the person")

    class Closed:
        @hookimpl
        def decide_output(self, event):
            return Deny("closed") if event.source != "reply" else None

    async with talking(calls("both", 1), "x", tools=[both], plugins=[recorder, Closed()]) as session:
        await session.say("go")

    assert "for the person" not in repr(recorder.events)
