"""An authorization server and an MCP server that wants its tokens, over real HTTP on this machine."""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

from mcp_sdk import listening, made
from pluggent_mcp.oauth.listener import KNOWN_PATH, Listener
from pluggent_mcp.oauth.login_flow import LoginRequest, log_in
from pluggent_mcp.oauth.login_store import Login
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Kind, Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

PERSON_S = 10.0


class Authority:
    """An authorization server that gives everybody what they ask for, and looks that they ask properly.

    Knobs: ``says`` is laid over its metadata, ``answers`` over what a browser is sent back with (None takes
    away), ``token`` over a token; ``instead`` answers a path by itself.
    """

    def __init__(self) -> None:
        self.issuer = ""
        self.says: dict[str, Any] = {}
        self.answers: dict[str, str | None] = {}
        self.token: dict[str, Any] = {}
        self.instead: dict[str, Callable[[], Any]] = {}
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.valid: set[str] = set()
        self.refreshing: dict[str, str] = {}
        self.rotates = True
        self._codes: dict[str, dict[str, str]] = {}
        self.redirects: list[str] = []

    @property
    def app(self) -> Any:
        paths: dict[str, Any] = {
            "/.well-known/oauth-authorization-server": self._metadata, "/register": self._register,
            "/authorize": self._authorize, "/token": self._token, "/revoke": self._revoke,
        }  # fmt: skip
        return Starlette(
            routes=[Route(path, self._by(path, answer), methods=["GET", "POST"]) for path, answer in paths.items()]
        )

    def asked(self, path: str) -> list[dict[str, str]]:
        """Return what was asked at *path*."""
        return [data for there, data in self.seen if there == path]

    def _by(self, path: str, answer: Any) -> Any:
        async def respond(request: Request) -> Response:
            given = dict(request.query_params)
            body = await request.body()
            if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
                given |= dict(parse_qsl(body.decode()))
            given["authorization"] = request.headers.get("authorization", "")
            self.seen.append((path, given))
            if path in self.instead:
                return self.instead[path]()  # type: ignore[no-any-return]
            response: Response = await answer(given, request)
            return response

        return respond

    async def _metadata(self, given: dict[str, str], request: Request) -> Response:
        own = {
            "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token", "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke", "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }  # fmt: skip
        return JSONResponse({name: value for name, value in {**own, **self.says}.items() if value is not None})

    async def _register(self, given: dict[str, str], request: Request) -> Response:
        said = await request.json()
        return JSONResponse({**said, "client_id": f"c-{len(self.seen)}"}, 201)

    async def _authorize(self, given: dict[str, str], request: Request) -> Response:
        code = secrets.token_urlsafe(16)
        self._codes[code] = given
        said = {"code": code, "state": given["state"], "iss": self.issuer, **self.answers}
        back = urlencode({name: value for name, value in said.items() if value is not None})
        self.redirects.append(given["redirect_uri"])
        return RedirectResponse(f"{given['redirect_uri']}?{back}", 302)

    async def _token(self, given: dict[str, str], request: Request) -> Response:
        if given["grant_type"] == "refresh_token":
            if given["refresh_token"] not in self.refreshing:
                return JSONResponse({"error": "invalid_grant"}, 400)
            scope = self.refreshing.pop(given["refresh_token"])
            return self._given(scope, given["refresh_token"])
        asked = self._codes.pop(given["code"])
        challenge = base64.urlsafe_b64encode(hashlib.sha256(given["code_verifier"].encode()).digest()).decode()
        same = all(asked[name] == given[name] for name in ("redirect_uri", "resource", "client_id"))
        if not same or challenge.rstrip("=") != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._given(asked.get("scope", ""), secrets.token_urlsafe(16))

    def _given(self, scope: str, refresh: str) -> Response:
        access = secrets.token_urlsafe(16)
        self.valid.add(access)
        new = secrets.token_urlsafe(16) if self.rotates else refresh
        said = {
            "access_token": access, "token_type": "bearer", "expires_in": 3600, "refresh_token": new, "scope": scope,
            **self.token,
        }  # fmt: skip
        self.refreshing[new] = scope
        return JSONResponse({name: value for name, value in said.items() if value is not None})

    async def _revoke(self, given: dict[str, str], request: Request) -> Response:
        self.valid.discard(given["token"])
        self.refreshing.pop(given["token"], None)
        return Response(status_code=200)


class Resource:
    """The SDK's own MCP server behind a check of tokens. ``prm`` is laid over its metadata."""

    def __init__(self, authority: Authority, path: str = "mcp") -> None:
        self.authority = authority
        self.path = path
        self.url = ""
        self.prm: dict[str, Any] | None = {}
        self.challenge: str | None = 'scope="tools:use"'
        self.wants = ""
        """A scope without which a request of ``method`` (empty: any) is refused."""
        self.method = b"tools/call"
        self.tokens: list[str] = []
        self._app = made().sse_app() if path == "sse" else made().streamable_http_app(stateless_http=True)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"].startswith("/.well-known/"):
            await self._metadata(scope["path"])(scope, receive, send)
        else:
            given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
            self.tokens.append(given)
            refused = self._refusal(given, scope)
            await (refused or self._app)(scope, receive, send)

    def _metadata(self, path: str) -> Response:
        if self.prm is None or path != f"/.well-known/oauth-protected-resource/{self.path}":
            return Response(status_code=404)
        return JSONResponse({"resource": self.url, "authorization_servers": [self.authority.issuer], **self.prm})

    def _refusal(self, token: str, scope: Any) -> Response | None:
        if token not in self.authority.valid:
            where = f'resource_metadata="{urlsplit(self.url)._replace(path="").geturl()}'
            said = f'Bearer {where}/.well-known/oauth-protected-resource/{self.path}"'
            return Response(
                status_code=401, headers={"WWW-Authenticate": ", ".join(filter(None, (said, self.challenge)))}
            )
        if self.wants and dict(scope["headers"]).get(b"mcp-method", b"").startswith(self.method):
            challenge = f'Bearer error="insufficient_scope", scope="{self.wants}"'
            return Response(status_code=403, headers={"WWW-Authenticate": challenge})
        return None


@asynccontextmanager
async def served(path: str = "mcp") -> AsyncGenerator[tuple[Authority, Resource]]:
    """Serve both, each at an origin of its own."""
    authority = Authority()
    resource = Resource(authority, path)
    async with listening(authority.app) as issuer, listening(resource) as url:
        authority.issuer, resource.url = issuer, f"{url}/{path}"
        yield authority, resource


class Page(NamedTuple):
    """What a browser was shown."""

    status: int
    headers: Any
    text: str


async def browsed(url: str) -> Page:
    """Open *url* as a person's browser would, who is logged in there already; go where it leads."""
    return await asyncio.to_thread(_fetched, url)


def _fetched(url: str) -> Page:
    # Not our library: what it logs of the codes that a browser brings is nothing of ours.
    try:
        with urlopen(url, timeout=PERSON_S) as page:  # noqa: S310 (an address of our own test)
            return Page(page.status, page.headers, page.read().decode())
    except HTTPError as error:
        error.close()  # it is the answer, too, with its connection
        raise


async def logged_in(
    resource: Resource | Server, oauth: OAuth | None = None, *, name: str = "web", timeout_s: float = PERSON_S,
    browse: Any = browsed, type: Kind = "", **more: Any,
) -> Login:  # fmt: skip
    """Log in with a person who follows every link."""
    visits: list[asyncio.Task[Any]] = []
    oauth = oauth or OAuth()
    server = Server(url=resource.url, oauth=oauth, type=type)
    async with Listener(KNOWN_PATH if oauth.client_id else "") as listener:
        wish = LoginRequest(
            name=name, server=server, oauth=oauth, timeout_s=timeout_s,
            show=lambda url: visits.append(asyncio.create_task(browse(url))), **more,
        )  # fmt: skip
        try:
            return await log_in(wish, listener)
        finally:
            await asyncio.gather(*visits, return_exceptions=True)
