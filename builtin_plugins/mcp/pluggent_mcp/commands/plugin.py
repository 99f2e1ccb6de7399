"""``pluggent mcp``: lists, checks, adds and removes servers, calls their tools; serves this host.

Light on purpose: the SDK is imported only where a server is started or served.
"""

from __future__ import annotations

import argparse
import sys

from pluggent_hookspecs import Command, ConfigError, HostOperations, ProvideEvent, hookimpl

from pluggent_mcp.commands.subcommands import configure
from pluggent_mcp.settings import Settings as McpSettings

TAKES_COMMAND = "add"


class McpCommands:
    """The plugin behind the command ``mcp``; its settings are those of the servers."""

    Settings = McpSettings

    def __init__(self, settings: McpSettings | None = None) -> None:
        self._settings = McpSettings() if settings is None else settings

    @hookimpl
    def provide_commands(self, event: ProvideEvent) -> list[Command]:
        """Return the one command."""
        return [Command("mcp", "servers of MCP for this host, and this host as one", None, configure, self._run)]

    async def _run(self, options: argparse.Namespace, operations: HostOperations) -> int:
        try:
            return await self._chosen(options, operations)
        finally:
            sys.stdout.flush()  # before the servers are stopped, which takes a while

    async def _chosen(self, options: argparse.Namespace, operations: HostOperations) -> int:
        if options.behind is not None and options.what != TAKES_COMMAND:
            raise ConfigError(f"pluggent mcp {options.what}", ["nothing is expected behind --"])
        # Imported where needed: the host imports this file only to list the command.
        match options.what:
            case "list":
                from pluggent_mcp.commands.list import run as list_servers  # see above

                return list_servers(options, self._settings)
            case "test":
                from pluggent_mcp.commands.check import run as try_servers  # see above

                return await try_servers(options, self._settings)
            case "tools" | "call":
                from pluggent_mcp.commands.tools import run as use_server  # see above

                return await use_server(options, operations, self._settings)
            case "login":
                from pluggent_mcp.commands.login import login  # see above

                return await login(options, self._settings)
            case "logout":
                from pluggent_mcp.commands.login import logout  # see above

                return await logout(options, self._settings)
            case "add":
                from pluggent_mcp.commands.add_remove import add  # see above

                return await add(options)
            case "remove":
                from pluggent_mcp.commands.add_remove import remove  # see above

                return remove(options)
            case _:
                from pluggent_mcp.commands.serve import run as serve  # see above

                return await serve(options, operations, self._settings)
