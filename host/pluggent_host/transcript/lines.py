"""Entries of a session as lines of its log and back: which are sealed, and what one that is not genuine means.

How lines and seals are kept is up to the store (see pluggent_hookspecs.sessions).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from math import isfinite
from typing import Any, get_args

import attrs
import msgspec
from msgspec import UNSET, UnsetType
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Message, Part, Role, Text
from pluggent_hookspecs.observations import DecisionMade, Vote
from pluggent_hookspecs.sessions import Line

from pluggent_host.approvals.pending import Paused, Resolved
from pluggent_host.approvals.standing import Standing
from pluggent_host.transcript.codec import from_plain, line_of, to_plain
from pluggent_host.transcript.entries import Decided, Entry, Settled

SEALED = (Paused, Resolved, Standing)
"""What must have been written here, by us: requests that wait, and what a person has said about them."""

log = logging.getLogger("pluggent.transcript")
_encode = msgspec.json.Encoder().encode
_ENTRIES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Entry)}


def encode(entry: Entry, encoder: Encoder) -> Line:
    """Return the line of *entry*; *encoder* is that of the whole log."""
    kind = type(entry)
    if kind in SEALED:
        return Line(kind.__name__, line_of(plain_entry(entry)), sealed=True)
    return Line(kind.__name__, encoder.of(entry))


def decode(lines: Iterable[Line], place: str) -> list[Entry]:
    """Return the entries that *lines* of the log at *place* are.

    A line that must be sealed and is not genuine, because another hand wrote it or it was copied
    from another session: of an approval it is left out and named in the log, a pause says that it
    does not count (``void``). Raises SessionError, naming the line, for anything that is not an entry.
    """
    given = list(lines)
    entries: list[Entry] = []
    for number, (line, entry) in enumerate(zip(given, decode_unsealed(given, place), strict=True), 1):
        if type(entry) not in SEALED or (line.sealed and line.genuine):
            entries.append(entry)
        elif isinstance(entry, Paused):
            entries.append(attrs.evolve(entry, void=_void_pause(place, number, sealed=line.sealed)))
        else:
            log.warning("%s, line %d: pluggent did not write this approval here; it is left out", place, number)
    return entries


def decode_unsealed(lines: Iterable[Line], place: str) -> list[Entry]:
    """Return entries as ``decode`` does, looking at no seal: to show what happened, not to act on it."""
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        try:
            plain: dict[str, Any] = json.loads(line.data)
            entry: Entry = from_plain(plain, _ENTRIES[plain.pop("t")])
        except Exception as error:
            raise SessionError(
                f"{place}, line {number} is damaged ({type(error).__name__}); "
                "mend or remove that line, or start a new session"
            ) from error
        entries.append(entry)
    return entries


def _void_pause(place: str, line: int, *, sealed: bool) -> str:
    """Return why the pause in that *line* of a session does not count, and what is to be done about it."""
    why = (
        "the seal of the pause does not fit: it was changed, or copied from another session, folder or computer,"
        " or the key that seals was made anew"
        if sealed
        else "the pause has no seal: an older pluggent wrote it, or another program"
    )
    return f"{place}, line {line}: {why}. Nothing of it runs; say again what is still wanted"


# ---- encoding ---------------------------------------------------------------------------


class Encoder:
    """Writes the entries of one transcript as JSON.

    What every call has, decisions and results, is written the short way: exactly what codec.py makes
    of it, in a quarter of the time. codec.py asks at every field of every object what to do with it.
    """

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._written = msgspec.Raw()
        """What ``_scope``, where something was last decided, looks like."""

    def of(self, entry: Entry) -> bytes:
        r"""Return *entry* as one line of JSON.

        >>> Encoder().of(Decided(DecisionMade(Scope("s"), "tool_call", "t1.0.1", "d", "allow", "host")))[:61]
        b'{"t":"Decided","decision":{"scope":{"session_id":"s","type":"'
        """
        try:
            line = self._by_the_short_way(entry)
        except (ValueError, TypeError, OverflowError):
            # A lone surrogate, a subclass of str, a number that is not a time.
            line = b""
        return line or line_of(plain_entry(entry))

    def _by_the_short_way(self, entry: Entry) -> bytes:
        """Return the line of *entry*, empty where only the long way is exact."""
        if type(entry) is Decided:
            made = entry.decision
            if made.changes or not (made.scope is self._scope or self._keep(made.scope)):
                return b""  # a change may hold anything
            return b'{"t":"Decided","decision":%b,"type":"Decided"}\n' % _encode(_decision(made, self._written))
        if type(entry) is Settled and entry.told is None and _is_simple(entry.message):
            return b'{"t":"Settled",%b\n' % _encode(_settled(entry))[1:]
        return b""

    def _keep(self, scope: Scope) -> bool:
        """Note what *scope* looks like; False if it is an odd one."""
        written = _encode(to_plain(scope))
        if type(scope) is not Scope or b"null" in written:
            return False
        self._scope, self._written = scope, msgspec.Raw(written)
        return True


def plain_entry(entry: Entry) -> dict[str, Any]:
    """Return *entry* as an object that first says which one it is."""
    return {"t": type(entry).__name__, **to_plain(entry)}


# ---- decisions -------------------------------------------------------------------------
#
# The fields of an object in their order, UNSET where they have their default. Given by position,
# in no loop: this is in the way of every call.


class _Decision(msgspec.Struct, gc=False):
    scope: msgspec.Raw
    operation: str
    operation_id: str
    digest: str
    verdict: str
    by: str
    reason: str | UnsetType
    capability: str | UnsetType
    call_id: str | UnsetType
    arguments_json: str | UnsetType
    votes: list[_Vote] | UnsetType
    elapsed_us: float | UnsetType
    type: str


class _Vote(msgspec.Struct, gc=False):
    plugin: str
    verdict: str
    reason: str | UnsetType
    elapsed_us: float | UnsetType
    type: str


def _decision(made: DecisionMade, scope: msgspec.Raw) -> _Decision:
    return _Decision(
        scope,
        made.operation,
        made.operation_id,
        made.digest,
        made.verdict,
        made.by,
        made.reason or UNSET,
        made.capability or UNSET,
        made.call_id or UNSET,
        made.arguments_json.decode() or UNSET,
        [_vote(vote) for vote in made.votes] or UNSET,
        _time(made.elapsed_us),
        "DecisionMade",
    )


def _vote(vote: Vote) -> _Vote:
    if type(vote) is not Vote:
        raise TypeError("a vote of a class of its own")
    return _Vote(vote.plugin, vote.verdict, vote.reason or UNSET, _time(vote.elapsed_us), "Vote")


def _time(elapsed_us: float) -> float | UnsetType:
    if not isfinite(elapsed_us):
        raise ValueError("not to be told from null")
    return elapsed_us or UNSET


# ---- results ---------------------------------------------------------------------------


class _Settled(msgspec.Struct, gc=False):
    turn_id: str
    call_id: str
    message: _Result
    outcome: str | UnsetType
    whole: str | UnsetType
    type: str


class _Result(msgspec.Struct, gc=False):
    role: str
    content: list[_Text] | UnsetType
    tool_call_id: str | UnsetType
    name: str | UnsetType
    is_error: bool | UnsetType
    type: str


class _Text(msgspec.Struct, gc=False):
    text: str
    type: str


def _is_simple(message: Message) -> bool:
    return message.role is Role.TOOL and not message.tool_calls and not message.extra


def _settled(entry: Settled) -> _Settled:
    message = entry.message
    result = _Result(
        "tool",
        [_text(part) for part in message.content] or UNSET,
        _given(message.tool_call_id),
        _given(message.name),
        message.is_error or UNSET,
        "Message",
    )
    return _Settled(entry.turn_id, entry.call_id, result, entry.outcome or UNSET, _given(entry.whole), "Settled")


def _text(part: Part) -> _Text:
    if type(part) is not Text:
        raise TypeError("no plain text")
    return _Text(part.text, "Text")


def _given(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
