"""``pluggent explain``: why each operation of a stored turn was done or not, and who decided."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from pluggent_hookspecs import thaw
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import Change, DecisionMade, Vote
from pluggent_host.approvals.pending import Resolved
from pluggent_host.common.escape import escape_all
from pluggent_host.common.names import did_you_mean

from pluggent_cli import exits
from pluggent_cli.host_access import prepare_to_look
from pluggent_cli.parsing import Parser, command_parser, examples, one_name
from pluggent_cli.sessions.explain import Explained, Explanation, as_document, explain
from pluggent_cli.sessions.reader import StoredSession, StoredTurn, retell
from pluggent_cli.sessions.store import open_sessions
from pluggent_cli.terminal.console import Console, cut, moment

_SHOWN = 300
_GOOD = frozenset({"allow", "approved"})
_OPEN = frozenset({"ask", "respond"})
_APPROVER = "app:_approver"


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "explain",
        "[OPTIONS] SESSION [TURN]",
        "Tell of every operation of a turn what each plugin said to it and how long that took, who changed\n"
        "what, who had the last word, which approvals were given, what ran and how it ended.",
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
        session = retell(sessions, id)
    made = explain(id, _turn(session, options.words[1:]))
    if console.json:
        console.document(as_document(made))
    else:
        for line in _Reader(console).lines(made):
            console.line(line)
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


class _Reader:
    """Shows a turn operation by operation. Every name and text of others is escaped and on one line."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._ink = console.ink

    def lines(self, made: Explanation) -> Iterator[str]:
        turn = made.turn
        notes = [moment(turn.began.at_s), turn.began.origin, *(["dry run"] if turn.began.dry_run else [])]
        taken_back = self._ink("yellow", "  taken back") if turn.undone else ""
        yield (
            f"{self._ink('bold', made.session)}  {escape_all(turn.began.turn_id)}  "
            + escape_all(", ".join(notes))
            + taken_back
        )
        for one in made.operations:
            yield ""
            yield from self._operation(one)
        yield ""
        for spent in made.model_calls:
            failed = self._ink("red", f"  {escape_all(spent.error)}") if spent.error else ""
            yield f"used  {escape_all(spent.model)}: {_used(spent.usage)}{failed}"
        for paused in made.pauses:
            waited = ", ".join(escape_all(each.call_id) for each in paused.pending if each.asks)
            yield f"paused  {moment(paused.at_s)}, waiting for an answer to {waited or 'nobody'}"
        for resumed in made.resumed:
            yield f"resumed  {moment(resumed.at_s)}"
        ended = f"ended  {escape_all(turn.why)}" if turn.why else "not over"
        yield ended + (f": {escape_all(turn.detail)}" if turn.detail else "")

    def _operation(self, one: Explained) -> Iterator[str]:
        yield self._head(one)
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

    def _head(self, one: Explained) -> str:
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
        style = "green" if decision.verdict in _GOOD else "yellow" if decision.verdict in _OPEN else "red"
        who = "a person" if decision.by == _APPROVER else escape_all(decision.by)
        reason = f": {escape_all(decision.reason)}" if decision.reason else ""
        took = self._dim(f"  ({decision.elapsed_us:,.0f} µs)") if decision.elapsed_us else ""
        yield f"  = {self._ink(style, escape_all(decision.verdict))} by {who}{reason}{took}"

    def _vote(self, vote: Vote) -> str:
        reason = f": {escape_all(vote.reason)}" if vote.reason else ""
        took = self._dim(f"  ({vote.elapsed_us:,.0f} µs)") if vote.elapsed_us else ""
        return f"{escape_all(vote.plugin)} said {escape_all(vote.verdict)}{reason}{took}"

    def _answer(self, answer: Resolved) -> str:
        word = self._ink("green", "approved") if answer.agreed else self._ink("red", "denied")
        reach = {"once": "", "session": " for the session", "always": " for always"}[answer.reach]
        reason = f": {escape_all(answer.reason)}" if answer.reason else ""
        return f"{word}{reach} by {escape_all(answer.by)}, {moment(answer.at_s)}{reason}"

    def _dim(self, text: str) -> str:
        return self._ink("dim", cut(text, _SHOWN))


def _changed(change: Change) -> str:
    paths = escape_all(", ".join(change.paths)) or "something"
    if change.before is None and change.after is None:
        return paths
    before, after = (
        cut(escape_all(json.dumps(thaw(value), ensure_ascii=False)), _SHOWN) for value in (change.before, change.after)
    )
    return f"{paths}: {before} → {after}"


def _used(usage: Usage) -> str:
    tokens = (f"{'?' if count is None else f'{count:,}'}" for count in (usage.input, usage.output))
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    return "{} tokens in, {} out".format(*tokens) + cost
