"""What attacks on policies are made with: hosts in turn on one folder, and policies of random composition."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
from fake_distributions import importable, install
from pluggent_hookspecs import Allow, Approval, Ask, Deny, Respond, ToolCallEvent, hookimpl, tool
from pluggent_host import HostSettings
from pluggent_testing.fakes import Reply
from policy_stage import Stage, stage
from saved import answer_stored

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
                plain.pop("crc", None)  # as in the lines of an earlier version
                line = json.dumps(plain, separators=(",", ":")).encode() + b"\n"  # noqa: PLW2901 (the same line, edited)
            made.append(line)
        self.file(session).write_bytes(b"".join(made))


INSTALLED = ("acme-a", "acme-m", "acme-z")
NAMES = (*INSTALLED, "app:b_member", "app:n_member", "app:y_member")
"""Ids of members; chains go by them."""
CHAINED = frozenset({"decide_input", "decide_model_request", "decide_tool_call"})
"""Hooks that may answer in place of what is decided about."""

FAILURES: tuple[BaseException, ...] = (ValueError("broken"), asyncio.CancelledError(), SystemExit(0), TimeoutError())
RUBBISH: tuple[object, ...] = (True, "allow", {"verdict": "allow"}, Allow, [Allow()])
LATE = "late"


@attrs.frozen
class Member:
    """One policy: who it is, where it stands, how it answers, and what."""

    name: str
    answer: object
    form: str = "sync"
    band: str = "normal"
    after: tuple[str, ...] = ()

    @property
    def in_code(self) -> bool:
        """Whether the application gave it."""
        return self.name.startswith("app:")

    @property
    def fails(self) -> bool:
        """Whether what it does is no answer at all."""
        return not isinstance(self.answer, Allow | Ask | Deny | Respond | None)

    def plugin(self, hook: str) -> object:
        """Return the plugin that it is, with *hook* alone."""
        mark = hookimpl(band=self.band, after=self.after, blocking=self.form == "blocking")  # type: ignore[call-overload] # bands are drawn
        functions = {"sync": _sync, "blocking": _sync, "async": _async, "waiting": _waiting, "lazy": _lazy}
        kind = self.name.removeprefix("app:")
        return type(kind, (), {hook: mark(functions[self.form](self.answer, hook))})()


def _given(answer: object) -> object:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _sync(answer: object, hook: str) -> Any:
    def decide(self: object, event: object) -> object:
        return _forever() if answer == LATE else _given(answer)

    return _called(decide, hook)


def _async(answer: object, hook: str) -> Any:
    async def decide(self: object, event: object) -> object:
        return await _forever() if answer == LATE else _given(answer)

    return _called(decide, hook)


def _waiting(answer: object, hook: str) -> Any:
    async def decide(self: object, event: object) -> object:
        await asyncio.sleep(0)
        return await _forever() if answer == LATE else _given(answer)

    return _called(decide, hook)


def _lazy(answer: object, hook: str) -> Any:
    async def later() -> object:
        return await _forever() if answer == LATE else _given(answer)

    def decide(self: object, event: object) -> object:
        return later()

    return _called(decide, hook)


def _called(function: Any, name: str) -> Any:
    function.__name__ = name
    return function


async def _forever() -> object:
    await asyncio.Event().wait()
    return Allow("after all")


_chosen: dict[str, object] = {}


class Silent:
    """What is installed and not in the composition."""

    @hookimpl
    def observe(self, event: object) -> None:
        """Look on."""


def made(name: str) -> object:
    """Return the plugin that the distribution *name* is at the moment; its entry point calls this."""
    return _chosen.get(name) or Silent()


@contextmanager
def installed(folder: Path) -> Generator[None]:
    """Install distributions of the names of INSTALLED, which are what ``playing`` says."""
    for name in INSTALLED:
        module = name.replace("-", "_")
        source = f"from attacks import made\n\ndef Plugin():\n    return made({name!r})\n"
        install(folder, name, {f"hooks/{name}": f"{module}:Plugin"}, modules={module: source})
    with importable(folder):
        yield


@contextmanager
def playing(members: Sequence[Member], hook: str) -> Generator[list[object]]:
    """Let the installed ones of *members* be installed; yield the plugins of the others, in order."""
    plugins = [(member, member.plugin(hook)) for member in members]
    _chosen.update({member.name: plugin for member, plugin in plugins if not member.in_code})
    try:
        yield [plugin for member, plugin in plugins if member.in_code]
    finally:
        _chosen.clear()


def outcome(
    hook: str, members: Sequence[Member], *, may_allow: Sequence[str], may_respond: Sequence[str],
    approved: object, host_asks: bool,
) -> str:  # fmt: skip
    """Return what the algebra says: denied, run, or the text that is answered. The model of the property."""
    answers = [member.answer for member in members]
    responding = [member for member in members if isinstance(member.answer, Respond)]
    if any(member.fails or isinstance(member.answer, Deny) for member in members):
        return "denied"
    if any(hook not in CHAINED or not (member.in_code or member.name in may_respond) for member in responding):
        return "denied"
    texts = {str(answer.value) for answer in answers if isinstance(answer, Respond)}
    lifted = any(isinstance(each.answer, Allow) and (each.in_code or each.name in may_allow) for each in members)
    asked = any(isinstance(answer, Ask) for answer in answers) or (host_asks and not lifted)
    if len(texts) > 1 or (asked and approved is not True):
        return "denied"
    return texts.pop() if texts else "run"
