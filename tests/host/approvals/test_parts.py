"""A call whose argument has parts is covered by an approval of later calls only if each part is."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import hookimpl, tool
from pluggent_hookspecs.events import ApprovalEvent, ToolCallEvent
from pluggent_host import Approval, Host, HostSettings
from pluggent_testing.fakes import ScriptedModel, call


def parts(command: str) -> Mapping[str, Sequence[str]]:
    """Divide at semicolons; an unclosed quote is no list of commands."""
    try:
        return {"command": [shlex.join(shlex.split(each)) for each in command.split(";")]}
    except ValueError:
        return {"command": ()}


@tool(effects=["shell"], parts=parts)
def run(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


class Asked:
    """Agrees, with an approval of later calls, and keeps what it was asked about."""

    def __init__(self, **where: str) -> None:
        self.where = where
        self.seen: list[str] = []

    def __call__(self, event: ApprovalEvent) -> Approval:
        self.seen.append(event.rendered.split('"command": "')[1].split('"\n')[0])
        return Approval(agreed=True, reach="always", where=self.where)


async def asked_about(*commands: str, state: Path | None = None, **where: str) -> list[str]:
    """Return which of *commands* a person was asked about."""
    approver = Asked(**where)
    model = ScriptedModel(*(call("run", str(n), command=each) for n, each in enumerate(commands)), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[run], installed=False, approver=approver, state_dir=state,
        config=HostSettings(fsync="off"),
    ) as host, await host.session() as session:  # fmt: skip
        assert (await session.say("go")).text == "done"
    return approver.seen


@pytest.mark.parametrize(("second", "asked"), [
    ("git status", False),
    ("git  'status'", False),
    ("git status; git status", False),
    ("git status; rm -r .", True),
    ("rm -r .; git status", True),
    ("git status -s", True),
    ("git 'status", True),
])  # fmt: skip
async def test_an_approval_without_a_pattern_is_one_of_these_very_parts(second: str, asked: bool):
    assert await asked_about("git status", second) == ["git status", *[second] * asked]


@pytest.mark.parametrize(("second", "asked"), [
    ("git log -3", False),
    ("git log -3; git log -4", False),
    ("git log -3; git push", True),
    ("git log ../x", True),
    ("git log; rm x", True),
])  # fmt: skip
async def test_a_pattern_has_to_fit_each_part(second: str, asked: bool):
    assert await asked_about("git log -1", second, command="git log *") == ["git log -1", *[second] * asked]


async def test_an_approval_of_parts_covers_no_call_that_says_nothing_of_parts():
    divides = [True, False]

    @tool(effects=["shell"], parts=lambda **given: {"command": (given["command"],)} if divides.pop(0) else {})
    def run(command: str) -> str:
        """Run a command."""
        return "ran"

    approver = Asked()
    model = ScriptedModel(call("run", "1", command="git status"), call("run", "2", command="rm x"), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[run], installed=False, approver=approver
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")

    assert approver.seen == ["git status", "rm x"]


async def test_several_approvals_cover_a_call_together():
    assert await asked_about("git status", "make", "make; git status", "git status; ls") == [
        "git status", "make", "git status; ls",
    ]  # fmt: skip


async def test_what_cannot_be_divided_is_approved_once_alone():
    assert await asked_about("git 'x", "git 'x") == ["git 'x", "git 'x"]


async def test_a_lasting_approval_keeps_its_parts(tmp_path: Path):
    await asked_about("git status", state=tmp_path)

    assert await asked_about("git status", "git status; rm x", state=tmp_path) == ["git status; rm x"]


async def test_an_answer_to_a_paused_call_covers_its_parts(tmp_path: Path):
    replies = [call("run", "1", command="git status"), call("run", "2", command="git status; rm x"), "done"]
    async with Host.open(
        model="scripted/m", plugins=[ScriptedModel(*replies)], tools=[run], installed=False, state_dir=tmp_path,
        config=HostSettings(on_ask="pause", fsync="off"),
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        await session.resume({"1": Approval(agreed=True, reach="session")})

        assert [each.parts for each in session.pending] == [{"command": ("git status", "rm x")}]


class Policy:
    """Keeps the parts that it sees, and writes another command."""

    def __init__(self) -> None:
        self.parts: list[Mapping[str, tuple[str, ...]]] = []

    @hookimpl
    def transform_tool_call(self, event: ToolCallEvent) -> dict[str, Any]:
        self.parts.append(event.parts)
        return {"command": "ls; pwd"}

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> None:
        self.parts.append(event.parts)


async def test_policies_see_the_parts_of_what_will_run():
    policy = Policy()
    model = ScriptedModel(call("run", "1", command="git status"), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[run], installed=False, policies=[policy], approver=Asked()
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")

    assert policy.parts == [{"command": ("git status",)}, {"command": ("ls", "pwd")}]


@pytest.mark.parametrize("said", [{"command": [1]}, "git", {1: ["git"]}, None])
async def test_a_tool_that_fails_to_divide_its_arguments_is_denied(said: Any):
    @tool(effects=(), parts=lambda **_: said)
    def odd(command: str) -> str:
        return "ran"

    model = ScriptedModel(call("odd", "1", command="git status"), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[odd], installed=False
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        output = await session.call_tool("odd", {"command": "x"})

    assert output.for_model == "Denied: 'odd' failed to say what its arguments consist of"
