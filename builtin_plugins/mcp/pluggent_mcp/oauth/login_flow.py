"""Logs a person in: the SDK says what comes next, here it is sent, checked and shown.

The SDK's flow would do so whenever a server refuses a token, inside any request. Here it is driven
by hand, from the one command that may do it, and every address it comes to is looked at first.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import parse_qs, urljoin, urlsplit

import attrs
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import AuthorizationCodeResult
from pydantic import ValidationError

from pluggent_mcp.oauth import words
from pluggent_mcp.oauth.client import Given, ends_at, error_in, known, metadata, method_for, name_of_error
from pluggent_mcp.oauth.http import Guard, exchange
from pluggent_mcp.oauth.kept import Login, address, origin
from pluggent_mcp.oauth.listener import Listener
from pluggent_mcp.oauth.probe import UNAUTHORIZED, refused
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.oauth.words import LoginError
from pluggent_mcp.settings import Server

S256 = "S256"
LONGEST = 300

_SILENT: ContextVar[bool] = ContextVar("pluggent_mcp_oauth_silent", default=False)


@attrs.frozen(kw_only=True)
class Wish:
    """What is to be logged in to, and how: *show* is told the address that a person has to open."""

    name: str
    server: Server
    """With its references to the environment replaced."""
    oauth: OAuth
    scopes: tuple[str, ...] = ()
    """Beside those that the settings or the server ask for."""
    before: Login | None = None
    timeout_s: float
    show: Callable[[str], None]


async def log_in(wish: Wish, listener: Listener) -> Login:
    """Return a new login, made by a person. Raises LoginError; ConfigError for a secret that cannot be read."""
    guard = Guard(wish.server.url, wish.oauth.issuer)
    probe, said = await refused(wish.server, guard)
    provider = _Provider(wish, listener, guard)
    answer = httpx2.Response(UNAUTHORIZED, headers=_challenge(wish, said), request=probe)
    with _silence():
        await _driven(provider, probe, answer, guard)
    return provider.login()


async def _driven(provider: _Provider, probe: httpx2.Request, answer: httpx2.Response, guard: Guard) -> None:
    """Have the SDK's flow run until it would send *probe* once more, now with a token."""
    flow = provider.async_auth_flow(probe)
    last: httpx2.Response | None = None
    try:
        await anext(flow)
        request = await flow.asend(answer)
        while request is not probe:
            provider.check_found(request)
            last = await exchange(request, guard)
            request = await flow.asend(last)
    except LoginError:
        raise
    except (OAuthFlowError, ValidationError, ValueError, StopAsyncIteration, httpx2.HTTPError) as error:
        # Without its cause: the SDK's words repeat states, codes and whole answers.
        raise LoginError(_said(error, last)) from None
    finally:
        await flow.aclose()


def _said(error: Exception, last: httpx2.Response | None) -> str:
    status, code = (last.status_code, error_in(last)) if last is not None else (0, "")
    how = f"HTTP {status}" + (f", {code}" if code else "")
    if isinstance(error, OAuthRegistrationError):
        return f"its authorization server does not let clients register themselves ({how}); set client_id = …"
    if isinstance(error, OAuthTokenError):
        return f"the authorization server gave no token ({how})"
    text = str(error)
    if isinstance(error, OAuthFlowError) and text.startswith(
        ("Protected resource", "Authorization server metadata issuer", "Authorization response")
    ):
        return f"it is not to be trusted: {text[:LONGEST]}"
    return f"what it says of its authorization cannot be used ({type(error).__name__}, {how})"


def _challenge(wish: Wish, said: str) -> dict[str, str]:
    """Return the server's challenge with the scopes that are to be asked for, in the SDK's way of reading it."""
    parts: list[str] = []
    if where := words.part(said, "resource_metadata"):
        parts.append(f'resource_metadata="{where}"')
    scopes: Iterable[str] = wish.oauth.scopes or words.scopes_in(said)
    if wish.scopes:
        scopes = (*scopes, *(wish.before.scope.split() if wish.before is not None else ()), *wish.scopes)
    if scopes:
        parts.append(f'scope="{" ".join(dict.fromkeys(scopes))}"')
    return {"WWW-Authenticate": ", ".join(("Bearer realm=mcp", *parts))}


class _Provider(OAuthClientProvider):
    """The SDK's flow, with the operator's choice of an authorization server, and its own doubts."""

    def __init__(self, wish: Wish, listener: Listener, guard: Guard) -> None:
        self._wish = wish
        self._listener = listener
        self._guard = guard
        self._state = ""
        super().__init__(
            wish.server.url, metadata(listener.address), Given(known(wish.oauth)), self._show, self._wait
        )  # fmt: skip
        self.context.auth_server_url = wish.oauth.issuer or None

    def login(self) -> Login:
        """Return what came of it. Raises LoginError."""
        context = self.context
        client, tokens, found = context.client_info, context.current_tokens, context.oauth_metadata
        if client is None or tokens is None:
            raise LoginError("the authorization server gave no token")
        revocation = found.revocation_endpoint if found is not None else None
        try:
            return Login(
                name=self._wish.name,
                url=address(context.server_url),
                issuer=str(found.issuer) if found is not None else origin(context.server_url),
                resource=context.get_resource_url(),
                token_endpoint=str(found.token_endpoint) if found else urljoin(context.server_url, "/token"),
                revocation_endpoint="" if revocation is None else str(revocation),
                client_id=client.client_id,
                client_secret="" if self._wish.oauth.client_id else client.client_secret or "",
                client_method=client.token_endpoint_auth_method or "",
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token or "",
                scope=tokens.scope or "",
                expires_at=ends_at(tokens),
            )
        except ValueError as error:
            raise LoginError(f"the authorization server gave a token that cannot be used: {error}") from None

    def check_found(self, request: httpx2.Request) -> None:
        """Raise LoginError where the SDK would go on without knowing the authorization server that was named."""
        named = self.context.auth_server_url
        if request.method == "POST" and self.context.oauth_metadata is None and named is not None:
            raise LoginError(f"{origin(named)} does not say, in a way that can be used, how to log in there")

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted = self._wish.oauth.issuer
        for each in advertised if wanted else advertised[:1]:
            if not wanted or issuers_match(each, wanted):
                return each
        raise LoginError(f"it does not name {wanted} (issuer) as an authorization server of its own")

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        found, client = self.context.oauth_metadata, self.context.client_info
        if found is not None:
            if S256 not in (found.code_challenge_methods_supported or ()):
                raise LoginError(
                    "its authorization server does not say that it knows PKCE (S256), so a code may be anybody's"
                )
            for each in (found.token_endpoint, found.revocation_endpoint):
                if each is not None:
                    await self._guard.check(str(each))
        if client is not None:
            supported = None if found is None else found.token_endpoint_auth_methods_supported
            client.token_endpoint_auth_method = method_for(client, supported)
        return await super()._perform_authorization_code_grant()

    async def _show(self, url: str) -> None:
        await self._guard.check(url)
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[-1]
        self._wish.show(url)

    async def _wait(self) -> AuthorizationCodeResult:
        answer = await self._listener.answer(self._wish.timeout_s)
        if not (self._state and secrets.compare_digest(answer.state.encode(), self._state.encode())):
            raise LoginError("the answer that came is not that of this login (its state is another)")
        if not answer.code:
            why = f" ({error})" if (error := name_of_error(answer.error)) else ""
            raise LoginError(f"the authorization server said no{why}")
        return AuthorizationCodeResult(code=answer.code, state=answer.state, iss=answer.issuer)


class _Silence(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not _SILENT.get()


_SILENCE = _Silence()


@contextmanager
def _silence() -> Generator[None]:
    """Keep the SDK from logging errors of a login with all that they hold: we say them ourselves."""
    logging.getLogger("mcp.client.auth.oauth2").addFilter(_SILENCE)
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)
