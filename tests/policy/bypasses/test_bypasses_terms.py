"""Attempts to have a turn that waited for a person go on under other terms than it was begun with."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attack_place import PAUSING, Asks, Workplace, look, write, writer
from fake_distributions import importable, install
from memory_uses import Store
from pluggent_hookspecs import (
    ApprovalEvent,
    Ask,
    Deny,
    MemoryReadEvent,
    Message,
    OutputEvent,
    ToolContext,
    ToolOutput,
    errors,
    hookimpl,
    tool,
)
from pluggent_host import Approval, Limits, Why
from pluggent_host.plugins.discovery import discover
from pluggent_testing.fakes import call
from policy_stage import stage
from talking import assert_whole


async def test_what_was_approved_for_one_folder_does_not_run_in_another(tmp_path: Path):
    done: list[tuple[str, str]] = []

    @tool(name="write", effects=("filesystem_write",))
    def write_file(text: str, context: ToolContext) -> None:
        """Write into the workspace."""
        done.append((str(context.workspace), text))

    given: dict[str, Any] = {
        "plugins": [Asks()],
        "tools": [write_file],
        "config": PAUSING,
        "state_dir": tmp_path / "state",
        "id": "s",
    }
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    async with stage(call("write", text="x"), workspace=tmp_path / "here", **given) as on:
        paused = await on.session.say("go")
    async with stage("fine", workspace=tmp_path / "there", **given) as on:
        await on.session.resume({paused.pending[0].call_id: True})

    assert done == []


async def test_policies_know_the_metadata_of_the_turn_when_it_is_resumed():
    seen: list[tuple[str, dict[str, str]]] = []

    class ByMetadata:
        @hookimpl
        def decide_tool_call(self, event):
            seen.append((event.tool.name, dict(event.scope.metadata)))
            return Ask("it writes") if event.tool.name == "write" else None

    async with stage(call("write"), call("look"), plugins=[ByMetadata()], tools=[write, look], config=PAUSING) as on:
        paused = await on.session.say("go", metadata={"user": "guest"})
        await on.session.resume({paused.pending[0].call_id: True})

    guest = {"user": "guest"}
    assert seen == [("write", guest), ("write", guest), ("look", guest)]


async def test_the_limits_of_a_turn_hold_when_it_is_resumed():
    async with stage(call("write"), call("write"), "x", plugins=[Asks()], tools=[write], config=PAUSING) as on:
        paused = await on.session.say("go", limits=Limits(tool_rounds=1))
        result = await on.session.resume({paused.pending[0].call_id: True})

    assert (result.why, result.limit) == (Why.LIMIT, "tool_rounds")


async def test_the_form_that_was_asked_for_is_checked_when_the_turn_is_resumed():
    async with stage(call("write"), "no list", "no list", plugins=[Asks()], tools=[write], config=PAUSING) as on:
        paused = await on.session.say("go", output=list[int])
        result = await on.session.resume({paused.pending[0].call_id: True})

    assert result.why is Why.INVALID_OUTPUT


async def test_what_a_plugin_answers_in_place_of_a_resumed_turn_passes_the_output_policies():
    class Around:
        @hookimpl
        async def around_turn(self, event, call_next):
            return Message.assistant("the secret") if event.resumed else await call_next()

    class Censor:
        @hookimpl
        def decide_output(self, event):
            return Deny("nothing of that") if "secret" in event.message.text else None

    async with stage(call("write"), plugins=[Asks(), Around(), Censor()], tools=[write], config=PAUSING) as on:
        paused = await on.session.say("go")
        result = await on.session.resume({paused.pending[0].call_id: True})

        assert (result.why, "secret" in repr(result)) == (Why.DENIED, False)
        assert_whole(on.session.history)


async def test_a_resumed_turn_is_judged_by_what_the_person_said_and_not_by_a_note_of_the_host():
    seen: list[tuple[str, bool]] = []

    class Policy:
        @hookimpl
        def decide_input(self, event):
            seen.append((event.message.text, event.resumed))

    replies = (call("look"), call("write"))
    async with stage(
        *replies, plugins=[Asks(), Policy()], tools=[write, look], config=PAUSING, limits=Limits(model_calls=2)
    ) as on:
        paused = await on.session.say("go")
        await on.session.resume({paused.pending[0].call_id: True})

    assert seen == [("go", False), ("go", True)]


async def test_a_busy_session_takes_no_answers():
    entered, go = asyncio.Event(), asyncio.Event()

    class Slow:
        @hookimpl
        async def decide_input(self, event):
            if event.resumed:
                entered.set()
                await go.wait()

    async with stage(call("write"), "fine", plugins=[Asks(), Slow()], tools=[write], config=PAUSING) as on:
        paused = await on.session.say("go")
        first = asyncio.create_task(on.session.resume())
        await entered.wait()
        with pytest.raises(errors.SessionError, match="in the middle of a turn"):
            await on.session.resume({paused.pending[0].call_id: True})
        go.set()
        await first
        recorded = [type(entry).__name__ for entry in on.session.records()]

    assert "Resolved" not in recorded


async def test_what_a_person_refused_does_not_run_although_nobody_asks_any_more():
    done: list[str] = []
    asks = Asks()
    async with stage(call("write"), plugins=[asks], tools=[writer(done)], config=PAUSING) as on:
        paused = await on.session.say("go")
        asks.words = None
        await on.session.resume({paused.pending[0].call_id: False})

        assert on.read_by_model() == ["Denied: a person refused this"]
    assert done == []


async def test_what_a_person_refused_stays_refused_for_the_turn_although_nobody_asks_any_more():
    done: list[str] = []
    asks = Asks()

    def refuse(event: object) -> bool:
        asks.words = None
        return False

    async with stage(
        call("write", "1"), call("write", "2"), plugins=[asks], tools=[writer(done)], approver=refuse
    ) as on:
        await on.session.say("go")

    assert done == []


WRONG_ANSWERS: dict[str, Callable[[], Any]] = {
    "text": lambda: "no",
    "a number": lambda: 0,
    "nothing": lambda: None,
    "an approval of text": lambda: Approval(agreed="no"),  # type: ignore[arg-type]
    "an approval of unknown reach": lambda: Approval(agreed=True, reach="ever"),  # type: ignore[arg-type]
    "a reason that is none": lambda: Approval(agreed=True, reason=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("answer", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
async def test_an_answer_that_is_none_approves_nothing_and_leaves_no_trace(answer: Callable[[], Any], tmp_path: Path):
    done: list[str] = []
    given: dict[str, Any] = {
        "plugins": [Asks()],
        "tools": [writer(done)],
        "config": PAUSING,
        "id": "s",
        "state_dir": tmp_path,
    }
    async with stage((call("write", "1"), call("write", "2")), **given) as on:
        paused = await on.session.say("go")
        with pytest.raises((TypeError, ValueError, errors.SessionError)):
            await on.session.resume({"1": True, "2": answer()})
        assert on.session.pending == paused.pending
    async with stage(**given) as on:
        assert on.session.pending == paused.pending
    assert done == []


ASKING = """
import attrs
from pluggent_hookspecs import Ask, hookimpl

@attrs.frozen
class Settings:
    below: int = 10

class Plugin:
    Settings = Settings

    def __init__(self, settings):
        self.settings = settings

    @hookimpl
    def decide_tool_call(self, event):
        return Ask("it writes")
"""


@pytest.mark.parametrize("changed", ["version", "settings"])
async def test_an_approval_answers_the_policy_that_asked_and_not_its_next_version(changed: str, tmp_path: Path):
    done: list[str] = []

    async def host(site: Path, version: str, below: int, *replies: Any, answer: bool) -> Any:
        install(site, "acme-asks", {"hooks/asks": "acme_asks:Plugin"}, modules={"acme_asks": ASKING}, version=version)
        config = PAUSING._replace(plugins={"acme-asks": {"below": below}})
        with importable(site):
            async with stage(
                *replies,
                tools=[writer(done)],
                config=config,
                state_dir=tmp_path / "state",
                id="s",
                installed=discover([str(site)]),
            ) as on:
                if not answer:
                    return await on.session.say("go")
                return await on.session.resume({each.call_id: True for each in on.session.pending})

    await host(tmp_path / "one", "1.0", 10, call("write"), answer=False)
    version, below = ("2.0", 10) if changed == "version" else ("1.0", 1_000_000)
    result = await host(tmp_path / "two", version, below, "fine", answer=True)

    assert (result.why, done) == (Why.PAUSED, [])


@pytest.mark.parametrize("pausing", [False, True], ids=["there", "later"])
async def test_a_person_is_asked_no_more_often_than_the_limit_says_whether_he_is_there_or_not(
    pausing: bool, tmp_path: Path
):
    asked: set[str] = set()

    def approve(event: object) -> bool | None:
        asked.add(event.digest)  # type: ignore[attr-defined] # an ApprovalEvent
        return None if pausing else True

    calls = [call("write", str(n), text=str(n)) for n in range(6)]
    async with Workplace(tmp_path).open(*calls, limits=Limits(asks=2), approver=approve) as on:
        result = await on.session.say("go")
        while result.why is Why.PAUSED:
            result = await on.session.resume({each.call_id: True for each in result.pending})

    assert (result.why, result.limit, len(asked)) == (Why.LIMIT, "asks", 2)


async def test_a_person_is_asked_no_more_often_about_outputs_than_the_limit_says():
    """Policy 17: what is shown counts among the questions of a turn."""
    asked: list[str] = []

    class AsksAboutOutputs:
        @hookimpl
        def decide_output(self, event: OutputEvent) -> Ask:
            return Ask("show it?")

    @tool(effects=())
    def show(text: str) -> ToolOutput:
        """Show *text*."""
        return ToolOutput("shown", for_user=text)

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event.operation)
        return True

    calls = [call("show", str(n), text=str(n)) for n in range(4)]
    async with stage(
        *calls, "done", plugins=[AsksAboutOutputs()], tools=[show], limits=Limits(asks=2), approver=approve
    ) as on:
        result = await on.session.say("go")

    assert (result.why, asked) == (Why.DENIED, ["output", "output"])


async def test_a_person_is_asked_no_more_often_below_a_tool_than_the_limit_says():
    """Policy 17: so does what a tool wants to read."""
    asked: list[str] = []
    outcome: list[object] = []

    class AsksAboutMemory:
        @hookimpl
        def decide_memory_read(self, event: MemoryReadEvent) -> Ask:
            return Ask("read it?")

    @tool(effects=())
    async def recall(context: ToolContext) -> str:
        """Read three notes."""
        for key in "abc":
            try:
                outcome.append(await context.memory().get("notes", key))
            except errors.Denied as denied:
                outcome.append(denied.reason)
        return "read"

    def approve(event: ApprovalEvent) -> bool:
        asked.append(event.operation)
        return True

    async with stage(
        call("recall"), "done", plugins=[AsksAboutMemory(), Store()], tools=[recall], limits=Limits(asks=2),
        approver=approve,
    ) as on:  # fmt: skip
        await on.session.say("go")

    assert asked == ["memory_read", "memory_read"]
    assert outcome == [None, None, "this turn has asked a person too often"]
