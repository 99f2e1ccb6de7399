"""What an operation is, with the defaults of all kinds, and the outcomes of deciding about one.

Only Operations in pipeline.py makes a Ready, and without one nothing is executed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import cache
from operator import attrgetter
from time import perf_counter
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast, final

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import Value, errors
from pluggent_hookspecs.decisions import Approval, Ask, Decision, Deny, Reach
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.observations import Change, DecisionMade, Observation

from pluggent_host.common.names import HOST, framed
from pluggent_host.hooks.ledgers import Cost
from pluggent_host.hooks.votes import Verdict

E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")


@attrs.define(eq=False, repr=False)
class Attempt:
    """One try at executing. A stream notes here whether any of it has been seen, and how to take that back."""

    number: int
    shown: bool = False
    on_discard: Callable[[str], None] | None = None


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

    @property
    def flush(self) -> Callable[[], Awaitable[None] | None]:
        """Returns what to wait for until every record is durable; None if it is. Nothing is executed before."""
        ...

    @property
    def emit(self) -> Callable[[Observation], None]:
        """Emit an event to observers and streams. Never raises."""
        ...


class Operation(ABC, Generic[E, R]):
    """One thing to be done, as the sequence sees it. ``event`` carries the request.

    What a kind of operation does not override it does not have: no transform, no around and no result
    hooks, no vote of the host, no cost, no reissue. ``changed``, ``changed_result`` and ``response``
    raise ValueError for a value that the hook may not give.
    """

    name: str
    hooks: Hooks
    votes: ClassVar[bool] = False
    """Whether this kind overrides ``host_vote`` or ``doubt``; worked out from that."""
    recorded_elsewhere: bool = False
    """Whether a decision without a vote and without a change has no record of its own: another event states it."""

    def __init__(self, journal: Journal, scope: Scope, id: str, capability: str, event: E) -> None:
        self.journal = journal
        self.scope = scope
        self.id = id
        self.capability = capability
        self.event = event

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.votes = any(getattr(cls, name) is not getattr(Operation, name) for name in ("host_vote", "doubt"))

    # ---- the request ---------------------------------------------------------------------

    @abstractmethod
    def rendered(self, event: E) -> str:
        """Return the request for a person to read, escaped and complete."""

    @abstractmethod
    def freeze(self, event: E) -> E:
        """Return *event* under its digest; nothing changes it from here on."""

    def fingerprint(self, event: Any) -> str:
        """What this is, however often it is asked for in one turn: what a person has refused stays refused."""
        return str(event.digest)

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

    approved_state = ""
    """The state of the preview that a person has agreed to."""

    @property
    def state(self) -> str:
        """``CallPreview.state`` of the preview that a person is shown, "" before and without one."""
        return ""

    @property
    def reach(self) -> Reach:
        """The widest reach that an approval can have, for all that is known of the request."""
        return "always"

    async def look(self, event: E) -> None:
        """Make what a person has to see of *event* besides the request; most kinds have nothing."""

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
        """Emit that another attempt follows; most kinds emit nothing."""

    async def reissued(self, changed: Any, model: str, number: int) -> Operation[E, R]:
        """Return the operation that does *changed* in place of this one. Raises ValueError."""
        raise ValueError("only a model call can be reissued; other arguments are for transform_tool_call")

    def absorb(self, child: Any, elapsed_s: float, error: str) -> None:
        """Take over what *child*, which was reissued for this one, has used."""

    async def settle(self, decided: Any) -> Any:
        """Return the settled decision about what was reissued for this; a person may have to agree."""
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

    def withheld(self, event: Any, deny: Deny) -> R:
        """Return what stands in for a result that was denied, or raise errors.Denied."""
        raise errors.Denied(HOST, deny.tell_user, event.digest, tell_model=deny.tell_model)

    def broken(self, event: E, error: errors.PluggentError) -> R:
        """Return what stands in for a result whose hooks failed, or raise *error*."""
        raise error


# ---- outcomes of deciding -------------------------------------------------------------

MADE_BY_DECIDE: Final = object()
UNANSWERED: Final = "this needs a person's approval, and no approver answered"
Asks = tuple[tuple[str, Ask], ...]
"""Who asks, and what; empty for a decision without an ask."""


@attrs.frozen(repr=False)
class Answer(Value):
    """What an approver has just said, who that was, and the denial that follows if it does not go on."""

    by: str
    approval: Approval
    deny: Deny | None = None


@final
@attrs.define(eq=False, repr=False)
class Ready(Generic[E, R]):
    """The right to execute one frozen request once. ``Operations`` makes it and takes no other."""

    made_by: object = attrs.field(repr=False)
    operation: Operation[E, R]
    event: E
    approved: Asks = ()
    approval: Answer | None = None
    decided_at: float = attrs.field(factory=perf_counter, init=False)
    used: bool = attrs.field(default=False, init=False)
    asks: ClassVar[Asks] = ()


@attrs.frozen(repr=False)
class Denied(Value, Generic[E, R]):
    """A policy, or the host, said no."""

    operation: Operation[E, R]
    event: E
    by: str
    deny: Deny
    asks: ClassVar[Asks] = ()


@attrs.frozen(repr=False)
class Unanswered(Denied[E, R]):
    """Denied because a person had to agree and no approver answered. ``why`` is what they were to agree to."""

    why: str


def unanswered(asked: Asked[E, R]) -> Unanswered[E, R]:
    """Return the denial of *asked*, which no approver has answered."""
    why = asked.verdict.reason
    deny = Deny(UNANSWERED, tell_user=f"{why}: {UNANSWERED}")
    return Unanswered(asked.operation, asked.event, asked.verdict.by, deny, why)


@attrs.frozen(repr=False)
class Asked(Value, Generic[E, R]):
    """A person has to agree first. ``respond`` is the answer that would be given then."""

    operation: Operation[E, R]
    event: E
    asks: Asks
    verdict: Verdict


@attrs.frozen(repr=False)
class Answered(Value, Generic[E, R]):
    """A policy answered in place of executing."""

    operation: Operation[E, R]
    event: E
    by: str
    value: object
    asks: ClassVar[Asks] = ()


Settled = Ready[E, R] | Denied[E, R] | Answered[E, R]
"""A decision that needs no person any more."""
Granted = Ready[E, R] | Answered[E, R]
"""A decision that can be performed."""
Decided = Settled[E, R] | Asked[E, R]


class Release:
    """The result of an operation, asking to be let out: recorded and asked about like a request."""

    reach: Reach = "always"

    def __init__(self, operation: Operation[Any, Any], event: Any) -> None:
        self._operation = operation
        self._event = event
        self.name = f"{operation.name}_result"
        self.scope = operation.scope
        self.id = operation.id
        self.journal = operation.journal
        self.capability = operation.capability

    def rendered(self, event: Any) -> str:
        return f"{self._operation.rendered(self._event)}\nits result is to be released: {escape_all(repr(event))}"


Recorded: TypeAlias = Operation[Any, Any] | Release
"""What a decision record and an approval are about."""


# ---- digests ----------------------------------------------------------------------------


def asked_by(scope: Scope) -> bytes:
    """Return the principal of *scope* as the last part of a digest; empty if there is none.

    >>> asked_by(Scope()), asked_by(Scope(principal="alice")), asked_by(Scope(principal="alice", claimed=True))
    (b'', b'5:alice', b'5:alice7:claimed')
    """
    if not scope.principal and not scope.claimed:
        return b""  # as in digests of earlier versions, so that what they left paused can resume
    name = scope.principal.encode("utf-8", "surrogatepass")
    return framed(name, b"claimed") if scope.claimed else framed(name)


def with_digest(event: T, digest: str) -> T:
    """Return *event*, an attrs object, under *digest*: attrs.evolve() in a third of its time."""
    kind: Any = type(event)
    read, place = _fields(kind)
    values = read(event)
    made: T = kind(*values[:place], digest, *values[place + 1 :])
    return made


@cache
def _fields(kind: type[Any]) -> tuple[Callable[[Any], tuple[Any, ...]], int]:
    """Return what reads all arguments of *kind* off an object, and the place of the digest among them."""
    names = [field.name for field in attrs.fields(kind) if field.init]
    return attrgetter(*names), names.index("digest")
