"""``pluggent mcp serve``: what is wanted, checked before the SDK is imported for it."""

from __future__ import annotations

import argparse
import secrets

from pluggent_hookspecs import ConfigError, HostOperations, Secret

from pluggent_mcp.naming import SEPARATOR, prefixes
from pluggent_mcp.reading import servers_of
from pluggent_mcp.serving.settings import Address, Serving
from pluggent_mcp.settings import Settings

NO_TOKEN = "none"  # noqa: S105 (the word for having none)
SHORTEST_TOKEN = 16
WHERE = "pluggent mcp serve"
NOTHING = (
    "nothing is exported. Name tools: --tools 'files__*', or in the settings: [plugins.pluggent-mcp.serve]"
    " tools = [\"files__*\"]; '*' means all (pluggent tools lists them). Or resources, or prompts, in the same way"
)


async def run(options: argparse.Namespace, operations: HostOperations, settings: Settings) -> int:
    """Serve until the client leaves, over stdio, or until a signal comes. Raises ConfigError."""
    serving = settings.serve
    tools, resources, prompts = (
        tuple(getattr(options, sort) or getattr(serving, sort)) for sort in ("tools", "resources", "prompts")
    )
    if not (tools or resources or prompts):
        raise ConfigError(WHERE, [NOTHING])
    address, token, made = _over_http(options, serving)
    # Here, for they bring the SDK along, a second: not for wrong words.
    from pluggent_mcp.commands.serving import over_http, over_stdio
    from pluggent_mcp.serving.exported import Exported

    exported = Exported(operations, tools, serving, resources=resources, prompts=prompts)
    try:
        if address is None:
            await over_stdio(exported, serving)
        else:
            await over_http(exported, serving, address, token, made=made)
    except ConfigError as error:
        raise ConfigError(error.path, [*error.problems, *_behind(error, settings)]) from error
    return 0


def _over_http(options: argparse.Namespace, serving: Serving) -> tuple[Address | None, str | None, bool]:
    """Return where to serve, None for stdio; what clients have to know; and whether that was made just now."""
    if options.http is None:
        if options.token:
            raise ConfigError(WHERE, ["--token goes with --http; over stdio whoever started this is the client"])
        return None, None, False
    try:
        address = Address.parse(options.http)
    except ValueError as error:
        raise ConfigError("--http", [str(error)]) from error
    return (address, *_token(options.token, serving, address))


def _behind(error: ConfigError, settings: Settings) -> list[str]:
    """Return how the tools of servers are called, where a pattern meant none."""
    if error.path != "--tools":
        return []
    names = prefixes({name: server for name, server in servers_of(settings).items() if server.used})
    begin = ", ".join(f"{prefix}{SEPARATOR}*" for prefix in sorted(names.values()))
    return [f"tools of the servers of MCP that are set: {begin}"] if begin else []


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
