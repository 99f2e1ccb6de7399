"""What a turn that waits for a person leaves behind, and how it is answered. Values only.

A paused turn is durable: the process may end, and another one goes on from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs
from pluggent_hookspecs import Json, Usage, freeze_object
from pluggent_hookspecs.messages import Message

from pluggent_host.step import Outcome

Reach = Literal["once", "session"]
"""What an approval is good for: this very request, or the same asks about the same tool in this session."""


@attrs.frozen
class Pending:
    """One tool call that waits for an approval.

    ``arguments_json`` is exactly what will run, ``digest`` names the request, ``asks`` are
    (plugin, its words), none for a call that only waits for one before it; ``rendered`` is the
    request for a person to read.
    """

    call_id: str
    name: str
    capability: str
    definition: str
    arguments_json: bytes
    digest: str
    asks: tuple[tuple[str, str], ...]
    rendered: str

    @property
    def why(self) -> str:
        """Who asks, and why."""
        return "; ".join(f"{plugin}: {words}" for plugin, words in self.asks)


@attrs.frozen
class Paused:
    """A turn waits: of one reply's calls ``pending`` ones need an approval, all others have their result.

    ``progress`` is how far the turn is (step.State without its limits), ``outcomes`` what came of
    the other calls, ``elapsed_s`` and ``usage`` what has gone so far.
    """

    turn_id: str
    at_s: float
    round: int
    pending: tuple[Pending, ...]
    progress: Mapping[str, Json] = attrs.field(converter=freeze_object)
    outcomes: tuple[Outcome, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    elapsed_s: float = 0.0
    refused: tuple[str, ...] = ()
    counted: Mapping[str, int] = attrs.field(factory=dict[str, int])
    so_far: str = ""


@attrs.frozen
class Approval:
    """An answer to an ask: whether it is agreed to, for what that is good, and why."""

    agreed: bool
    reach: Reach = "once"
    reason: str = ""


@attrs.frozen
class Resolved:
    """Somebody has answered a pending call: ``by`` whom, why, and for what it is good."""

    turn_id: str
    digest: str
    agreed: bool
    by: str
    at_s: float
    reach: Reach = "once"
    reason: str = ""


@attrs.frozen
class Resumed:
    """A paused turn goes on."""

    turn_id: str
    at_s: float


@attrs.frozen
class Standing:
    """An approval for the rest of a session: the same asks about the same tool."""

    capability: str
    definition: str
    asks: frozenset[tuple[str, str]]


@attrs.frozen
class Waiting:
    """A paused turn as its session holds it: results so far and answers by call id and digest."""

    paused: Paused
    said: Message
    results: Mapping[str, Message] = attrs.field(factory=dict[str, Message])
    resolved: Mapping[str, Resolved] = attrs.field(factory=dict[str, Resolved])

    @property
    def open(self) -> tuple[Pending, ...]:
        """The calls that have neither a result nor an answer, and need one."""
        return tuple(
            pending
            for pending in self.paused.pending
            if pending.asks and pending.call_id not in self.results and pending.digest not in self.resolved
        )
