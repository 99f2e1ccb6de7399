"""Signs requests to one service in one region: holds the credentials, gets new ones early, corrects the clock."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from time import time

import attrs
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind

from pluggent_provider_http.aws.answers import CredentialsError
from pluggent_provider_http.aws.credential_sources import find, from_environment
from pluggent_provider_http.aws.sigv4 import Credentials, Scope, signed
from pluggent_provider_http.server_errors import Faults

_EARLY_S = 300.0
"""So long before they expire new credentials are looked for, while the old ones serve."""
_LATE_S = 30.0
"""So long before they expire they are not used any more."""
_STATIC_S = 300.0
"""So long credentials from a file that do not expire are held, until the file is read again."""
_PAUSE_S = 30.0
"""So long nothing is looked for after a search, while what is held serves."""
_WAIT_S = 75.0
_SKEW_S = 240.0
"""Amazon's services accept a signature that is at most five minutes old."""
_REFUSED = range(400, 404)
_UNKNOWN = ("security token", "expiredtoken", "unrecognizedclient", "invalidclienttoken", "invalidsignature")
"""How the services say that it is the credentials that they do not accept, not what was asked."""
_log = logging.getLogger("pluggent.provider_http.aws")


@attrs.frozen
class _Held:
    credentials: Credentials
    until: float
    """When new ones are looked for, in seconds since 1970."""
    dead_at: float


class Signer:
    """Credentials for *scope*; *profile* empty means all places where Amazon's own tools look.

    The search runs in a thread of its own, once for all who wait for it, in whatever event loops.
    *search* and *clock* are the outside world.
    """

    def __init__(
        self,
        scope: Scope,
        profile: str = "",
        *,
        search: Callable[[str, str], Credentials] = find,
        clock: Callable[[], float] = time,
    ) -> None:
        self.scope = scope
        self._profile = profile
        self._search = search
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: Future[Credentials] | None = None
        self._held: _Held | None = None
        self._offset_s = 0.0

    async def ready(self, faults: Faults) -> None:
        """Get credentials if there are none, or none that last. Raises ProviderError.

        It is ``authentication`` where another try cannot help, ``unavailable`` or ``timeout`` where it may.
        """
        if not self._profile and (found := from_environment()) is not None:
            self._held = _Held(found, 0.0, float("inf"))  # looked at for each request: a renewed key is used at once
            return
        held, now = self._held, self._clock()
        if held is not None and now < held.until:
            return
        pending = self._started()
        if held is not None and now < held.dead_at:
            return  # these still serve, and the new ones come
        try:
            found = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(pending)), _WAIT_S)
        except TimeoutError as error:
            problem = f"found no AWS credentials within {_WAIT_S:g} s"
            raise faults.error(Kind.TIMEOUT, problem) from error
        except CredentialsError as error:
            kind = Kind.UNAVAILABLE if error.passes else Kind.AUTHENTICATION
            raise faults.error(kind, str(error)) from error
        if self._held is None:  # the refusal of another request took them away in between
            self._held = _held(found, self._clock())

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown of the credentials in use."""
        held = self._held
        return tuple(filter(None, (held.credentials.secret_key, held.credentials.token))) if held is not None else ()

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers that sign a request; ``ready`` comes before."""
        held = self._held
        assert held is not None, "ready() comes before headers()"
        return signed(method, url, headers, body, held.credentials, self.scope, self._clock() + self._offset_s)

    def explained(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Return what a refusal means for the next request, which may be signed otherwise.

        A clock that is off is corrected by the server's; credentials that were refused are looked for again.
        """
        if error.status not in _REFUSED:
            return error
        off_s = self._seconds_off(headers.get("date", ""))
        if off_s is not None:
            self._offset_s += off_s
            which = "behind" if off_s > 0 else "ahead of"
            found = f"this machine's clock is {abs(off_s):.0f} s {which} the server's, which the next request goes by"
            return _again(error, f"{error.message} ({found})")
        said = f"{headers.get('x-amzn-errortype', '')} {error.message}".lower()
        if any(word in said for word in _UNKNOWN):
            self._held = None
            if "expired" in said:
                return _again(error, f"{error.message} (the credentials have expired; new ones are looked for)")
        return error

    def _seconds_off(self, date: str) -> float | None:
        """Return how far the time that signatures get is behind the server's; None if not too far."""
        try:
            off_s = parsedate_to_datetime(date).timestamp() - (self._clock() + self._offset_s)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        return off_s if abs(off_s) > _SKEW_S else None

    def _started(self) -> Future[Credentials]:
        """Return the search that is under way, or begin one."""
        with self._lock:
            if self._pending is None:
                self._pending = Future()
                work = threading.Thread(
                    target=self._find, args=(self._pending,), name="pluggent-aws-credentials", daemon=True
                )
                work.start()
            return self._pending

    def _find(self, pending: Future[Credentials]) -> None:
        try:
            found = self._search(self._profile, self.scope.region)
        except CredentialsError as error:
            _log.debug("no AWS credentials: %s", error)
            self._end(pending, None)
            pending.set_exception(error)
        except Exception as error:  # noqa: BLE001 (whatever goes wrong, those who wait are to know)
            self._end(pending, None)
            pending.set_exception(CredentialsError(f"AWS credentials cannot be read: {type(error).__name__}"))
        else:
            self._end(pending, found)
            pending.set_result(found)

    def _end(self, pending: Future[Credentials], found: Credentials | None) -> None:
        with self._lock:
            if self._pending is pending:
                self._pending = None
            if found is not None:
                self._held = _held(found, self._clock())
            elif self._held is not None:
                self._held = attrs.evolve(self._held, until=self._clock() + _PAUSE_S)


def _held(found: Credentials, now: float) -> _Held:
    if found.expires_at is None:
        return _Held(found, now + _STATIC_S, now + _STATIC_S)
    return _Held(found, max(found.expires_at - _EARLY_S, now + _PAUSE_S), found.expires_at - _LATE_S)


def _again(error: ProviderError, message: str) -> ProviderError:
    """Return *error* as one that is worth another try."""
    return ProviderError(
        error.kind, message, provider=error.provider, status=error.status, retry_after=error.retry_after,
        retryable=True, meta=error.meta,
    )  # fmt: skip
