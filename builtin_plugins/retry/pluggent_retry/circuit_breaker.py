"""A circuit breaker as a state machine: which calls may go, given how earlier ones ended. Pure.

    Closed --failures in a row--> Open --time--> Trying --success--> Closed
                                   ^               |
                                   +----failure----+

``epoch`` counts the changes of state. What a call reports counts only in the epoch that let it
go: calls that hung through an outage and fail after its end do not open the circuit again.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from enum import Enum
from typing import TypeAlias, TypeVar, assert_never

import attrs
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind

from pluggent_retry.clock import Clock
from pluggent_retry.settings import BreakerSettings

R = TypeVar("R")


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


Server: TypeAlias = tuple[str, str]
"""The name of a provider, and where its requests go."""
_NEW = Closed()


class Servers:
    """Remembers which servers answer. Safe to use from several threads and tasks at once."""

    def __init__(self, settings: BreakerSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._states: dict[Server, State] = {}
        self._targets: dict[str, str] = {}
        self._lock = threading.Lock()

    def met(self, provider: str, target: str) -> Server:
        """Return the server of *provider*, and remember that it is at *target*."""
        if self._targets.get(provider) != target:
            with self._lock:
                self._targets[provider] = target
        return provider, target

    def named(self, provider: str) -> Server:
        """Return the server of *provider*, as it was last met."""
        with self._lock:
            return provider, self._targets.get(provider, "")

    def admit(self, server: Server) -> Going | ProviderError:
        """Let one call go to *server*; or return the error that it has if it may not."""
        with self._lock:
            state, now = self._states.get(server, _NEW), self._clock.monotonic()
            self._states[server], answer = admit(state, self.settings, now)
        return self._error(server, answer) if isinstance(answer, Refusal) else Going(self, server, answer)

    def settle(self, going: Going) -> None:
        """Take note of how a call ended."""
        with self._lock:
            state, now = self._states[going.server], self._clock.monotonic()
            self._states[going.server] = settle(state, going.permit, going.outcome, self.settings, now)

    def shut_for(self, server: Server, wait_s: float) -> ProviderError | None:
        """Return the error that a call would certainly meet after *wait_s*, if there is one."""
        with self._lock:
            state = self._states.get(server)
            shut = isinstance(state, Open) and self._clock.monotonic() + wait_s < state.until
        return self._error(server, Refusal(state.until)) if isinstance(state, Open) and shut else None

    def _error(self, server: Server, refusal: Refusal) -> ProviderError:
        provider, target = server
        left_s = max(0.0, refusal.until - self._clock.monotonic())
        until = datetime.fromtimestamp(self._clock.now() + left_s, UTC)
        # Without the failures themselves: they belong to other calls, and servers echo requests.
        state = "and one call is finding out whether it answers again" if refusal.trying else "and is left alone"
        message = (
            f"{target or 'it'} failed {self.settings.failures} calls in a row {state}: not asked before"
            f" {until:%Y-%m-%d %H:%M:%S} UTC, in {left_s:.0f} s ([plugins.pluggent-retry.breaker])"
        )
        return ProviderError(Kind.UNAVAILABLE, message, provider=provider, retry_after=left_s)


class Going:
    """One call on its way, in a ``with``. Its outcome is unknown until it is set."""

    def __init__(self, servers: Servers, server: Server, permit: Permit) -> None:
        self._servers = servers
        self.server = server
        self.permit = permit
        self.outcome = Outcome.UNKNOWN

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._servers.settle(self)

    def answered(self, response: R) -> R:
        """Return *response*, the answer to this call."""
        self.outcome = Outcome.ALIVE
        return response

    def failed(self, error: ProviderError, *, finally_: bool) -> None:
        """The call failed, and is not repeated if *finally_*. A server that answers, if only to refuse, is alive.

        What is repeated counts when it has failed finally, so that a short break is none of the
        breaker's business; the trial counts at once.
        """
        if error.kind not in self._servers.settings.kinds:
            self.outcome = Outcome.UNKNOWN if error.status is None else Outcome.ALIVE
        elif finally_ or self.permit.trial:
            self.outcome = Outcome.DEAD
