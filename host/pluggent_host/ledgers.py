"""What attempts may cost: set aside before each one, settled after it, however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import ReserveEvent, SettleEvent
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import HookFailed, Observation

from pluggent_host.calling import Answer, Caller, to_its_end
from pluggent_host.chains import Chains, Impl


class RefusedError(Exception):
    """A ledger refused an attempt: ``by`` which plugin, and what it said."""

    def __init__(self, by: str, deny: Deny) -> None:
        self.by = by
        self.deny = deny
        super().__init__(f"{by}: {deny.tell_user}")


@attrs.frozen(eq=False)
class Ledgers:
    """The ledgers of one host."""

    chains: Chains
    caller: Caller
    hook_s: float
    tell: Callable[[Observation], None]

    @asynccontextmanager
    async def around(
        self, cost: ReserveEvent, used: Callable[[], Usage], failed: Callable[[], bool]
    ) -> AsyncGenerator[None]:
        """Reserve with every ledger, and settle with each that reserved. Raises RefusedError."""
        held: list[tuple[str, Json]] = []
        started, outcome = perf_counter(), "failed"
        try:
            await self._reserve(cost, held)
            started = perf_counter()
            yield
            outcome = "failed" if failed() else "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            elapsed_s, usage = perf_counter() - started, used()
            events = [
                (plugin, SettleEvent(cost, reservation, usage, outcome, elapsed_s)) for plugin, reservation in held
            ]
            waiting = [awaited for plugin, event in events for awaited in self._settled(plugin, event)]
            if waiting:
                await to_its_end(asyncio.gather(*waiting))

    async def _reserve(self, cost: ReserveEvent, held: list[tuple[str, Json]]) -> None:
        deadline = perf_counter() + self.hook_s
        for impl in self.chains["reserve"]:
            answer = await self._asked(impl, cost, deadline, held)
            if answer.problem:
                self.tell(HookFailed(cost.scope, impl.plugin, "reserve", answer.problem))
                failed = Deny(
                    "a policy failed, so this was not done", tell_user=f"policy '{impl.plugin}' {answer.problem}"
                )
                raise RefusedError(impl.plugin, failed)
            if isinstance(answer.value, Deny):
                raise RefusedError(impl.plugin, answer.value)
            if answer.value is not None:
                held.append((impl.plugin, answer.value))

    async def _asked(self, impl: Impl, cost: ReserveEvent, deadline: float, held: list[tuple[str, Json]]) -> Answer:
        answer = self.caller.call_now(impl, cost, deadline)
        if not answer.waits:
            return answer
        asking = asyncio.ensure_future(self.caller.awaited(impl, answer, deadline))
        try:
            await to_its_end(asking)
        except asyncio.CancelledError:
            # What was set aside in the moment of the cancellation is settled like everything else.
            value = asking.result().value if asking.done() and not asking.cancelled() else None
            if value is not None and not isinstance(value, Deny):
                held.append((impl.plugin, value))
            raise
        return asking.result()

    def _settled(self, plugin: str, event: SettleEvent) -> Iterator[Coroutine[Any, Any, None]]:
        """Settle with *plugin*; yield what of it has to be awaited, by its deadline."""
        for impl in self.chains["settle"]:
            if impl.plugin == plugin:
                deadline = perf_counter() + self.hook_s
                answer = self.caller.call_now(impl, event, deadline)
                if answer.waits:
                    yield self._awaited(impl, answer, event, deadline)
                else:
                    self._check(impl, answer, event)

    async def _awaited(self, impl: Impl, answer: Answer, event: SettleEvent, deadline: float) -> None:
        self._check(impl, await self.caller.awaited(impl, answer, deadline), event)

    def _check(self, impl: Impl, answer: Answer, event: SettleEvent) -> None:
        if answer.problem:
            self.tell(HookFailed(event.reserved.scope, impl.plugin, "settle", answer.problem))
