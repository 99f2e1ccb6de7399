"""MCP over Streamable HTTP, of both eras: sessions where the protocol has them, none where it has not."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator
from typing import Any

import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pluggent_hookspecs import ConfigError

from pluggent_mcp.serving.connections import limited
from pluggent_mcp.serving.guard import PATH, Guard
from pluggent_mcp.serving.settings import Address, Serving

CONNECTIONS = 256
"""At once; what comes on top takes the place of one that says nothing, or is answered 503."""
LARGEST_HEADERS = 32_768
IDLE_CONNECTION_S = 5
GOODBYE_S = 1
"""How long answers that are on their way may take at the end."""
STOPPING_S = 5.0


class _Quiet(uvicorn.Server):
    """Leaves signals to whoever runs the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def bound(address: Address) -> socket.socket:
    """Return a socket at *address*. Raises ConfigError where there can be none."""
    host = "127.0.0.1" if address.host.lower() == "localhost" else address.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) where the protocol is named: else each waits 40 ms.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, address.port))
    except OSError as error:
        made.close()
        raise ConfigError("--http", [f"cannot listen at {address}: {error.strerror or error}"]) from error
    return made


async def serve(
    server: Server[Any], listening: socket.socket, settings: Serving, token: str | None, ready: Callable[[str], None]
) -> None:
    """Answer clients until this is cancelled. *ready* is told the URL."""
    host, port = listening.getsockname()[:2]
    manager = StreamableHTTPSessionManager(
        server, session_idle_timeout=settings.idle_timeout_s, max_request_body_size=settings.max_message_bytes,
        max_sessions=settings.max_sessions,
    )  # fmt: skip
    guard = Guard(manager.handle_request, (host, *settings.hosts), token, settings.request_timeout_s)
    http = _Quiet(_config(guard, settings))
    async with manager.run():
        listening.listen(CONNECTIONS)
        task = asyncio.create_task(http.serve([listening]), name="pluggent-mcp-http")
        try:
            ready(f"http://{Address(host, port)}{PATH}")
            await asyncio.shield(task)
        finally:
            guard.close()
            http.should_exit = True
            await asyncio.wait((task,), timeout=STOPPING_S)
            task.cancel()


def _config(app: Guard, settings: Serving) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=limited(settings.request_timeout_s), ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False,
        proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_keep_alive=IDLE_CONNECTION_S,
        timeout_graceful_shutdown=GOODBYE_S, h11_max_incomplete_event_size=LARGEST_HEADERS,
    )  # fmt: skip
