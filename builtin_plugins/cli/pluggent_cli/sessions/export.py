"""A stored session as one JSON document, or as Markdown for people. Pure: values in, text out.

What is in it came out of the hooks: what they changed before is neither in the transcript's
messages nor, as a difference, in here.

The document (``format`` pluggent-session, ``version`` 1; a later version 1 may add keys, nothing
else) has, at every level, all its keys, null or empty where there is nothing:

- ``id``, ``created`` (ISO 8601, UTC), ``model``, ``system``, ``metadata``, ``usage``, ``problem``
  (where the file is damaged, empty if it is whole)
- ``given``: the messages that the session was begun with
- ``turns``: ``id``, ``began``, ``origin``, ``why`` and ``detail`` (how it ended), ``undone``,
  ``dry_run``, ``metadata``, ``usage``, ``messages``, ``decisions``, ``pauses``
- a message: ``role`` (system, developer, user, assistant, tool), ``by`` ("host" for the host's own
  words), ``text``, ``content`` (all parts, each with its ``type``), ``tool_calls`` (``id``, ``name``,
  ``arguments`` as the model wrote them), and for a result ``name``, ``tool_call_id``, ``is_error``,
  ``outcome`` and ``whole`` (the text of which the model read a part)
- a decision: ``operation``, ``capability``, ``call_id``, ``verdict``, ``by``, ``reason``,
  ``arguments`` (JSON text, exactly what was decided on), ``votes`` (``plugin``, ``verdict``,
  ``reason``), ``changes`` (``by``, ``what``)
- a pause: ``at``, and ``pending``, what waited: ``kind`` (tool_call, input, model_call), ``id``, ``digest``,
  ``request`` (JSON text, exactly what was to be approved), ``asks`` (``plugin``, ``why``)
- ``usage``: tokens and dollars, null where the vendor did not say
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
from pluggent_contract_values.as_json import to_plain
from pluggent_contract_values.escape import escape_all, escape_controls
from pluggent_hookspecs.messages import Message, Refusal, Text
from pluggent_hookspecs.observations import DecisionMade
from pluggent_transcript.entries import Decided, Said, Settled
from pluggent_transcript.pending import Paused

from pluggent_cli.sessions.reader import StoredSession, StoredTurn
from pluggent_cli.terminal.screen import change_document, vote_document

FORMAT = "pluggent-session"
VERSION = 1


# ---- the document -----------------------------------------------------------------------


def as_document(session: StoredSession) -> dict[str, Any]:
    """Return *session* as JSON has it; see the first lines of this module."""
    began = session.began
    return {
        "format": FORMAT,
        "version": VERSION,
        "id": session.id,
        "created": began and _time(began.created_s),
        "model": began.model if began else "",
        "system": began.system if began else "",
        "metadata": dict(began.metadata) if began else {},
        "usage": attrs.asdict(session.usage),
        "problem": session.problem,
        "given": [_message(message) for message in session.given],
        "turns": [_turn(turn) for turn in session.turns],
    }


def _turn(turn: StoredTurn) -> dict[str, Any]:
    return {
        "id": turn.began.turn_id,
        "began": _time(turn.began.at_s),
        "origin": turn.began.origin,
        "why": turn.why,
        "detail": turn.detail,
        "undone": turn.undone,
        "dry_run": turn.began.dry_run,
        "metadata": dict(turn.began.metadata),
        "usage": attrs.asdict(turn.usage),
        "messages": list(_messages(turn)),
        "decisions": [_decision(entry.decision) for entry in turn.entries if isinstance(entry, Decided)],
        "pauses": [_pause(entry) for entry in turn.entries if isinstance(entry, Paused)],
    }


def _pause(paused: Paused) -> dict[str, Any]:
    return {
        "at": _time(paused.at_s),
        "pending": [
            {
                "kind": each.kind,
                "id": each.call_id,
                "digest": each.digest,
                "request": each.arguments_json.decode(),
                "asks": [{"plugin": plugin, "why": why} for plugin, why in each.asks],
            }
            for each in paused.pending
        ],
    }


def _messages(turn: StoredTurn) -> Iterator[dict[str, Any]]:
    for entry in turn.entries:
        match entry:
            case Said(message=message, by=by):
                yield {**_message(message), "by": by}
            case Settled(message=message, outcome=outcome, whole=whole):
                yield {**_message(message), "outcome": outcome, "whole": whole}
            case _:
                pass


def _message(message: Message) -> dict[str, Any]:
    return {
        "role": str(message.role),
        "by": "",
        "text": message.text,
        "content": [to_plain(part) for part in message.content],
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        "name": message.name,
        "tool_call_id": message.tool_call_id,
        "is_error": message.is_error,
        "outcome": "",
        "whole": None,
    }


def _decision(decision: DecisionMade) -> dict[str, Any]:
    return {
        "operation": decision.operation,
        "capability": decision.capability,
        "call_id": decision.call_id,
        "verdict": decision.verdict,
        "by": decision.by,
        "reason": decision.reason,
        "arguments": decision.arguments_json.decode() if decision.arguments_json else None,
        "votes": [vote_document(vote) for vote in decision.votes],
        "changes": [change_document(change) for change in decision.changes],
    }


def _time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # no time that there is a date for
        return None


# ---- Markdown ---------------------------------------------------------------------------


def as_markdown(session: StoredSession) -> str:
    """Return *session* as Markdown. Every text of others is in a fence longer than any in it."""
    began = session.began
    lines = [f"# Session {code(session.id)}", ""]
    if began is not None:
        lines += [f"Began {_time(began.created_s) or 'at an unknown time'} with {code(began.model)}.", ""]
    usage = session.usage
    lines += [f"Tokens: {_count(usage.input)} in, {_count(usage.output)} out.", ""]
    if began is not None and began.system:
        lines += ["**System prompt**", "", fenced(began.system), ""]
    for message in session.given:
        lines += _spoken(message, f"{message.role} (given)")
    for turn in session.turns:
        lines += _told(turn)
    return "\n".join(lines)


def _told(turn: StoredTurn) -> Iterator[str]:
    when = _time(turn.began.at_s) or "At an unknown time"
    yield f"## Turn {code(turn.began.turn_id)}"
    yield ""
    yield f"{when}, by {code(turn.began.origin)}{', taken back' if turn.undone else ''}"
    yield ""
    for entry in turn.entries:
        match entry:
            case Said(message=message, by=by):
                yield from _spoken(message, "host" if by else str(message.role))
            case Settled(message=message, outcome=outcome, whole=whole):
                failed = f" (failed: {code(outcome)})" if outcome else ""
                yield from _block("Result", f" of {code(message.name or '')}{failed}", text_of(message, whole))
            case Paused(pending=pending):
                for each in pending:
                    if each.kind != "tool_call":  # a call stands above
                        request = each.arguments_json.decode()
                        yield from _block("Waits", f" for an approval: {code(each.kind)}", request, "json")
            case Decided(decision) if decision.operation == "tool_call" or decision.verdict != "allow":
                yield from _block("Decision", _verdict(decision), decision.arguments_json.decode(), "json")
            case _:
                pass
    yield f"Ended: {code(turn.why or 'not yet')}{f', {code(turn.detail)}' if turn.detail else ''}"
    yield ""


def _spoken(message: Message, who: str) -> Iterator[str]:
    if message.content:
        yield from _block(who.capitalize(), "", text_of(message))
    for call in message.tool_calls:
        yield from _block("Call", f" of {code(call.name)}", call.arguments, "json")


def _block(title: str, rest: str, text: str, kind: str = "text") -> Iterator[str]:
    yield f"**{title}**{rest}"
    yield ""
    if text:
        yield fenced(text, kind)
        yield ""


def _verdict(decision: DecisionMade) -> str:
    what = code(decision.capability or decision.operation)
    reason = f": {code(decision.reason)}" if decision.reason else ""
    changed = "".join(f"; {code(change.plugin)} changed {code(', '.join(change.paths))}" for change in decision.changes)
    return f" on {what}: {code(decision.verdict)} by {code(decision.by)}{reason}{changed}"


def text_of(message: Message, whole: str | None = None) -> str:
    """Return *message* as text; of parts that are not text their kind."""
    if whole is not None:
        return whole
    said = (
        part.text if isinstance(part, Text | Refusal) else f"[{type(part).__name__.lower()}]"
        for part in message.content
    )
    return "\n".join(said)


def fenced(text: str, kind: str = "text") -> str:
    r"""Return *text* as a block of code that no line of it can end; what steers a terminal is escaped.

    >>> print(fenced("a\n```\nb"))
    ````text
    a
    ```
    b
    ````
    """
    fence = "`" * max(3, 1 + _longest_run(text))
    return f"{fence}{kind}\n{escape_controls(text)}\n{fence}"


def code(text: str) -> str:
    """Return *text* as code within a line.

    >>> print(code("a"), code("a`b"))
    `a` `` a`b ``
    """
    shown = escape_all(text) or "(nothing)"
    longest = _longest_run(shown)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"
