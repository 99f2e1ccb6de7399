"""The plugin: reserves and settles, and adds a note for the model near a limit."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

import attrs
from pluggent_hookspecs import (
    ConfigError,
    Deny,
    Message,
    ModelRequest,
    ModelRequestEvent,
    PluginContext,
    ReserveEvent,
    SettleEvent,
    Usage,
    hookimpl,
)

from pluggent_budget.accounts import Account, Facts, PeriodOver, Shortage, Standing, rule_of
from pluggent_budget.amounts import Amount
from pluggent_budget.costs import Estimate, expected, price_of, spent
from pluggent_budget.ledger_file import FileRules, LedgerFile
from pluggent_budget.ledger_thread import LedgerError, LedgerThread
from pluggent_budget.memory_ledger import HeldReservation, MemoryLedger, PendingReservations, Reservation
from pluggent_budget.messages import NOTE, no_catalog, no_ledger, no_price, too_little, warning
from pluggent_budget.periods import Calendar, Clock, HighWater
from pluggent_budget.prices import Price, Prices, read_price_file, shipped
from pluggent_budget.settings import BudgetSettings

MOST_PERIODS = 3
"""How often a call is counted in the next day because the one before was over."""

log = logging.getLogger("pluggent.budget")


class Budget:
    """The plugin behind the entry point ``budget``: reserves before each attempt, settles after it."""

    Settings = BudgetSettings

    def __init__(self, settings: BudgetSettings = BudgetSettings(), *, clock: Clock = Clock()) -> None:  # noqa: B008 (frozen)
        self._settings = settings
        self._clock = clock
        self._now = HighWater(clock.now)
        self._calendar = Calendar(settings.zone)
        self._rules = tuple(rule_of(limit, settings) for limit in settings.limits)
        self._prices = _prices(settings)
        self._memory = MemoryLedger(clock.monotonic)
        self._pending = PendingReservations(settings.expires_s)
        self._ledger_thread: LedgerThread | None = None
        if any(rule.in_file for rule in self._rules):
            rules = FileRules(busy_s=settings.busy_s, expires_s=settings.expires_s, book_lost=settings.lost == "booked")
            file = settings.file
            assert file is not None
            self._ledger_thread = LedgerThread(lambda: LedgerFile(file, self._now, rules))

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Open the file of the ledger, if a limit needs one. Raises ConfigError if it cannot be used."""
        if self._ledger_thread is None:
            yield
            return
        await self._ledger_thread.open()
        try:
            yield
        finally:
            await self._ledger_thread.close()

    # ---- the ledger ----------------------------------------------------------------------

    @hookimpl
    def reserve(self, event: ReserveEvent) -> Deny | int | Awaitable[Deny | int] | None:
        """Hold what the attempt may cost at most, in every account that it is counted in, or refuse it.

        Returns the number of the reservation. A call with a price and without an account has one too: what it
        did cost is known then.
        """
        known = self._pending.of_run(event.run)
        if known is not None:  # it was let pass before, and is charged once
            return self._pending.add(attrs.evolve(known, began=self._clock.monotonic()))
        accounts = self._accounts(Facts.of(event)) if self._rules else []
        try:
            price = self._prices.of(event.model) if event.model else None
        except ConfigError as error:
            log.warning("the price of %s cannot be looked up: %s", event.model, error)
            if any(account.rule.has_money for account in accounts):
                return no_catalog(error)
            price = None
        if not accounts and price is None:
            return None
        if event.model and price is None and self._settings.unknown_price == "refuse":
            for account in accounts:
                if account.rule.has_money:
                    return no_price(event, account)
        estimate = expected(event, price, self._settings)
        if self._ledger_thread is not None and any(account.rule.in_file for account in accounts):
            return self._reserve_in_file(self._ledger_thread, Facts.of(event), accounts, estimate, event.run)
        held = self._reserve_in_memory(accounts, estimate)
        return too_little(held, self._calendar) if isinstance(held, Shortage) else self._held(estimate, held, event.run)

    async def _reserve_in_file(
        self, ledger_thread: LedgerThread, facts: Facts, accounts: Sequence[Account], estimate: Estimate, run: str
    ) -> Deny | int:
        for _ in range(MOST_PERIODS):
            answer = await self._tried_in_file(ledger_thread, accounts, estimate, run)
            if not isinstance(answer, PeriodOver):
                return answer
            accounts = self._accounts(facts)  # the ledger knows a later moment: now it is known here, too
        return no_ledger("days end faster than they can be counted")

    async def _tried_in_file(
        self, ledger_thread: LedgerThread, accounts: Sequence[Account], estimate: Estimate, run: str
    ) -> Deny | int | PeriodOver:
        in_file = [account for account in accounts if account.rule.in_file]
        held = self._reserve_in_memory([one for one in accounts if not one.rule.in_file], estimate)
        if isinstance(held, Shortage):
            return too_little(held, self._calendar)
        answer: int | Shortage | PeriodOver | LedgerError | None = None
        try:
            answer = await ledger_thread.reserve(in_file, estimate.amount, run)
        except LedgerError as error:
            answer = error
        finally:
            if not isinstance(answer, int):  # cancelled, too
                self._memory.settle(held, Amount())
        match answer:
            case Shortage():
                self._lose_expired()
                return too_little(answer, self._calendar)
            case PeriodOver():
                return answer
            case LedgerError():
                log.warning("%s", answer)
                return no_ledger(answer)
            case _:
                return self._held(estimate, held, run, answer)

    def _reserve_in_memory(self, accounts: Sequence[Account], estimate: Estimate) -> Reservation | Shortage:
        held = self._memory.reserve(accounts, estimate.amount)
        if isinstance(held, Shortage) and self._lose_expired():
            held = self._memory.reserve(accounts, estimate.amount)
        return held

    def _held(self, estimate: Estimate, in_memory: Reservation, run: str, in_file: int | None = None) -> int:
        held = HeldReservation(estimate, in_memory, in_file, self._clock.monotonic())
        if run:
            self._pending.remember(run, held)
        return self._pending.add(held)

    @hookimpl
    def settle(self, event: SettleEvent) -> Usage | Awaitable[Usage | None] | None:
        """Book what the attempt did cost in the place of what was held; return the price, where it is known."""
        held = self._pending.take(event.reservation)
        if held is None:
            return None
        amount = spent(event, held.estimate, self._settings)
        self._memory.settle(held.in_memory, amount)
        price = price_of(event, held.estimate)
        if held.in_file is None or self._ledger_thread is None:
            return price
        # Queued now and not when awaited: the caller may be cancelled.
        return _when_written(self._ledger_thread.settle(held.in_file, amount), price)

    def _lose_expired(self) -> bool:
        """Lose the reservations that expired without a settlement; return whether there were any."""
        expired = self._pending.expired(self._clock.monotonic())
        for held in expired:
            self._memory.lose(held.in_memory, book=self._settings.lost == "booked")
        return bool(expired)

    def _accounts(self, facts: Facts) -> list[Account]:
        if not self._rules:
            return []
        now, calendar = self._now(), self._calendar
        found = [rule.account(facts, calendar, now) for rule in self._rules]
        return [account for account in found if account is not None]

    # ---- the model -----------------------------------------------------------------------

    @hookimpl
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest | Awaitable[ModelRequest | None] | None:
        """Set the longest reply, if the settings say so, and add a note on limits that are near."""
        if not self._rules:
            return None
        request = self._with_limit(event.request)
        model = f"{event.provider.rpartition('/')[2]}/{event.request.model}"
        accounts = [one for one in self._accounts(Facts.where(event.scope, model)) if one.rule.warn_at]
        in_file = [account for account in accounts if account.rule.in_file]
        if in_file:
            return self._warned_from_file(event.request, request, accounts, in_file)
        return _changed(event.request, self._warned(request, accounts, self._memory.standings(accounts)))

    def _with_limit(self, request: ModelRequest) -> ModelRequest:
        if not self._settings.send_default or request.parameters.max_output_tokens is not None:
            return request
        parameters = attrs.evolve(request.parameters, max_output_tokens=self._settings.default_output_tokens)
        return attrs.evolve(request, parameters=parameters)

    async def _warned_from_file(
        self, before: ModelRequest, request: ModelRequest, accounts: Sequence[Account], in_file: Sequence[Account]
    ) -> ModelRequest | None:
        assert self._ledger_thread is not None
        in_memory = [account for account in accounts if not account.rule.in_file]
        standings = self._memory.standings(in_memory)
        try:
            standings += await self._ledger_thread.standings(in_file)
        except LedgerError as error:
            # A note does not stop the turn: reserve decides whether the call may be made.
            log.warning("no note about the budget: %s", error)
            in_file = ()
        return _changed(before, self._warned(request, [*in_memory, *in_file], standings))

    def _warned(
        self, request: ModelRequest, accounts: Sequence[Account], standings: Sequence[Standing]
    ) -> ModelRequest:
        near = [
            warning(account, unit, standing, self._calendar)
            for account, standing in zip(accounts, standings, strict=True)
            for unit, cap in account.rule.caps
            if cap and standing.used[unit] + standing.held[unit] >= cap * account.rule.warn_at
        ]
        if not near:
            return request
        note = Message.user(f"[{NOTE} {' '.join(near)} Come to an end in time.]")
        return attrs.evolve(request, messages=(*request.messages, note))


async def _when_written(written: Awaitable[None], price: Usage | None) -> Usage | None:
    await written
    return price


def _changed(before: ModelRequest, after: ModelRequest) -> ModelRequest | None:
    return None if after is before else after


def _prices(settings: BudgetSettings) -> Prices:
    """Return the prices in force. Raises ValueError for a file of the operator that is wrong."""
    own = () if settings.own_prices is None else read_price_file(settings.own_prices)
    unknown = settings.unknown_price if isinstance(settings.unknown_price, Price) else None
    if isinstance(own, tuple):
        return Prices((*settings.prices, *own), unknown)
    return Prices(settings.prices, unknown, (lambda: own, shipped))
