"""A circuit breaker as a state machine: which calls may go, given how earlier ones ended. Pure.

    Closed --failures in a row--> Open --time--> Trying --success--> Closed
                                   ^               |
                                   +----failure----+

``epoch`` counts the changes of state. What a call reports counts only in the epoch that let it
go: calls that hung through an outage and fail after its end do not open the circuit again.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias, assert_never

import attrs

from pluggent_retry.settings import BreakerSettings


@attrs.frozen
class Closed:
    """Calls may go. ``failures`` are the times of the last ones in a row."""

    epoch: int = 0
    failures: tuple[float, ...] = ()


@attrs.frozen
class Open:
    """No call may go before ``until``."""

    epoch: int
    until: float


@attrs.frozen
class Trying:
    """One call tries since ``since``; the others may not go meanwhile."""

    epoch: int
    since: float


State: TypeAlias = Closed | Open | Trying


@attrs.frozen
class Permit:
    """A call may go. ``trial``: it alone, to find out."""

    epoch: int
    trial: bool = False


@attrs.frozen
class Refusal:
    """A call may not go, and asking again makes no sense before ``until``. ``trying``: another one finds out."""

    until: float
    trying: bool = False


class Outcome(Enum):
    """How a call ended, as far as it tells whether the server is alive."""

    ALIVE = 1
    DEAD = 2
    UNKNOWN = 3


def admit(state: State, settings: BreakerSettings, now: float) -> tuple[State, Permit | Refusal]:
    """Say whether a call may go *now*, and return the state after it.

    A trial that has taken ``open_s`` without an outcome no longer keeps the next one from trying.

    >>> admit(Open(1, until=30.0), BreakerSettings(), 30.0)
    (Trying(epoch=2, since=30.0), Permit(epoch=2, trial=True))
    """
    match state:
        case Closed(epoch):
            return state, Permit(epoch)
        case Open(epoch, until):
            over, refusal = now >= until, Refusal(until)
        case Trying(epoch, since):
            until = since + settings.open_s
            over, refusal = now >= until, Refusal(until, trying=True)
        case _:
            assert_never(state)
    if not over:
        return state, refusal
    return Trying(epoch + 1, now), Permit(epoch + 1, trial=True)


def settle(state: State, permit: Permit, outcome: Outcome, settings: BreakerSettings, now: float) -> State:
    """Return the state after a call that was let go with *permit* has ended.

    >>> settle(Trying(2, since=30.0), Permit(2, trial=True), Outcome.ALIVE, BreakerSettings(), 31.0)
    Closed(epoch=3, failures=())
    """
    if permit.epoch != state.epoch:
        return state
    if outcome is Outcome.ALIVE and isinstance(state, Closed) and not state.failures:
        return state  # as nearly always
    match state:
        case Closed(epoch, failures):
            return _counted(epoch, failures, outcome, settings, now)
        case Trying(epoch):
            return _tried(epoch, outcome, settings, now)
        case Open():
            return state
        case _:
            assert_never(state)


def _counted(epoch: int, failures: tuple[float, ...], outcome: Outcome, settings: BreakerSettings, now: float) -> State:
    match outcome:
        case Outcome.ALIVE:
            return Closed(epoch)
        case Outcome.UNKNOWN:
            return Closed(epoch, failures)
        case Outcome.DEAD:
            recent = (*(at for at in failures if now - at <= settings.window_s), now)
            if 0 < settings.failures <= len(recent):
                return Open(epoch + 1, now + settings.open_s)
            return Closed(epoch, recent if settings.failures else ())
        case _:
            assert_never(outcome)


def _tried(epoch: int, outcome: Outcome, settings: BreakerSettings, now: float) -> State:
    match outcome:
        case Outcome.ALIVE:
            return Closed(epoch + 1)
        case Outcome.DEAD:
            return Open(epoch + 1, now + settings.open_s)
        case Outcome.UNKNOWN:  # cancelled, say: the next call may try at once
            return Open(epoch + 1, now)
        case _:
            assert_never(outcome)
