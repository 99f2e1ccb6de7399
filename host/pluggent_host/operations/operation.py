"""What an operation is: the one class that the sequence in pipeline.py knows, with the defaults of all kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from pluggent_hookspecs import errors
from pluggent_hookspecs.decisions import Ask, Decision, Deny
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import Change, DecisionMade, Observation, Vote

from pluggent_host.common.names import HOST
from pluggent_host.hooks.ledgers import Cost

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

    def flush(self) -> Awaitable[None] | None:
        """Return what to wait for until every record is durable; None if it is. Nothing is executed before."""
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


class Operation(ABC, Generic[E, R]):
    """One thing to be done, as the sequence sees it. ``event`` carries the request.

    What a kind of operation does not override it does not have: no transform, no around and no result
    hooks, no vote of the host, no cost, no reissue. ``changed``, ``changed_result`` and ``response``
    raise ValueError for a value that the hook may not give.
    """

    name: str
    hooks: Hooks
    journal: Journal
    scope: Scope
    id: str
    event: E

    # ---- the request ---------------------------------------------------------------------

    @abstractmethod
    def capability(self) -> str: ...

    @abstractmethod
    def rendered(self, event: E) -> str: ...

    @abstractmethod
    def freeze(self, event: E) -> E:
        """Return *event* under its digest; nothing changes it from here on."""

    def digest(self, event: Any) -> str:
        digest: str = event.digest
        return digest

    def fingerprint(self, event: E) -> str:
        """What this is, however often it is asked for in one turn: what a person has refused stays refused."""
        return self.digest(event)

    def changed(self, event: E, value: Any, plugin: str) -> E:
        raise ValueError(f"returned something, but {self.name} has no transform")

    def diff(self, before: E, after: E) -> Change:
        """Return what differs, as a Change that names no plugin yet."""
        return Change("", ())

    def host_vote(self, event: E) -> Decision | None:
        """Return the host's own vote: its default."""
        return None

    def doubt(self, event: E) -> Ask | None:
        """Return why a person has to agree to this, whatever policies allow, such as a call that may have happened."""
        return None

    def may_respond(self, plugin: str) -> bool:
        return False

    @abstractmethod
    def response(self, value: object) -> R: ...

    # ---- executing -----------------------------------------------------------------------

    @property
    def limit_s(self) -> float:
        """How long an around hook may take of its own, in seconds."""
        return float("inf")

    @abstractmethod
    async def execute(self, event: E, attempt: Attempt) -> R: ...

    def cost(self, event: E, attempt: int) -> Cost | None:
        """Return what ledgers are asked before an attempt, None if it costs nothing that they keep."""
        return None

    def retried(self, attempt: int, wait_s: float, failure: str) -> None:
        """Tell observers that another attempt follows; most kinds tell nothing."""

    async def reissued(self, changed: Any, model: str, number: int) -> Operation[E, R]:
        """Return the operation that does *changed* in place of this one. Raises ValueError."""
        raise ValueError("only a model call can be reissued")

    def absorb(self, child: Any, elapsed_s: float, error: str) -> None:
        """Take over what *child*, which was reissued for this one, has used."""

    async def settle(self, decided: Any) -> Any:
        """Return *decided*, about what was reissued for this, or what comes of it if a person has to agree."""
        return decided

    # ---- the result ----------------------------------------------------------------------

    def result_event(self, event: E, result: R) -> Any:
        """Return the event that the result hooks get, if the kind has them."""
        return result

    def changed_result(self, event: Any, value: Any, plugin: str) -> Any:
        raise ValueError(f"returned something, but the result of {self.name} has no transform")

    def result(self, event: Any) -> R:
        """Return the result in *event*, which has passed the result hooks."""
        return cast("R", event)

    def withheld(self, event: E, deny: Deny) -> R:
        """Return what stands in for a result that was denied, or raise errors.Denied."""
        raise errors.Denied(HOST, deny.tell_user, self.digest(event), tell_model=deny.tell_model)

    def broken(self, event: E, error: errors.PluggentError) -> R:
        """Return what stands in for a result whose hooks failed, or raise *error*."""
        raise error


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
