"""The rules of what is recorded, when, and what is not: rules 13, 15, 26."""

import asyncio
import subprocess
import sys
import tempfile
import textwrap

import pytest
from pluggent_hookspecs import DecisionMade, Message, TurnEnded, hookimpl, tool
from pluggent_testing.fakes import call
from policy_stage import Danger, reach, results, stage

# ---- rule 13: who is late is in test_bypasses; here what a cancellation leaves


async def test_a_turn_cancelled_while_a_policy_decides_dispatches_nothing_and_closes_the_call() -> None:
    danger, waiting = Danger(), asyncio.Event()

    class Slow:
        @hookimpl
        async def decide_tool_call(self, event):
            waiting.set()
            await asyncio.Event().wait()

    async with stage(call("danger", path="x"), "and on", tools=danger.tools(), plugins=[Slow()]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await waiting.wait()
        turn.cancel()
        await asyncio.wait((turn,))

        assert [ended.why for ended in on.recorder.of(TurnEnded)] == ["cancelled"]
        assert results(on.session.history) == ["This call was not run: the turn ended before."]
        assert danger.ran == []


# ---- rule 15: the record comes first


def ran_without_room(how: str) -> list[str]:
    """Run a turn in a process that may not write a file longer than a few bytes; return what ran."""
    program = textwrap.dedent(
        f"""
        import asyncio, resource, sys, tempfile
        from pluggent_host import Host
        from pluggent_testing.fakes import ScriptedModel, call
        from pluggent_hookspecs import PluggentError, hookimpl, tool

        @tool(effects=("shell",))
        async def danger(path: str) -> str:
            "Do it."
            print("ran", path)
            return "done"

        class Fills:
            @hookimpl
            def decide_tool_call(self, event):
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

        async def main():
            model = ScriptedModel(call("danger", path="x"))
            async with Host.open(
                model="scripted/m", plugins=[model, Fills()], tools=[danger], installed=False, state_dir=sys.argv[1]
            ) as host:
                session = await host.session()
                try:
                    {how}
                except PluggentError as error:
                    print("error", type(error).__name__)

        asyncio.run(main())
        print("over")
        """
    )
    with tempfile.TemporaryDirectory() as folder:
        # Output goes through a pipe: the limit is on files.
        done = subprocess.run(  # noqa: S603 (this interpreter)
            [sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.stdout.endswith("over\n"), done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="RLIMIT_FSIZE is POSIX")
@pytest.mark.parametrize("how", ["await session.say('go')", "await session.call_tool('danger', {'path': 'x'})"])
def test_a_decision_that_cannot_be_recorded_is_a_denial(how: str) -> None:
    assert "ran x" not in ran_without_room(how)


async def test_the_decision_is_recorded_before_the_call_is_dispatched() -> None:
    order: list[str] = []

    @tool(effects=("shell",))
    async def look() -> str:
        """Look what is recorded already."""
        order.extend(type(entry).__name__ for entry in on.session.records())
        return "seen"

    async with stage(call("look"), tools=[look]) as on:
        await on.session.say("go")

    assert order.index("Dispatched") > max(place for place, name in enumerate(order) if name == "Decided")


# ---- rule 26: what records hold


async def test_what_a_redactor_removed_stands_in_no_record() -> None:
    class Normal:
        @hookimpl
        def transform_input(self, event):
            return Message.user(event.message.text.strip())

        @hookimpl
        def transform_tool_call(self, event):
            return {"path": event.arguments["path"].strip()}

    class Redactor:
        @hookimpl(band="security")
        def transform_input(self, event):
            return Message.user(event.message.text.replace("secret", "***"))

        @hookimpl(band="security")
        def transform_tool_call(self, event):
            return {"path": event.arguments["path"].replace("secret", "***")}

    danger = Danger()
    async with stage(call("danger", path=" secret "), plugins=[Normal(), Redactor()], tools=danger.tools()) as on:
        await on.session.say(" my secret ")

    assert danger.ran == ["***"]
    assert "secret" not in repr((on.recorder.of(DecisionMade), on.decisions()))
    decisions = [entry for entry in on.session.records() if type(entry).__name__ == "Decided"]
    assert "secret" not in repr(decisions)


async def test_the_change_of_a_security_transform_names_paths_and_no_values() -> None:
    class Redactor:
        @hookimpl(band="security")
        def transform_tool_call(self, event):
            return {"path": "***"}

    seen = await reach("say", [Redactor()])

    (change,) = [change for made in seen.decisions for change in made.changes]
    assert (change.plugin, change.paths, change.before, change.after) == ("app:redactor", ("path",), None, None)


async def test_the_change_of_an_ordinary_transform_is_recorded_with_its_values() -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"path": "y"}

    seen = await reach("say", [Rewriter()])

    (change,) = [change for made in seen.decisions for change in made.changes]
    assert (change.plugin, change.before, change.after) == ("app:rewriter", {"path": "x"}, {"path": "y"})
