"""``pluggent mcp serve``: options and settings, checked before the SDK is imported."""

from __future__ import annotations

import argparse
import gc
import secrets
from collections.abc import Generator
from contextlib import contextmanager

from pluggent_hookspecs import ConfigError, HostOperations, Secret

from pluggent_mcp.servers_file import servers_of
from pluggent_mcp.serving.settings import Address, Serving
from pluggent_mcp.settings import Settings
from pluggent_mcp.tool_names import SEPARATOR, prefixes

COLLECT_AFTER = (10_000, 10, 10)
"""Thresholds of Python's collector of cycles: a call makes few of them, and with Python's own it takes a tenth."""
NO_TOKEN = "none"  # noqa: S105 (the option value for no token)
SHORTEST_TOKEN = 16
WHERE = "pluggent mcp serve"
NOTHING = (
    "nothing is exported. Name tools: --tools 'files__*', or in the settings: [plugins.pluggent-mcp.serve]"
    " tools = [\"files__*\"]; '*' means all (pluggent tools lists them). Or resources, or prompts, in the same way"
)


async def run(options: argparse.Namespace, operations: HostOperations, settings: Settings) -> int:
    """Serve until the client disconnects, over stdio, or until a signal. Raises ConfigError."""
    serving = settings.serve
    tools, resources, prompts = (
        tuple(getattr(options, sort) or getattr(serving, sort)) for sort in ("tools", "resources", "prompts")
    )
    if not (tools or resources or prompts):
        raise ConfigError(WHERE, [NOTHING])
    address, token, made = _over_http(options, serving)
    # Here: they import the SDK, which takes a second; wrong options are reported before.
    from pluggent_mcp.serving.runner import over_http, over_stdio
    from pluggent_mcp.serving.server import HostServer

    host_server = HostServer(operations, tools, serving, resources=resources, prompts=prompts)
    try:
        with _collecting_less():
            if address is None:
                await over_stdio(host_server, serving)
            else:
                await over_http(host_server, serving, address, token, made=made)
    except ConfigError as error:
        raise ConfigError(error.path, [*error.problems, *_behind(error, settings)]) from error
    return 0


@contextmanager
def _collecting_less() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _over_http(options: argparse.Namespace, serving: Serving) -> tuple[Address | None, str | None, bool]:
    """Return the address, None for stdio; the token of clients; and whether it was generated."""
    if options.http is None:
        if options.token:
            raise ConfigError(WHERE, ["--token goes with --http; over stdio the parent process is the client"])
        return None, None, False
    try:
        address = Address.parse(options.http)
    except ValueError as error:
        raise ConfigError("--http", [str(error)]) from error
    return (address, *_token(options.token, serving, address))


def _behind(error: ConfigError, settings: Settings) -> list[str]:
    """Return the prefixes of the tools of servers, for a pattern that matched none."""
    if error.path != "--tools":
        return []
    names = prefixes({name: server for name, server in servers_of(settings).items() if server.used})
    begin = ", ".join(f"{prefix}{SEPARATOR}*" for prefix in sorted(names.values()))
    return [f"tools of the servers of MCP that are set: {begin}"] if begin else []


def _token(reference: str | None, settings: Serving, address: Address) -> tuple[str | None, bool]:
    """Return the token of clients, None for no token; and whether it was generated."""
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
