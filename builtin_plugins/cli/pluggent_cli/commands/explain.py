"""``pluggent explain``: why each operation of a stored turn was done or not, and who decided."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.host_access import prepare_to_look
from pluggent_cli.parsing import Parser, command_parser, examples, one_name
from pluggent_cli.sessions.explain import as_document, explain
from pluggent_cli.sessions.reader import StoredSession, StoredTurn, read_session
from pluggent_cli.sessions.store import open_sessions
from pluggent_cli.sessions.view import show_explanation
from pluggent_cli.terminal.console import Console


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "explain",
        "[OPTIONS] SESSION [TURN]",
        "List each operation of a turn: what each plugin said to it and how long that took, who changed what,\n"
        "who decided, which approvals were given, what ran and how it ended.",
        examples(
            "pluggent explain trip                     the last turn",
            "pluggent explain trip t3",
            "pluggent explain trip --verbose           with the plugins that had nothing to say",
            "pluggent explain trip --json | jq '.operations[].decisions[].votes'",
        )
        + "\n\nThe JSON is documented in pluggent_cli/sessions/explain.py.",
    )
    made.add_argument("words", metavar="SESSION", nargs="*", help="the session, or the first letters of its id, and"
                      " the turn (default: the last)")  # fmt: skip
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Explain the turn. A damaged session is explained as far as it can be read, and fails."""
    beginning = one_name("explain", options.words[:1])
    with open_sessions(prepare_to_look(options, console)) as sessions:
        id = sessions.named("explain", beginning)
        session = read_session(sessions, id)
    made = explain(id, _turn(session, options.words[1:]))
    if console.json:
        console.document(as_document(made))
    else:
        show_explanation(made, console)
    if session.problem:
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(session.problem)}")
    return exits.FAILED if session.problem else exits.OK


def _turn(session: StoredSession, words: Sequence[str]) -> StoredTurn:
    if len(words) > 1:
        raise ConfigError("pluggent explain", [f"takes a SESSION and one TURN, got {len(words)} of these"])
    turns = {turn.began.turn_id: turn for turn in session.turns}
    if not turns:
        raise SessionError(session.problem or f"session '{session.id}' has no turn yet")
    if not words:
        return session.turns[-1]
    if words[0] not in turns:
        meant = did_you_mean(words[0], turns) or f"; it has {', '.join(turns)}"
        raise ConfigError("pluggent explain", [f"session '{session.id}' has no turn {words[0]!r}{meant}"])
    return turns[words[0]]
