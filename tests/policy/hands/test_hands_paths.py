"""No way through the tools for files, commands and the web goes round a policy: the path matrix on each of them."""

import asyncio
import functools
import inspect
import re
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from pluggent_files.plugin import Files
from pluggent_hookspecs import ProvideEvent, hookimpl
from pluggent_host import Host
from pluggent_shell.plugin import Shell
from pluggent_shell.settings import ShellSettings
from pluggent_testing.fakes import call
from pluggent_testing.paths import EntryPath, PathMatrix
from pluggent_testing.paths.operations import APPROVAL, OUTPUT, ROUND, TOOL, TURN, Operation
from pluggent_testing.paths.parts import approving
from pluggent_testing.paths.probes import CHANGED_MARK, MARK
from pluggent_testing.paths.stage import Log, Stage
from pluggent_testing.paths.ways import saying_once
from pluggent_web.plugin import Web
from pluggent_web.settings import WebSettings
from web_site import answer, redirect, site

WAIT_S = 20.0
BY_HAND = ("Session.call_tool",)


class Noting:
    """The tools of a plugin; each notes the mark in its arguments when it runs."""

    def __init__(self, plugin: Any, log: Log) -> None:
        self._plugin = plugin
        self._log = log

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        return [self._noting(each) for each in self._plugin.provide_tools(event)]

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def note(given: object) -> None:
            found = re.search(rf"{MARK.pattern}(?:{CHANGED_MARK})?", repr(given))
            self._log.note("ran", found[0] if found else "")

        if not inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            def noted(**given: Any) -> Any:
                note(given)
                return function(**given)

            return noted

        @functools.wraps(function)
        async def noted_later(**given: Any) -> Any:
            note(given)
            return await function(**given)

        return noted_later


def calling(tool: str, **arguments: Any) -> Callable[[Stage, Host], Coroutine[Any, Any, None]]:
    """Return the way of a tool that is called by hand."""

    async def way(on: Stage, host: Host) -> None:
        async with await host.session() as session:
            await on.enter(session.call_tool(tool, arguments))

    return way


def by_model(
    name: str, tool: str, plugins: Callable[[Log], tuple[object, ...]], *shown: Operation, **arguments: Any
) -> EntryPath:
    """Return the path of a call that a model makes, of which something is *shown*."""
    operations = (TURN, *ROUND, TOOL, *shown, *ROUND, OUTPUT)
    return EntryPath(
        name, ("Session.say",), {"api": operations}, saying_once(), (call(tool, "one", **arguments), "reply-2"),
        plugins=plugins, repeats=(TURN, *ROUND, OUTPUT),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class InAFolder(PathMatrix):
    """A host that works in a folder of its own each time."""

    def composition(self) -> dict[str, Any]:
        workspace = Path(mkdtemp(dir=Path.cwd()))
        (workspace / "mark-one.txt").write_text("result-of-reading\n")
        return {"installed": False, "tools": ["*"], "workspace": str(workspace)}


# ---- files ------------------------------------------------------------------------------


def files(log: Log) -> tuple[object, ...]:
    return (Noting(Files(), log),)


class TestFiles(InAFolder):
    paths = (
        by_model("files-read", "read_file", files, path="mark-one.txt"),
        EntryPath(
            "files-search", BY_HAND, {"api": (TOOL,)}, calling("search_files", pattern="mark-one"), plugins=files
        ),
        by_model("files-write", "write_file", files, OUTPUT, path="mark-new.txt", content="some text"),
        EntryPath(
            "files-write-by-hand", BY_HAND, {"api": (TOOL, OUTPUT)},
            calling("write_file", path="a.txt", content="mark-one"), plugins=files,
        ),
    )  # fmt: skip


# ---- commands ---------------------------------------------------------------------------


def commands(log: Log) -> tuple[object, ...]:
    return (Noting(Shell(ShellSettings(confinement="off")), log), *approving("decide_tool_call")(log))


class TestCommands(InAFolder):
    paths = (
        EntryPath(
            "shell-command", BY_HAND, {"api": (TOOL, APPROVAL)},
            calling("run_command", command="echo res''ult-of-mark-one"),
            plugins=commands,
        ),
    )  # fmt: skip


# ---- the web ----------------------------------------------------------------------------


class Pages:
    """A site in a thread of its own, for the whole module."""

    url = ""

    def serve(self) -> Iterator[None]:
        up, done = threading.Event(), threading.Event()

        async def run() -> None:
            pages = {
                "/mark-one": answer("result-of-fetching", content_type="text/plain"),
                "/to": redirect("/mark-one"),
            }
            async with site(pages) as served:
                self.url = served.url
                up.set()
                await asyncio.to_thread(done.wait)

        thread = threading.Thread(target=lambda: asyncio.run(run()), name="web-paths")
        thread.start()
        assert up.wait(WAIT_S)
        yield
        done.set()
        thread.join(WAIT_S)

    def web(self, log: Log) -> tuple[object, ...]:
        """Return the plugin, which may fetch from here."""
        return (Noting(Web(WebSettings(allow_private=["127.0.0.1"])), log),)


PAGES = Pages()


@pytest.fixture(scope="module", autouse=True)
def _served() -> Iterator[None]:
    yield from PAGES.serve()


async def fetched(on: Stage, host: Host) -> None:
    """Fetch a page."""
    async with await host.session() as session:
        await on.enter(session.call_tool("fetch_url", {"url": f"{PAGES.url}/mark-one"}))


class TestWeb(InAFolder):
    paths = (EntryPath("web-fetch", BY_HAND, {"api": (TOOL,)}, fetched, plugins=PAGES.web),)
