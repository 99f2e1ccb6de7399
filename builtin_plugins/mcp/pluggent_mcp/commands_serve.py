"""``pluggent mcp serve``: puts together what serves this host's tools, resources and prompts, and runs it."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from pluggent_hookspecs import ConfigError, HostOperations, Secret

from pluggent_mcp import serving_http, serving_stdio
from pluggent_mcp.serving import Exported, described
from pluggent_mcp.serving_settings import Address, Serving

NO_TOKEN = "none"  # noqa: S105 (the word for having none)
SHORTEST_TOKEN = 16
WHERE = "pluggent mcp serve"
NOTHING = (
    "nothing is exported. Name tools: --tools 'files__*', or in the settings: [plugins.pluggent-mcp.serve]"
    " tools = [\"files__*\"]; '*' means all (pluggent tools lists them). Or resources, or prompts, in the same way"
)


async def run(options: argparse.Namespace, operations: HostOperations, settings: Serving) -> int:
    """Serve until the client leaves, over stdio, or until a signal comes. Raises ConfigError."""
    tools, resources, prompts = (
        tuple(getattr(options, sort) or getattr(settings, sort)) for sort in ("tools", "resources", "prompts")
    )
    if not (tools or resources or prompts):
        raise ConfigError(WHERE, [NOTHING])
    exported = Exported(operations, tools, settings, resources=resources, prompts=prompts)
    if options.http is None:
        return await _over_stdio(options, exported, settings)
    return await _over_http(options, exported, settings)


async def _over_stdio(options: argparse.Namespace, exported: Exported, settings: Serving) -> int:
    if options.token:
        raise ConfigError(WHERE, ["--token goes with --http; over stdio whoever started this is the client"])
    if sys.stdin.isatty():
        _say("it speaks MCP over its stdin and stdout, and waits for a client there; Ctrl-C ends it")
    wire = serving_stdio.claim()
    await _beside(exported, serving_stdio.serve(exported.server(), wire, settings.max_message_bytes), lambda: None)
    return 0


async def _over_http(options: argparse.Namespace, exported: Exported, settings: Serving) -> int:
    try:
        address = Address.parse(options.http)
    except ValueError as error:
        raise ConfigError("--http", [str(error)]) from error
    token, made = _token(options.token, settings, address)
    with serving_http.bound(address) as listening:

        def ready(url: str) -> None:
            _say(f"serving at {url}")
            if made:
                _say(f"clients have to send: Authorization: Bearer {token}")
            if not address.loopback:
                _say("others can reach it, and what they send can be read on the way: put TLS in front of it")

        await _beside(
            exported,
            serving_http.serve(exported.server(), listening, settings, token, ready),
            lambda: _say(described(exported.selection)),
        )
    return 0


def _token(reference: str | None, settings: Serving, address: Address) -> tuple[str | None, bool]:
    """Return what clients have to know, None for nothing; and whether it was made just now."""
    if reference == NO_TOKEN:
        if not address.loopback:
            raise ConfigError("--token", [f"without a token only this machine may be served, not {address}"])
        return None, False
    try:
        secret = Secret(reference) if reference else settings.token
    except ValueError as error:
        raise ConfigError("--token", [str(error)]) from error
    if secret is None:
        return secrets.token_urlsafe(32), True
    token = secret.reveal()
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigError(
            "--token" if reference else "plugins.pluggent-mcp.serve.token",
            [f"the token is not {SHORTEST_TOKEN} or more characters of ASCII without spaces"],
        )
    return token, False


async def _beside(exported: Exported, serving: Coroutine[Any, Any, None], listed: Callable[[], None]) -> None:
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
        await asyncio.wait(tasks)
        await exported.aclose()


async def _listed(exported: Exported, listed: Callable[[], None]) -> None:
    await exported.refresh()
    listed()


def _say(text: str) -> None:
    print(f"pluggent mcp: {text}", file=sys.stderr, flush=True)  # noqa: T201 (stdout is the protocol's)
