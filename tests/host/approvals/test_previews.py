"""A tool says what a call would do: the person who is asked reads it, and the answer counts for nothing else."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import CallPreview, ToolContext, ToolError, tool
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_host import Approval, Host, HostSettings, Session, Why
from pluggent_testing.fakes import ScriptedModel, call

SETTINGS = HostSettings(on_ask="pause", fsync="off")


class Note:
    """A tool that writes one file, and shows before what it is going to write over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.approved: list[str] = []
        self.previews = 0

    def look(self, text: str, context: ToolContext) -> CallPreview:
        self.previews += 1
        now = self.path.read_text()
        return CallPreview(f"-{now}\n+{text}", state=now)

    @tool(effects=["messaging"], preview=look)
    def note(self, text: str, context: ToolContext) -> str:
        """Write a note."""
        self.approved.append(context.approved_state)
        self.path.write_text(text)
        return "written"


@pytest.fixture
def note(tmp_path: Path) -> Note:
    path = tmp_path / "note.txt"
    path.write_text("old")
    return Note(path)


def opened(note: Note, *replies: Any, **options: Any) -> Any:
    return Host.open(
        model="scripted/m", plugins=[ScriptedModel(*replies)], tools=[note.note], installed=False, **options
    )  # fmt: skip


async def test_the_person_who_is_asked_reads_the_preview_and_the_tool_learns_its_state(note: Note):
    seen: list[str] = []

    def agree(event: ApprovalEvent) -> bool:
        seen.append(event.rendered)
        return True

    replies = [call("note", "1", text="new"), "done"]
    async with opened(note, *replies, approver=agree) as host, await host.session() as session:
        result = await session.say("go")

    assert result.text == "done"
    assert seen[0].endswith('"text": "new"\n}\n\n-old\n+new')
    assert (note.approved, note.previews) == (["old"], 1)


async def test_without_an_ask_there_is_no_preview(note: Note):
    async with (
        opened(
            note, call("note", "1", text="new"), "done", config=HostSettings(effects={"app:tools:tool/note": ()})
        ) as host,
        await host.session() as session,
    ):
        await session.say("go")

    assert (note.approved, note.previews) == ([""], 0)


async def paused(session: Session) -> str:
    result = await session.say("go")
    assert result.why is Why.PAUSED
    return session.pending[0].rendered


async def test_a_stored_answer_counts_while_the_world_is_as_it_was_shown(note: Note, tmp_path: Path):
    options: dict[str, Any] = {"config": SETTINGS, "state_dir": tmp_path / "state"}
    async with opened(note, call("note", "1", text="new"), **options) as host, await host.session("s") as session:
        assert "-old" in await paused(session)

    async with opened(note, "done", **options) as host, await host.session("s") as session:
        result = await session.resume({"1": True})

    assert (result.text, note.path.read_text(), note.approved) == ("done", "new", ["old"])


async def test_a_person_is_asked_anew_once_the_world_is_another_one(note: Note, tmp_path: Path):
    options: dict[str, Any] = {"config": SETTINGS, "state_dir": tmp_path / "state"}
    async with opened(note, call("note", "1", text="new"), **options) as host, await host.session("s") as session:
        await paused(session)
    note.path.write_text("changed meanwhile")

    async with opened(note, "done", **options) as host, await host.session("s") as session:
        result = await session.resume({"1": True})
        assert (result.why, note.approved) == (Why.PAUSED, [])
        assert "-changed meanwhile" in session.pending[0].rendered
        result = await session.resume({"1": True})

    assert (result.text, note.approved) == ("done", ["changed meanwhile"])


async def test_a_refusal_is_final_whatever_the_world_is_now(note: Note):
    async with (
        opened(note, call("note", "1", text="new"), "done", config=SETTINGS) as host,
        await host.session() as session,
    ):
        await paused(session)
        note.path.write_text("changed meanwhile")
        result = await session.resume({"1": False})

    assert (result.text, note.approved, note.previews) == ("done", [], 1)


async def test_an_approval_of_later_calls_needs_no_preview(note: Note):
    def agree(event: ApprovalEvent) -> Approval:
        return Approval(agreed=True, reach="session", where={"text": "*"})

    replies = [call("note", "1", text="a"), call("note", "2", text="b"), "done"]
    async with opened(note, *replies, approver=agree) as host, await host.session() as session:
        await session.say("go")

    assert (note.approved, note.previews) == (["old", ""], 1)


def broken(text: str, context: ToolContext) -> CallPreview:
    raise ToolError("the note is gone")


def odd(text: str, context: ToolContext) -> Any:
    return "text"


async def waits(text: str, context: ToolContext) -> CallPreview:
    return CallPreview("it may wait")


def long(text: str, context: ToolContext) -> CallPreview:
    return CallPreview("x" * 200_001)


def nothing(text: str, context: ToolContext) -> None:
    return None


@pytest.mark.parametrize(("make", "shown", "state"), [
    (broken, "There is no preview: the note is gone", "none"),
    (odd, "There is no preview: TypeError: its preview is str, not a CallPreview or None", "none"),
    (waits, "it may wait", ""),
    (long, "[... cut: 200000 of 200001 characters shown ...]", ""),
    (nothing, "}", ""),
])  # fmt: skip
async def test_a_preview_that_fails_says_so_and_fits_no_state(make: Any, shown: str, state: str):
    seen: list[str] = []
    states: list[str] = []

    @tool(effects=["messaging"], preview=make)
    def post(text: str, context: ToolContext) -> str:
        states.append(context.approved_state)
        return "posted"

    def agree(event: ApprovalEvent) -> bool:
        seen.append(event.rendered)
        return True

    await say(post, agree, "a")

    assert seen[0].splitlines()[-1] == shown
    assert states == [state]


async def say(post: Any, approver: Any, text: str) -> None:
    model = ScriptedModel(call("post", "1", text=text), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[post], installed=False, approver=approver
    ) as host, await host.session() as session:  # fmt: skip
        assert (await session.say("go")).text == "done"


async def test_a_preview_operates_nothing_and_its_text_is_escaped():
    seen: list[str] = []

    async def look(text: str, context: ToolContext) -> CallPreview:
        context.progress(1.0)
        assert context.remaining_s() > 30
        with pytest.raises(ToolError, match="a preview only looks"):
            await context.call_tool("post", {"text": text})
        return CallPreview("\x1b[2J")

    @tool(effects=["messaging"], preview=look)
    def post(text: str, context: ToolContext) -> str:
        return "posted"

    def refuse(event: ApprovalEvent) -> bool:
        seen.append(event.rendered)
        return False

    await say(post, refuse, "a")

    assert seen[0].splitlines()[-1] == "\\x1b[2J"


@pytest.mark.parametrize(("reach", "asked"), [("once", 2), ("session", 1), ("always", 1)])
async def test_a_preview_says_how_far_an_approval_reaches_at_most(reach: Any, asked: int, tmp_path: Path):
    seen: list[ApprovalEvent] = []

    def look(text: str) -> CallPreview:
        return CallPreview(text, reach=reach)

    @tool(effects=["messaging"], preview=look)
    def post(text: str) -> str:
        return "posted"

    def agree(event: ApprovalEvent) -> Approval:
        seen.append(event)
        return Approval(agreed=True, reach="always")

    model = ScriptedModel(call("post", "1", text="a"), call("post", "2", text="a"), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[post], installed=False, approver=agree, state_dir=tmp_path
    ) as host, await host.session() as session:  # fmt: skip
        assert (await session.say("go")).text == "done"

    assert [event.reach for event in seen] == [reach] * asked


async def test_a_paused_call_with_such_a_preview_is_approved_once_alone(tmp_path: Path):
    def look(text: str) -> CallPreview:
        return CallPreview(text, reach="once")

    @tool(effects=["messaging"], preview=look)
    def post(text: str) -> str:
        return "posted"

    model = ScriptedModel(call("post", "1", text="a"), call("post", "2", text="a"), "done")
    async with Host.open(
        model="scripted/m", plugins=[model], tools=[post], installed=False, state_dir=tmp_path, config=SETTINGS
    ) as host, await host.session() as session:  # fmt: skip
        await session.say("go")
        result = await session.resume({"1": Approval(agreed=True, reach="session")})

    assert (result.why, [each.call_id for each in session.pending]) == (Why.PAUSED, ["2"])
