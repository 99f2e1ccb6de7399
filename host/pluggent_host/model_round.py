"""One call of the model within a turn: decided, made, booked; what becomes of it if it is denied or breaks off."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Protocol

import attrs
from pluggent_hookspecs import errors
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ModelRequestEvent, Scope
from pluggent_hookspecs.messages import Message, Usage
from pluggent_hookspecs.models import ModelResponse

from pluggent_host.calling import uncancelled
from pluggent_host.decided import Answered, Asked, Decided, Denied, Ready
from pluggent_host.deltas import visible
from pluggent_host.modelcalls import ModelCallOperation
from pluggent_host.operation import Journal
from pluggent_host.operations import Operations
from pluggent_host.settings import Limits
from pluggent_host.showing import Showing
from pluggent_host.step import Spent, Stopped, Why
from pluggent_host.transcript import Entry, Spending
from pluggent_host.wellformed import clean_message


class RoundTurn(Journal, Protocol):
    """What a call of the model needs of the turn it belongs to."""

    out: Showing

    @property
    def scope(self) -> Scope: ...
    @property
    def operations(self) -> Operations: ...
    @property
    def limits(self) -> Limits: ...
    def append(self, *entries: Entry) -> None: ...
    def spent(self) -> Spent: ...
    def spend(self, usage: Usage) -> None: ...
    async def consent(
        self, asked: Asked[ModelRequestEvent, ModelResponse]
    ) -> Decided[ModelRequestEvent, ModelResponse]:
        """Return what comes of *asked*: that itself if it is to wait for a person."""
        ...

    async def say(self, message: Message) -> bool:
        """Let *message* pass the output policies, show it, and take it into the conversation."""
        ...


async def ask_model(
    turn: RoundTurn, operation: ModelCallOperation, frozen: ModelRequestEvent | None = None
) -> ModelResponse | Stopped | Asked[ModelRequestEvent, ModelResponse]:
    """Return the reply, why the turn cannot go on, or the request if it waits for a person.

    *frozen* is the request where it was made before. Raises ProviderError and HookError.
    """
    decided = await _decided(turn, operation, frozen)
    match decided:
        case Asked():
            return decided
        case Denied(deny=deny):
            return Stopped(Why.DENIED, deny.tell_user)
        case Ready() | Answered():
            return await _made(turn, operation, decided)


async def _decided(
    turn: RoundTurn, operation: ModelCallOperation, frozen: ModelRequestEvent | None
) -> Decided[ModelRequestEvent, ModelResponse]:
    operations = turn.operations
    decided = await (operations.decide(operation) if frozen is None else operations.decide_frozen(operation, frozen))
    return await turn.consent(decided) if isinstance(decided, Asked) else decided


async def _made(
    turn: RoundTurn,
    operation: ModelCallOperation,
    decided: Ready[ModelRequestEvent, ModelResponse] | Answered[ModelRequestEvent, ModelResponse],
) -> ModelResponse | Stopped:
    started, error, finish = perf_counter(), "", ""
    try:
        response = await turn.operations.perform(decided)
        finish = response.finish_reason
        return response
    except errors.Denied as denied:
        error = denied.reason
        turn.out.take_back("denied by a policy")
        return Stopped(Why.DENIED, denied.reason)
    except ProviderError as failure:
        error = str(failure)
        await _keep_partial(turn, operation)
        if failure.kind is ProviderErrorKind.TIMEOUT and _out_of_time(turn):
            return _no_time(turn)
        raise
    except errors.PluggentError as failure:
        error = str(failure)
        turn.out.take_back("a policy failed")
        if _out_of_time(turn):  # a layer that waits to try again is given up with the turn
            return _no_time(turn)
        raise
    except asyncio.CancelledError:
        error = "cancelled"
        await uncancelled(_keep_partial(turn, operation))
        raise
    finally:
        for each in operation.calls(perf_counter() - started, finish, error):
            turn.spend(each.usage)
            turn.append(Spending(turn.scope.turn_id, each.model, each.usage, each.error))
            turn.tell(each.event(turn.scope, decided.event.round))


def _no_time(turn: RoundTurn) -> Stopped:
    return Stopped(Why.LIMIT, f"limit 'wall_s' reached ({turn.limits.wall_s:g})", "wall_s")


def _out_of_time(turn: RoundTurn) -> bool:
    return turn.limits.wall_s is not None and turn.spent().elapsed_s >= turn.limits.wall_s


async def _keep_partial(turn: RoundTurn, operation: ModelCallOperation) -> None:
    """Keep what had come of a broken stream, if the result hooks let it pass."""
    partial = operation.partial() if operation.partial is not None else None
    if partial is None or not visible(partial):
        turn.out.take_back("the reply broke off")
        return
    try:
        response = await turn.operations.finish(operation, operation.event, ModelResponse(partial))
        await turn.say(clean_message(attrs.evolve(response.message, tool_calls=())))
    except errors.PluggentError:
        turn.out.notes.append("the partial reply was withheld by a policy")
