"""Which accounts a call is counted in: the limits that it falls under, each with its key. Pure."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import attrs
from pluggent_hookspecs import ReserveEvent, Scope

from pluggent_budget.amounts import MOST, UNITS, WALL, Amount
from pluggent_budget.periods import Calendar
from pluggent_budget.settings import DIMENSIONS, BudgetSettings, Limit

LONGEST = 200
"""Characters of one value in a key; what is longer is cut and ends in a hash."""
CLAIMED = "claimed:"
"""How the principal of a client begins that nothing but the client's own word names."""

Key: TypeAlias = tuple[object, ...]
Caps: TypeAlias = tuple[tuple[int, int], ...]
"""(which unit of an Amount, how much of it) for each that is limited."""


class Facts(NamedTuple):
    """What limits may be counted for, of one call; in the order of DIMENSIONS, without the periods."""

    turn: str = ""
    session: str = ""
    agent: str = ""
    principal: str = ""
    model: str = ""
    tool: str = ""

    @classmethod
    def of(cls, event: ReserveEvent) -> Facts:
        """Return those of an attempt."""
        called = event.operation == "tool_call"
        return cls.where(event.scope, event.model, event.capability if called else "")

    @classmethod
    def where(cls, scope: Scope, model: str = "", tool: str = "") -> Facts:
        """Return those of a place."""
        return cls(scope.turn_id, scope.session_id, scope.agent, scope.principal, model, tool)

    def counted(self, place: int) -> str:
        """Return what stands in a key for the fact at *place*.

        All names that clients only claim have one account: a client takes another whenever it likes.
        """
        if place == _PRINCIPAL and self.principal.startswith(CLAIMED):
            return CLAIMED
        return _short(self[place])


_PLACES = {name: place for place, name in enumerate(Facts._fields)}
_PRINCIPAL = _PLACES["principal"]


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 65]}#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


class Account(NamedTuple):
    """One account of one limit. ``ends`` is when its period is over, in seconds since 1970."""

    rule: Rule
    key: Key
    ends: float | None

    @property
    def text(self) -> str:
        """The key as it stands in a file: one line of JSON."""
        return self.rule.prefix + json.dumps(self.key[1:]) + "}"


@attrs.frozen(eq=False)
class Rule:
    """A limit, ready to be asked."""

    limit: Limit
    in_file: bool
    caps: Caps
    places: tuple[int, ...]
    filters: tuple[tuple[int, re.Pattern[str]], ...]
    period: str
    warn_at: float
    prefix: str
    """How the keys of its accounts begin in a file; the same in every process with this limit."""

    @property
    def about(self) -> str:
        """What it is counted for, for a sentence: ``per principal and day``."""
        per = "per " + " and ".join(self.limit.per) if self.limit.per else "in all"
        where = ", ".join(f"{name} {pattern}" for name, pattern in self.limit.where.items())
        return f"{per} (for {where})" if where else per

    @property
    def has_money(self) -> bool:
        """Whether it limits dollars."""
        return self.limit.cost_usd is not None

    def account(self, facts: Facts, calendar: Calendar, now: float) -> Account | None:
        """Return the account in which a call with these *facts* is counted, None if it is in none."""
        for place, pattern in self.filters:
            if pattern.match(facts[place]) is None:
                return None
        values = [facts.counted(place) for place in self.places]
        if not self.period:
            return Account(self, (self.prefix, *values), None)
        period = calendar.period(self.period, now)
        return Account(self, (self.prefix, *values, period.name), period.ends)


def rule_of(limit: Limit, settings: BudgetSettings) -> Rule:
    """Return *limit* ready to be asked."""
    per = [name for name in DIMENSIONS if name in limit.per or (name == "session" and "turn" in limit.per)]
    filters = [(_PLACES[name], re.compile(fnmatch.translate(pattern))) for name, pattern in limit.where.items()]
    # A call is of a model or of a tool: what counts for one of them does not see the other.
    filters += [(_PLACES[name], re.compile("(?s:.)")) for name in ("model", "tool") if name in limit.dimensions]
    about = {"per": per, "where": dict(sorted(limit.where.items()))}
    if limit.period:
        about["zone"] = [settings.zone]
    return Rule(
        limit,
        settings.file is not None and "turn" not in limit.per,
        tuple(
            (place, min(MOST * MOST, round(value * unit.scale)))
            for place, unit in enumerate(UNITS)
            if (value := getattr(limit, unit.setting)) is not None
        ),
        tuple(_PLACES[name] for name in per if name in _PLACES),
        tuple(filters),
        limit.period,
        settings.warn_at if limit.warn_at is None else limit.warn_at,
        json.dumps(about)[:-1] + ', "is": ',
    )


def lacking(caps: Caps, used: Sequence[int], held: Sequence[int], wanted: Sequence[int]) -> int | None:
    """Return the first unit of *wanted* that does not fit under *caps* any more, None if all do.

    Of time nothing is wanted: it lacks when what was used and what is running have reached the cap.

    >>> lacking(((0, 100),), (60, 0, 0, 0, 0), (30, 0, 0, 0, 0), (11, 0, 0, 1, 0))
    0
    """
    for unit, cap in caps:
        taken = used[unit] + held[unit]
        if unit == WALL:
            if taken >= cap:
                return unit
        elif wanted[unit] and taken + wanted[unit] > cap:
            return unit
    return None


class Standing(NamedTuple):
    """What was used of an account, and what is held for calls that run (of time: how long they have run)."""

    used: Amount = Amount()
    held: Amount = Amount()


@attrs.frozen
class PeriodOver:
    """The period of an account is over for the ledger, which knows a later moment than the caller."""


@attrs.frozen
class Shortage:
    """An account has not enough of ``unit`` left for ``wanted``."""

    account: Account
    unit: int
    wanted: int
    standing: Standing
