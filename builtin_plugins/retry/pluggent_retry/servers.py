"""The breakers of one host, one for each provider and target, and what they say when they refuse."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TypeAlias

from pluggent_hookspecs import ModelResponse, ProviderError, ProviderErrorKind as Kind

from pluggent_retry.breaker import Closed, Open, Outcome, Permit, Refusal, State, admit, settle
from pluggent_retry.clock import Clock
from pluggent_retry.settings import BreakerSettings

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
        # Nothing of the failures themselves: they were somebody else's, and servers echo what they were sent.
        state = "and one call is finding out whether it answers again" if refusal.trying else "and is left alone"
        message = (
            f"{target or 'it'} failed {self.settings.failures} calls in a row {state}: not asked before"
            f" {until:%Y-%m-%d %H:%M:%S} UTC, in {left_s:.0f} s ([plugins.pluggent-retry.breaker])"
        )
        return ProviderError(Kind.UNAVAILABLE, message, provider=provider, retry_after=left_s)


class Going:
    """One call on its way, in a ``with``. Unless it says otherwise, nobody knows how it ended."""

    def __init__(self, servers: Servers, server: Server, permit: Permit) -> None:
        self._servers = servers
        self.server = server
        self.permit = permit
        self.outcome = Outcome.UNKNOWN

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._servers.settle(self)

    def answered(self, response: ModelResponse) -> ModelResponse:
        """Return *response*, the reply of this call."""
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
