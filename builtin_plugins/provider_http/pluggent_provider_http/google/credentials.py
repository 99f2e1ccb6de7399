"""Access tokens of Google (``auth = "google"``): for service accounts, users, machines and other identities.

google-auth (the extra ``google``) is imported when a token is first wanted. Whatever it does blocks, so it runs in
a thread: reading files, signing, the network. A token is renewed before it expires, once for all who wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from time import monotonic, time
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

import attrs
from pluggent_hookspecs import ConfigError, ProviderError, ProviderErrorKind as Kind, Secret

from pluggent_provider_http.endpoint import Endpoint, is_sendable
from pluggent_provider_http.identity import Identity, Proof
from pluggent_provider_http.server_errors import Faults

_REFUSED = 401
EARLY_S = 300.0
"""How long before its end a token is renewed."""
_USABLE_S = 30.0
_YOUNG_S = 60.0
_SKEW_S = 60.0
_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_SECRET_FIELDS = ("private_key", "refresh_token", "client_secret")
_KINDS = ("service_account", "authorized_user", "external_account")
_HELP = (
    "run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS to the file of an account, or "
    "name that file as api_key = 'file:PATH'"
)


class Credentials(Protocol):
    """What is used of google-auth's credentials, which have no types."""

    token: str | None
    expiry: datetime | None

    def refresh(self, request: object) -> None:
        """Get a new token."""
        ...


@attrs.frozen
class Token:
    """An access token. ``until`` and ``since`` are on the monotonic clock, in seconds; ``project`` pays for users."""

    value: str = attrs.field(repr=False)
    until: float
    since: float
    project: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a request carries it in."""
        pays = {"x-goog-user-project": self.project} if self.project else {}
        return {"authorization": f"Bearer {self.value}", **pays}


class GoogleTokens(Identity):
    """The tokens of one identity: that of *secret*, which holds credentials as JSON, else the machine's default one.

    ``token`` is the last one, if it was not refused; ``renew`` before each request keeps it good.
    """

    def __init__(self, secret: Secret | None, endpoint: Endpoint) -> None:
        self.token: Token | None = None
        self._secret = secret
        self._endpoint = endpoint
        self._source: _Source | None = None
        self._lock = Lock()
        self._renewals: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()

    async def renew(self, faults: Faults) -> None:
        """Get a token if there is none, or if it expires soon.

        Raises ProviderError ``authentication``, ``unavailable`` or ``timeout``, unless the old token is still good.
        """
        left_s = 0.0 if self.token is None else self.token.until - monotonic()
        if left_s > EARLY_S:
            return
        try:
            async with asyncio.timeout(self._endpoint.first_byte_s):
                # Who stops waiting does not stop the others.
                await asyncio.shield(self._renewal(faults))
        except TimeoutError as error:
            if left_s < _USABLE_S:
                limit = f"{self._endpoint.first_byte_s:g} s (setting first_byte_s)"
                raise faults.error(Kind.TIMEOUT, f"no access token from Google within {limit}") from error
        except ProviderError:
            if left_s < _USABLE_S:
                raise

    def current(self, faults: Faults) -> Token:
        """Return the token that ``renew`` has left. Raises ProviderError if the server has refused it since."""
        if self.token is None:
            problem = "the access token of Google was refused a moment ago, in another request"
            raise faults.error(Kind.AUTHENTICATION, problem, retryable=True)
        return self.token

    async def prepare(self, faults: Faults) -> None:
        """Renew the token; see ``renew``."""
        await self.renew(faults)

    def proof(self, faults: Faults) -> Proof:
        """Return the headers with the token."""
        token = self.current(faults)
        return Proof(token.headers, (token.value,), "the credentials of Google")

    def refused(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Forget a token that was refused; unless it was new, the request is worth another try."""
        if error.status == _REFUSED:
            old, self.token, self._source = self.token, None, None
            error.retryable = old is not None and monotonic() - old.since > _YOUNG_S
        return error

    async def close(self) -> None:
        """Stop waiting for a token in this event loop."""
        task = self._renewals.pop(asyncio.get_running_loop(), None)
        if task is not None and not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _renewal(self, faults: Faults) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        task = self._renewals.get(loop)
        if task is None or task.done():
            task = self._renewals[loop] = loop.create_task(asyncio.to_thread(self._renew, faults))
            task.add_done_callback(_seen)
        return task

    def _renew(self, faults: Faults) -> None:
        """Get a new token; runs in a thread."""
        with self._lock:  # against threads of other event loops
            if self.token is not None and self.token.until - monotonic() > EARLY_S:
                return
            source, self._source = self._source, None
            if source is None:
                source = _Source.opened(self._secret, self._endpoint, faults)
            # Kept only if it gives a token: the next attempt reads credentials that were renewed since.
            self.token = source.token(faults)
            self._source = source


def _seen(task: asyncio.Task[None]) -> None:
    """Take the failure of a renewal for which everybody has stopped waiting."""
    if not task.cancelled():
        task.exception()


@attrs.frozen
class _Source:
    """Credentials, and what they send with."""

    credentials: Credentials
    transport: _Transport
    secrets: tuple[str, ...] = attrs.field(repr=False)

    @classmethod
    def opened(cls, secret: Secret | None, endpoint: Endpoint, faults: Faults) -> _Source:
        """Return the source of tokens. Raises ProviderError ``authentication``."""
        try:
            # Imported here: only this identity needs it.
            from google import auth
            from google.auth import exceptions
        except ImportError as error:
            problem = "auth = 'google' needs the package google-auth: pip install 'pluggent-provider-http[google]'"
            raise faults.error(Kind.AUTHENTICATION, problem) from error
        transport = _Transport(endpoint)
        if secret is not None:
            info = _info(secret, faults)
            shown = (str(info[name]) for name in _SECRET_FIELDS if info.get(name))
            return cls(_credentials(info, secret, faults), transport, tuple(shown))
        find: Any = getattr(auth, "default")  # noqa: B009 (it has types in part)
        failures: tuple[type[Exception], ...] = (exceptions.GoogleAuthError, OSError, ValueError)
        try:
            found, _ = find(scopes=_SCOPES, request=transport)
        except failures as error:
            problem = f"there are no default credentials of Google: {_first(error)}; {_HELP}"
            raise faults.error(Kind.AUTHENTICATION, problem) from None
        held = (getattr(found, name, None) for name in ("refresh_token", "client_secret"))
        return cls(found, transport, tuple(str(value) for value in held if value))

    def token(self, faults: Faults) -> Token:
        """Return a new token. Raises ProviderError."""
        # Imported here: as above.
        from google.auth.exceptions import GoogleAuthError, TransportError

        faults = attrs.evolve(faults, secrets=(*faults.secrets, *self.secrets))
        started, asked_at = monotonic(), time()
        try:
            self.credentials.refresh(self.transport)
        except TransportError as error:
            raise faults.error(Kind.UNAVAILABLE, f"no access token from Google: {_first(error)}") from None
        except GoogleAuthError as error:
            kind = Kind.UNAVAILABLE if getattr(error, "retryable", False) else Kind.AUTHENTICATION
            problem = f"Google gives no access token: {_first(error)}{self._clock(asked_at)}"
            raise faults.error(kind, problem) from None
        except (ValueError, TypeError, OSError) as error:
            problem = f"the credentials of Google cannot be used: {_first(error)}"
            raise faults.error(Kind.AUTHENTICATION, problem) from None
        value = self.credentials.token
        if not isinstance(value, str) or not value or not is_sendable(value):
            raise faults.protocol("has a token service that gave no access token")
        pays = getattr(self.credentials, "quota_project_id", None)
        return Token(value, started + self._lifetime_s(asked_at), started, pays if isinstance(pays, str) else "")

    def _lifetime_s(self, asked_at: float) -> float:
        expiry = self.credentials.expiry
        if expiry is None:
            return EARLY_S  # not said: asked for each time
        # It counts from this machine's clock, and has no time zone.
        return max(0.0, (expiry - datetime.fromtimestamp(asked_at, UTC).replace(tzinfo=None)).total_seconds())

    def _clock(self, asked_at: float) -> str:
        server = self.transport.server_time
        skew_s = 0.0 if server is None else asked_at - server
        if abs(skew_s) < _SKEW_S:
            return ""
        where = "ahead" if skew_s > 0 else "behind"
        return f" (the clock of this machine is {abs(skew_s) / 60:.0f} minutes {where}: set it)"


def _info(secret: Secret, faults: Faults) -> Mapping[str, Any]:
    try:
        info = json.loads(secret.reveal())
    except ConfigError as error:
        raise faults.error(Kind.AUTHENTICATION, f"there are no credentials: {error} (setting api_key)") from error
    except ValueError:
        # The text is not repeated: it is the secret.
        raise faults.error(Kind.AUTHENTICATION, f"{secret!r} holds no JSON; {_HELP}") from None
    if not isinstance(info, dict) or cast("dict[str, Any]", info).get("type") not in _KINDS:
        problem = f"{secret!r} holds no credentials of a type that is known: {', '.join(_KINDS)}; {_HELP}"
        raise faults.error(Kind.AUTHENTICATION, problem)
    return cast("dict[str, Any]", info)


def _credentials(info: Mapping[str, Any], secret: Secret, faults: Faults) -> Credentials:
    kind: Any
    match info["type"]:
        case "service_account":
            # Imported here: each kind needs another part of the library.
            from google.oauth2 import service_account

            kind, method = service_account.Credentials, "from_service_account_info"
        case "authorized_user":
            # Imported here: each kind needs another part of the library.
            from google.oauth2 import credentials

            kind, method = credentials.Credentials, "from_authorized_user_info"
        case _:
            # Imported here: each kind needs another part of the library.
            from google.auth import identity_pool

            kind, method = identity_pool.Credentials, "from_info"
    try:
        return cast("Credentials", getattr(kind, method)(dict(info), scopes=_SCOPES))
    except (ValueError, KeyError, TypeError) as error:
        # The words of the library name fields, and show none.
        problem = f"{secret!r} holds credentials that cannot be used: {type(error).__name__}: {_first(error)}"
        private = tuple(str(info[name]) for name in _SECRET_FIELDS if info.get(name))
        raise attrs.evolve(faults, secrets=(*faults.secrets, *private)).error(Kind.AUTHENTICATION, problem) from None


def _first(error: BaseException) -> str:
    """Return the sentence of an error of google-auth, whose further words are the answer of the server."""
    return str(error.args[0]) if error.args else type(error).__name__


# ---- the network ----------------------------------------------------------------------------


@attrs.frozen
class _Response:
    """An answer as google-auth reads it."""

    status: int
    headers: Mapping[str, str]
    data: bytes = attrs.field(repr=False)


class _Transport:
    """Sends for google-auth, in its thread; ``server_time`` is what the last answer's Date says, seconds since 1970."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.server_time: float | None = None
        self._endpoint = endpoint

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> _Response:
        # Imported here: it takes long, and the provider has imported it by now.
        import httpx2 as httpx
        from google.auth import exceptions

        failed: Any = exceptions.TransportError
        limit = httpx.Timeout(timeout or self._endpoint.first_byte_s, connect=self._endpoint.connect_s)
        try:
            with httpx.Client(timeout=limit, follow_redirects=False) as client:
                answer = client.request(method, url, content=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise failed(f"{type(error).__name__}: {error}") from error
        except (ValueError, ImportError):
            # Their words are not repeated: they show the URL of the proxy, which may hold a password.
            raise failed("HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names no proxy that can be used") from None
        with suppress(ValueError, TypeError, OverflowError):
            self.server_time = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        return _Response(answer.status_code, dict(answer.headers), answer.content)
