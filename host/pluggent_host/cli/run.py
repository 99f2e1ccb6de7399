"""``pluggent run``: one turn. The answer goes to standard output, what happens to standard error."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import attrs
from pluggent_hookspecs.errors import ConfigError, SessionError

from pluggent_host.cli import exits, interrupts
from pluggent_host.cli.approving import console_approver, say_how_to_approve
from pluggent_host.cli.assembling import Setup, folder_option, open_host, prepare
from pluggent_host.cli.calls import Calls, last_asked
from pluggent_host.cli.logs import log_to
from pluggent_host.cli.output import Console, harmless
from pluggent_host.cli.parsing import Parser, command_parser, examples, seconds, whole_number
from pluggent_host.cli.prompt import read_prompt
from pluggent_host.cli.screen import Screen
from pluggent_host.cli.watching import Watcher
from pluggent_host.host import Host
from pluggent_host.quoting import quoted
from pluggent_host.session import Session
from pluggent_host.step import Why
from pluggent_host.transcript_file import SESSION_ID
from pluggent_host.turn import TurnResult

_CODES = {
    Why.COMPLETED: exits.OK,
    Why.HANDLED: exits.OK,
    Why.WAITING: exits.OK,
    Why.DENIED: exits.DENIED,
    Why.LIMIT: exits.LIMIT,
    Why.CANCELLED: exits.INTERRUPTED,
    Why.FAILED: exits.FAILED,
}


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "run",
        "[OPTIONS] [PROMPT …]",
        "Run one turn: the prompt goes to the model, its tool calls pass the policies, the answer is printed.\n"
        "Without a model configured, the offline model answers: it makes the tool calls that you type.",
        examples(
            'pluggent run "weather city=Beijing & forecast city=Paris days=2"',
            'pluggent run --model openai/gpt-5-mini "Shall I take an umbrella in Paris?"',
            'git diff | pluggent run "What does this change do?" -',
            'pluggent run --session trip "Where was I going?"      go on with an earlier conversation',
            "pluggent run --json --no-tools < question.txt",
        )
        + "\n\nA call that needs approval is put to you at the terminal. Where there is none it is denied, and\n"
        "the turn ends with exit code 3.",
    )
    made.add_argument("prompt", metavar="PROMPT", nargs="*", help="what to say; - is standard input, as is none at all")
    made.add_argument("-m", "--model", metavar="PROVIDER/MODEL", default="", help="such as openai/gpt-5-mini")
    made.add_argument("--system", metavar="TEXT", help="the system prompt")
    made.add_argument("--session", metavar="ID", default="", help="go on with this session, or begin one of this name")
    made.add_argument("--no-save", action="store_true", help="keep the session in memory only")
    made.add_argument("--tool", metavar="NAME", action="append", default=[], help="offer this tool or plugin's tools"
                      " (repeatable; default: all that are installed)")  # fmt: skip
    made.add_argument("--no-tools", action="store_true", help="offer no tools")
    made.add_argument("--workspace", metavar="DIR", help="the folder that tools work in (default: where you are)")
    made.add_argument("--no-stream", action="store_true", help="print the answer when it is whole")
    made.add_argument(
        "--max-model-calls", metavar="N", type=whole_number, help="end the turn after this many model calls"
    )
    made.add_argument(
        "--max-tool-rounds", metavar="N", type=whole_number, help="end the turn after this many rounds of tool calls"
    )
    made.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        help="end the turn after this long; your own thinking does not count",
    )
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the turn and return the exit code."""
    if options.tool and options.no_tools:
        raise ConfigError("--no-tools", ["contradicts --tool; give one of the two"])
    prompt = read_prompt(options.prompt)
    flags = {
        "limits.model_calls": options.max_model_calls,
        "limits.tool_rounds": options.max_tool_rounds,
        "limits.wall_s": options.timeout,
    }
    setup = prepare(options, console, {key: value for key, value in flags.items() if value is not None})
    log_to(console, debug=options.debug)
    return interrupts.run(_turn(setup, options, console, prompt))


# ---- the turn ---------------------------------------------------------------------------


async def _turn(setup: Setup, options: argparse.Namespace, console: Console, prompt: str) -> int:
    sessions: list[Session] = []
    calls = Calls(lambda call_id: last_asked(sessions[0].history, call_id))
    live = not (options.no_stream or options.json) and console.out_is_terminal
    screen = Screen(console, calls, live=live)
    approver = console_approver(setup, console.err_ink, screen.shown)
    watcher = Watcher()
    async with (
        open_host(
            setup,
            tools=() if options.no_tools else tuple(options.tool) or ("*",),
            plugins=[watcher] if options.no_stream else [],
            approver=approver,
            state_dir=None if options.no_save else setup.state_dir,
            workspace=folder_option("--workspace", options.workspace),
        ) as host,
        await _session(host, options) as session,
    ):
        sessions.append(session)
        try:
            result = await _watched(session, prompt, screen, watcher if options.no_stream else None)
        except asyncio.CancelledError:
            console.note("\ninterrupted" if console.err_is_terminal else "interrupted")
            _say_where(console, session, options)
            raise
        if console.json:
            console.document(_document(result, calls, session, options))
        else:
            _answer(console, result, live=live)
        _explain(console, result, can_ask=approver is not None)
        _say_where(console, session, options)
    return _CODES[result.why]


async def _session(host: Host, options: argparse.Namespace) -> Session:
    try:
        return await host.session(options.session, model=options.model, system=options.system, origin="cli")
    except SessionError as error:
        if options.session and not SESSION_ID.fullmatch(options.session):
            raise ConfigError("--session", [str(error)]) from error
        error.add_note("Or keep the session in memory: --no-save")
        raise


async def _watched(session: Session, prompt: str, screen: Screen, watcher: Watcher | None) -> TurnResult:
    if watcher is None:
        async with session.stream(prompt, origin="cli") as events:
            async for event in events:
                screen.show(event)
        return events.result
    return await watcher.watch(session.say(prompt, origin="cli"), screen.show)


# ---- afterwards -------------------------------------------------------------------------


def _answer(console: Console, result: TurnResult, *, live: bool) -> None:
    if live:
        console.end_line()
    elif result.text:
        console.line(harmless(result.text) if console.out_is_terminal else result.text)


def _document(result: TurnResult, calls: Calls, session: Session, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "session": None if options.no_save else session.id,
        "model": session.model,
        "turn": result.turn_id,
        "why": str(result.why),
        "text": result.text,
        "detail": result.detail,
        "limit": result.limit,
        "usage": attrs.asdict(result.usage),
        "tool_calls": [call.document() for call in calls.all],
        "exit_code": _CODES[result.why],
    }


def _explain(console: Console, result: TurnResult, *, can_ask: bool) -> None:
    ink = console.err_ink
    match result.why:
        case Why.DENIED:
            console.error(f"{ink('red', 'denied:')} {quoted(result.detail)}")
            if not can_ask and "approv" in result.detail:
                say_how_to_approve(console)
        case Why.LIMIT:
            console.error(f"{ink('red', 'stopped:')} {quoted(result.detail)}; the conversation is whole")
        case Why.WAITING:
            console.note(ink("dim", "a tool waits for your answer; give it with --session"))
        case _:
            pass


def _say_where(console: Console, session: Session, options: argparse.Namespace) -> None:
    """Tell how to go on, once, where a person reads it."""
    if not options.no_save and (console.err_is_terminal or console.verbose) and not options.session:
        console.note(console.err_ink("dim", f'session: {session.id} (go on: pluggent run --session {session.id} "…")'))
