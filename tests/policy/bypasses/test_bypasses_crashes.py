"""Attempts to have something done twice, or unseen, by way of a process that dies or of its files (rules 21 and 35)."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from attacks import PAUSING, Asks, Workplace, answers, write, writer
from pluggent_hookspecs import Ask, Deny, ToolContext, errors, tool
from pluggent_hookspecs.observations import ToolFinished
from pluggent_host import Why
from pluggent_testing.fakes import call
from policy_rules import hooked
from policy_stage import stage

GIVEN: dict[str, Any] = {"config": PAUSING, "id": "s"}


class Acts:
    """A tool that acts, one that lets it act, and a copy of the disk as a killed process leaves it behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.go = asyncio.Event()
        self.done: list[int] = []

    def tools(self) -> list[Any]:
        @tool
        async def act(n: int) -> str:
            """Act."""
            self.done.append(n)
            if n == 1:
                await self.go.wait()
            return f"acted {n}"

        @tool(effects=())
        async def write_below(context: ToolContext) -> str:
            """Act below."""
            await context.call_tool("act", {"n": 2})
            shutil.copytree(self.folder / "lived", self.folder / "killed", dirs_exist_ok=True)
            self.go.set()
            return "acted below"

        return [act, write_below, write]


async def test_an_effect_below_an_approved_call_is_not_repeated_unasked_after_a_crash(tmp_path: Path):
    acts, asked = Acts(tmp_path), list[Any]()

    given: dict[str, Any] = {"plugins": [Asks()], "tools": acts.tools(), **GIVEN}
    async with stage(call("write_below"), "x", state_dir=tmp_path / "lived", **given) as on:
        await on.session.say("go")
        await on.session.resume(answers(on))
    async with stage("x", state_dir=tmp_path / "killed", approver=asked.append, **given) as on:
        assert on.session.paused
        await on.session.resume()

    assert acts.done == [2]
    assert asked


async def test_a_call_cannot_take_the_id_of_one_below_another_and_hide_that_it_may_have_happened(tmp_path: Path):
    acts, asked = Acts(tmp_path), list[Any]()

    both, again = (call("act", "t1.0.1.1", n=1), call("write_below", "b")), call("act", n=1)
    async with stage(both, tools=acts.tools(), state_dir=tmp_path / "lived", id="s") as on:
        await on.session.say("go")
    async with stage(again, tools=acts.tools(), state_dir=tmp_path / "killed", id="s", approver=asked.append) as on:
        assert "acted 2" not in str(on.session.history)
        await on.session.say("and again?")

    assert (len(asked), sorted(acts.done)) == (1, [1, 2])


async def test_a_call_cannot_take_the_id_of_one_below_another_and_pass_for_approved(tmp_path: Path):
    acts = Acts(tmp_path)
    asks = hooked(decide_tool_call=lambda event: Ask("it writes") if event.tool.name == "write" else None)

    given: dict[str, Any] = {"plugins": [asks], "tools": acts.tools(), "state_dir": tmp_path / "lived", **GIVEN}
    async with stage((call("write_below", "a"), call("write", "t1.0.0.1")), **given) as on:
        await on.session.say("go")
        pending = on.session.pending
    async with stage("fine", **given) as on:
        assert on.session.pending == pending
        await on.session.resume(answers(on))

        assert on.read_by_model() == ["acted below", "written"]


@pytest.mark.parametrize("repeated", [False, True], ids=["as it was", "its line repeated"])
async def test_one_approval_is_good_for_one_run_however_often_the_process_ends(repeated: bool, tmp_path: Path):
    done: list[str] = []

    @tool
    def write() -> None:
        """Write; what is on the disk then is what a killed process leaves behind."""
        done.append("written")
        shutil.copytree(tmp_path / f"{len(done)}", tmp_path / f"{len(done) + 1}", dirs_exist_ok=True)

    given: dict[str, Any] = {"plugins": [Asks()], "tools": [write], **GIVEN}
    async with stage(call("write"), state_dir=tmp_path / "1", **given) as on:
        await on.session.say("go")
        await on.session.resume(answers(on))
    async with stage(state_dir=tmp_path / "2", **given) as on:
        assert "may already have taken effect" in (await on.session.resume()).detail
        await on.session.resume(answers(on))
    if repeated:
        place = Workplace(tmp_path / "3")
        place.append(place.lines("Resolved")[-1])
    async with stage(state_dir=tmp_path / "3", **given) as on:
        third = await on.session.resume()

    assert (third.why, len(done)) == (Why.PAUSED, 2)


async def test_a_turn_that_a_policy_ended_stays_ended_although_the_process_died(tmp_path: Path):
    votes: list[Any] = [Ask("?")]

    def copy(event: object) -> None:
        if isinstance(event, ToolFinished):
            shutil.copytree(tmp_path / "lived", tmp_path / "killed")

    policy = hooked(decide_tool_call=lambda _: votes[-1], observe=copy)
    given: dict[str, Any] = {"plugins": [policy], "tools": [writer([])], **GIVEN}
    async with stage(call("write"), state_dir=tmp_path / "lived", **given) as on:
        await on.session.say("go")
        votes.append(Deny("enough", ends_turn=True))
        await on.session.resume(answers(on))
    async with stage(state_dir=tmp_path / "killed", **given) as on:
        result = await on.session.resume()

        assert (result.why, on.model.requests) == (Why.DENIED, [])


@pytest.mark.parametrize("how", ["others may write the file", "others may write the folder", "another's file"])
async def test_a_session_that_others_can_write_is_not_opened(how: str, tmp_path: Path):
    """Rule 32."""
    place = Workplace(tmp_path)
    await place.pause(call("write", text="a"))
    match how:
        case "others may write the file":
            place.file().chmod(0o666)
        case "others may write the folder":
            place.file().parent.chmod(0o777)
        case _:
            if os.getuid() != 0:
                pytest.skip("only root can give a file to another user")
            os.chown(place.file(), 12345, 12345)

    with pytest.raises(errors.PluggentError, match="s"):
        async with place.open():
            pass
