"""An entry of a transcript as its line. A decision, one or more for every call, is written by the short way.

It says exactly what codec.py makes of it, in a quarter of the time: codec.py asks at every field of
every object what to do with it, and what one turn decides all says the same of where that was.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import DecisionMade, Vote

from pluggent_host.codec import line_of, to_plain
from pluggent_host.transcript import Decided, Entry

_encode = msgspec.json.Encoder().encode


class Lines:
    """Writes the lines of one transcript."""

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._written = msgspec.Raw()
        """What ``_scope``, where something was last decided, looks like."""

    def of(self, entry: Entry) -> bytes:
        r"""Return *entry* as one line of JSON.

        >>> Lines().of(Decided(DecisionMade(Scope("s"), "tool_call", "t1.0.1", "d", "allow", "host")))[:61]
        b'{"t":"Decided","decision":{"scope":{"session_id":"s","type":"'
        """
        line = self._decided(entry.decision) if type(entry) is Decided else b""
        return line or line_of(plain_entry(entry))

    def _decided(self, made: DecisionMade) -> bytes:
        """Return the line of *made*, empty where only the long way is exact."""
        try:
            if made.changes or not (made.scope is self._scope or self._keep(made.scope)):
                return b""  # a change may hold anything
            written = _encode(_record(made, self._written))
        except (ValueError, TypeError, OverflowError):
            # Half a character, a text of a class of its own, a number that is no time.
            return b""
        return b'{"t":"Decided","decision":%b,"type":"Decided"}\n' % written

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


class _Record(msgspec.Struct, gc=False):
    """DecisionMade as it is written: in the order of its fields, UNSET where they have their default."""

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
    """Vote, likewise."""

    plugin: str
    verdict: str
    reason: str | UnsetType
    elapsed_us: float | UnsetType
    type: str


def _record(made: DecisionMade, scope: msgspec.Raw) -> _Record:
    # Positions, and no loop over the fields: this is in the way of every call.
    return _Record(
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
