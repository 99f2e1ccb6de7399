"""What attempts may cost: set aside before each one, settled after it, however it ended."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeVar

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import Deny
from pluggent_hookspecs.events import ReserveEvent, SettleEvent
from pluggent_hookspecs.messages import Usage
from pluggent_hookspecs.observations import HookFailed, Observation

from pluggent_host.common.running import to_its_end
from pluggent_host.hooks.caller import NOTHING, Answer, Caller
from pluggent_host.hooks.order import Chains, Impl

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


@attrs.frozen(eq=False, repr=False)
class Ledgers:
    """The ledgers of one host."""

    chains: Chains
    caller: Caller
    hook_s: float
    emit: Callable[[Observation], None]

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

    async def hold(self, cost: Cost) -> None:
        """Reserve with every ledger for a run that is settled later, maybe in another process. Raises RefusedError."""
        held: Held = []
        try:
            await self._reserve(cost.event, held)
        except BaseException:
            if held:
                await self._settle(cost.event, held, (Usage(input=0, output=0), "failed", 0.0, "not sent"), None)
            raise

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
                self.emit(HookFailed(event.scope, impl.plugin, "reserve", answer.problem))
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
        coming = LateReservation(lambda reservation: self._too_late(impl.plugin, event, reservation))
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
        """Settle a reservation that came too late: nothing of it was used."""
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
            self.emit(HookFailed(event.reserved.scope, impl.plugin, "settle", problem))
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
        return f"returned a Usage with cost_usd={price!r}, which is not an amount of money"
    return ""


class Payer(Protocol):
    """What ledgers have to do with: an operation whose attempts cost something."""

    @property
    def used(self) -> Usage:
        """What the last attempt used."""
        ...

    @property
    def failure(self) -> str:
        """Why the last attempt failed although it raised nothing, empty if it did not."""
        ...

    def refused(self, deny: Deny) -> None:
        """A ledger refuses the next attempt."""
        ...

    def priced(self, cost_usd: float) -> None:
        """A ledger knows what the last attempt did cost."""
        ...


class Cost(NamedTuple):
    """One attempt as ledgers see it, and who pays for it."""

    event: ReserveEvent
    payer: Payer


class LateReservation:
    """One answer of one implementation. Whatever comes after it was given up goes to *late*, in the loop."""

    def __init__(self, late: Callable[[Any], None]) -> None:
        self._late = late
        self._value: Any = None
        self._given_up = False

    def give_up(self) -> Any:
        """Return what has come so far, None if nothing has; what comes from now on is late."""
        self._given_up = True
        return self._value

    async def noted(self, awaitable: Awaitable[Any]) -> Any:
        """Return what *awaitable* comes to, and take note of it."""
        value = await awaitable
        self._came(value)
        return value

    def through(self, impl: Impl) -> Impl:
        """Return *impl*, which runs in a thread, so that note is taken of what it returns."""
        loop, function = asyncio.get_running_loop(), impl.function

        def noted(event: object) -> Any:
            value = function(event)
            # Before the thread is done: the caller finds the value noted.
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the ledger
                loop.call_soon_threadsafe(self._came, value)
            return value

        return attrs.evolve(impl, function=noted)

    def _came(self, value: Any) -> None:
        self._value = value
        if self._given_up:
            self._late(value)
