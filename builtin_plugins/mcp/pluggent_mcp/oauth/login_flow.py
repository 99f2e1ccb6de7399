"""Logs a person in: the SDK decides the next request; here it is checked and sent.

The SDK would run the flow whenever a server refuses a token, inside any request. Here only one
command runs it, and every URL is checked first.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import parse_qs, urljoin, urlsplit

import attrs
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import AuthorizationCodeResult
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from pluggent_mcp.oauth import challenges
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.client_auth import (
    MemoryTokenStorage,
    ends_at,
    error_in,
    known,
    metadata,
    method_for,
    name_of_error,
)
from pluggent_mcp.oauth.http import Guard, exchange, status_of
from pluggent_mcp.oauth.listener import Listener
from pluggent_mcp.oauth.login_store import Login, address, origin
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

S256 = "S256"
_URL = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
LONGEST = 300

_SILENT: ContextVar[bool] = ContextVar("pluggent_mcp_oauth_silent", default=False)


@attrs.frozen(kw_only=True)
class LoginRequest:
    """Parameters of a login; *show* is called with the URL that a person has to open."""

    name: str
    server: Server
    """With its environment references resolved."""
    oauth: OAuth
    scopes: tuple[str, ...] = ()
    """In addition to those that the settings or the server ask for."""
    before: Login | None = None
    timeout_s: float
    show: Callable[[str], None]


async def log_in(wanted: LoginRequest, listener: Listener) -> Login:
    """Return a new login, made by a person. Raises LoginError; ConfigError for a secret that cannot be read."""
    guard = Guard(wanted.server.url, wanted.oauth.issuer)
    probe, said = await probe_login(wanted.server, guard)
    provider = _Provider(wanted, listener, guard)
    answer = httpx2.Response(UNAUTHORIZED, headers=_challenge(wanted, said), request=probe)
    with _silence():
        await _run_flow(provider, probe, answer, guard)
    return provider.login()


async def _run_flow(provider: _Provider, probe: httpx2.Request, answer: httpx2.Response, guard: Guard) -> None:
    """Run the SDK's flow until it would send *probe* again, with a token."""
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
    except (OAuthFlowError, ValidationError, ValueError, OverflowError, StopAsyncIteration, httpx2.HTTPError) as error:
        # Without its cause: messages of the SDK repeat states, codes and whole responses.
        raise LoginError(_describe(error, last)) from None
    finally:
        await flow.aclose()


def _describe(error: Exception, last: httpx2.Response | None) -> str:
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


def _challenge(wanted: LoginRequest, said: str) -> dict[str, str]:
    """Return the server's challenge with the scopes that are to be asked for, in the SDK's way of reading it."""
    parts: list[str] = []
    # Not with a quotation mark in it: what follows would be read as another parameter.
    if (where := challenges.part(said, "resource_metadata")) and _URL.fullmatch(where):
        parts.append(f'resource_metadata="{where}"')
    if scopes := _scopes(wanted, challenges.scopes_in(said)):
        parts.append(f'scope="{" ".join(scopes)}"')
    return {"WWW-Authenticate": ", ".join(("Bearer realm=mcp", *parts))}


def _scopes(wanted: LoginRequest, challenged: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of the settings, or else of the server, and those that the person wants besides."""
    scopes = wanted.oauth.scopes or challenged
    if not wanted.scopes:
        return tuple(dict.fromkeys(scopes))
    before = wanted.before.scope.split() if wanted.before is not None else ()
    return tuple(dict.fromkeys((*scopes, *before, *wanted.scopes)))


class _Provider(OAuthClientProvider):
    """The SDK's flow, with the configured authorization server and additional checks."""

    def __init__(self, wanted: LoginRequest, listener: Listener, guard: Guard) -> None:
        self._wanted = wanted
        self._listener = listener
        self._guard = guard
        self._state = ""
        super().__init__(
            wanted.server.url,
            metadata(listener.address, _scopes(wanted, ()) if wanted.oauth.scopes else ()),
            MemoryTokenStorage(known(wanted.oauth)),
            self._show,
            self._wait,
        )
        self.context.auth_server_url = wanted.oauth.issuer or None

    def login(self) -> Login:
        """Return the login. Raises LoginError."""
        context = self.context
        client, tokens, found = context.client_info, context.current_tokens, context.oauth_metadata
        if client is None or tokens is None:
            raise LoginError("the authorization server gave no token")
        revocation = found.revocation_endpoint if found is not None else None
        try:
            return Login(
                name=self._wanted.name,
                url=address(context.server_url),
                issuer=str(found.issuer) if found is not None else origin(context.server_url),
                resource=context.get_resource_url(),
                token_endpoint=str(found.token_endpoint) if found else urljoin(context.server_url, "/token"),
                revocation_endpoint="" if revocation is None else str(revocation),
                client_id=client.client_id,
                client_secret="" if self._wanted.oauth.client_id else client.client_secret or "",
                client_method=client.token_endpoint_auth_method or "",
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token or "",
                scope=tokens.scope or "",
                expires_at=ends_at(tokens),
            )
        except ValueError as error:
            raise LoginError(f"the authorization server gave a token that cannot be used: {error}") from None

    def check_found(self, request: httpx2.Request) -> None:
        """Raise LoginError if the SDK would continue without the metadata of the named authorization server."""
        named = self.context.auth_server_url
        if request.method == "POST" and self.context.oauth_metadata is None and named is not None:
            raise LoginError(f"{origin(named)} does not say, in a way that can be used, how to log in there")

    def _select_authorization_server(self, advertised: list[str]) -> str:
        wanted, before = self._wanted.oauth.issuer, self._wanted.before
        for each in advertised if wanted else advertised[:1]:
            if wanted and not issuers_match(each, wanted):
                continue
            if not wanted and self._wanted.oauth.client_secret and before and not issuers_match(each, before.issuer):
                raise LoginError(
                    f"it names {origin(each)} as its authorization server, and the client_secret went to"
                    f" {origin(before.issuer)} before; if that is right, set issuer = … for it"
                )
            return each
        raise LoginError(f"it does not name {wanted} (issuer) as an authorization server of its own")

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        found, client = self.context.oauth_metadata, self.context.client_info
        if found is not None:
            if S256 not in (found.code_challenge_methods_supported or ()):
                raise LoginError(
                    "its authorization server does not say that it knows PKCE (S256), so a stolen code could be used"
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
        self._wanted.show(url)

    async def _wait(self) -> AuthorizationCodeResult:
        answer = await self._listener.answer(self._state, self._wanted.timeout_s)
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
    """Suppress the SDK's log records of login errors, which hold secrets: they are reported here."""
    logging.getLogger("mcp.client.auth.oauth2").addFilter(_SILENCE)
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


UNAUTHORIZED, FORBIDDEN = 401, 403
BROKEN = 500
NOT_FOUND = 404
OLD = "2025-11-25"
OURSELVES = {"name": "pluggent", "version": "0.1"}


async def probe_login(server: Server, guard: Guard) -> tuple[httpx2.Request, str]:
    """Return a request to *server* and the challenge of its 401 or 403. Raises LoginError.

    The challenge is empty if the server accepts or rejects the request before it checks for a token.
    """
    status = 0
    for request in _requests(server):
        status, challenge = await status_of(request, guard)
        if status in (UNAUTHORIZED, FORBIDDEN):
            return request, challenge
        if status == NOT_FOUND or status >= BROKEN:
            raise LoginError(f"it answered HTTP {status}")
    return next(_requests(server)), ""


def _requests(server: Server) -> Iterator[httpx2.Request]:
    if server.kind == "sse":
        headers = {**server.headers, MCP_PROTOCOL_VERSION_HEADER: OLD, "Accept": "text/event-stream"}
        yield httpx2.Request("GET", server.url, headers=headers)
        return
    hello = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": OURSELVES}
    yield _post(server, OLD, "initialize", hello)
    meta = {
        PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION,
        CLIENT_INFO_META_KEY: OURSELVES,
        CLIENT_CAPABILITIES_META_KEY: {},
    }
    yield _post(server, LATEST_MODERN_VERSION, "server/discover", {"_meta": meta})
    yield _post(server, LATEST_MODERN_VERSION, "tools/list", {"_meta": meta})


def _post(server: Server, version: str, method: str, params: object) -> httpx2.Request:
    headers = {
        **server.headers,
        MCP_PROTOCOL_VERSION_HEADER: version,
        MCP_METHOD_HEADER: method,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx2.Request("POST", server.url, headers=headers, content=json.dumps(body).encode())
