"""What the path of a tool call costs: decided by more and more policies, recorded, run; and idle hooks."""

import asyncio
import tempfile
import timeit
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from answering_models import Caller
from figures import rounds, row, show
from pluggent_function_tools.function_tool import function_tool
from pluggent_hookspecs import DecisionMade, Observation, Scope, hookimpl
from pluggent_host import Host
from pluggent_host.assembly import assemble, look_around, take_apart
from pluggent_host.hooks.caller import Deadline
from pluggent_host.hooks.order import Chains
from pluggent_host.operations.operation import Ready
from pluggent_host.operations.tool_call import CallRunner, ToolCallOperation
from pluggent_host.settings import HostSettings
from pluggent_host.tools.toolset import BoundTool, bind
from pluggent_host.tools.workspace_guard import Protected
from pluggent_host.turns.record import Services
from pluggent_transcript.entries import Decided, Transcript
from pluggent_transcript.logs import MemoryTranscript
from saved import FileTranscript

ROUNDS = 60
CALLS = 200
GOALS = {0: None, 1: 30.0, 10: 45.0}
"""CPU µs of one call, by the number of policies; see the design."""
IDLE_US = 0.1
SETTINGS = HostSettings(fsync="off")


class Nothing:
    """A policy that has no objection."""

    @hookimpl
    def decide_tool_call(self, event: object) -> None:
        """Say nothing."""


class Waiting:
    """A policy that has no objection, after it has really waited."""

    @hookimpl
    async def decide_tool_call(self, event: object) -> None:
        """Say nothing, one trip through the loop later."""
        await asyncio.sleep(0)


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = bind(
    function_tool(add), name="add", capability="app:tools:tool/add", plugin="app:tools",
    operator_effects=None, trusted=True,
)  # fmt: skip


def main() -> None:
    """Print the tables."""
    print_idle()
    asyncio.run(print_calls())
    asyncio.run(print_whole_calls())


# ---- hooks that no plugin implements -----------------------------------------------------


def print_idle() -> None:
    """Print what a call site costs whose chain is empty."""
    show("a hook that no plugin implements", "CPU µs")
    chains = Chains({}, "")
    code = "if chains['transform_tool_call']: pass"
    loop = min(timeit.repeat("pass", number=100_000, repeat=9))
    values = timeit.repeat(code, number=100_000, repeat=ROUNDS, globals={"chains": chains})
    row("one call site", [10 * (value - loop) for value in values], 3, IDLE_US)


# ---- one call, decided, recorded and run -------------------------------------------------


async def print_calls() -> None:
    """Print what it costs to prepare, freeze, decide, record and run one call that does not wait."""
    show("one tool call: arguments, digest, deadline, record, result", "CPU µs")
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        for kind in ("memory", "file"):
            for count, goal in GOALS.items():
                folder = Path(scratch) / "sessions" if kind == "file" else None
                values = await calls([Nothing() for _ in range(count)], folder)
                row(f"{count} policies, transcript in {kind}", values, goal=goal)
    row("1 policy that really waits, transcript in memory", await calls([Waiting()], None))


async def calls(policies: Sequence[object], folder: Path | None) -> list[float]:
    """Return what a call costs under *policies*; its record goes to a file in *folder*, or to memory."""
    async with desk(policies, folder) as taken:
        return await rounds(taken.call, CALLS, ROUNDS)


@asynccontextmanager
async def desk(policies: Sequence[object], folder: Path | None) -> AsyncGenerator["Desk"]:
    """Open a host's parts and one transcript."""
    parts = await assemble(SETTINGS, look_around(SETTINGS, installed=False, acknowledged=None), policies)
    transcript = MemoryTranscript() if folder is None else FileTranscript(folder, f"with-{len(policies)}")
    try:
        yield Desk(parts.services, transcript, ADD)
    finally:
        await transcript.aclose()
        await take_apart(parts)


class Desk:
    """Stands in for a turn: keeps the records, and lends calls what they need."""

    def __init__(self, services: Services, transcript: Transcript, tool: BoundTool) -> None:
        self._runner = CallRunner(services.caller, services.threads, Protected(), self._context, self._doubts)
        self.operations = services.operations
        self.scope = Scope("benchmark", "t1")
        self._emit = services.emit
        self._transcript = transcript
        self._tool = tool
        self._number = 0

    async def call(self) -> None:
        """Do what is done about one call that a model has made."""
        self._number += 1
        arguments = self._tool.prepare('{"a": 1, "b": 2}')
        operation = ToolCallOperation(
            self._runner, self, self.scope, self._tool, f"call_{self._number}", arguments, 0, self._number, 60.0
        )
        decided = await self.operations.decide(operation)
        assert isinstance(decided, Ready)
        output = await self.operations.perform(decided)
        assert output.data == 3

    def record(self, decision: DecisionMade) -> None:
        self._transcript.append(Decided(decision))

    def flush(self) -> None:
        """Wait for nothing: memory and files answer at once."""

    def emit(self, event: Observation) -> None:
        self._emit(event)

    def _context(self, call: ToolCallOperation, clock: Deadline) -> Any:
        return Ending()

    def _doubts(self, call: ToolCallOperation, event: object) -> str:
        return ""


class Ending:
    """The context of a call that asks for nothing."""

    def end(self) -> None:
        """No reader waits any more."""


# ---- the same as a model makes them ------------------------------------------------------


async def print_whole_calls() -> None:
    """Print what one more call costs in a turn: also its task, its messages, its events and its result's record."""
    show(f"one more call in a turn (a turn with {CALLS + 1}, minus one with 1)", "CPU µs")
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        for kind in ("memory", "file"):
            for count in GOALS:
                folder = scratch if kind == "file" else None
                one, many = [await turns(count, number, folder) for number in (1, CALLS + 1)]
                values = [(each - min(one)) / CALLS for each in many]
                row(f"{count} policies, transcript in {kind}", values)


async def turns(policies: int, calls: int, folder: str | None) -> list[float]:
    """Return what turns cost in which the model makes as many *calls* under as many *policies*."""
    options = {"model": "caller/m", "plugins": [Caller(calls)], "installed": False, "config": SETTINGS}
    async with Host.open(
        **options, tools=[add], policies=[Nothing() for _ in range(policies)], state_dir=folder
    ) as host:

        async def turn() -> None:
            async with await host.session() as session:
                assert (await session.say("go")).text == "done"

        return await rounds(turn, 1, ROUNDS)
