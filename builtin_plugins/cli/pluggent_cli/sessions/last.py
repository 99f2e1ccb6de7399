"""``pluggent last``: prints the last reply of a stored session. Asks no model and opens no host."""

from __future__ import annotations

import argparse

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.messages import Role
from pluggent_transcript.entries import Said

from pluggent_cli import exits
from pluggent_cli.host_access import prepare_to_look
from pluggent_cli.inputs.last_session import last_session
from pluggent_cli.parsing import Parser, command_parser, examples, one_name
from pluggent_cli.sessions.reader import StoredSession, StoredTurn, read_session
from pluggent_cli.sessions.store import open_sessions
from pluggent_cli.terminal.code_blocks import last_code_block
from pluggent_cli.terminal.console import Console
from pluggent_cli.terminal.live import PlainAnswer, answer_for


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "last",
        "[OPTIONS] [SESSION]",
        "Print the last reply of a session, by default of the last one that you began in this folder.",
        examples(
            "pluggent last",
            "pluggent last -x > script.sh              its last code block alone",
            "pluggent last trip --json",
        ),
    )
    made.add_argument("words", metavar="SESSION", nargs="*", help="the session, or the first letters of its id")
    made.add_argument("-x", "--extract", action="store_true", help="print the last code block of the reply alone")
    made.add_argument("--plain", action="store_true", help="print the reply as it was written, also on a terminal")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the reply. Raises SessionError if there is none, or no code block in it."""
    setup = prepare_to_look(options, console)
    with open_sessions(setup) as sessions:
        if options.words:
            id = sessions.named("last", one_name("last", options.words))
        else:
            id = last_session(setup, "pluggent last")
        session = read_session(sessions, id)
    turn, text = last_reply(session)
    code = last_code_block(text) if options.extract else None
    if options.extract and code is None:
        raise SessionError(f"the last reply of session '{id}' has no code block; to read it: pluggent last {id}")
    if console.json:
        more = {"code": code} if options.extract else {}
        console.document({"session": id, "turn": turn.began.turn_id, "text": text, **more})
    else:
        answer = PlainAnswer(console) if options.extract else answer_for(console, plain=options.plain)
        answer.add(text if code is None else code)
        answer.end()
    if session.problem:
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(session.problem)}")
    return exits.FAILED if session.problem else exits.OK


def last_reply(session: StoredSession) -> tuple[StoredTurn, str]:
    """Return the last turn in which the model said something, and that. Raises SessionError if there is none."""
    for turn in reversed(session.turns):
        if turn.undone:
            continue
        for entry in reversed(turn.entries):
            if isinstance(entry, Said) and entry.message.role is Role.ASSISTANT and entry.message.text.strip():
                return turn, entry.message.text
    raise SessionError(session.problem or f"session '{session.id}' has no reply yet")
