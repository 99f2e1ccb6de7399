"""Counts what a turn runs through: calls, functions, modules, and how often it moves from one module to another.

    PYTHON tests/benchmarks/walks.py [--json]

Exact, so it may run on a busy machine. Every walk is done twice and the second is counted, in the
thread of the event loop alone. A move is a call into another module of the host than the call
before it. Methods that attrs writes belong to no file and are left out.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, Self

from pluggent_hookspecs import hookimpl, tool
from pluggent_host import Host, HostSettings, Session
from pluggent_offline.plugin import Offline

MODEL = "offline/demo"
COLUMNS = ("calls", "modules", "moves", "functions", "packages", "calls elsewhere")
WAITING = HostSettings(on_ask="pause", strict=True)
HERE = "pluggent_host."


class Nothing:
    """A policy that has no objection."""

    @hookimpl
    def decide_tool_call(self, event: object) -> None:
        """Say nothing."""


@tool(effects=())
async def echo(text: str) -> str:
    """Say *text* again."""
    return text


@tool(effects=["messaging"])
async def post(text: str) -> str:
    """Post *text*; a strict host asks about it."""
    return text


class Walk(NamedTuple):
    """What was counted."""

    name: str
    calls: int
    moves: int
    functions: int
    modules: tuple[str, ...]
    elsewhere: dict[str, int]
    """Calls into other packages of ours, the contract's and plugins', by package."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the packages of the host's modules; those at the top are in one, called ``.``."""
        return tuple(sorted({name.partition(".")[0] if "." in name else "." for name in self.modules}))

    def figures(self) -> dict[str, int]:
        """Return the columns of the table."""
        counted = (self.calls, len(self.modules), self.moves, self.functions, len(self.packages))
        return dict(zip(COLUMNS, (*counted, sum(self.elsewhere.values())), strict=True))


class Counted:
    """Counts the calls that are made in its ``with`` block."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._functions: set[CodeType] = set()
        self._moves = 0
        self._last = ""

    def __enter__(self) -> Self:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, arg: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith("pluggent_") or frame.f_code.co_filename.startswith("<"):
            return
        self._calls[module] += 1
        if module.startswith(HERE):
            self._functions.add(frame.f_code)
            self._moves += module != self._last
            self._last = module

    def walk(self, name: str) -> Walk:
        """Return what has been counted as a walk called *name*."""
        ours = {module.removeprefix(HERE): count for module, count in self._calls.items() if module.startswith(HERE)}
        elsewhere: Counter[str] = Counter()
        for module, count in self._calls.items():
            if not module.startswith(HERE):
                elsewhere[module.partition(".")[0]] += count
        return Walk(name, sum(ours.values()), self._moves, len(self._functions), tuple(sorted(ours)), dict(elsewhere))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table, or the same with the names of modules and packages as JSON."""
    walks = [*asyncio.run(messages()), *asyncio.run(approvals())]
    if "--json" in arguments:
        named = ({**walk._asdict(), "packages": walk.packages, "figures": walk.figures()} for walk in walks)
        print(json.dumps(list(named), indent=1))
        return
    print(f"\n{'what a walk runs through':<48}" + "".join(f"{column:>{len(column) + 3}}" for column in COLUMNS))
    for walk in walks:
        print(f"{walk.name:<48}" + "".join(f"{count:>{len(name) + 3}}" for name, count in walk.figures().items()))


# ---- the walks ---------------------------------------------------------------------------


async def messages() -> list[Walk]:
    """Walk through turns that end by themselves."""
    plain = Host.open(model=MODEL, plugins=[Offline()], installed=False)
    calling = Host.open(model=MODEL, plugins=[Offline()], tools=[echo], policies=[Nothing()], installed=False)
    cases = (
        ("say, no tool, in memory", "hello", plain),
        ("say, one tool call, one policy", "echo text=hello", calling),
    )
    walks: list[Walk] = []
    for name, said, opening in cases:
        counted = Counted()
        async with opening as host, await host.session() as session:
            await session.say(said)
            with counted:
                assert (await session.say(said)).why == "completed"
        walks.append(counted.walk(name))
    return walks


async def approvals() -> list[Walk]:
    """Walk through turns on disk that wait for an approval, resumed here and in another process."""
    pausing, resuming = Counted(), Counted()
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        async with durable(scratch) as host:
            for id in ("here-1", "here-2", "there-1", "there-2", "there-3"):
                async with await host.session(id) as session:
                    pausing = Counted()
                    with pausing:
                        assert (await session.say("post text=hello")).why == "paused"
                    if id.startswith("here"):
                        resuming = Counted()
                        with resuming:
                            await resume(session)
        return [
            pausing.walk("say, pauses for an approval, on disk"),
            resuming.walk("resume, same process"),
            *in_another_process(scratch),
        ]


def in_another_process(folder: str) -> list[Walk]:
    """Return the walks through ``elsewhere``, done by a new interpreter."""
    program = [sys.executable, "-P", str(Path(__file__).resolve()), "--resume", folder]
    done = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True)
    return [Walk(**{**walk, "modules": tuple(walk["modules"])}) for walk in json.loads(done.stdout)]


async def elsewhere(folder: str) -> list[Walk]:
    """Resume the sessions in *folder* that another process has left, each in a host of its own."""
    await resumed(folder, "there-1")
    session = await resumed(folder, "there-2")
    host = await resumed(folder, "there-3", opening=True)
    return [
        session.walk("open session and resume, new process"),
        host.walk("open host, session and resume, new process"),
    ]


async def resumed(folder: str, id: str, *, opening: bool = False) -> Counted:
    """Count what it takes to open and resume a session, and with *opening* the host as well."""
    counted = Counted()
    async with AsyncExitStack() as stack:
        with counted if opening else nullcontext():
            host = await stack.enter_async_context(durable(folder))
        with counted:
            session = await host.session(id)
            await resume(session)
        await session.aclose()
    return counted


def durable(folder: str) -> AbstractAsyncContextManager[Host]:
    """Return a host that is to be opened, whose sessions are kept in *folder*."""
    return Host.open(
        model=MODEL, plugins=[Offline()], tools=[post], policies=[Nothing()], installed=False,
        state_dir=folder, config=WAITING,
    )  # fmt: skip


async def resume(session: Session) -> None:
    """Approve the call that waits, and take the turn to its end."""
    assert (await session.resume({session.pending[0].call_id: True})).why == "completed"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--resume"]:
        print(json.dumps([walk._asdict() for walk in asyncio.run(elsewhere(sys.argv[2]))]))
    else:
        main(sys.argv[1:])
