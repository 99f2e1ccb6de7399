"""Counts of tokens and amounts of money as a server reports them, without trusting them.

What is not possible is unknown: the host then counts what it had reserved, or estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from pluggent_hookspecs import Usage

from pluggent_provider_http.payload import MalformedError, as_number, decode_whole
from pluggent_provider_http.server_errors import Faults

MOST_TOKENS = 2**53
"""What is above cannot be a count, and is no whole number in most JSON."""

_SHARES = (("cached", "input"), ("cache_write", "input"), ("input_audio", "input"), ("reasoning", "output"),
           ("audio", "output"))  # fmt: skip


def as_tokens(value: object) -> int | None:
    """Return *value* if it is a count of tokens, otherwise None.

    >>> as_tokens(3), as_tokens(3.0), as_tokens(-3), as_tokens(True), as_tokens("3")
    (3, 3, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


def read_count(data: bytes, faults: Faults, name: str = "input_tokens") -> int:
    """Return the field *name* of an answer that counts a request.

    Raises ProviderError: what the answer holds, or ``protocol``.

    >>> read_count(b'{"input_tokens": 12}', Faults("acme", "https://x"))
    12
    """
    try:
        answer: object = decode_whole(data)
    except MalformedError as error:
        raise faults.protocol(f"answered with what is not a count: {error}") from error
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if fields.get("error"):
        raise faults.from_payload(fields)
    count = as_tokens(fields.get(name))
    if count is None:
        raise faults.protocol(f"answered with what is not a count: {faults.shown(data) or '(empty)'}")
    return count


def as_usd(value: object) -> float | None:
    """Return *value* if it is an amount of money, otherwise None.

    >>> as_usd(0.25), as_usd(-1), as_usd(10**400)
    (0.25, None, None)
    """
    amount = as_number(value)
    return amount if amount is not None and amount >= 0 else None


def plausible(usage: Usage) -> tuple[Usage, dict[str, int]]:
    """Return *usage* without the shares that are larger than their whole, and those shares.

    >>> plausible(Usage(input=3, output=5, cached=4, reasoning=5))[1]
    {'cached': 4}
    """
    wrong: dict[str, Any] = {
        name: share
        for name, whole in _SHARES
        if (share := getattr(usage, name)) is not None
        and (total := getattr(usage, whole)) is not None
        and share > total
    }
    cache = {name: share for name in ("cached", "cache_write") if (share := getattr(usage, name)) is not None}
    if usage.input is not None and not wrong and sum(cache.values()) > usage.input:
        wrong = cache
    unknown: dict[str, Any] = dict.fromkeys(wrong)
    return (attrs.evolve(usage, **unknown) if wrong else usage), wrong
