"""A workplace for attacks on turns that wait: hosts one after the other on one folder, and its files by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pluggent_cli.sessions.answer import answer_stored
from pluggent_hookspecs import Approval, Ask, ToolCallEvent, hookimpl, tool
from pluggent_host import HostSettings
from pluggent_testing.fakes import Reply
from policy_stage import Stage, stage

PAUSING = HostSettings(on_ask="pause")


class Asks:
    """Asks about every tool called write…, in words that can be changed; None: about none."""

    def __init__(self, words: str | None = "it writes") -> None:
        self.words = words

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask | None:
        return Ask(self.words) if self.words is not None and event.tool.name.startswith("write") else None


@tool(effects=())
def write() -> str:
    """Write."""
    return "written"


@tool(effects=())
def look() -> str:
    """Look."""
    return "seen"


def writer(done: list[str]) -> Any:
    """Return a tool ``write`` that notes in *done* what it does."""

    @tool(effects=())
    def write() -> str:
        """Write."""
        done.append("written")
        return "written"

    return write


def named(plugin: object, name: str) -> object:
    """Return *plugin* under another id: chains go by them."""
    plugin.__class__ = type(name, (type(plugin),), {})
    return plugin


def about_write(answer: object, *, is_async: bool, name: str) -> object:
    """Return a policy that says *answer* to every write."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event: ToolCallEvent) -> object:
            return answer if event.tool.name == "write" else None

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event: ToolCallEvent) -> object:
            await asyncio.sleep(0)
            return answer if event.tool.name == "write" else None

    return named(AsyncPolicy() if is_async else Policy(), name)


def answers(on: Stage, answer: Any = True) -> dict[str, Any]:
    """Return *answer* to all that waits in the session of *on*; none for None."""
    return {} if answer is None else {each.call_id: answer for each in on.session.pending}


class Workplace:
    """A folder of sessions, the tools of those who work there, and what these have done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: list[str] = []
        self.asks = Asks()

    def tools(self) -> list[Any]:
        """Return ``write``, which asks, and ``erase`` and ``look``, which do not."""

        @tool(effects=("filesystem_write",))
        def write(text: str) -> str:
            """Write."""
            self.done.append(text)
            return f"wrote {text}"

        @tool(effects=("filesystem_write",))
        def erase(text: str) -> str:
            """Erase."""
            self.done.append(f"erased {text}")
            return f"erased {text}"

        @tool(effects=())
        def look() -> str:
            """Look."""
            return "seen"

        return [write, erase, look]

    @asynccontextmanager
    async def open(self, *replies: Reply, plugins: Iterable[object] = (), **options: Any) -> AsyncGenerator[Stage]:
        """Open the session ``s`` in a new host, in which the model gives *replies*."""
        given: dict[str, Any] = {"config": PAUSING, "tools": self.tools(), "id": "s", "state_dir": self.folder}
        async with stage(*replies, plugins=[self.asks, *plugins], **{**given, **options}) as on:
            yield on

    async def pause(self, *calls: Any, **options: Any) -> Any:
        """Let the model make *calls*, and return what came of the turn."""
        async with self.open(calls, **options) as on:
            return await on.session.say("go")

    async def resume(self, *replies: Reply, answer: Any = True, **options: Any) -> tuple[Any, Stage]:
        """Resume in a new host with *answer* to all that waits; return the result and the stage, closed."""
        async with self.open(*replies, **options) as on:
            return await on.session.resume(answers(on, answer)), on

    def store_answer(self, paused: Any, *, agreed: bool = True, session: str = "s") -> None:
        """Answer the first request of *paused* from outside, as the command does."""
        answer_stored(
            self.folder / "sessions", session, [paused.pending[0].digest], Approval(agreed=agreed), "terminal:ann"
        )

    # ---- the file of a session, by hand ---------------------------------------------------

    def file(self, session: str = "s") -> Path:
        """Return where a session is kept."""
        return self.folder / "sessions" / f"{session}.jsonl"

    def lines(self, kind: str = "", session: str = "s") -> list[bytes]:
        """Return the lines of a session, those of *kind* alone if it is given."""
        whole = self.file(session).read_bytes().splitlines(keepends=True)
        return [line for line in whole if kind in ("", json.loads(line)["t"])]

    def append(self, *lines: bytes, session: str = "s") -> None:
        """Write *lines* at the end of a session."""
        with self.file(session).open("ab") as file:
            file.writelines(lines)

    def edit(self, kind: str, change: Callable[[dict[str, Any]], object], session: str = "s") -> None:
        """Let *change* edit every entry of *kind* in place."""
        made: list[bytes] = []
        for line in self.lines(session=session):
            plain = json.loads(line)
            if plain["t"] == kind:
                change(plain)
                line = json.dumps(plain, separators=(",", ":")).encode() + b"\n"  # noqa: PLW2901 (the same line, edited)
            made.append(line)
        self.file(session).write_bytes(b"".join(made))
