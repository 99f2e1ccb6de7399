"""What a server is asked before anybody is logged in: a greeting of each era, which is there to be refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_PROTOCOL_VERSION_HEADER
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import LATEST_MODERN_VERSION

from pluggent_mcp.oauth.http import Guard, status_of
from pluggent_mcp.oauth.words import LoginError
from pluggent_mcp.settings import Server

UNAUTHORIZED, FORBIDDEN = 401, 403
BROKEN = 500
NOT_FOUND = 404
OLD = "2025-11-25"
OURSELVES = {"name": "pluggent", "version": "0.1"}


async def refused(server: Server, guard: Guard) -> tuple[httpx2.Request, str]:
    """Return a request to *server*, and what it says it wants to know of who sends it. Raises LoginError.

    Some let everybody in at first, or take the request amiss before they look who sent it: then it says nothing.
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
