"""``pluggent tools``: the tools that are installed, the schema of one, and one call of one under the policies."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pluggent_hookspecs import Json, thaw
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.markers import hookimpl
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import Observation
from pluggent_hookspecs.tools import ToolOutput
from pluggent_hookspecs.words import read_words
from pluggent_host.session import Session
from pluggent_transcript.entries import Settled

from pluggent_cli import exits, process
from pluggent_cli.completion.words import remember_tools
from pluggent_cli.host_access import Setup, open_for_listing, open_host, prepare, workspace_option
from pluggent_cli.parsing import Parser, action, command_parser, examples, one_name, typed_text
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, escape_controls
from pluggent_cli.terminal.person import person_at_terminal, say_how_to_approve
from pluggent_cli.terminal.screen import Calls, Screen, text_of
from pluggent_cli.terminal.tool_listing import find_tool, tool_document, tool_row

T = TypeVar("T")

DIRECT = ".direct"
"""How the id of a call ends that no model made."""

_CODES = {
    "": exits.OK,
    ToolErrorKind.UNKNOWN: exits.USAGE,
    ToolErrorKind.ARGUMENTS: exits.USAGE,
    ToolErrorKind.DENIED: exits.DENIED,
}


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "tools",
        "[OPTIONS] [schema NAME | call NAME [KEY=VALUE … | JSON]]",
        "List the installed tools, show the definition that a model gets, or call one.\n"
        "A call passes every policy that a model's call would pass, and is recorded as one.",
        examples(
            "pluggent tools",
            "pluggent tools schema weather",
            "pluggent tools call weather city=Beijing unit=fahrenheit",
            'pluggent tools call forecast \'{"city": "Paris", "days": 2}\'',
            "pluggent tools call forecast city=Paris days:=2       := takes the value as JSON in any case",
        ),
    )
    made.add_argument(
        "words", metavar="ACTION", nargs="*", type=typed_text, help="schema NAME, or call NAME and its arguments"
    )
    made.add_argument("--workspace", metavar="DIR", help="the folder that tools work in (default: where you are,"
                      " unless that is your home folder)")  # fmt: skip
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """List, show or call."""
    what, rest = action("tools", options.words, ("schema", "call"))
    name = one_name("tools schema", rest) if what == "schema" else ""
    if what == "call" and not rest:
        one_name("tools call", rest)
    setup = prepare(options, console)
    log_to(console, debug=options.debug)
    workspace = workspace_option(options.workspace)
    match what:
        case "schema":
            return process.run(_schema(setup, console, name))
        case "call":
            return process.run(_call(setup, console, rest[0], rest[1:], workspace))
        case _:
            return process.run(_list(setup, console))


# ---- looking ----------------------------------------------------------------------------


async def _list(setup: Setup, console: Console) -> int:
    async with open_for_listing(setup, console) as (host, _), await host.session(tools=("*",)) as session:
        remember_tools(str(setup.state_dir), [tool.name for tool in session.tools])
        if console.json:
            broken = {record.capability: reason for record, state, reason in host.plugins if _lacks(state, reason)}
            console.document({"tools": [tool_document(tool) for tool in session.tools], "broken": broken})
        elif session.tools:
            console.table(("TOOL", "PLUGIN", "EFFECTS", "CALLS"), [tool_row(tool) for tool in session.tools])
        else:
            console.line("no tools are installed; to try some: pip install pluggent-weather")
    return exits.OK


def _lacks(state: str, reason: str) -> bool:
    """Say whether tools of a plugin are not there: all, or those of a source."""
    return state == "failed" or (state == "active" and bool(reason))


async def _schema(setup: Setup, console: Console, name: str) -> int:
    async with open_for_listing(setup, console) as (host, _), await host.session(tools=("*",)) as session:
        console.document(tool_document(find_tool(session, name, "pluggent tools")))
    return exits.OK


# ---- calling ----------------------------------------------------------------------------


async def _call(setup: Setup, console: Console, name: str, words: Sequence[str], workspace: Path | None) -> int:
    typed: list[str] = []
    calls = Calls(lambda call_id: (0, ToolCall(call_id, name, typed[0])) if call_id.endswith(DIRECT) else None)
    screen = Screen(console, calls, answer=None, results=False)
    watcher = Watcher()
    approver, answerer = person_at_terminal(setup, console.err_ink, screen.shown)
    async with (
        open_host(
            setup, plugins=[watcher], approver=approver, answerer=answerer,
            state_dir=setup.state_dir, workspace=workspace,
        ) as host,
        await host.session(tools=("*",), origin="cli") as session,
    ):  # fmt: skip
        tool = find_tool(session, name, "pluggent tools")
        typed.append(read_arguments(words, tool.spec.parameters))
        output = await watcher.watch(session.call_tool(tool.name, typed[0], origin="cli"), screen.show)
        kind = _kind(session)
    code = exits.DENIED if calls.all[-1].withheld else _CODES.get(kind, exits.FAILED)
    _print(console, output, kind, calls, code)
    return code


def _kind(session: Session) -> str:
    return next((entry.outcome for entry in reversed(session.records()) if isinstance(entry, Settled)), "")


def _print(console: Console, output: ToolOutput, kind: str, calls: Calls, code: int) -> None:
    call = calls.all[-1]
    if console.json:
        console.document({**call.document(), "kind": kind, "exit_code": code})
    elif not output.is_error:
        text = text_of(output) or json.dumps(thaw(output.data), ensure_ascii=False)
        console.line(escape_controls(text) if console.out_is_terminal else text)
    elif console.quiet or call.verdict not in ("deny", "refused"):  # those have been shown, with the reason
        console.error(console.err_ink("red", escape_controls(text_of(output))))
    if kind == ToolErrorKind.DENIED and call.verdict == "ask":
        say_how_to_approve(console)


def read_arguments(words: Sequence[str], schema: Mapping[str, Json]) -> str:
    """Return *words* as JSON text; whether they suit the tool is the host's to say, an object as it was typed.

    Raises ConfigError naming every word that is neither; see read_words.

    >>> read_arguments(["city=10115", "days=2"], {"properties": {"city": {"type": "string"}}})
    '{"city": "10115", "days": 2}'
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return words[0]
    return json.dumps(read_words(words, schema, "pluggent tools call"), ensure_ascii=False)


class Watcher:
    """A plugin that queues every event. Give it to the host, then ``watch`` something."""

    def __init__(self) -> None:
        self._events = asyncio.Queue[Observation | None]()

    @hookimpl
    def observe(self, event: Observation) -> None:
        """Queue *event*; it is shown by ``watch``, and so delays nothing."""
        self._events.put_nowait(event)

    async def watch(self, work: Coroutine[Any, Any, T], show: Callable[[Observation], None]) -> T:
        """Return the result of *work*, and call *show* with each event meanwhile."""
        task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                show(event)
        finally:
            task.cancel()
            await asyncio.wait((task,))
        return task.result()
