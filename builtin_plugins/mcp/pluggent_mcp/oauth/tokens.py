"""Adds the stored access token of a server to requests, and renews it; without interaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import anyio
import attrs
import httpx2
from pluggent_hookspecs import ConfigError

from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.oauth.challenges import LoginError, LoginNeededError, wants_login
from pluggent_mcp.oauth.client_auth import ends_at, error_in, form, tokens_in
from pluggent_mcp.oauth.http import EXCHANGE_S, OK, Guard, exchange
from pluggent_mcp.oauth.login_store import Login, delete_login, file_of, load_login, login_lock, origin, save_login
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

UNAUTHORIZED = 401
OVER = "invalid_grant"
BUSY = (408, 429)
REVOKING_S = 10.0
LAST_S = 3.0
"""Time for a renewal to finish after its request was cancelled: a refresh token may be valid once."""


class Tokens:
    """The login to one server."""

    def __init__(self, server: Server, oauth: OAuth, status: ServerStatus, environ: Mapping[str, str]) -> None:
        self._name = status.server
        self._url = server.url
        self._oauth = oauth
        self._status = status
        self._environ = environ
        self._login: Login | None = None

    async def sent(self, request: httpx2.Request, send: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
        """Send *request* with the token; once more with a new one if it is refused. Without a login, return a 401."""
        if origin(str(request.url)) != origin(self._url):
            request.headers.pop("authorization", None)
            return await send()
        try:
            token = await self._token("")
            response = await self._with(token, request, send)
            if response.status_code == UNAUTHORIZED:
                await response.aclose()
                response = await self._with(await self._token(token), request, send)
        except (LoginError, ConfigError) as error:
            self._status.login = str(error)
            return httpx2.Response(UNAUTHORIZED, request=request)
        self._status.login = wants_login(self._name) if response.status_code == UNAUTHORIZED else ""
        return response

    async def _with(
        self, token: str, request: httpx2.Request, send: Callable[[], Awaitable[httpx2.Response]]
    ) -> httpx2.Response:
        self._status.hide(token)  # a server may repeat it
        request.headers["Authorization"] = f"Bearer {token}"
        return await send()

    async def _token(self, refused: str) -> str:
        """Return a token that is not *refused*. Raises LoginError."""
        if not self._usable(refused):
            self._login = self._kept()
        if not self._usable(refused):
            await self._whole(self._renew(refused))
        assert self._login is not None
        return self._login.access_token

    def _usable(self, refused: str) -> bool:
        return self._login is not None and self._login.fresh and self._login.access_token != refused

    def _kept(self) -> Login:
        login = load_login(self._name, self._url, self._environ)
        if login is None or not login.fits(self._oauth):
            raise LoginNeededError(wants_login(self._name))
        return login

    async def _whole(self, renewing: Awaitable[None]) -> None:
        """Await it; on cancellation let it finish, or its new tokens would be lost."""
        task = asyncio.ensure_future(renewing)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await asyncio.wait((task,), timeout=LAST_S)
            task.cancel()
            raise

    async def _renew(self, refused: str) -> None:
        async with login_lock(self._name, self._url, self._environ, 2 * EXCHANGE_S):
            self._login = self._kept()
            if not self._usable(refused):  # else another process has renewed it
                self._login = await renewed(self._login, self._oauth, self._environ)


async def renewed(login: Login, oauth: OAuth, environ: Mapping[str, str]) -> Login:
    """Return *login* with new tokens, stored. Raises LoginError; deletes a login that has ended."""
    if not login.refresh_token:
        raise LoginNeededError(wants_login(login.name))
    asked = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "resource": login.resource}
    request = form(login, oauth, login.token_endpoint, asked)
    try:
        response = await exchange(request, Guard(login.url, oauth.issuer))
        if response.status_code == OK:
            tokens = tokens_in(response)
            new = attrs.evolve(
                login,
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token or login.refresh_token,
                scope=tokens.scope or login.scope,
                expires_at=ends_at(tokens),
            )
            save_login(new, environ)
            return new
    except (LoginError, ValueError) as error:
        raise LoginError(_not_now(login, str(error))) from None
    code = error_in(response)
    if code == OVER:
        delete_login(file_of(login.name, login.url, environ))
        raise LoginNeededError(wants_login(login.name))
    if response.is_client_error and response.status_code not in BUSY:
        how = code or f"HTTP {response.status_code}"
        raise LoginNeededError(f"{wants_login(login.name)} (the one before was refused: {how})")
    raise LoginError(_not_now(login, f"HTTP {response.status_code}"))


def _not_now(login: Login, why: str) -> str:
    return f"its login cannot be renewed: {why}. Try again; if it stays so, it {wants_login(login.name)}"


async def revoke(login: Login, oauth: OAuth) -> bool:
    """Revoke the tokens at the authorization server if it supports that; return whether it confirmed."""
    if not login.revocation_endpoint:
        return False
    done = True
    for kind in ("refresh_token", "access_token"):
        if token := getattr(login, kind):
            request = form(login, oauth, login.revocation_endpoint, {"token": token, "token_type_hint": kind})
            try:
                async with asyncio.timeout(REVOKING_S):
                    response = await exchange(request, Guard(login.url, oauth.issuer))
                done = done and response.status_code == OK
            except (LoginError, TimeoutError):
                done = False
    return done
