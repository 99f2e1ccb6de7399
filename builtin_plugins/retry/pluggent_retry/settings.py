"""The settings under ``[plugins.pluggent-retry]``, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from pluggent_hookspecs import ProviderErrorKind as Kind

LONGEST_S = 86_400.0
"""No number of seconds here is longer than a day; what is longer is a mistake."""
MAX_FALLBACKS = 3
"""How often the host lets one model call be replaced by another one."""


def _seconds(_: object, field: attrs.Attribute[Any], value: float) -> None:
    if isinstance(value, bool) or not 0 <= value <= LONGEST_S:  # NaN is in no range
        raise ValueError(f"{field.name}: expected seconds from 0 to {LONGEST_S:,.0f}, got {value!r}")


def _count(least: int) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: int) -> None:
        if type(value) is not int or value < least:
            raise ValueError(f"{field.name}: expected a whole number from {least} on, got {value!r}")

    return check


def _kinds(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(_kind(name) for name in _several(value))


def _kind(name: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise ValueError(f"{name!r} is not a kind of failure; there are: {', '.join(Kind)}") from None


def _several(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _models(_: object, field: attrs.Attribute[Any], models: tuple[str, ...]) -> None:
    for name in models:
        provider, _slash, model = name.partition("/")
        if not (provider and model) or not name.isprintable() or " " in name:
            raise ValueError(f"{field.name}: {name!r} is not a model: write provider/model, such as openai/gpt-5-mini")
    if len(set(models)) < len(models):
        raise ValueError(f"{field.name}: a model is listed twice")
    if len(models) > MAX_FALLBACKS:
        raise ValueError(
            f"{field.name}: {len(models)} models, and the host lets a call be replaced {MAX_FALLBACKS} times"
        )


@attrs.frozen(kw_only=True)
class BreakerSettings:
    """When a server is left alone, and for how long.

    ``failures`` calls in a row that failed finally with one of ``kinds``, all within
    ``window_s``: it is not asked for ``open_s``. 0 failures: it is always asked.
    """

    failures: int = attrs.field(default=5, validator=_count(0))
    """Failures in a row after which a server is left alone; 0: never."""
    window_s: float = attrs.field(default=120.0, validator=_seconds)
    """Seconds within which they count."""
    open_s: float = attrs.field(default=30.0, validator=_seconds)
    """Seconds for which it is left alone."""
    kinds: tuple[str, ...] = attrs.field(default=(Kind.UNAVAILABLE, Kind.TIMEOUT, Kind.STREAM_BROKEN), converter=_kinds)
    """The kinds of failure that count."""


@attrs.frozen(kw_only=True)
class RetrySettings:
    """How often, how long and what for; every field has a default.

    >>> RetrySettings(attempts=2, fallback=("local/qwen3",)).cap_s
    30.0
    """

    attempts: int = attrs.field(default=4, validator=_count(1))
    """Calls in all, the first one included."""
    base_s: float = attrs.field(default=1.0, validator=_seconds)
    """The longest wait before the second attempt; before each further one it is twice as long."""
    cap_s: float = attrs.field(default=30.0, validator=_seconds)
    """No wait of our own choosing is longer."""
    retry_after_cap_s: float = attrs.field(default=60.0, validator=_seconds)
    """A server that wants more time than this is not waited for."""
    budget_s: float = attrs.field(default=180.0, validator=_seconds)
    """No attempt begins later than this after the first one; one that runs is not cut short."""
    repeat_shown: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    """Whether to try again after text has been shown; the consumer of the stream then gets a Discarded."""
    fallback: tuple[str, ...] = attrs.field(default=(), converter=_several, validator=_models)
    """Models to be asked once each, in this order, when the first one has failed finally."""
    fallback_on: tuple[str, ...] = attrs.field(
        default=(Kind.UNAVAILABLE, Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.STREAM_BROKEN), converter=_kinds
    )
    """The kinds of failure after which they are asked."""
    breaker: BreakerSettings = BreakerSettings()
    """When a server that fails is left alone, and for how long."""
