"""Sessions in files and other stores: written, read, answered and listed without a host; turns of every kind.

As a program it writes the state folder of pluggent 0.1 anew: python tests/support/saved.py FOLDER. Nothing should need
that.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pluggent_cli.approvals.standing import problems_in
from pluggent_cli.sessions import pending, reader, search as searching
from pluggent_cli.sessions.store import Sessions
from pluggent_cli.sessions.summary import Summary, summarise
from pluggent_hookspecs import (
    Ask,
    DecisionMade,
    Json,
    Message,
    ProviderError,
    ProviderErrorKind,
    ToolCallEvent,
    ToolContext,
    ToolError,
    Usage,
    hookimpl,
    tool,
)
from pluggent_hookspecs.decisions import Approval, Reach
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import Change, Vote
from pluggent_hookspecs.sessions import (
    ApprovalRecord,
    ApprovalRecords,
    Line,
    SessionLog,
    SessionPage,
    SessionQuery,
)
from pluggent_host import Host, HostSettings, Limits, Session
from pluggent_state_files.session_log import FileLog
from pluggent_state_files.store import FileApprovals, FileStore
from pluggent_testing.fakes import Reply, ScriptedModel, call
from pluggent_testing.sessions import MemorySessions, answered, lines_of
from pluggent_transcript.codec import decode_unsealed
from pluggent_transcript.entries import Decided, Entry, Said, SessionBegan, Settled, Spending, TurnBegan, TurnOver
from pluggent_transcript.logs import StoredTranscript
from pluggent_transcript.pending import Pending
from pluggent_transcript.standing import KIND, Approvals
from talking import Permits

CALL = ToolCall("c1", "weather", '{"city": "Beijing", "unit": "fahrenheit"}')
DECISION = DecisionMade(
    Scope("trip", "t1"), "tool_call", "t1.0.0", "digest", "allow", "host", "declared pure",
    "acme-weather:tool/weather", "c1", b'{"city":"Beijing","unit":"celsius"}',
    votes=(Vote("acme-policy", "none"),), changes=(Change("acme-policy", ("unit",), "s3cret", "celsius"),),
)  # fmt: skip


def turn(said: str, answered: str, id: str = "t1", at_s: float = 2.5) -> tuple[Entry, ...]:
    """Return a turn without tools."""
    return (
        TurnBegan(id, at_s, "cli"),
        Said(id, Message.user(said)),
        Spending(id, "scripted/m", Usage(3, 4)),
        Said(id, Message.assistant(answered)),
        TurnOver(id, "completed", usage=Usage(3, 4)),
    )


def tool_turn(result: str = "17 °C", id: str = "t1") -> tuple[Entry, ...]:
    """Return a turn with one call, whose arguments a policy changed."""
    return (
        TurnBegan(id, 2.5, "cli"),
        Said(id, Message.user("what is the weather?")),
        Said(id, Message.assistant((), (CALL,))),
        Decided(DECISION),
        Settled(id, "c1", Message.tool(CALL, result)),
        Said(id, Message.assistant("it is windy")),
        TurnOver(id, "completed"),
    )


def save(folder: Path, id: str, *entries: Entry, system: str = "", modified_s: float | None = None) -> Path:
    """Write a session and return its file."""
    transcript = FileTranscript(folder, id)
    transcript.append(SessionBegan(id, 1.5, "scripted/m", system), *entries)
    transcript.close()
    if modified_s is not None:
        os.utime(transcript.path, (modified_s, modified_s))
    return transcript.path


class FileTranscript(StoredTranscript):
    """The transcript of session *id* in *folder*, open for writing until it is closed."""

    def __init__(self, folder: Path, id: str) -> None:
        self._file = FileLog(folder, id)
        super().__init__(self._file, id)

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def force(self) -> None:
        """Force everything appended to the disk. Blocks."""
        self._file.sync()

    def close(self) -> None:
        """Give up the writer's lock. Safe twice."""
        self._file.close()


class FileStanding(Approvals):
    """The approvals that hold in every session of *folder*."""

    def __init__(self, folder: Path) -> None:
        self._file = FileApprovals(folder)
        super().__init__(self._file, at_once=True)

    def forget(self, id: str) -> bool:
        """Let the approval called *id* hold no longer; return whether there was one."""
        return self._file.drop(KIND, id)

    def problems(self) -> tuple[str, ...]:
        """Return what the command says of records that do not count."""
        return tuple(problems_in(self._file.all()))


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of the session in *path*, whatever their seals say."""
    return decode_unsealed(FileStore(path.parent).read(path.stem), str(path))


def read_session(folder: Path, id: str) -> reader.StoredSession:
    return reader.read_session(Sessions.in_files(folder), id)


def answer_stored(folder: Path, id: str, digests: Collection[str], approval: Approval, by: str) -> tuple[Pending, ...]:
    return pending.answer_stored(Sessions.in_files(folder), id, digests, approval, by)


def waiting_in(folder: Path, id: str) -> pending.Waiting | None:
    return pending.waiting_in(Sessions.in_files(folder), id)


def all_waiting(folder: Path) -> Iterator[pending.Waiting]:
    return pending.all_waiting(Sessions.in_files(folder))


def search(folder: Path, text: str) -> Iterator[searching.Found | searching.Unreadable]:
    return searching.search_sessions(Sessions.in_files(folder), text)


def matching(folder: Path, beginning: str) -> tuple[str, ...]:
    return Sessions.in_files(folder).matching(beginning)


def summaries(folder: Path, *, limit: int | None = None) -> Iterator[Summary]:
    sessions = Sessions.in_files(folder)
    return (summarise(sessions, one) for one in islice(sessions.all(brief=True), limit))


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def write(n: int) -> str:
    """Write a number."""
    return f"written {n}"


@tool
async def fail(n: int) -> str:
    """Fail."""
    raise ToolError(f"failed {n}")


@tool(timeout_s=0.01)
async def hang(n: int) -> str:
    """Hang until the deadline."""
    await asyncio.Event().wait()
    return f"never {n}"


@tool(effects=())
async def delegate(context: ToolContext, n: int) -> str:
    """Let another tool write."""
    return str((await context.call_tool("write", {"n": n})).for_model)


TOOLS = [add, write, fail, hang, delegate]

_BROKEN = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
_BATCH = (
    call("write", "a", n=1), call("add", "b", a=1, b=2), call("absent", "c"), call("write", "d", n=2),
    call("fail", "e", n=3), call("add", "f", a=1),
)  # fmt: skip
_SAME = (call("write", "x", n=1), call("write", "x", n=2), call("add", "", a=1, b=2))

SCRIPTS: dict[str, tuple[Reply, ...]] = {
    "an answer": ("hello",),
    "a tool round": (call("add", a=1, b=2), "it is 3"),
    "three rounds of one id": (*[call("write", "x", n=n) for n in range(3)], "done"),
    "a batch of everything": (_BATCH, "done"),
    "doubled ids": (_SAME, _SAME, "done"),
    "a limit": tuple(call("write", f"c{n}", n=n) for n in range(9)),
    "a provider that fails": (call("write", n=1), _BROKEN),
    "a time-out": ((call("hang", "a", n=1), call("write", "b", n=2)), "done"),
    "a nested call": (call("delegate", n=5), "done"),
}
"""What the model says in a turn of each kind."""

LIMITS = Limits(tool_rounds=4)


async def play(session: Session, kind: str) -> None:
    """Play the turn called *kind*, and one direct call after it."""
    with suppress(ProviderError):  # it is part of the play
        await session.say(f"play {kind}")
    await session.call_tool("write", {"n": 9})


async def travel() -> None:
    """Let everything else run for a while, as a network does."""
    for _ in range(5):
        await asyncio.sleep(0)


class SlowSessions:
    """``batches`` are how many lines travelled together, in order."""

    name = "slow"

    def __init__(self) -> None:
        self.kept = MemorySessions()
        self.batches: list[int] = []

    def kinds(self, id: str) -> list[str]:
        """Return the kinds of the lines that have arrived."""
        try:
            return [line.kind for line in self.kept.read(id)]
        except SessionError:
            return []

    async def open(self, session_id: str) -> SessionLog:
        await travel()
        return SlowLog(self, await answered(self.kept.open(session_id)))

    async def take_over(self, session_id: str) -> SessionLog:
        await travel()
        return SlowLog(self, self.kept.take_over(session_id))

    async def read(self, session_id: str) -> list[Line]:
        await travel()
        return self.kept.read(session_id)

    async def delete(self, session_id: str) -> None:
        await travel()
        self.kept.delete(session_id)

    async def list(self, query: SessionQuery) -> SessionPage:
        await travel()
        return self.kept.list(query)

    def approvals(self) -> ApprovalRecords:
        return SlowApprovals(self.kept.approvals())


class SlowLog:
    def __init__(self, store: SlowSessions, log: SessionLog) -> None:
        self._store = store
        self._log = log

    @property
    def place(self) -> str:
        return self._log.place

    @property
    def lease(self) -> int:
        return self._log.lease

    async def append(self, *lines: Line) -> None:
        await travel()
        await answered(self._log.append(*lines))
        self._store.batches.append(len(lines))

    async def sync(self) -> None:
        await travel()
        await answered(self._log.sync())

    async def read(self) -> AsyncIterator[Line]:
        for line in await lines_of(self._log.read()):
            await travel()
            yield line

    async def close(self) -> None:
        await travel()
        await answered(self._log.close())


class SlowApprovals:
    def __init__(self, records: ApprovalRecords) -> None:
        self._records = records

    async def put(self, kind: str, name: str, about: Mapping[str, Json]) -> None:
        await travel()
        await answered(self._records.put(kind, name, about))

    async def all(self) -> tuple[ApprovalRecord, ...]:
        await travel()
        return tuple(await answered(self._records.all()))

    async def drop(self, kind: str, name: str) -> bool:
        await travel()
        return await answered(self._records.drop(kind, name))


def forget_sizes(folder: Path) -> None:
    """Let the marks of the sessions in *folder* say nothing, so that a file that is cut is not taken for a copy."""
    marks = folder / "marks"
    if marks.exists():
        marks.write_bytes(re.sub(rb"\d+ *\n", b"0".ljust(20) + b"\n", marks.read_bytes()))


def without_checksums(text: str) -> str:
    """Return the lines of a session's file as an earlier version wrote them."""
    return re.sub(r',"crc":"[0-9a-f]{8}"\}$', "}", text, flags=re.MULTILINE)


class Office:
    """A tool that sends, and a policy that asks about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[str] = []

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask:
        return Ask("it sends")

    def host(self, *replies: Any, fsync: Literal["off", "effects"] = "effects") -> Any:
        @tool(effects=("messaging",), description="Send it.")
        def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies), self], tools=[send], installed=False,
            config=HostSettings(on_ask="pause", fsync=fsync), state_dir=self.folder, policies=[Permits()],
        )  # fmt: skip


async def write_folder(folder: Path) -> None:
    """Write the sessions ``waits``, ``answered`` and ``always``, with an approval that holds in all of them."""
    office = Office(folder)
    for id, to in (("waits", "ann"), ("answered", "bob"), ("always", "cat")):
        async with office.host(call("send", id, to=to)) as host, await host.session(id) as session:
            await session.say(f"write to {to}")
        waiting = waiting_in(folder / "sessions", id)
        if waiting is not None and id != "waits":
            reach: Reach = "always" if id == "always" else "once"
            where = {"to": "cat"} if id == "always" else {}
            approval = Approval(agreed=True, reach=reach, where=where)
            answer_stored(folder / "sessions", id, [waiting.calls[0].digest], approval, "terminal:ann")


if __name__ == "__main__":
    asyncio.run(write_folder(Path(sys.argv[1])))
