"""A question that a tool puts to a person: an operation of its own, the clocks above it standing still."""

from __future__ import annotations

from time import perf_counter

from pluggent_hookspecs import errors
from pluggent_hookspecs.observations import QuestionAnswered
from pluggent_hookspecs.questions import Accepted, Elicited

from pluggent_host.decided import Denied, Ready
from pluggent_host.nesting import Nesting
from pluggent_host.questions import Question, QuestionOperation
from pluggent_host.toolcalls import ToolCallOperation


async def ask_person(nesting: Nesting, outer: ToolCallOperation, question: Question) -> Elicited:
    """Return what came of asking. Raises Denied and LimitReached."""
    turn, services = nesting.turn, nesting.services
    if not turn.may_ask():
        raise errors.LimitReached("asks", turn.limits.asks)
    operation = QuestionOperation(
        turn, nesting.scope(outer), services, outer.tool.capability, question, nesting.next_id(outer)
    )
    decided = await services.operations.decide(operation)
    if isinstance(decided, Denied):
        outer.ends_turn = outer.ends_turn or decided.deny.ends_turn
        raise errors.Denied(decided.by, decided.deny.tell_model, decided.event.digest)
    assert isinstance(decided, Ready)  # it can neither ask nor answer: see ANSWERS
    started = perf_counter()
    with nesting.standing_still(outer):
        answer: Elicited = await turn.wait_for_person(services.operations.perform(decided))
    outcome, given = type(answer).__name__.lower(), tuple(answer.content) if isinstance(answer, Accepted) else ()
    told = QuestionAnswered(
        operation.scope, outer.event.call_id, outer.tool.capability, question.source, outcome,
        operation.by, given, perf_counter() - started,
    )  # fmt: skip
    turn.tell(told)
    return answer
