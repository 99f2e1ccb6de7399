"""What an attempt is expected to cost at most, and what it did cost. Pure."""

from __future__ import annotations

from typing import NamedTuple

import attrs
from pluggent_hookspecs import ReserveEvent, SettleEvent, Usage

from pluggent_budget.amounts import MOST, NANO, Amount, bounded
from pluggent_budget.prices import AnyPrice
from pluggent_budget.settings import BudgetSettings


class Estimate(NamedTuple):
    """What is reserved for an attempt: in all, and of a model call ``input`` and ``output`` tokens."""

    amount: Amount
    input: int = 0
    output: int = 0
    price: AnyPrice | None = None


_EMBEDDING = "embedding"
"""The operation that counts as a model call whose output has no tokens."""
_A_TOOL_CALL = Estimate(Amount(tool_calls=1))


def expected(event: ReserveEvent, price: AnyPrice | None, settings: BudgetSettings) -> Estimate:
    """Return what has to be reserved for the attempt in *event*.

    >>> from pluggent_hookspecs import Scope
    >>> event = ReserveEvent(Scope(), "model_call", "t1.0", 1, "", "a/b", input_tokens=100)
    >>> expected(event, None, BudgetSettings()).amount.tokens
    4246
    """
    if event.operation == "tool_call":
        return _A_TOOL_CALL
    most = 0 if event.operation == _EMBEDDING else event.max_output_tokens
    output = settings.default_output_tokens if most is None else bounded(most)
    given = bounded(event.input_tokens * settings.input_factor)
    nanos = 0 if price is None else price.most(given, output)
    tokens = given + output
    return Estimate(Amount(min(MOST, tokens), nanos, 0, 1), given, output, price)


def spent(event: SettleEvent, estimate: Estimate, settings: BudgetSettings) -> Amount:
    """Return what the attempt in *event* cost, for which *estimate* had been reserved.

    What the vendor did not report counts as reserved, if the call was made; see ``silent_failures``.
    """
    wall_ms = bounded(event.elapsed_s * 1000)
    if not estimate.amount.model_calls:
        return Amount(tool_calls=1, wall_ms=wall_ms)
    usage = event.usage
    if event.outcome != "done" and usage == Usage() and settings.silent_failures == "free":
        return Amount(model_calls=1, wall_ms=wall_ms)
    given = estimate.input if usage.input is None else bounded(usage.input)
    made = estimate.output if usage.output is None else bounded(usage.output)
    if usage.cost_usd is not None and usage.cost_usd >= 0:
        # What the vendor bills goes before what we reckon: it knows its discounts and its surcharges.
        nanos = bounded(usage.cost_usd * NANO)
    else:
        nanos = 0 if estimate.price is None else estimate.price.nanos_of(given, made, usage)
        nanos += _hosted(usage)
    tokens = given + made
    return Amount(min(MOST, tokens), nanos, 0, 1, wall_ms)


def price_of(event: SettleEvent, estimate: Estimate) -> Usage | None:
    """Return what the attempt in *event* cost, None where the vendor reported it, and where it would be a guess.

    >>> from pluggent_hookspecs import Scope
    >>> made = ReserveEvent(Scope(), "model_call", "t1.0", 1, "", "a/b")
    >>> from pluggent_budget.prices import Price
    >>> price = Price(match=("a/b",), input=1.0, output=2.0)
    >>> price_of(SettleEvent(made, 1, Usage(500_000, 250_000)), Estimate(Amount(), price=price)).cost_usd
    1.0
    >>> searched = Usage(500_000, 250_000, hosted_usd=0.5)
    >>> price_of(SettleEvent(made, 1, searched), Estimate(Amount(), price=price)).cost_usd
    1.5
    """
    usage = event.usage
    if event.reserved.operation == _EMBEDDING and usage.output is None:
        usage = attrs.evolve(usage, output=0)
    if estimate.price is None or usage.cost_usd is not None or usage.input is None or usage.output is None:
        return None
    return Usage(cost_usd=(estimate.price.nanos(usage) + _hosted(usage)) / NANO)


def _hosted(usage: Usage) -> int:
    """Return what tools at the vendor cost, in billionths of a dollar."""
    return bounded((usage.hosted_usd or 0) * NANO)
