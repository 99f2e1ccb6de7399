"""What an answer of a server says besides the reply: the id of the request, limits of the account, notes."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pluggent_hookspecs._value import Value

__all__ = ["RateLimit", "ReplyMeta"]


@attrs.frozen(repr=False)
class RateLimit(Value):
    """One limit of an account, as an answer reported it; None is what the server did not report.

    ``name`` says what is limited, in the server's word: ``requests``, ``tokens``, ``input-tokens``; empty where
    it has none. ``resets_at`` is in seconds since 1970.
    """

    name: str
    limit: int | None = None
    remaining: int | None = None
    resets_at: float | None = None


def _to_limits(value: Iterable[RateLimit]) -> tuple[RateLimit, ...]:
    return tuple(value)


def _to_notes(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(repr=False)
class ReplyMeta(Value):
    """What is known of one answer of a server; empty or None is what the server did not report.

    ``request_id`` is what the vendor's support asks for. ``first_byte_s`` are the seconds from the start of the
    call to the first byte of the answer's body; it was measured, so it does not count when two are compared.
    ``service_tier`` is the tier that was used. ``notes`` are the provider's own, for a person: what of the
    conversation was left out of the request, and why.

    >>> ReplyMeta("req_1", limits=(RateLimit("requests", 500, 499),)).limits[0].remaining
    499
    """

    request_id: str = ""
    limits: tuple[RateLimit, ...] = attrs.field(default=(), converter=_to_limits)
    first_byte_s: float | None = attrs.field(default=None, eq=False)
    service_tier: str = ""
    notes: tuple[str, ...] = attrs.field(default=(), converter=_to_notes)
