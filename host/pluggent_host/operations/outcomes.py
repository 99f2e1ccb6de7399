"""What came of deciding about an operation. Only Operations makes a Ready, and without one nothing is executed."""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar, Final, Generic, TypeVar, final

import attrs
from pluggent_hookspecs.decisions import Approval, Ask, Deny

from pluggent_host.common.escape import escape_all
from pluggent_host.hooks.votes import Verdict
from pluggent_host.operations.operation import Operation, Recorded

E = TypeVar("E")
R = TypeVar("R")

MADE_BY_DECIDE: Final = object()
UNANSWERED: Final = "this needs a person's approval, and nobody was there to give it"
Asks = tuple[tuple[str, Ask], ...]
"""Who asks, and what; empty for a decision without an ask."""


@attrs.frozen
class Answer:
    """What an approver has just said, who that was, and the denial that follows if it does not go on."""

    by: str
    approval: Approval
    deny: Deny | None = None


@final
class Ready(Generic[E, R]):
    """The right to execute one frozen request once. Made by ``Operations`` alone."""

    __slots__ = ("approval", "approved", "decided_at", "event", "operation", "used")
    asks: ClassVar[Asks] = ()

    def __init__(
        self,
        key: object,
        operation: Operation[E, R],
        event: E,
        approved: tuple[tuple[str, Ask], ...] = (),
        approval: Answer | None = None,
    ) -> None:
        if key is not MADE_BY_DECIDE:
            raise TypeError("a Ready comes from Operations.decide, nowhere else")
        self.operation = operation
        self.event = event
        self.approved = approved
        self.approval = approval
        self.decided_at = perf_counter()
        self.used = False


@attrs.frozen
class Denied(Generic[E, R]):
    """A policy, or the host, said no."""

    operation: Operation[E, R]
    event: E
    by: str
    deny: Deny
    asks: ClassVar[Asks] = ()


@attrs.frozen
class Unanswered(Denied[E, R]):
    """Denied because a person had to agree and no approver answered. ``why`` is what they were to agree to."""

    why: str


def unanswered(asked: Asked[E, R]) -> Unanswered[E, R]:
    """Return the denial of *asked*, which no approver has answered."""
    why = asked.verdict.reason
    deny = Deny(UNANSWERED, tell_user=f"{why}: {UNANSWERED}")
    return Unanswered(asked.operation, asked.event, asked.verdict.by, deny, why)


@attrs.frozen
class Asked(Generic[E, R]):
    """A person has to agree first. ``respond`` is the answer that would be given then."""

    operation: Operation[E, R]
    event: E
    asks: Asks
    verdict: Verdict


@attrs.frozen
class Answered(Generic[E, R]):
    """A policy answered in place of executing."""

    operation: Operation[E, R]
    event: E
    by: str
    value: object
    asks: ClassVar[Asks] = ()


Settled = Ready[E, R] | Denied[E, R] | Answered[E, R]
"""A decision in which nobody has to be asked any more."""
Decided = Settled[E, R] | Asked[E, R]


class Release:
    """The result of an operation, asking to be let out: recorded and asked about like a request."""

    def __init__(self, operation: Recorded, event: Any) -> None:
        self._operation = operation
        self._event = event
        self.name = f"{operation.name}_result"
        self.scope = operation.scope
        self.id = operation.id
        self.journal = operation.journal

    def capability(self) -> str:
        return self._operation.capability()

    def digest(self, event: Any) -> str:
        return str(event.digest)

    def rendered(self, event: Any) -> str:
        return f"{self._operation.rendered(self._event)}\nits result is to be released: {escape_all(repr(event))}"
