"""What tokens cost: prices as data, found by model, and sums in whole billionths of a dollar."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import attrs
from pluggent_hookspecs import ConfigError, Usage

from pluggent_budget.amounts import bounded

if TYPE_CHECKING:  # a start without a call of a model does without
    from pluggent_models.catalog import ModelCatalog

    # the same
    from pluggent_models.model import Cost, Model

PICOS_A_NANO = 1000
MOST_BYTES = 1_048_576
_MOST_USD = 1e6
"""Dollars for a million tokens; more is a mistake."""


class _Rates(NamedTuple):
    """What one token of each kind costs, in trillionths of a dollar: whole, so that sums are exact."""

    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int
    input_audio: int
    output_audio: int


def _globs(value: Iterable[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True)
class Price:
    """US dollars for a million tokens of the models (``provider/model``) that ``match`` names, with ``*``.

    A kind of token without a price costs what the whole of its side does. Above ``long_over``
    tokens of input everything costs ``long_input`` and ``long_output`` times as much.

    >>> Price(match=("openai/gpt-5",), input=1.25, cached=0.125, output=10.0).nanos(Usage(input=1000, output=100))
    2250000
    """

    match: tuple[str, ...] = attrs.field(converter=_globs)
    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    long_over: int | None = None
    long_input: float = 1.0
    long_output: float = 1.0
    date: str = ""
    """When the price was read, and from where."""
    source: str = ""

    def __attrs_post_init__(self) -> None:
        problems = [
            f"{name}: expected dollars for a million tokens, got {value!r}"
            for name, value in self._rates()
            if value is not None and (isinstance(value, bool) or not 0 <= value <= _MOST_USD)
        ]
        problems += [
            f"{name}: expected a factor from 1 on, got {value!r}"
            for name, value in (("long_input", self.long_input), ("long_output", self.long_output))
            if isinstance(value, bool) or not 1 <= value <= _MOST_USD
        ]
        if not self.match or not all(self.match):
            problems.append("match: expected the names of models, such as openai/gpt-5")
        if problems:
            raise ValueError("; ".join(problems))

    @classmethod
    def read(cls, table: Mapping[str, Any], where: str) -> Price:
        """Return the price in *table*, as it stands in a file. Raises ValueError naming *where*."""
        known = [field.name for field in attrs.fields(cls)]
        problems = [f"unknown key {name!r}" for name in table if name not in known]
        problems += [f"{name} is missing" for name in ("match", "input", "output") if name not in table]
        numbers = (*_Rates._fields, "long_over", "long_input", "long_output")
        problems += [
            f"{name}: expected a number, got {table[name]!r}"
            for name in numbers
            if name in table and (isinstance(table[name], bool) or not isinstance(table[name], int | float))
        ]
        if not problems:
            try:
                values: dict[str, Any] = {**table, "date": str(table.get("date", ""))}
                return cls(**values)
            except (TypeError, ValueError) as error:
                problems.append(str(error))
        raise ValueError(f"{where}: {'; '.join(problems)}")

    def nanos(self, usage: Usage) -> int:
        """Return what *usage* costs in billionths of a dollar, rounded up; unknown counts are none."""
        return self.nanos_of(bounded(usage.input), bounded(usage.output), usage)

    def nanos_of(self, given: int, made: int, usage: Usage) -> int:
        """Return what *given* tokens of input and *made* of output cost, some of them of the kinds in *usage*."""
        rates = self._picos
        into, out = given * rates.input, made * rates.output
        if usage.cached or usage.cache_write or usage.input_audio:
            cached = min(bounded(usage.cached), given)
            written = min(bounded(usage.cache_write), given - cached)
            heard = min(bounded(usage.input_audio), given - cached - written)
            into += cached * (rates.cached - rates.input) + written * (rates.cache_write - rates.input)
            into += heard * (rates.input_audio - rates.input)
        if usage.reasoning or usage.audio:
            spoken = min(bounded(usage.audio), made)
            thought = min(bounded(usage.reasoning), made - spoken)
            out += spoken * (rates.output_audio - rates.output) + thought * (rates.reasoning - rates.output)
        return self._sum(into, out, given)

    def most(self, input_tokens: int, output_tokens: int) -> int:
        """Return the most that so many tokens can cost, whatever kind they turn out to be."""
        return self._sum(input_tokens * self._dearest[0], output_tokens * self._dearest[1], input_tokens)

    def _sum(self, into: int, out: int, given: int) -> int:
        if self.long_over is not None and given > self.long_over:
            into = into * _picos(self.long_input) // 1_000_000
            out = out * _picos(self.long_output) // 1_000_000
        return bounded(-(-(into + out) // PICOS_A_NANO))

    @cached_property
    def _picos(self) -> _Rates:
        return _Rates(*(_picos(self._default(name) if rate is None else rate) for name, rate in self._rates()))

    @cached_property
    def _dearest(self) -> tuple[int, int]:
        rates = self._picos
        into = max(rates.input, rates.cached, rates.cache_write, rates.input_audio)
        return into, max(rates.output, rates.reasoning, rates.output_audio)

    def _default(self, name: str) -> float:
        return self.input if name in ("cached", "cache_write", "input_audio") else self.output

    def _rates(self) -> Iterator[tuple[str, float | None]]:
        for name in _Rates._fields:
            yield name, getattr(self, name)


def _picos(dollars_a_million: float) -> int:
    return round(dollars_a_million * 1_000_000)


@attrs.frozen
class TieredPrice:
    """A price that is another one above so many tokens of input, in rising order.

    >>> dear = Price(match=("a/b",), input=2.0, output=2.0)
    >>> TieredPrice(Price(match=("a/b",), input=1.0, output=1.0), ((1000, dear),)).nanos(Usage(input=2000, output=0))
    4000000
    """

    base: Price
    above: tuple[tuple[int, Price], ...]

    def nanos(self, usage: Usage) -> int:
        """As that of Price."""
        return self.nanos_of(bounded(usage.input), bounded(usage.output), usage)

    def nanos_of(self, given: int, made: int, usage: Usage) -> int:
        """As that of Price."""
        return self._at(given).nanos_of(given, made, usage)

    def most(self, input_tokens: int, output_tokens: int) -> int:
        """As that of Price."""
        return self._at(input_tokens).most(input_tokens, output_tokens)

    def _at(self, given: int) -> Price:
        return next((price for over, price in reversed(self.above) if given > over), self.base)


AnyPrice: TypeAlias = Price | TieredPrice


def price_in(model: Model) -> AnyPrice | None:
    """Return the price in what a catalog knows of *model*; None if it knows none."""
    if model.cost is None:
        return None
    base = _price_of(model, model.cost)
    above = tuple((over, _price_of(model, cost)) for over, cost in model.cost.above)
    return TieredPrice(base, above) if above else base


def _price_of(model: Model, cost: Cost) -> Price:
    rates = {name: getattr(cost, name) for name in _Rates._fields}
    return Price(match=(model.id,), **rates, date=model.date, source=model.source)


def shipped() -> ModelCatalog:
    """Return the catalog of pluggent-models, read when the first price is asked for. Raises ConfigError."""
    # Here and not above: a start without a call of a model does without.
    from pluggent_models.catalog import shipped as catalog

    return catalog()


class Prices:
    """All prices in force. Of *prices* the first that matches counts; then *catalogs* are asked, in order.

    ``of`` raises ConfigError for a catalog that cannot be read, which is read when it is first asked.
    """

    def __init__(
        self,
        prices: Iterable[Price] = (),
        otherwise: Price | None = None,
        catalogs: Iterable[Callable[[], ModelCatalog]] = (shipped,),
    ) -> None:
        self._prices = (*prices, _NO_VENDOR)
        self._catalogs = tuple(catalogs)
        self._otherwise = otherwise
        self.of = functools.lru_cache(maxsize=1024)(self._of)

    def _of(self, model: str) -> AnyPrice | None:
        for price in self._prices:
            if any(fnmatch.fnmatchcase(model, glob) for glob in price.match):
                return price
        for catalog in self._catalogs:
            if (known := catalog().find(model)) is not None and (found := price_in(known)) is not None:
                return found
        return self._otherwise


_NO_VENDOR = Price(match=("offline/*",), input=0, output=0, source="runs on this machine")


def read_price_file(path: Path) -> tuple[Price, ...] | ModelCatalog:
    """Return what the operator's file of prices holds: a TOML list of prices, or a catalog of models.

    Raises ValueError naming every problem in it.
    """
    # Here and not above, as tomllib: without such a file a start does without both.
    from pluggent_models.catalog import MAGIC, ModelCatalog, read_bytes

    try:
        content = read_bytes(path)
        if content[:2] == MAGIC:
            return ModelCatalog(content, str(path))
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path}: is larger than {MOST_BYTES:,} bytes")
    return _parsed(content, str(path))


def _parsed(content: bytes, path: str) -> tuple[Price, ...]:
    import tomllib  # 5 ms, for those who have a file

    try:
        listed: object = tomllib.loads(content.decode()).get("price", [])
    except ValueError as error:  # no UTF-8, or no TOML
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in cast("list[object]", listed)):
        raise ValueError(f"{path}: expected [[price]] tables")
    prices: list[Price] = []
    problems: list[str] = []
    for number, table in enumerate(cast("list[dict[str, Any]]", listed)):
        try:
            prices.append(Price.read(table, f"price[{number}]"))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError(f"{path}: {'; '.join(problems)}")
    return tuple(prices)
