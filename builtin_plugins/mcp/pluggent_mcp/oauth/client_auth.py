"""The OAuth client: its metadata, its authentication, and the token responses of authorization servers."""

from __future__ import annotations

import json
import re
import time
from typing import Any, cast

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext, TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl, ValidationError

from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import Login
from pluggent_mcp.oauth.settings import OAuth

BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"
BEFORE_S = 30.0
"""How long before its expiry an access token is renewed; at most a tenth of its lifetime."""
LONGEST_S = 10 * 365 * 86_400
"""The longest lifetime that counts: a server may name any number, and a float does not hold every one."""

_ERROR = re.compile(r"[a-z][a-z0-9_]{0,59}")


class MemoryTokenStorage(TokenStorage):
    """Token storage for the SDK, for the duration of one login."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class FixedScopes(OAuthClientMetadata):
    """Client metadata whose scopes stay as they were given: the SDK takes those of a challenge, and adds more."""

    def __setattr__(self, name: str, value: object) -> None:
        if name != "scope":
            super().__setattr__(name, value)


def metadata(redirect: str, scopes: tuple[str, ...] = ()) -> OAuthClientMetadata:
    """Return the client metadata for dynamic registration; with *scopes*, these and no others are asked for."""
    kind = FixedScopes if scopes else OAuthClientMetadata
    return kind(client_name="pluggent", redirect_uris=[AnyUrl(redirect)], scope=" ".join(scopes) or None)


def known(oauth: OAuth) -> OAuthClientInformationFull | None:
    """Return the client that was registered beforehand. Raises ConfigError for a secret that cannot be read."""
    if not oauth.client_id:
        return None
    secret = None if oauth.client_secret is None else oauth.client_secret.reveal()
    return OAuthClientInformationFull(client_id=oauth.client_id, client_secret=secret)


def method_for(client: OAuthClientInformationFull, supported: list[str] | None) -> str:
    """Return the auth method of *client*: the registered one, or the first supported one (RFC 8414: basic)."""
    if client.client_secret is None:
        return NONE
    if client.token_endpoint_auth_method in (BASIC, POST):
        return client.token_endpoint_auth_method
    return BASIC if supported is None or BASIC in supported or POST not in supported else POST


def form(login: Login, oauth: OAuth, url: str, data: dict[str, str]) -> httpx2.Request:
    """Return a request to *url* in the name of the client of *login*. Raises LoginError."""
    secret = login.client_secret if oauth.client_secret is None else oauth.client_secret.reveal()
    context = OAuthContext(login.url, metadata("http://127.0.0.1/"), MemoryTokenStorage(), None, None)
    context.client_info = OAuthClientInformationFull(
        client_id=login.client_id, client_secret=secret or None, token_endpoint_auth_method=login.client_method or None
    )
    try:
        signed, headers = context.prepare_token_auth({**data, "client_id": login.client_id}, {})
    except OAuthFlowError as error:
        raise LoginError(str(error)) from None
    return httpx2.Request("POST", url, data=signed, headers=headers)


def tokens_in(response: httpx2.Response) -> OAuthToken:
    """Return the tokens in an answer. Raises LoginError, which repeats nothing of it."""
    try:
        return OAuthToken.model_validate_json(response.content)
    except ValidationError:
        raise LoginError("the authorization server answered with what is not a token") from None


def ends_at(tokens: OAuthToken) -> float | None:
    """Return when *tokens* have to be renewed, None if the server sends no lifetime."""
    if tokens.expires_in is None:
        return None
    lasts = min(LONGEST_S, max(0, tokens.expires_in))
    return time.time() + lasts - min(BEFORE_S, lasts / 10)


def error_in(response: httpx2.Response) -> str:
    """Return the name of the error in an answer, empty if it has none."""
    try:
        document: Any = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    said = cast("dict[str, Any]", document).get("error") if isinstance(document, dict) else None
    return name_of_error(said)


def name_of_error(said: object) -> str:
    """Return *said* if it is an OAuth error code; other text of a server is not shown.

    >>> name_of_error("access_denied"), name_of_error("Look here!")
    ('access_denied', '')
    """
    return said if isinstance(said, str) and _ERROR.fullmatch(said) else ""
