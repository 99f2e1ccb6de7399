"""``pluggent resume``: continues a turn that waited for an approval. What is still open is asked at the terminal."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, SessionError

from pluggent_cli import process
from pluggent_cli.chat.loop import CODES, open_talk
from pluggent_cli.host_access import Setup, prepare
from pluggent_cli.parsing import Parser, add_limits, command_parser, examples, limit_flags, one_name
from pluggent_cli.process import log_to
from pluggent_cli.sessions.pending import Waiting, waiting_in
from pluggent_cli.sessions.store import open_sessions
from pluggent_cli.terminal.console import Console
from pluggent_cli.terminal.tty import Keys

_GO_ON = 'run --session {id} "…"'


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "resume",
        "[OPTIONS] SESSION",
        "Continue a turn that waits for an approval. What was approved runs, what was denied does not, and\n"
        "what is still open is put to you at the terminal; where there is none the turn pauses again. Every\n"
        "policy decides once more, on exactly what was approved; a tool that has changed since is refused.",
        examples(
            "pluggent resume trip",
            "pluggent approvals approve trip 023a10b829c2316c && pluggent resume trip",
            "pluggent resume trip --tool weather --tool send_mail     if these were offered before",
        ),
    )
    made.add_argument("words", metavar="SESSION", nargs="*", help="the session, or the first letters of its id")
    made.add_argument("-m", "--model", metavar="MODEL", default="", help="such as openai/gpt-5-mini, gpt-5-mini, or an"
                      " alias of the settings")  # fmt: skip
    made.add_argument("--tool", metavar="TOOL", action="append", default=[], help="offer this tool or plugin's tools"
                      " (repeatable; default: all that are installed)")  # fmt: skip
    made.add_argument("--workspace", metavar="DIR", help="the folder that tools work in (default: where the turn"
                      " was)")  # fmt: skip
    made.add_argument("--no-stream", action="store_true", help="print the answer when it is whole")
    made.add_argument("--plain", action="store_true", help="print the answer as it was written, also on a terminal")
    add_limits(made)
    # What a run is asked about besides, and has been settled.
    made.set_defaults(session="", system=None, no_save=False, no_tools=False, continues=False, parameters=None)
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Continue the turn and return its exit code."""
    flags = limit_flags(options)
    beginning = one_name("resume", options.words)
    setup = prepare(options, console, flags)
    with open_sessions(setup) as sessions:
        options.session = sessions.named("resume", beginning)
        waiting = waiting_in(sessions, options.session)
    if waiting is None:
        raise SessionError(f"session '{options.session}' has no turn that waits for a person")
    options.workspace = options.workspace or _folder_of(waiting)
    log_to(console, debug=options.debug)
    keys = Keys()
    return process.run(_go_on(setup, options, console, keys), before_dying=keys.release)


def _folder_of(waiting: Waiting) -> str | None:
    """Return the folder that the turn's tools worked in, None if none is known. Raises ConfigError if it is gone."""
    known = next((call.workspace for call in waiting.calls if call.workspace), None)
    if known is not None and not Path(known).is_dir():
        problem = f"the turn worked in {escape_all(known)}, which is not a folder; name another one"
        raise ConfigError("--workspace", [problem])
    return known


async def _go_on(setup: Setup, options: argparse.Namespace, console: Console, keys: Keys) -> int:
    async with open_talk(setup, options, console, keys, pausing=True) as talk:
        try:
            result = await talk.resume()
        except asyncio.CancelledError:
            console.note("\ninterrupted" if console.err_is_terminal else "interrupted")
            raise
        if console.json:
            console.document(talk.document(result))
        talk.explain(result, answer_with="with run --session")
        talk.say_where(_GO_ON)
    return CODES[result.why]
