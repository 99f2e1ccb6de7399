"""Tokens counted by a vendor, through policies: it reads the request like one that it answers."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import errors
from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind
from pluggent_hookspecs.events import ModelRequestEvent, Scope
from pluggent_hookspecs.models import CountsTokens, ModelRequest
from pluggent_hookspecs.observations import Change

from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.operations.model_call import Settle, change_of, frozen
from pluggent_host.operations.operation import Attempt, Denied, Hooks, Journal, Operation, Settled
from pluggent_host.operations.pipeline import Operations
from pluggent_host.plugins.lookup import Model


class NoTokenCount(PluggentError):  # noqa: N818 (a fact, not a failure)
    """A provider does not count tokens; its models can be used all the same."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(f"the provider '{provider}' does not count the tokens of a request; see its documentation")


async def counted(operations: Operations, operation: CountOperation, settle: Settle) -> int:
    """Return the tokens that *operation* asks for, as the vendor counts them; *settle* asks people.

    Raises Denied, ProviderError, HookError.
    """
    decided: Settled[ModelRequestEvent, int] = await settle(await operations.decide(operation))
    if isinstance(decided, Denied):
        operation.ends_turn = decided.deny.ends_turn
        by, deny = decided.by, decided.deny
        raise errors.Denied(by, deny.tell_user, decided.event.digest, tell_model=deny.tell_model)
    return await operations.perform(decided)


class CountOperation(Operation[ModelRequestEvent, int]):
    """One request to be counted. It costs nothing, so no ledger is asked, and it is not repeated.

    Raises NoTokenCount if the provider has no such call.
    """

    name = "count"
    hooks = Hooks("transform_model_request", "decide_model_request")
    ends_turn = False
    """Whether a policy that refused it wants the turn to end, if it is below one."""

    def __init__(
        self, journal: Journal, scope: Scope, id: str, found: Model, request: ModelRequest, attempt_s: float
    ) -> None:
        event = ModelRequestEvent(scope, request, found.capability, found.provider.target)
        super().__init__(journal, scope, id, found.capability, event)
        if not isinstance(found.provider, CountsTokens):
            raise NoTokenCount(found.provider.name)
        self._name = found.provider.name
        self._counter: CountsTokens = found.provider
        self._attempt_s = attempt_s

    def changed(self, event: ModelRequestEvent, value: Any, plugin: str) -> ModelRequestEvent:
        if not isinstance(value, ModelRequest):
            raise ValueError(f"returned {type(value).__name__}, not a ModelRequest")
        if any(tool not in event.request.tools for tool in value.tools):
            raise ValueError("added a tool, or changed the definition of one; tools can only be left out")
        return attrs.evolve(event, request=value)

    def diff(self, before: ModelRequestEvent, after: ModelRequestEvent) -> Change:
        return change_of(before.request, after.request)

    def freeze(self, event: ModelRequestEvent) -> ModelRequestEvent:
        return frozen(event, self.id)

    def fingerprint(self, event: ModelRequestEvent) -> str:
        return f"count:{frozen(event, '').digest}"

    def rendered(self, event: ModelRequestEvent) -> str:
        request = event.request
        last = request.messages[-1].text if request.messages else ""
        return (
            f"let {escape_all(event.target)} count the tokens of {len(request.messages)} messages for"
            f" {escape_all(request.model)}, the last: {escape_all(last)}"
        )

    def response(self, value: object) -> int:
        raise ValueError("answered, but tokens are counted, and never answered in place of that")

    async def execute(self, event: ModelRequestEvent, attempt: Attempt) -> int:
        started = perf_counter()
        try:
            async with asyncio.timeout(self._attempt_s):
                count: object = await self._counter.count(event.request)
        except ProviderError:
            raise
        except TimeoutError as error:
            if perf_counter() - started < self._attempt_s:
                raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}") from error
            problem = f"no count within {self._attempt_s:g} s ([timeouts] model_s)"
            raise self._error(ProviderErrorKind.TIMEOUT, problem) from error
        except BaseException as error:
            if comes_from_outside(error):
                raise
            raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {said(error)}") from error
        if type(count) is not int or count < 0:
            raise self._error(ProviderErrorKind.PROTOCOL, f"the plugin failed: {count!r} is no count of tokens")
        return count

    def _error(self, kind: ProviderErrorKind, problem: str) -> ProviderError:
        return ProviderError(kind, problem, provider=self._name)
