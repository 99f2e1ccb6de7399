"""What attempts may cost: set aside before each one, settled after it, however it ended."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any, TypeVar

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import ReserveEvent, SettleEvent
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import HookFailed, Observation

from pluggent_host.calling import NOTHING, Answer, Caller, to_its_end
from pluggent_host.chains import Chains, Impl
from pluggent_host.coming import Coming
from pluggent_host.operation import Cost, Payer

R = TypeVar("R")
Held = list[tuple[str, Json]]
"""Which plugin has reserved, and what it called that."""
Over = tuple[Usage, str, float, str]
"""What an attempt came to: what it used, its outcome, its seconds, why it failed."""


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

    async def around(self, cost: Cost, attempt: Callable[[], Awaitable[R]]) -> R:
        """Reserve with every ledger, make *attempt*, and settle with each that reserved. Raises RefusedError."""
        held: Held = []
        payer, begun, started = cost.payer, False, perf_counter()
        outcome, error = "failed", ""
        try:
            await self._reserve(cost.event, held)
            begun, started = True, perf_counter()
            made = await attempt()
            if held:
                error = payer.failure
                outcome = "failed" if error else "done"
        except asyncio.CancelledError:
            outcome, error = "cancelled", "cancelled"
            raise
        except RefusedError as refused:
            error = f"refused by {refused}"
            raise
        except BaseException as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            if held:
                usage = payer.used if begun else Usage()
                over = (usage, outcome, perf_counter() - started, error)
                await self._settle(cost.event, held, over, payer if begun else None)
        return made

    # ---- before --------------------------------------------------------------------------

    async def _reserve(self, event: ReserveEvent, held: Held) -> None:
        deadline = perf_counter() + self.hook_s
        for impl in self.chains["reserve"]:
            answer = None if impl.blocking else self.caller.call_now(impl, event, deadline)
            if answer is NOTHING:
                continue
            if answer is None or answer.waits:
                answer = await self._waited(impl, answer, event, deadline, held)
            if _is_reservation(answer.value):
                held.append((impl.plugin, answer.value))  # one that came too late, too
            if answer.problem:
                self.tell(HookFailed(event.scope, impl.plugin, "reserve", answer.problem))
                failed = Deny(
                    "a policy failed, so this was not done", tell_user=f"policy '{impl.plugin}' {answer.problem}"
                )
                raise RefusedError(impl.plugin, failed)
            if isinstance(answer.value, Deny):
                raise RefusedError(impl.plugin, answer.value)

    async def _waited(
        self, impl: Impl, answer: Answer | None, event: ReserveEvent, deadline: float, held: Held
    ) -> Answer:
        """Return what *answer* comes to; None is that of an implementation which is yet to be called, in a thread."""
        coming = Coming(lambda reservation: self._too_late(impl.plugin, event, reservation))
        if answer is None:
            noted = self.caller.call_now(coming.through(impl), event, deadline)
            awaited = noted.value
        else:
            awaited = answer.value
            noted = answer._replace(value=coming.noted(awaited))
        asking = asyncio.ensure_future(self.caller.awaited(impl, noted, deadline))
        try:
            await to_its_end(asking)
        except asyncio.CancelledError:
            # What was set aside in the moment of the cancellation is settled like everything else.
            if _is_reservation(value := coming.give_up()):
                held.append((impl.plugin, value))
            raise
        finally:
            if inspect.iscoroutine(awaited) and inspect.getcoroutinestate(awaited) == inspect.CORO_CREATED:
                awaited.close()
        answered = asking.result()
        return answered._replace(value=coming.give_up()) if answered.problem else answered

    def _too_late(self, plugin: str, event: ReserveEvent, reservation: Any) -> None:
        """Settle what nobody waited for any more when it was reserved: nothing of it was used."""
        if _is_reservation(reservation):
            over = (Usage(), "failed", 0.0, "it was reserved too late")
            self.caller.leave(self._settle(event, [(plugin, reservation)], over, None))

    # ---- after ---------------------------------------------------------------------------

    async def _settle(
        self, reserved: ReserveEvent, held: Sequence[tuple[str, Json]], over: Over, payer: Payer | None
    ) -> None:
        waiting: list[Coroutine[Any, Any, None]] = []
        for plugin, reservation in held:
            event = SettleEvent(reserved, reservation, *over)
            for impl in self.chains["settle"]:
                if impl.plugin == plugin:
                    deadline = perf_counter() + self.hook_s
                    answer = self.caller.call_now(impl, event, deadline)
                    if answer.waits:
                        waiting.append(self._awaited(impl, answer, event, payer, deadline))
                    else:
                        self._settled(impl, answer, event, payer)
        if waiting:
            await to_its_end(asyncio.gather(*waiting))

    async def _awaited(
        self, impl: Impl, answer: Answer, event: SettleEvent, payer: Payer | None, deadline: float
    ) -> None:
        self._settled(impl, await self.caller.awaited(impl, answer, deadline), event, payer)

    def _settled(self, impl: Impl, answer: Answer, event: SettleEvent, payer: Payer | None) -> None:
        problem = answer.problem or _unusable(answer.value)
        if problem:
            self.tell(HookFailed(event.reserved.scope, impl.plugin, "settle", problem))
        elif answer.value is not None and payer is not None and payer.used.cost_usd is None:
            # What the vendor bills goes before it, and so does what a ledger before this one knew.
            price: float | None = answer.value.cost_usd
            if price is not None:
                payer.priced(price)


def _is_reservation(value: object) -> bool:
    return value is not None and not isinstance(value, Deny)


def _unusable(value: object) -> str:
    """Return what is wrong with what ``settle`` came back with, empty if nothing is."""
    if value is None:
        return ""
    if not isinstance(value, Usage):
        return f"returned {type(value).__name__}, not a Usage or None"
    price: Any = value.cost_usd
    if price is not None and not (isinstance(price, int | float) and math.isfinite(price) and price >= 0):
        return f"returned a Usage with cost_usd={price!r}, which is no amount of money"
    return ""
