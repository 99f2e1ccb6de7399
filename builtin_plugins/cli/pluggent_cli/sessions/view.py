"""One session, or one turn of it explained, for a person to read; or the session as a file for others.

Every control character is escaped.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import thaw
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Message, ToolCall, Usage
from pluggent_hookspecs.observations import Change, DecisionMade, Vote
from pluggent_transcript.entries import Decided, Entry, ModelChosen, Said, Settled, Spending
from pluggent_transcript.pending import Resolved

from pluggent_cli import exits
from pluggent_cli.sessions.explain import Explained, Explanation
from pluggent_cli.sessions.export import as_document, text_of
from pluggent_cli.sessions.portable import export_session
from pluggent_cli.sessions.reader import StoredSession, StoredTurn, read_session
from pluggent_cli.sessions.store import Sessions
from pluggent_cli.terminal.console import Console, cells, cut, escape_controls, moment
from pluggent_cli.terminal.progress import shown_arguments
from pluggent_cli.terminal.screen import CONSOLE, count

_SHOWN = 300
_GOOD = frozenset({"allow", "approved"})
_OPEN = frozenset({"ask", "respond"})
_MARGIN = 4


# ---- for a person -----------------------------------------------------------------------


def show(sessions: Sessions, id: str, console: Console) -> int:
    """Print the conversation. A damaged session is shown as far as it can be read, and fails."""
    session = read_session(sessions, id)
    if console.json:
        console.document(as_document(session))
    else:
        _SessionPrinter(console).show(session)
    if session.problem:
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(session.problem)}")
    return exits.FAILED if session.problem else exits.OK


def show_explanation(made: Explanation, console: Console) -> None:
    """Print what became of each operation of a turn."""
    for line in _ExplanationPrinter(console).lines(made):
        console.line(line)


class _Printer:
    """Words that both views have in common. Every name and text of others is escaped and on one line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ink = console.ink

    def _head(self, turn: StoredTurn) -> str:
        began = turn.began
        notes = [moment(began.at_s), began.origin, *(["dry run"] if began.dry_run else [])]
        return f"{escape_all(began.turn_id)}  {', '.join(map(escape_all, notes))}"

    def _taken_back(self, turn: StoredTurn) -> str:
        return self._ink("yellow", "  taken back") if turn.undone else ""

    def _verdict(self, decision: DecisionMade, word: str) -> str:
        """Return *word*, which says how *decision* ended."""
        style = "green" if decision.verdict in _GOOD else "yellow" if decision.verdict in _OPEN else "red"
        return self._ink(style, escape_all(word))

    def _by(self, decision: DecisionMade) -> str:
        return "a person" if decision.by == CONSOLE else escape_all(decision.by)

    def _dim(self, text: str) -> str:
        return self._ink("dim", cut(text, _SHOWN))


class _SessionPrinter(_Printer):
    """Shows a session turn by turn. What was said is set in, so that none of it can pass for a heading."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._model = ""
        self._calls: dict[str, ToolCall] = {}
        self._decided: set[str] = set()

    def show(self, session: StoredSession) -> None:
        began, usage = session.began, session.usage
        when = f", begun {moment(began.created_s)}" if began else ""
        tokens = f"{count(usage.input)} tokens in, {count(usage.output)} out"
        turns = f"{len(session.turns)} turn{'' if len(session.turns) == 1 else 's'}"
        self._line(f"{self._ink('bold', session.id)}  {turns}, {tokens}{when}")
        self._model = began.model if began else ""
        if began and began.system:
            self._said("system", began.system)
        for message in session.given:
            self._said(f"{message.role} (given)", text_of(message))
        for turn in session.turns:
            self._turn(turn)

    def _turn(self, turn: StoredTurn) -> None:
        self._line()
        self._line(self._ink("dim", f"── {self._head(turn)}") + self._taken_back(turn))
        for entry in turn.entries:
            self._entry(entry)
        if turn.why not in ("completed", "direct") or turn.detail:
            detail = f": {escape_all(turn.detail)}" if turn.detail else ""
            self._line(self._ink("red", escape_all(turn.why or "not over")) + detail)

    def _entry(self, entry: Entry) -> None:
        match entry:
            case Spending(model=model, error=error):
                self._model = model
                if error:
                    self._line(self._ink("red", f"! {escape_all(model)}: {escape_all(error)}"))
            case ModelChosen(model):
                self._line(self._ink("dim", f"from here on {escape_all(model)}"))
            case Said(message=message, by=by):
                self._message(message, by)
            case Decided(decision):
                self._decision(decision)
            case Settled(call_id=call_id, message=message, outcome=outcome, whole=whole):
                self._result(call_id, message, outcome, whole)
            case _:
                pass

    def _message(self, message: Message, by: str) -> None:
        self._calls |= {call.id: call for call in message.tool_calls}
        self._decided -= {call.id for call in message.tool_calls}
        who = by or str(message.role)
        model = f" ({self._model})" if who == "assistant" else ""
        if message.content:
            self._said(who + model, text_of(message))

    def _said(self, who: str, text: str) -> None:
        self._line(self._ink("cyan", escape_all(who)))
        for line in self._set_in(text):
            self._line(line)

    def _line(self, text: str = "") -> None:
        """Print a line of ours; on a terminal the rest of a long one follows behind a margin, as in texts."""
        plain = re.sub(r"\033\[\d+m", "", text)  # all there is of colours is ours: others are escaped
        if not self._console.out_is_terminal or cells(plain) <= self._console.width:
            self._console.line(text)
            return
        first, *others = _pieces(plain, self._console.width - _MARGIN)
        self._console.line(first)
        for other in others:
            self._console.line(" " * _MARGIN + other)

    # ---- calls ---------------------------------------------------------------------------

    def _decision(self, decision: DecisionMade) -> None:
        if decision.operation == "tool_call":
            again = decision.call_id in self._decided  # asked before, and answered now
            self._decided.add(decision.call_id)
            call = "  " if again else f"{self._arrow('→')} {self._call(decision)}  "
            self._line(call + self._outcome(decision))
        elif decision.verdict != "allow":
            what = escape_all(decision.operation.replace("_", " "))
            self._line(f"{self._ink('dim', '·')} {what}  {self._outcome(decision)}")

    def _call(self, decision: DecisionMade) -> str:
        asked = self._calls.get(decision.call_id)
        name = asked.name if asked else decision.capability.rpartition("/")[2]
        return self._named(name, decision.arguments_json.decode())

    def _named(self, name: str, arguments: str) -> str:
        try:
            read: object = json.loads(arguments)
        except (ValueError, RecursionError):
            read = None
        shown = shown_arguments(cast("dict[str, Any]", read)) if isinstance(read, dict) else escape_all(arguments)
        return f"{self._ink('bold', escape_all(name))}({shown})"

    def _outcome(self, decision: DecisionMade) -> str:
        by = "" if decision.verdict in _GOOD and decision.by == "host" else f" by {self._by(decision)}"
        reason = f": {escape_all(decision.reason)}" if decision.reason else ""
        changes = "".join(
            f"; {escape_all(change.plugin)} changed {escape_all(', '.join(change.paths))}"
            for change in decision.changes
        )
        word = _WORDS.get(decision.verdict, decision.verdict)
        return self._verdict(decision, word) + self._ink("dim", f"{by}{reason}{changes}")

    def _result(self, call_id: str, message: Message, outcome: str, whole: str | None) -> None:
        call = self._calls.get(call_id)
        if call_id not in self._decided and call is not None:  # it could not even be put to the policies
            self._line(f"{self._arrow('→')} {self._named(call.name, call.arguments)}")
        failed = f" {self._ink('red', escape_all(outcome))}" if outcome else ""
        self._line(f"{self._arrow('←')} {self._ink('bold', escape_all(message.name or ''))}{failed}")
        for line in self._set_in(text_of(message, whole)):
            self._line(line)

    def _arrow(self, arrow: str) -> str:
        return self._ink("cyan", arrow)

    def _set_in(self, text: str) -> Iterator[str]:
        """Yield the lines of *text* behind a margin; on a terminal none so long that it would lose it."""
        columns = self._console.width - 2 if self._console.out_is_terminal else 0
        for line in escape_controls(text).expandtabs(4).split("\n"):
            for piece in _pieces(line, columns):
                yield f"  {piece}".rstrip()


_WORDS = {"allow": "allowed", "deny": "DENIED", "refused": "REFUSED", "ask": "needs approval", "respond": "answered"}


def _pieces(line: str, columns: int) -> Iterator[str]:
    """Yield *line* in pieces of *columns* columns, whole if *columns* is 0."""
    while columns and cells(line) > columns:
        end = columns
        while cells(line[:end]) > columns:
            end -= 1
        yield line[:end]
        line = line[end:]
    yield line


# ---- an explanation ---------------------------------------------------------------------


class _ExplanationPrinter(_Printer):
    """Shows a turn operation by operation. Every name and text of others is escaped and on one line."""

    def lines(self, made: Explanation) -> Iterator[str]:
        turn = made.turn
        yield f"{self._ink('bold', made.session)}  {self._head(turn)}{self._taken_back(turn)}"
        for one in made.operations:
            yield ""
            yield from self._operation(one)
        yield ""
        for spent in made.model_calls:
            failed = self._ink("red", f"  {escape_all(spent.error)}") if spent.error else ""
            yield f"used  {escape_all(spent.model)}: {_used(spent.usage)}{failed}"
        for paused in made.pauses:
            waited = ", ".join(escape_all(each.call_id) for each in paused.pending if each.asks)
            yield f"paused  {moment(paused.at_s)}, waiting for an answer to {waited or 'nothing'}"
        for resumed in made.resumed:
            yield f"resumed  {moment(resumed.at_s)}"
        ended = f"ended  {escape_all(turn.why)}" if turn.why else "not over"
        yield ended + (f": {escape_all(turn.detail)}" if turn.detail else "")

    def _operation(self, one: Explained) -> Iterator[str]:
        yield self._heading(one)
        for decision in one.decisions:
            yield from self._decision(decision)
        for answer in one.answers:
            yield f"  {self._answer(answer)}"
        if one.dispatched:
            yield "  about to take effect: recorded before it ran"
        if one.settled is not None:
            outcome = one.settled.outcome
            how = self._ink("red", escape_all(outcome)) if outcome else self._ink("green", "done")
            yield f"  {how}: {self._dim(escape_all(one.settled.message.text.strip()))}"

    def _heading(self, one: Explained) -> str:
        what = escape_all(one.operation.replace("_", " "))
        last = one.decisions[-1] if one.decisions else None
        if not one.call_id or last is None:
            named = escape_all(one.name or (last.capability if last else ""))
            return f"{self._ink('cyan', what)}  {named}".rstrip()
        name = escape_all(one.name or last.capability.rpartition("/")[2])
        arguments = cut(escape_all(last.arguments_json.decode()), _SHOWN)
        capability = self._dim(escape_all(last.capability))
        return f"{self._ink('cyan', what)}  {self._ink('bold', name)} {arguments}  {capability}"

    def _decision(self, decision: DecisionMade) -> Iterator[str]:
        for change in decision.changes:
            yield f"  {escape_all(change.plugin)} changed {_changed(change)}"
        silent = 0
        for vote in decision.votes:
            if vote.verdict == "none" and not self._console.verbose:
                silent += 1
            else:
                yield f"  {self._vote(vote)}"
        if silent:
            yield f"  {self._dim(f'{silent} more had nothing to say')}"
        reason = f": {escape_all(decision.reason)}" if decision.reason else ""
        took = self._dim(f"  ({decision.elapsed_us:,.0f} µs)") if decision.elapsed_us else ""
        yield f"  = {self._verdict(decision, decision.verdict)} by {self._by(decision)}{reason}{took}"

    def _vote(self, vote: Vote) -> str:
        reason = f": {escape_all(vote.reason)}" if vote.reason else ""
        took = self._dim(f"  ({vote.elapsed_us:,.0f} µs)") if vote.elapsed_us else ""
        return f"{escape_all(vote.plugin)} said {escape_all(vote.verdict)}{reason}{took}"

    def _answer(self, answer: Resolved) -> str:
        word = self._ink("green", "approved") if answer.agreed else self._ink("red", "denied")
        reach = {"once": "", "session": " for the session", "always": " for always"}[answer.reach]
        reason = f": {escape_all(answer.reason)}" if answer.reason else ""
        return f"{word}{reach} by {escape_all(answer.by)}, {moment(answer.at_s)}{reason}"


def _changed(change: Change) -> str:
    paths = escape_all(", ".join(change.paths)) or "something"
    if change.before is None and change.after is None:
        return paths
    before, after = (
        cut(escape_all(json.dumps(thaw(value), ensure_ascii=False)), _SHOWN) for value in (change.before, change.after)
    )
    return f"{paths}: {before} → {after}"


def _used(usage: Usage) -> str:
    tokens = map(count, (usage.input, usage.output))
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    return "{} tokens in, {} out".format(*tokens) + cost


# ---- for others -------------------------------------------------------------------------


def export(sessions: Sessions, id: str, options: argparse.Namespace, console: Console) -> int:
    """Write the session in a form for others. Raises SessionError, writing nothing, for a damaged one."""
    text = export_session(sessions, id, options.format)
    # Whatever the locale says: JSON is UTF-8, and an escape is all that a lone surrogate can be.
    data = text.encode("utf-8", "backslashreplace")
    if options.output in (None, "-"):
        _to_standard_output(data)
    else:
        _to_file(Path(options.output), data)
        console.note(console.err_ink("dim", f"exported {id} to {escape_all(options.output)}"))
    return exits.OK


def _to_standard_output(data: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def _to_file(path: Path, data: bytes) -> None:
    """Write the file whole or not at all, readable for its owner alone, as the session is."""
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            place.write_bytes(data)  # a pipe or a device: nothing to replace
            return
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name[:50]}.", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                Path(file.name).replace(place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ConfigError("--output", [f"{path} cannot be written: {error.strerror}"]) from error
