"""The application's own functions that stand for people, as plugin objects: who approves, and who answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.events import ApprovalEvent, QuestionEvent
from pluggent_hookspecs.markers import MaybeAsync, hookimpl
from pluggent_hookspecs.questions import Elicited

Approver: TypeAlias = Callable[[ApprovalEvent], MaybeAsync[bool | Approval | None]]
Answerer: TypeAlias = Callable[[QuestionEvent], MaybeAsync[Elicited | None]]


def people(approver: Approver | None, answerer: Answerer | None) -> tuple[object, ...]:
    """Return the plugins that ask these functions; none for None."""
    approving = () if approver is None else (_Approver(approver),)
    return (*approving, *(() if answerer is None else (_Answerer(answerer),)))


def people_in_threads(
    approver: Approver | None, answerer: Answerer | None
) -> tuple[tuple[object, ...], dict[str, Approver | Answerer]]:
    """Return the functions that may block, as plugins that run them in threads, and the others as options."""
    blocking: list[object] = []
    others: dict[str, Approver | Answerer] = {}
    if approver is not None and not inspect.iscoroutinefunction(approver):
        blocking.append(_BlockingApprover(approver))
    elif approver is not None:
        others["approver"] = approver
    if answerer is not None and not inspect.iscoroutinefunction(answerer):
        blocking.append(_BlockingAnswerer(answerer))
    elif answerer is not None:
        others["answerer"] = answerer
    return tuple(blocking), others


class _Approver:
    """An application's approver function as a plugin object."""

    def __init__(self, approve: Approver) -> None:
        self._approve = approve

    @hookimpl
    def resolve_approval(self, event: ApprovalEvent) -> MaybeAsync[bool | Approval | None]:
        return self._approve(event)


class _Answerer:
    """An application's function that answers questions as a plugin object."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer

    @hookimpl
    def answer_question(self, event: QuestionEvent) -> MaybeAsync[Elicited | None]:
        return self._answer(event)


class _BlockingApprover:
    """An approver that may block: it runs in a thread of the host's, and is left behind when nobody waits for it."""

    def __init__(self, approve: Approver) -> None:
        self._approve = approve

    @hookimpl(blocking=True)
    def resolve_approval(self, event: ApprovalEvent) -> Any:
        return self._approve(event)


class _BlockingAnswerer:
    """One that answers questions, and may block as such an approver may."""

    def __init__(self, answer: Answerer) -> None:
        self._answer = answer

    @hookimpl(blocking=True)
    def answer_question(self, event: QuestionEvent) -> Any:
        return self._answer(event)
