"""A program that plays one turn again and again and kills itself STRIDE steps later each time.

    python dying.py FOLDER say|stream STRIDE

For the n-th child ``FOLDER/n`` is the state folder; what its tools did stands in
``FOLDER/n/effects``, one line an effect: number and idempotency key. The program ends when a
child has come to the end of its turn, and prints their numbers.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pluggent_hookspecs import ModelRequest, ToolContext, hookimpl, tool
from pluggent_hookspecs.observations import Observation
from pluggent_host import Host
from pluggent_host.transcript.entries import Entry
from pluggent_host.transcript.logs import StoredTranscript
from pluggent_testing.fakes import Reply, ScriptedModel, call

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


def main(folder: Path, way: str, stride: int) -> None:
    """Let one child after the other die a little later, until one lives; begin warm, for a first turn takes longest."""
    with TemporaryDirectory() as rehearsal:
        asyncio.run(play(Path(rehearsal), Steps(), way))
    gc.freeze()
    for number in itertools.count(1, stride):
        lived = child(folder / str(number), number, way) == 0
        print(number)  # noqa: T201 (a program's output)
        if lived:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
