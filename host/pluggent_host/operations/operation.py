"""What an operation is: the one protocol that the sequence in operations.py knows."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Ask, Decision, Deny
from pluggent_hookspecs.events import ReserveEvent, Scope
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import Change, DecisionMade, Observation, Vote

E = TypeVar("E")
R = TypeVar("R")


class Attempt:
    """One try at executing. A stream notes here whether anybody has seen some of it."""

    __slots__ = ("number", "on_discard", "shown")

    def __init__(self, number: int) -> None:
        self.number = number
        self.shown = False
        self.on_discard: Callable[[str], None] | None = None


class Hooks(NamedTuple):
    """The hooks of one kind of operation; an empty name is a hook that it does not have."""

    transform: str = ""
    decide: str = ""
    around: str = ""
    transform_result: str = ""
    decide_result: str = ""


class Journal(Protocol):
    """Where an operation leaves its traces: the turn, the session, or the host."""

    def record(self, decision: DecisionMade) -> None:
        """Make *decision* durable. Raises if that is impossible; then nothing is executed."""
        ...

    def tell(self, event: Observation) -> None:
        """Tell observers and whoever follows the stream. Never raises."""
        ...


class Recorded(Protocol):
    """What a decision record and an approval say of an operation."""

    @property
    def name(self) -> str: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def id(self) -> str: ...
    @property
    def journal(self) -> Journal: ...
    def capability(self) -> str: ...
    def digest(self, event: Any) -> str: ...
    def rendered(self, event: Any) -> str:
        """Return the request for a person to read, escaped and complete."""
        ...


class Payer(Protocol):
    """What ledgers have to do with: an operation whose attempts cost something."""

    @property
    def used(self) -> Usage:
        """What the last attempt used."""
        ...

    @property
    def failure(self) -> str:
        """Why the last attempt failed although it raised nothing, empty if it did not."""
        ...

    def refused(self, deny: Deny) -> None:
        """A ledger refuses the next attempt."""
        ...

    def priced(self, cost_usd: float) -> None:
        """A ledger knows what the last attempt did cost."""
        ...


class Cost(NamedTuple):
    """One attempt as ledgers see it, and who pays for it."""

    event: ReserveEvent
    payer: Payer


class Operation(Recorded, Protocol[E, R]):
    """One thing to be done, as the sequence sees it. ``event`` carries the request.

    ``changed``, ``changed_result`` and ``response`` raise ValueError for a value that the
    hook may not give.
    """

    @property
    def hooks(self) -> Hooks: ...
    @property
    def limit_s(self) -> float:
        """How long an around hook may take of its own, in seconds."""
        ...

    @property
    def event(self) -> E: ...
    def changed(self, event: E, value: Any, plugin: str) -> E: ...
    def diff(self, before: E, after: E) -> Change:
        """Return what differs, as a Change that names no plugin yet."""
        ...

    def freeze(self, event: E) -> E: ...
    def host_vote(self, event: E) -> Decision | None:
        """Return the host's own vote: its default."""
        ...

    def doubt(self, event: E) -> Ask | None:
        """Return why a person has to agree to this, whatever policies allow, such as a call that may have happened."""
        ...

    def may_respond(self, plugin: str) -> bool: ...
    def response(self, value: object) -> R: ...
    def cost(self, event: E, attempt: int) -> Cost | None:
        """Return what ledgers are asked before an attempt, None if it costs nothing that they keep."""
        ...

    async def reissued(self, changed: Any, model: str, number: int) -> Operation[E, R]:
        """Return the operation that does *changed* in place of this one. Raises ValueError."""
        ...

    def absorb(self, child: Operation[E, R], elapsed_s: float, error: str) -> None:
        """Take over what *child*, which was reissued for this one, has used."""
        ...

    async def put(self, asked: Any) -> Any:
        """Put *asked*, which stands for a reissued request, to a person; what pays for waiting stands still."""
        ...

    def retried(self, attempt: int, wait_s: float, failure: str) -> None:
        """Tell observers that another attempt follows."""
        ...

    async def execute(self, event: E, attempt: Attempt) -> R: ...
    def result_event(self, event: E, result: R) -> Any: ...
    def changed_result(self, event: Any, value: Any, plugin: str) -> Any: ...
    def result(self, event: Any) -> R: ...
    def withheld(self, event: E, deny: Deny) -> R:
        """Return what stands in for a result that was denied, or raise errors.Denied."""
        ...

    def broken(self, event: E, error: errors.PluggentError) -> R:
        """Return what stands in for a result whose hooks failed, or raise *error*."""
        ...


def record_of(
    what: Recorded, event: Any, outcome: str, by: str, reason: str,
    votes: tuple[Vote, ...], changes: tuple[Change, ...], started: float,
) -> DecisionMade:  # fmt: skip
    """Return the record of what was decided about *event*."""
    return DecisionMade(
        what.scope,
        what.name,
        what.id,
        what.digest(event),
        outcome,
        by,
        reason,
        what.capability(),
        getattr(event, "call_id", ""),
        getattr(event, "arguments_json", b""),
        votes,
        changes,
        round((perf_counter() - started) * 1e6, 1),
    )
