"""The entries of a session as lines of its log, and back. How lines and seals are kept is up to the store.

See pluggent_hookspecs.sessions.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, get_args

import attrs
import msgspec
from msgspec import UNSET, UnsetType
from pluggent_contract_values.as_json import from_plain, line_of, to_plain
from pluggent_hookspecs import Message
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Part, Role, Text
from pluggent_hookspecs.observations import DecisionMade, Vote
from pluggent_hookspecs.sessions import Line

from pluggent_transcript.entries import FORMAT, Decided, Entry, SessionBegan, Settled
from pluggent_transcript.pending import Paused, Resolved
from pluggent_transcript.standing import Standing

SEALED = (Paused, Resolved, Standing)
"""What must have been written here, by us: requests that wait, and what a person has said about them."""

_encode = msgspec.json.Encoder().encode
log = logging.getLogger("pluggent.transcript")
_LONGEST_KIND = 40
_ENTRIES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Entry)}


def encode(entry: Entry, encoder: Encoder) -> Line:
    """Return the line of *entry*; *encoder* is that of the whole log."""
    kind = type(entry)
    if isinstance(entry, Paused):
        entry = attrs.evolve(entry, terms=entry.terms.stored())
    if kind in SEALED:
        return Line(kind.__name__, line_of(plain_entry(entry)), sealed=True)
    return Line(kind.__name__, encoder.of(entry))


def decode(lines: Iterable[Line], place: str) -> list[Entry]:
    """Return the entries that *lines* of the log at *place* are.

    A line that must be sealed and is not genuine, because another hand wrote it or it was copied
    from another session: of an approval it is left out and named in the log, a pause says that it
    does not count (``void``). Raises SessionError, naming the line, for anything that is not an entry.
    """
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        entry = _entry(line.data, place, number)
        if type(entry) not in SEALED or (line.sealed and line.genuine):
            entries.append(entry)
        elif isinstance(entry, Paused):
            entries.append(attrs.evolve(entry, void=_void_pause(place, number, sealed=line.sealed)))
        else:
            log.warning("%s, line %d: pluggent did not write this approval here; it is left out", place, number)
    return entries


def decode_unsealed(lines: Iterable[Line], place: str) -> Iterator[Entry]:
    """Yield entries up to the first damage, looking at no seal: to show what happened, not to act on it."""
    for number, line in enumerate(lines, 1):
        yield _entry(line.data, place, number)


def _entry(data: bytes, place: str, number: int) -> Entry:
    try:
        plain: dict[str, Any] = json.loads(data)
        kind = plain.pop("t")
        entry: Entry | None = from_plain(plain, _ENTRIES[kind]) if kind in _ENTRIES or not _is_name(kind) else None
    except Exception as error:
        raise SessionError(
            f"{place}, line {number} is damaged ({type(error).__name__}); "
            "mend or remove that line, or start a new session"
        ) from error
    if entry is None:
        raise _newer(f"{place}, line {number} is an entry '{kind}'")
    if type(entry) is SessionBegan and entry.version > FORMAT:
        raise _newer(f"{place} has the format {entry.version} and not {FORMAT}")
    return entry


def _is_name(kind: object) -> bool:
    """Say whether another version may have a kind of entry called so."""
    return type(kind) is str and kind.isidentifier() and len(kind) <= _LONGEST_KIND


def _newer(what: str) -> SessionError:
    return SessionError(
        f"{what}: a newer version of pluggent-host wrote it; this session opens with that version:"
        " pip install --upgrade pluggent-host"
    )


def _void_pause(place: str, line: int, *, sealed: bool) -> str:
    """Return why the pause in that *line* of a session does not count, and what is to be done about it."""
    why = (
        "the seal of the pause does not fit: it was changed, or copied from another session, folder or computer,"
        " an older copy of the session was put back, or the key that seals was made anew"
        if sealed
        else "the pause has no seal: an older pluggent wrote it, or another program"
    )
    return f"{place}, line {line}: {why}. Nothing of it runs; say again what is still wanted"


# ---- encoding ---------------------------------------------------------------------------


class Encoder:
    """Writes the entries of one transcript as JSON.

    What every call has, decisions and results, is written the short way: exactly what as_json makes
    of it, in a quarter of the time. as_json asks at every field of every object what to do with it.
    """

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._written = msgspec.Raw()
        """What ``_scope``, where something was last decided, looks like."""
        self._abstained: dict[str, tuple[Vote, _Vote]] = {}
        """By plugin, the last vote without an opinion: nearly all are one object, see Impl.abstains."""

    def of(self, entry: Entry) -> bytes:
        r"""Return *entry* as one line of JSON.

        >>> Encoder().of(Decided(DecisionMade(Scope("s"), "tool_call", "t1.0.1", "d", "allow", "host")))[:61]
        b'{"t":"Decided","decision":{"scope":{"session_id":"s","type":"'
        """
        try:
            if type(entry) is Decided:
                made = entry.decision
                if not made.changes and (made.scope is self._scope or self._keep(made.scope)):
                    decision = _encode(_decision(made, self._written, self._votes(made.votes)))
                    return b'{"t":"Decided","decision":%b,"type":"Decided"}\n' % decision
            elif type(entry) is Settled and entry.told is None and not entry.undo and _is_simple(entry.message):
                return b'{"t":"Settled",%b\n' % _encode(_settled(entry))[1:]
        except (ValueError, TypeError, OverflowError):
            pass  # a lone surrogate, a subclass of str, a number that is not a time
        return line_of(plain_entry(entry))  # a change may hold anything, too

    def _votes(self, votes: tuple[Vote, ...]) -> list[_Vote]:
        known = self._abstained
        return [
            kept[1] if (kept := known.get(vote.plugin)) is not None and kept[0] is vote else self._vote(vote)
            for vote in votes
        ]

    def _vote(self, vote: Vote) -> _Vote:
        if type(vote) is not Vote:
            raise TypeError("a vote of a class of its own")
        plain = _Vote(vote.plugin, vote.verdict, vote.reason or UNSET, _time(vote.elapsed_us), "Vote")
        if vote.verdict == "none":
            self._abstained[vote.plugin] = (vote, plain)
        return plain

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


def _decision(made: DecisionMade, scope: msgspec.Raw, votes: list[_Vote]) -> _Decision:
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
        votes or UNSET,
        _time(made.elapsed_us),
        "DecisionMade",
    )


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
