"""Programs that play one turn again and again and kill themselves a step later each time.

    python dying.py FOLDER say|stream STRIDE    a turn without a person, STRIDE steps later each time
    python dying.py FOLDER calls|below          a turn that waits: the model writes itself, or through another tool

Without a person, the state folder of the n-th child is ``FOLDER/n``; what its tools did is in
``FOLDER/n/effects``, one line an effect: number and idempotency key. The program ends when a
child has come to the end of its turn, and prints their numbers.

A turn that waits has four parts, each played by one process after the other until one of them lives;
the next part begins where that one ended: ``say`` (the turn pauses), ``approve`` (what waits is
answered), ``resume`` (it continues) and ``again`` (the same from where one died in the middle of an
effect, asked and approved once more). The n-th process of a part leaves ``FOLDER/part/n``: the state
folder, ``effects`` (one line an effect), ``asked`` (one line a request to the model), ``answered`` (one
line a number and answer).
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pluggent_hookspecs import Ask, ModelRequest, ToolCallEvent, ToolContext, hookimpl, tool
from pluggent_hookspecs.observations import Observation
from pluggent_host import Approval, Host, HostSettings
from pluggent_host.session import Session
from pluggent_testing.fakes import Reply, ScriptedModel, call
from pluggent_transcript.entries import Entry
from pluggent_transcript.logs import StoredTranscript
from pluggent_transcript.pending import Pending
from pluggent_transcript.rebuild import rebuild
from saved import answer_stored, read

REPLIES: tuple[Reply, ...] = (
    (call("write", "a", n=1), call("write", "b", n=2), call("delegate", "c", n=3)),
    (call("write_slowly", "d", n=4), call("write_twice", "e", n=5)),
    "all is written",
)
"""What the model says; every number is written once."""


class Steps:
    """Counts what happens in this process, and kills it at step number *last*."""

    def __init__(self, last: int | None = None) -> None:
        self.last = last
        self.done = 0

    def __call__(self) -> None:
        self.done += 1
        if self.done == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    @hookimpl
    def observe(self, event: Observation) -> None:
        self()


def tools(effects: Path, step: Steps) -> list[Any]:
    """Return tools that each append a line to *effects*; *step* is taken before and after."""

    def append(n: int, context: ToolContext) -> str:
        step()
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{n} {context.idempotency_key}\n")
        step()
        return f"written {n}"

    @tool
    async def write(context: ToolContext, n: int) -> str:
        """Write a number."""
        await asyncio.sleep(0)
        return append(n, context)

    @tool
    def write_slowly(context: ToolContext, n: int) -> str:
        """Write a number in a thread."""
        return append(n, context)

    @tool(concurrent=True)
    async def write_twice(context: ToolContext, n: int) -> str:
        """Write a number in two halves; only the second one counts."""
        step()
        await asyncio.sleep(0)
        return append(n, context)

    @tool(effects=())
    async def delegate(context: ToolContext, n: int) -> str:
        """Let another tool write."""
        return str((await context.call_tool("write", {"n": n})).for_model)

    return [write, write_slowly, write_twice, delegate]


def die_between_writes(step: Steps) -> None:
    """Take *step* before and after everything that transcripts write."""
    write = StoredTranscript.append

    def append(self: StoredTranscript, *entries: Entry) -> None:
        step()
        write(self, *entries)
        step()

    StoredTranscript.append = append  # type: ignore[method-assign] # a host takes no transcript of one's own


def noted(reply: Reply, folder: Path, step: Steps) -> Reply:
    """Return *reply* with a note in ``folder/asked`` that the model was asked for it."""

    def answer(request: ModelRequest) -> Reply:
        step()
        with (folder / "asked").open("a", encoding="utf-8") as file:
            file.write("asked\n")
        step()
        return reply

    return answer


async def play(folder: Path, step: Steps, way: str) -> None:
    """Play the whole turn."""
    model = ScriptedModel(*(noted(reply, folder, step) for reply in REPLIES))
    async with Host.open(
        model="scripted/m", tools=tools(folder / "effects", step), plugins=[model, step], installed=False,
        state_dir=folder,
    ) as host:  # fmt: skip
        session = await host.session("s")
        if way == "say":
            await session.say("go")
            return
        async with session.stream("go") as events:
            async for _ in events:
                step()


def child(folder: Path, last: int, way: str) -> int:
    """Return how a child that dies at step *last* ended: 0 if it lived."""
    folder.mkdir()
    pid = os.fork()
    if pid == 0:
        step = Steps(last)
        die_between_writes(step)
        asyncio.run(play(folder, step, way))
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def play_turns(folder: Path, way: str, stride: int) -> None:
    """Let one child after the other die a little later, until one lives; begin warm, for a first turn takes longest."""
    with TemporaryDirectory() as rehearsal:
        asyncio.run(play(Path(rehearsal), Steps(), way))
    gc.freeze()
    for number in itertools.count(1, stride):
        lived = child(folder / str(number), number, way) == 0
        print(number)  # noqa: T201 (a program's output)
        if lived:
            return


REFUSED = 3
"""The number that is always refused."""

REPLIES_OF: dict[str, tuple[Reply, ...]] = {
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


def tools_in(folder: Path, step: Callable[[], None]) -> list[Any]:
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
    """Return a host of a process that continues in *folder*."""
    model = ScriptedModel(*replies)
    return Host.open(
        model="scripted/m", tools=tools_in(folder, step), plugins=[model, Asks()], installed=False, state_dir=folder,
        config=HostSettings(on_ask="pause", fsync="off"),
    )  # fmt: skip


async def say(folder: Path, step: Steps, kind: str) -> None:
    """Play the turn until it waits."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES_OF[kind]], step) as host:
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
            answer_stored(folder / "sessions", "s", digests, Approval(agreed), "a person")
            step()
            for each in chosen:
                note(folder / "answered", number_of(each), agreed)


async def resume(folder: Path, step: Steps, kind: str) -> None:
    """Go on with what was answered."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES_OF[kind][1:]], step) as host:
        session = await host.session("s")
        await session.resume()


async def again(folder: Path, step: Steps, kind: str) -> None:
    """Go on where a process died; what is asked is agreed to once more."""
    async with opened(folder, [noted(reply, folder, step) for reply in REPLIES_OF[kind][1:]], step) as host:
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


def play_parts(folder: Path, kind: str) -> None:
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
    if len(sys.argv) == 4:
        play_turns(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    else:
        play_parts(Path(sys.argv[1]), sys.argv[2])
