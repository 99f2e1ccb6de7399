"""The settings under ``[plugins.pluggent-budget]``, checked when they are read, every problem named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import attrs

from pluggent_budget.amounts import MOST
from pluggent_budget.periods import zone_of
from pluggent_budget.prices import Price

DIMENSIONS = ("turn", "session", "agent", "principal", "model", "tool", "day", "month")
"""What a limit can be counted for, in the order in which accounts are named."""
PERIODS = frozenset({"day", "month"})
IN_MEMORY = ":memory:"
"""The path that stands for: this host alone, and only as long as it lives."""


def _several(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _table(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


@attrs.frozen(kw_only=True)
class Limit:
    """How much of some units is allowed, and for what that is counted.

    Every combination of what ``per`` names has an account of its own: ``per=("principal",
    "day")`` is one for each principal and day. Without ``per`` there is one, for ever. ``where``
    narrows a limit to what its patterns (``*``, ``?``, ``[abc]``) match.

    >>> Limit(per=("principal", "day"), tokens=200_000, cost_usd=5.0).tokens
    200000
    """

    per: tuple[str, ...] = attrs.field(default=(), converter=_several)
    """turn, session, agent, principal, model, tool, day, month."""
    where: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_table)
    """Dimension = pattern, such as ``model = "openai/*"``."""
    tokens: int | None = None
    """Input and output together."""
    cost_usd: float | None = None
    tool_calls: int | None = None
    model_calls: int | None = None
    """Attempts; one that is tried again counts again."""
    wall_s: float | None = None
    """Seconds that calls took, each counted by itself also where they ran side by side."""
    warn_at: float | None = None
    """As the general ``warn_at``, for this limit."""

    def __attrs_post_init__(self) -> None:
        _raise(self._problems())

    @property
    def period(self) -> str:
        """``day``, ``month``, or nothing."""
        return next((name for name in self.per if name in PERIODS), "")

    @property
    def dimensions(self) -> frozenset[str]:
        """What the limit is about, counted or narrowed."""
        return frozenset({*self.per, *self.where})

    @property
    def outlives(self) -> bool:
        """Whether other processes count to the same account."""
        return not {"turn", "session"} & set(self.per)

    def _problems(self) -> Iterator[str]:
        for name in self.per:
            if name not in DIMENSIONS:
                yield f"per: {name!r} is not a dimension{_nearest(name)}"
        for name, pattern in self.where.items():
            if name not in DIMENSIONS or name in PERIODS:
                yield f"where: {name!r} is nothing to narrow by{_nearest(name)}"
            elif not pattern:
                yield f"where: the pattern for {name} is empty"
        if len(set(self.per)) < len(self.per):
            yield "per: a dimension is named twice"
        if set(self.per) >= PERIODS:
            yield "per: a day lies in one month, so leave month out; or write two limits"
        yield from self._bad_units()
        yield from _share("warn_at", self.warn_at)

    def _bad_units(self) -> Iterator[str]:
        given = {name: cast("float | None", getattr(self, name)) for name in _UNITS}
        if not any(value is not None for value in given.values()):
            yield f"it limits nothing: give it one of {', '.join(_UNITS)}"
        for name, value in given.items():
            if value is None:
                continue
            if isinstance(value, bool) or not 0 <= value <= MOST / 1000:
                yield f"{name}: expected a number from 0 on, got {value!r}"
            if name in _WHOLE and type(value) is not int:
                yield f"{name}: expected a whole number, got {value!r}"
        if {"tool", "model"} <= self.dimensions:
            yield "a call is of a model or of a tool: name one of the two"
        for about, units in (("tool", ("tokens", "cost_usd", "model_calls")), ("model", ("tool_calls",))):
            if about in self.dimensions:
                yield from (
                    f"{unit}: a limit for a {about} never sees any" for unit in units if given[unit] is not None
                )


_UNITS = ("tokens", "cost_usd", "tool_calls", "model_calls", "wall_s")
_WHOLE = frozenset({"tokens", "tool_calls", "model_calls"})


def _as_price(value: object) -> object:
    """Return the Price in a table; anything else as it is, for ``BudgetSettings`` to judge with all the rest."""
    if not isinstance(value, Mapping):
        return value
    table = {"match": ["*"], **cast("Mapping[str, Any]", value)}
    try:
        return Price.read(table, "unknown_price")
    except ValueError as error:
        return error


def _to_limits(value: Iterable[Limit]) -> tuple[Limit, ...]:
    return tuple(value)


def _to_prices(value: Iterable[Price]) -> tuple[Price, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class BudgetSettings:
    """The limits, where the ledger is, and what counts if a figure is unknown.

    >>> BudgetSettings(limits=(Limit(per=("turn",), tool_calls=20),)).default_output_tokens
    4096
    """

    limits: tuple[Limit, ...] = attrs.field(default=(), converter=_to_limits)
    """The limits, each with what it is counted for; see the README of pluggent-budget."""
    path: str = ""
    """The file of the ledger, absolute or from ``~/`` on; ``:memory:`` for this host alone."""
    zone: str = "UTC"
    """The time zone in which days and months begin."""
    warn_at: float = 0.8
    """From this share of a limit on the model gets a note; 0 is never."""
    default_output_tokens: int = 4096
    """What is reserved for the reply to a request that says no max_output_tokens."""
    send_default: bool = False
    """Whether such a request is sent with that number as its max_output_tokens."""
    input_factor: float = 1.5
    """What is reserved for input: the host's estimate times this."""
    unknown_price: Any = attrs.field(default="refuse", converter=_as_price)
    """For a model without a price under a limit of money: ``refuse``, ``free``, or a table with a price."""
    prices: tuple[Price, ...] = attrs.field(default=(), converter=_to_prices)
    """Prices that go before those of ``price_file`` and of the catalog of pluggent-models."""
    price_file: str = ""
    """A TOML file of prices, or a catalog from ``pluggent models refresh``; goes before that of pluggent-models."""
    silent_failures: str = "free"
    """The cost of a call that failed before its first word without a report of usage: ``free`` or ``reserved``."""
    lost: str = "booked"
    """What becomes of the reservations of a process that died: ``booked`` or ``released``."""
    busy_s: float = 2.0
    """How long one wait for the file of the ledger may take."""
    expires_s: float = 3600.0
    """After this time an unsettled reservation counts as lost."""

    def __attrs_post_init__(self) -> None:
        _raise(self._problems())

    @property
    def file(self) -> Path | None:
        """Where the file of the ledger is, None if there is none."""
        return None if self.path in ("", IN_MEMORY) else _home(self.path)

    @property
    def own_prices(self) -> Path | None:
        """Where the operator's file of prices is, None if there is none."""
        return _home(self.price_file) if self.price_file else None

    def _problems(self) -> Iterator[str]:
        yield from self._bad_limits()
        yield from _share("warn_at", self.warn_at)
        try:
            zone_of(self.zone)
        except ValueError as error:
            yield f"zone: {error}"
        for name, path in (("path", self.file), ("price_file", self.own_prices)):
            if path is not None and not path.is_absolute():
                yield f"{name}: expected an absolute path, or one from ~/ on, got {str(path)!r}"
        yield from self._bad_numbers()
        yield from self._bad_choices()

    def _bad_numbers(self) -> Iterator[str]:
        if type(self.default_output_tokens) is not int or not 1 <= self.default_output_tokens <= MOST:
            yield f"default_output_tokens: expected a whole number from 1 on, got {self.default_output_tokens!r}"
        # busy_s: together with what waits before it, it has to fit into the host's 5 s for a hook.
        for name, least, most in (("input_factor", 1.0, 100.0), ("busy_s", 0.0, 2.0), ("expires_s", 1.0, 2592000.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not least <= value <= most:
                yield f"{name}: expected a number from {least:g} to {most:g}, got {value!r}"

    def _bad_choices(self) -> Iterator[str]:
        for name, choices in (("silent_failures", ("free", "reserved")), ("lost", ("booked", "released"))):
            if getattr(self, name) not in choices:
                yield f"{name}: expected {' or '.join(map(repr, choices))}, got {getattr(self, name)!r}"
        if isinstance(self.unknown_price, ValueError):
            yield str(self.unknown_price)
        elif not isinstance(self.unknown_price, Price) and self.unknown_price not in ("refuse", "free"):
            yield (
                'unknown_price: expected "refuse", "free" or a table such as {input = 5.0, output = 25.0},'
                f" got {self.unknown_price!r}"
            )

    def _bad_limits(self) -> Iterator[str]:
        shared = [number for number, limit in enumerate(self.limits) if limit.outlives]
        if shared and not self.path:
            which = " and ".join(f"limits[{number}] ({_about(self.limits[number])})" for number in shared)
            yield (
                f"path: {which} count across processes, so a file for the ledger is needed: path ="
                f' "~/.local/state/pluggent/budget.db", or path = "{IN_MEMORY}" to count in this host alone'
            )
        seen: dict[tuple[object, ...], int] = {}
        for number, limit in enumerate(self.limits):
            same = (frozenset(limit.per), frozenset(limit.where.items()))
            first = seen.setdefault(same, number)
            if first != number:
                yield f"limits[{number}] counts the same as limits[{first}]: write their units into one"


def _about(limit: Limit) -> str:
    return "per " + " and ".join(limit.per) if limit.per else "for everything"


def _home(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the user has no home
        return Path(path)


def _share(name: str, value: float | None) -> Iterator[str]:
    if value is not None and (isinstance(value, bool) or not 0 <= value <= 1):
        yield f"{name}: expected a share from 0 (never) to 1, got {value!r}"


def _nearest(name: str) -> str:
    import difflib  # 2 ms, for a mistake only

    near = difflib.get_close_matches(name, DIMENSIONS, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(DIMENSIONS)}"


def _raise(problems: Iterable[str]) -> None:
    found = tuple(problems)
    if found:
        raise ValueError("; ".join(found))
