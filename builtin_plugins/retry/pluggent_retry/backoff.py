"""Decides what follows a failed attempt: another one after a wait, or none, and why. Pure."""

from __future__ import annotations

import math
from typing import TypeAlias

import attrs
from pluggent_hookspecs import ProviderError

from pluggent_retry.settings import RetrySettings


@attrs.frozen
class Again:
    """Try once more after ``wait_s`` seconds."""

    wait_s: float


@attrs.frozen
class Final:
    """The failure is final. ``why`` is added to its message; empty if it speaks for itself."""

    why: str = ""


Next: TypeAlias = Again | Final


@attrs.frozen
class Failure:
    """A failed attempt: its number, seconds since the first began, whether text of it was shown."""

    error: ProviderError
    attempt: int
    elapsed_s: float
    shown: bool = False


def after(failure: Failure, settings: RetrySettings, drawn: float) -> Next:
    """Return what follows *failure*; *drawn* is random, from 0 up to 1.

    >>> from pluggent_hookspecs import ProviderErrorKind
    >>> busy = ProviderError(ProviderErrorKind.RATE_LIMITED, "busy", retry_after=2.0)
    >>> after(Failure(busy, 1, 0.5), RetrySettings(), 0.25)
    Again(wait_s=2.25)
    """
    error, attempt = failure.error, failure.attempt
    if not error.retryable:
        return Final(f"this was attempt {attempt}" if attempt > 1 else "")
    if failure.shown and not settings.repeat_shown:
        return Final("not tried again, because some of the reply had been shown (repeat_shown = false)")
    if attempt >= settings.attempts:
        return Final(f"tried {attempt} times in {failure.elapsed_s:.1f} s" if attempt > 1 else "")
    asked_s = wanted_s(error)
    if asked_s > settings.retry_after_cap_s:
        return Final(
            f"not tried again: the server wants {asked_s:,.0f} s of peace,"
            f" and retry_after_cap_s = {settings.retry_after_cap_s:g} is the longest wait for one"
        )
    # The jitter comes on top of what the server asked for: all who were told the same would come back at once.
    wait_s = asked_s + drawn * ceiling_s(attempt, settings)
    if failure.elapsed_s + wait_s > settings.budget_s:
        return Final(f"tried {_times(attempt)}; no attempt begins later than budget_s = {settings.budget_s:g} allows")
    return Again(wait_s)


def ceiling_s(attempt: int, settings: RetrySettings) -> float:
    """Return the longest wait after *attempt* (from 1): exponential, capped. Full jitter draws from 0 to it.

    Marc Brooker, Exponential Backoff And Jitter, AWS Architecture Blog, 2015.

    >>> [ceiling_s(attempt, RetrySettings()) for attempt in (1, 2, 5, 6, 10**9)]
    [1.0, 2.0, 16.0, 30.0, 30.0]
    """
    # 2.0**1024 raises OverflowError; a product that is too large is infinity.
    return min(settings.cap_s, settings.base_s * 2.0 ** min(attempt - 1, 1023))


def wanted_s(error: ProviderError) -> float:
    """Return the seconds for which the server wants to be left alone; 0 if it did not say anything sensible."""
    given = error.retry_after
    return 0.0 if given is None or math.isnan(given) or given < 0 else given


def _times(attempt: int) -> str:
    return "once" if attempt == 1 else f"{attempt} times"
