"""Serves this host's tools, resources and prompts, over stdio or HTTP, until the client leaves or a signal comes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from pluggent_mcp.serving import http as serving_http, stdio as serving_stdio
from pluggent_mcp.serving.exported import Exported, described
from pluggent_mcp.serving.settings import Address, Serving


async def over_stdio(exported: Exported, serving: Serving) -> None:
    """Serve the client that started us. Raises ConfigError and PluginError."""
    if sys.stdin.isatty():
        _say("it speaks MCP over its stdin and stdout, and waits for a client there; Ctrl-C ends it")
    wire = serving_stdio.claim()
    await beside(exported, serving_stdio.serve(exported.server(), wire, serving.max_message_bytes), lambda: None)


async def over_http(exported: Exported, serving: Serving, address: Address, token: str | None, *, made: bool) -> None:
    """Serve at *address* whoever knows *token*, which is shown if it was *made* just now. Raises as the other."""
    with serving_http.bound(address) as listening:

        def ready(url: str) -> None:
            _say(f"serving at {url}")
            if made:
                _say(f"clients have to send: Authorization: Bearer {token}")
            if not address.loopback:
                _say("others can reach it, and what they send can be read on the way: put TLS in front of it")

        await beside(
            exported,
            serving_http.serve(exported.server(), listening, serving, token, ready),
            lambda: _say(described(exported.selection)),
        )


async def beside(exported: Exported, serving: Coroutine[Any, Any, None], listed: Callable[[], None]) -> None:
    """Serve at once, and list what is offered meanwhile: servers behind them may take their time.

    What is wrong with the patterns ends the serving. Raises ConfigError and PluginError.
    """
    tasks = [
        asyncio.create_task(serving, name="pluggent-mcp-serve"),
        asyncio.create_task(_listed(exported, listed), name="pluggent-mcp-list"),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[1] in done:
            tasks[1].result()
            tasks.append(asyncio.create_task(exported.follow(), name="pluggent-mcp-follow"))
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        # What else they end with is the end of their streams: nobody has to hear of it.
        await asyncio.gather(*tasks, return_exceptions=True)
        await exported.aclose()


async def _listed(exported: Exported, listed: Callable[[], None]) -> None:
    await exported.refresh()
    listed()


def _say(text: str) -> None:
    print(f"pluggent mcp: {text}", file=sys.stderr, flush=True)  # noqa: T201 (stdout is the protocol's)
