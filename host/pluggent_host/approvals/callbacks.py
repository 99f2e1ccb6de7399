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


def people(approver: Approver | None, answerer: Answerer | None, *, in_threads: bool = False) -> tuple[object, ...]:
    """Return the plugins that ask these functions; none for None.

    Where *in_threads*, a function that is not a coroutine function may block: it runs in a thread of the
    host's, and is left behind when the host no longer waits for it.
    """
    approving = () if approver is None else (_Approver("resolve_approval", approver, in_threads=in_threads),)
    answering = () if answerer is None else (_Answerer("answer_question", answerer, in_threads=in_threads),)
    return (*approving, *answering)


class _Person:
    """An application's function as a plugin object with one hook; records call it by the name of its class."""

    def __init__(self, hook: str, ask: Callable[[Any], Any], *, in_threads: bool) -> None:
        def answer(event: Any) -> Any:
            return ask(event)

        blocking = in_threads and not inspect.iscoroutinefunction(ask)
        setattr(self, hook, hookimpl(blocking=blocking)(answer))


class _Approver(_Person):
    pass


class _Answerer(_Person):
    pass
