"""What attempts may cost: set aside before each one, settled after it, however it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import HookFailed, Observation, ReserveEvent, SettleEvent
from pluggent_hookspecs.messages import Usage

from pluggent_host.calling import Answer, Caller, uncancelled
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
    async def around(self, cost: ReserveEvent, used: Callable[[], Usage]) -> AsyncGenerator[None]:
        """Reserve with every ledger, and settle with each that reserved. Raises RefusedError."""
        held: list[tuple[str, Json]] = []
        started, outcome = perf_counter(), "failed"
        try:
            await self._reserve(cost, held)
            started = perf_counter()
            yield
            outcome = "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            for plugin, reservation in held:
                elapsed_s = perf_counter() - started
                await self._settle(plugin, SettleEvent(cost, reservation, used(), outcome, elapsed_s))

    async def _reserve(self, cost: ReserveEvent, held: list[tuple[str, Json]]) -> None:
        deadline = perf_counter() + self.hook_s
        for impl in self.chains["reserve"]:
            answer = await self.caller.call(impl, cost, deadline)
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

    async def _settle(self, plugin: str, event: SettleEvent) -> None:
        for impl in self.chains["settle"]:
            if impl.plugin == plugin:
                deadline = perf_counter() + self.hook_s
                answer = self.caller.call_now(impl, event, deadline)
                if answer.waits:
                    await uncancelled(self._awaited(impl, answer, event, deadline))
                else:
                    self._check(impl, answer, event)

    async def _awaited(self, impl: Impl, answer: Answer, event: SettleEvent, deadline: float) -> None:
        self._check(impl, await self.caller.awaited(impl, answer, deadline), event)

    def _check(self, impl: Impl, answer: Answer, event: SettleEvent) -> None:
        if answer.problem:
            self.tell(HookFailed(event.reserved.scope, impl.plugin, "settle", answer.problem))
