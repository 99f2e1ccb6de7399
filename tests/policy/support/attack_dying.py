"""A program that plays a turn with a person in between, and kills itself a step later each time.

    python attack_dying.py FOLDER calls|below     the model writes itself, or through another tool

Four parts, each played by one process after the other until one of them lives; the next part begins
where that one ended: ``say`` (the turn pauses), ``approve`` (what waits is answered), ``resume`` (it
goes on) and ``again`` (the same from where one died in the middle of an effect, asked and approved
once more). The n-th process of a part leaves ``FOLDER/part/n``: the state folder, ``effects`` (one line
an effect), ``asked`` (one line a request to the model), ``answered`` (one line a number and answer).
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dying import Steps, die_between_writes, noted
from pluggent_hookspecs import Ask, ToolCallEvent, ToolContext, hookimpl, tool
from pluggent_host import Approval, Host, HostSettings
from pluggent_host.approvals.pending import Pending
from pluggent_host.session import Session
from pluggent_host.transcript.rebuild import rebuild
from pluggent_testing.fakes import Reply, ScriptedModel, call
from transcript_file import answer_stored, read

REFUSED = 3
"""The number that nobody ever agrees to."""

REPLIES: dict[str, tuple[Reply, ...]] = {
    "calls": (
        (call("write", "a", n=1), call("look", "b"), call("write", "c", n=2), call("write", "d", n=REFUSED)),
        call("write_freely", "e", n=4),
        "all is written",
    ),
    "below": ((call("delegate", "a", n=1), call("delegate", "b", n=2)), "all is written"),
}
"""What the model says; every number is written once, all but 4 after a person has agreed."""


class Asks:
    """Asks about what the model writes."""

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask | None:
        if event.scope.parent_id or event.tool.name not in ("write", "delegate"):
            return None
        return Ask(f"shall {event.arguments['n']} be written?")


def tools(folder: Path, step: Callable[[], None]) -> list[Any]:
    """Return tools that append to ``folder/effects``; *step* is taken before and after."""

    def append(n: int) -> str:
        step()
        note(folder / "effects", n)
        step()
        return f"written {n}"

    @tool
    async def write(n: int) -> str:
        """Write a number."""
        await asyncio.sleep(0)
        return append(n)

    @tool
    def write_freely(n: int) -> str:
        """Write a number in a thread."""
        return append(n)

    @tool(effects=())
    async def delegate(context: ToolContext, n: int) -> str:
        """Let another tool write."""
        return str((await context.call_tool("write_freely", {"n": n})).for_model)

    @tool(effects=())
    def look() -> str:
        """Look."""
        return "seen"

    return [write, write_freely, delegate, look]


def note(file: Path, *words: object) -> None:
    """Append a line to *file*."""
    with file.open("a", encoding="utf-8") as opened:
        opened.write(" ".join(map(str, words)) + "\n")


def number_of(pending: Pending) -> int:
    """Return the number that a call is to write."""
    return int(pending.arguments_json.decode().partition(":")[2].rstrip("}"))


def answers(session: Session, folder: Path, *, agreed: bool = True) -> dict[str, bool | Approval]:
    """Return a person's answers to all that waits, noted in *folder*."""
    given: dict[str, bool | Approval] = {}
    for each in session.pending:
        given[each.call_id] = agreed and number_of(each) != REFUSED
        note(folder / "answered", number_of(each), given[each.call_id])
    return given


def opened(folder: Path, replies: Sequence[Reply], step: Callable[[], None]) -> Any:
    """Return a host of a process that goes on in *folder*."""
    model = ScriptedModel(*replies)
    return Host.open(
        model="scripted/m", tools=tools(folder, step), plugins=[model, Asks()], installed=False, state_dir=folder,
        config=HostSettings(on_ask="pause", fsync="off"),
    )  # fmt: skip


async def say(folder: Path, step: Steps, kind: str) -> None:
    """Play the turn until it waits."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES[kind]], step) as host:
        session = await host.session("s")
        await session.say("go")


async def approve(folder: Path, step: Steps, kind: str) -> None:
    """Answer what waits, without a host."""
    waiting = rebuild(read(folder / "sessions" / "s.jsonl")).waiting
    assert waiting is not None
    for agreed in (True, False):
        chosen = [each for each in waiting.open if (number_of(each) != REFUSED) is agreed]
        if chosen:
            digests = [each.digest for each in chosen]
            answer_stored(folder / "sessions", "s", digests, Approval(agreed), "somebody")
            step()
            for each in chosen:
                note(folder / "answered", number_of(each), agreed)


async def resume(folder: Path, step: Steps, kind: str) -> None:
    """Go on with what was answered."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES[kind][1:]], step) as host:
        session = await host.session("s")
        await session.resume()


async def again(folder: Path, step: Steps, kind: str) -> None:
    """Go on where a process died; what is asked is agreed to once more."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES[kind][1:]], step) as host:
        session = await host.session("s")
        await session.resume()
        if session.pending:
            await session.resume(answers(session, folder))


Part = Callable[[Path, Steps, str], Coroutine[Any, Any, None]]


def died(folder: Path, last: int, part: Part, kind: str) -> bool:
    """Play *part* in a child that dies at step *last*; return whether it did."""
    pid = os.fork()
    if pid == 0:
        step = Steps(last)
        die_between_writes(step)
        try:
            asyncio.run(part(folder, step, kind))
        except BaseException as error:  # noqa: BLE001 (what a child says of itself is all there is)
            print(f"{part.__name__} {last}: {error!r}", file=sys.stderr)  # noqa: T201 (a program's output)
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("a child failed instead of dying")
    return os.WIFSIGNALED(status)


def played(folder: Path, part: Part, before: Path | None, kind: str, stride: int = 1) -> Path:
    """Let one child after the other die *stride* steps later in *part*, until one lives; return what that one left."""
    for number in itertools.count(1, stride):
        place = folder / part.__name__ / str(number)
        if before is None:
            place.mkdir(parents=True)
        else:
            shutil.copytree(before, place)
        if not died(place, number, part, kind):
            return place
    raise AssertionError("unreachable")


def died_in_an_effect(folder: Path) -> Path:
    """Return the first of ``folder/resume`` whose process died between an effect and its result."""
    for number in itertools.count(1):
        place = folder / "resume" / str(number)
        if (place / "effects").exists():
            return place
    raise AssertionError("unreachable")


def main(folder: Path, kind: str) -> None:
    """Play all parts; those that other tests know step by step in strides that meet both sides of every write."""
    with TemporaryDirectory() as rehearsal:  # a first turn takes longest
        for part in (say, approve, resume):
            asyncio.run(part(Path(rehearsal), Steps(), kind))
    gc.freeze()
    paused = played(folder, say, None, kind, stride=3)
    approved = played(folder, approve, paused, kind)
    played(folder, resume, approved, kind)
    played(folder, again, died_in_an_effect(folder), kind, stride=3)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
