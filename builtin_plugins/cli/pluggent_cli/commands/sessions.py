"""``pluggent sessions``: list, show, search, export and delete the sessions that were saved.

Listing and searching take no lease. Sessions in files are listed and searched with the standard library alone.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.host_access import prepare_to_look
from pluggent_cli.parsing import Parser, action, command_parser, examples, one_name, one_of, typed_text, whole_number
from pluggent_cli.sessions.search import AROUND, Found, Unreadable, search_sessions
from pluggent_cli.sessions.store import Sessions, open_sessions
from pluggent_cli.sessions.summary import Summary, summarise
from pluggent_cli.terminal.console import Console, Row, cells, moment, warning
from pluggent_cli.terminal.tty import agreed, can_ask

ACTIONS = ("list", "show", "search", "export", "delete")
LISTED = 20
FOUND = 50
_HEAD = ("SESSION", "WHEN", "MODEL", "TURNS", "TOKENS", "FIRST WORDS")
_LEAST_WORDS = 12
_INDENT = 4
_GAPS = 2 * (len(_HEAD) - 1)


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "sessions",
        "[OPTIONS] [list | show ID | search TEXT | export ID | delete ID …]",
        "Look at the conversations that were saved: list them (the last used first), read one, search all of\n"
        "them, export one for other programs or people, delete some. Nothing but delete waits for a session\n"
        "that is in use. Instead of an ID its first letters do, as long as they mean one session.",
        examples(
            "pluggent sessions --limit 100             more of them; 0 is all",
            "pluggent sessions show trip",
            "pluggent sessions search umbrella paris   the two words side by side, in any case",
            "pluggent sessions export trip --format markdown -o trip.md",
            "pluggent sessions export trip | jq -r '.turns[].messages[] | select(.role == \"user\").text'",
            "pluggent sessions delete s6b00c2ea-d225816a --yes",
        )
        + "\n\nExported is what came out of the hooks. JSON is documented in pluggent_cli/sessions/export.py; it\n"
        "says its version, which changes only if keys change their meaning.",
    )
    made.add_argument(
        "words",
        metavar="ACTION",
        nargs="*",
        type=typed_text,
        help=f"one of {', '.join(ACTIONS)}, and what belongs to it",
    )
    made.add_argument("--limit", metavar="N", type=whole_number, help=f"show N sessions ({LISTED}) or places that were"
                      f" found ({FOUND}); 0 is all")  # fmt: skip
    made.add_argument("--format", metavar="FORMAT", type=one_of("json", "markdown"), default="json",
                      help="of an export: json (default), markdown")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE", help="export into this file, which is replaced")
    made.add_argument("--yes", action="store_true", help="delete without asking")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the action that *options* name."""
    what, rest = action("sessions", options.words, ACTIONS)
    if what not in ("", "list"):
        _check_words(what, rest)
    elif rest:
        raise ConfigError("pluggent sessions list", [f"takes no name, got {rest[0]!r}"])
    with open_sessions(prepare_to_look(options, console)) as sessions:
        match what:
            case "search":
                return _search(sessions, console, " ".join(rest), FOUND if options.limit is None else options.limit)
            case "delete":
                return _delete(sessions, console, rest, asked=not options.yes)
            case "show" | "export":
                # Here and not above: reading a session whole takes the converter of all types.
                from pluggent_cli.sessions.view import export, show

                id = sessions.named(f"sessions {what}", rest[0])
                return show(sessions, id, console) if what == "show" else export(sessions, id, options, console)
            case _:
                return _list(sessions, console, LISTED if options.limit is None else options.limit)


def _check_words(what: str, words: Sequence[str]) -> None:
    """Raise ConfigError if *words* are not what the action *what* needs."""
    if what in ("show", "export"):
        one_name(f"sessions {what}", words)
    elif not " ".join(words).strip():
        needed = "a TEXT" if what == "search" else "an ID, or several"
        raise ConfigError(f"pluggent sessions {what}", [f"needs {needed}. See pluggent sessions --help"])


# ---- listing ----------------------------------------------------------------------------


def _list(sessions: Sessions, console: Console, limit: int) -> int:
    page = sessions.first(limit)
    total = page.total if page.cursor is not None else len(page.sessions)
    seen = [summarise(sessions, one) for one in page.sessions]
    if console.json:
        listed = [one._asdict() for one in seen]
        where = {"store": sessions.store.name, "folder": sessions.folder}
        console.document({**where, "total": total, "sessions": listed})
        return exits.OK
    if seen:
        _table(console, seen)
    else:
        console.line(f'no sessions in {escape_all(sessions.where)}; one begins with: pluggent run "hello"')
    if page.cursor is not None:
        left = "" if total is None else f"{total - len(seen):,} "
        console.note(console.err_ink("dim", f"{left}older ones are not shown; all: pluggent sessions --limit 0"))
    return exits.OK


def _table(console: Console, seen: Sequence[Summary]) -> None:
    """Print a row for each; the first words in the last column, or below where the line is too short."""
    rows = [(one.id, moment(one.modified_s), one.model, str(one.turns), _tokens(one)) for one in seen]
    taken = sum(max(cells(escape_all(cell)) for cell in column) for column in zip(_HEAD, *rows, strict=False))
    columns = console.width - taken - _GAPS
    if columns >= _LEAST_WORDS:
        listed = [
            Row((*row, _shortened(one.first_words, columns)), ("bold",), _below(one))
            for one, row in zip(seen, rows, strict=True)
        ]
        console.table(_HEAD, listed)
        return
    columns = console.width - _INDENT
    listed = [
        Row(row, ("bold",), [("dim", _shortened(one.first_words, columns)), *_below(one)])
        for one, row in zip(seen, rows, strict=True)
    ]
    console.table(_HEAD[:-1], listed)


def _below(one: Summary) -> list[tuple[str, str]]:
    damage = f"damaged: {one.problem}" if one.problem else ""
    return [("yellow", "in use by a process" if one.in_use else ""), ("red", damage)]


def _tokens(one: Summary) -> str:
    known = (one.input_tokens, one.output_tokens)
    return "?" if known == (None, None) else f"{sum(filter(None, known)):,}"


def _shortened(text: str, columns: int) -> str:
    """Return *text* on one line, cut to *columns*."""
    shown = _in_line(text.strip())
    if cells(shown) <= columns:
        return shown
    while cells(shown) >= columns:
        shown = shown[: min(len(shown), columns) - 1]
    return shown + "…"


# ---- searching --------------------------------------------------------------------------


def _search(sessions: Sessions, console: Console, text: str, limit: int) -> int:
    found: list[Found] = []
    problems: list[Unreadable] = []
    more = False
    for one in search_sessions(sessions, text):
        if isinstance(one, Unreadable):
            problems.append(one)
            console.note(warning(console, f"session '{one.session}' {one.problem}"))
        elif limit and len(found) == limit:
            more = True
            break
        else:
            found.append(one)
            if not console.json:
                _place(console, one)
    if console.json:
        console.document({
            "found": [one._asdict() for one in found], "more": more, "problems": [one._asdict() for one in problems],
        })  # fmt: skip
    elif not found:
        console.line(f"nothing like '{escape_all(text)}' was said in any session")
    if more:
        console.note(console.err_ink("dim", f"there is more than these {limit:,}; all: --limit 0"))
    return exits.OK


def _place(console: Console, one: Found) -> None:
    where = f"{console.ink('bold', one.session)} {escape_all(one.turn)} {console.ink('cyan', escape_all(one.who))}:"
    before = ("…" if len(one.before) == AROUND else "") + _in_line(one.before)
    after = _in_line(one.after) + ("…" if len(one.after) == AROUND else "")
    console.line(f"{where} {before}{console.ink('yellow', _in_line(one.match))}{after}")


def _in_line(text: str) -> str:
    return escape_all(re.sub(r"\s+", " ", text))


# ---- deleting ---------------------------------------------------------------------------


def _delete(sessions: Sessions, console: Console, ids: Sequence[str], *, asked: bool) -> int:
    # By whole ids alone: what is deleted is what was typed.
    wrong = [id for id in dict.fromkeys(ids) if sessions.matching(id) != (id,)]
    if wrong:
        known = [one.id for one in sessions.all(brief=True)]
        problems = [f"there is no session {id!r}{did_you_mean(id, known)}" for id in wrong]
        raise ConfigError("pluggent sessions delete", problems)
    if asked and not _agreed(list(dict.fromkeys(ids))):
        console.note("nothing was deleted")
        return exits.FAILED
    deleted: list[str] = []
    failed: list[str] = []
    for id in dict.fromkeys(ids):
        try:
            sessions.delete(id)
            deleted.append(id)
        except SessionError as error:
            failed.append(str(error))
    code = exits.FAILED if failed else exits.OK
    if console.json:
        console.document({"deleted": deleted, "problems": failed, "exit_code": code})
    else:
        for id in deleted:
            console.line(f"deleted {console.ink('bold', id)}")
    for problem in failed:
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(problem)}")
    return code


def _agreed(ids: Sequence[str]) -> bool:
    """Ask the person at the terminal. Raises ConfigError where there is none."""
    where = "pluggent sessions delete"
    if not can_ask():
        raise ConfigError(where, ["there is no terminal to ask at; if you are sure: --yes"])
    what = "this session" if len(ids) == 1 else f"these {len(ids)} sessions"
    return agreed(where, [f"  {id}" for id in ids], f"Delete {what} for good? [y/N] ")
