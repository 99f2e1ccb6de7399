"""Runs the server over stdio or HTTP until the client disconnects or a signal comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from pluggent_mcp.serving import http_server as serving_http, stdio_server as serving_stdio
from pluggent_mcp.serving.server import HostServer, described
from pluggent_mcp.serving.settings import Address, Serving


async def over_stdio(host_server: HostServer, serving: Serving) -> None:
    """Serve the client that started us. Raises ConfigError and PluginError."""
    if sys.stdin.isatty():
        _say("it speaks MCP over its stdin and stdout, and waits for a client there; Ctrl-C ends it")
    wire = serving_stdio.claim()
    await serve_and_list(
        host_server, serving_stdio.serve(host_server.server(), wire, serving.max_message_bytes), lambda: None
    )


async def over_http(
    host_server: HostServer, serving: Serving, address: Address, token: str | None, *, made: bool
) -> None:
    """Serve at *address* clients with *token*, printed if it was *made* for this run. Raises as ``over_stdio``."""
    with serving_http.bound(address) as listening:

        def ready(url: str) -> None:
            _say(f"serving at {url}")
            if made:
                _say(f"clients have to send: Authorization: Bearer {token}")
            if not address.loopback:
                _say("others can reach it, and what they send can be read on the way: put TLS in front of it")

        await serve_and_list(
            host_server,
            serving_http.serve(host_server.server(), listening, serving, token, ready),
            lambda: _say(described(host_server.selection)),
        )


async def serve_and_list(
    host_server: HostServer, serving: Coroutine[Any, Any, None], listed: Callable[[], None]
) -> None:
    """Serve at once and list concurrently: MCP servers behind the host may start slowly.

    Invalid patterns end the serving. Raises ConfigError and PluginError.
    """
    tasks = [
        asyncio.create_task(serving, name="pluggent-mcp-serve"),
        asyncio.create_task(_listed(host_server, listed), name="pluggent-mcp-list"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] in done:
            tasks[1].result()
            tasks.append(asyncio.create_task(host_server.follow(), name="pluggent-mcp-follow"))
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        # Other errors are those of closed streams.
        await asyncio.gather(*tasks, return_exceptions=True)
        await host_server.aclose()


async def _listed(host_server: HostServer, listed: Callable[[], None]) -> None:
    await host_server.refresh()
    listed()


def _say(text: str) -> None:
    print(f"pluggent mcp: {text}", file=sys.stderr, flush=True)  # noqa: T201 (stdout is the protocol's)
