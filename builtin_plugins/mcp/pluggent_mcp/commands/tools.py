"""``pluggent mcp tools`` and ``call``: a server's tools as this host has them, under all policies."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from pluggent_hookspecs import (
    ConfigError,
    HostOperations,
    HostTool,
    Json,
    PluggentError,
    Text,
    ToolError,
    ToolErrorKind,
    ToolOutput,
    read_words,
    thaw,
)

from pluggent_mcp.commands.list import chosen, meant
from pluggent_mcp.commands.output import document, line, note, table
from pluggent_mcp.commands.server_check import check_server, remarks
from pluggent_mcp.commands.settings_file import SECTION, bare_or_quoted
from pluggent_mcp.servers_file import servers_of
from pluggent_mcp.settings import Server, Settings
from pluggent_mcp.tool_names import SEPARATOR, prefixes, tool_name

FAILED = 1
DENIED = 3
USAGE = 2
ORIGIN = "cli"
HOST_LOG = "pluggent.tools"
"""The logger of the host for failed sources."""
EFFECTS = "[effects]"
"""The setting that the host names if a call asks because the effects of its tool are unknown."""

_CODES = {ToolErrorKind.DENIED: DENIED, ToolErrorKind.WITHHELD: DENIED, ToolErrorKind.ARGUMENTS: USAGE}


async def run(options: argparse.Namespace, operations: HostOperations, settings: Settings) -> int:
    """List a server's tools, or call one. Raises ConfigError, PluginError, and ToolError for a server that fails."""
    where = f"pluggent mcp {options.what}"
    server = chosen(settings, options.name, where)
    prefix = prefixes({name: each for name, each in servers_of(settings).items() if each.used})[options.name]
    with remarks(options.name) as collected:
        found = await _tools(operations, prefix, options.name, server)
        if options.what == "tools":
            return _listed(options, found, collected.said)
        wanted = tool_name(prefix, options.tool)
        if wanted not in found:
            have = {name.removeprefix(f"{prefix}{SEPARATOR}"): tool for name, tool in found.items()}
            unknown = f"the server {options.name!r} has no tool {options.tool!r}"
            raise ConfigError(where, [unknown + meant(options.tool, have, "it has")])
        return await _called(options, operations, found[wanted], _where_configured(options, settings))


async def _tools(operations: HostOperations, prefix: str, name: str, server: Server) -> Mapping[str, HostTool]:
    pattern = f"{prefix}{SEPARATOR}*"
    try:
        with _without_host_warning(name):
            found = await operations.tools(pattern)
    except PluggentError as error:
        # The host reports that there are no tools; a start of the server shows why.
        check = await check_server(name, server)
        if check.problem:
            raise ToolError(f"MCP server '{name}': {check.problem}") from error
        if check.tools:
            raise
        return {}
    return {tool.spec.name: tool for tool in found}


@contextmanager
def _without_host_warning(name: str) -> Generator[None]:
    """Suppress warnings of the host about the server *name* in this block: an error follows that has the reason."""
    log = logging.getLogger(HOST_LOG)
    source = f"in its source '{name}'"

    def others(record: logging.LogRecord) -> bool:
        return source not in record.getMessage()

    log.addFilter(others)
    try:
        yield
    finally:
        log.removeFilter(others)


def _listed(options: argparse.Namespace, found: Mapping[str, HostTool], collected: Sequence[str]) -> int:
    tools = [found[name] for name in sorted(found)]
    if options.json:
        document({"tools": [_facts(tool) for tool in tools], "remarks": list(collected)})
        return 0
    if tools:
        table(("TOOL", "EFFECTS", "CALLS", "DESCRIPTION"), [_row(tool) for tool in tools])
    else:
        line("it has no tools")
    for remark in collected:
        note(f"note: {remark}")
    return 0


def _row(tool: HostTool) -> tuple[str, ...]:
    says = tool.spec.description.partition("] ")[2] or tool.spec.description
    return (tool.spec.name, _effects(tool), tool.calls, says.partition("\n")[0])


def _effects(tool: HostTool) -> str:
    return "unknown" if tool.effects is None else ", ".join(sorted(tool.effects)) or "none"


def _facts(tool: HostTool) -> dict[str, Any]:
    return {
        "name": tool.spec.name,
        "capability": tool.capability,
        "description": tool.spec.description,
        "parameters": thaw(tool.spec.parameters),
        "effects": None if tool.effects is None else sorted(tool.effects),
        "calls": tool.calls,
        "pin": tool.spec.version,
    }


# ---- call --------------------------------------------------------------------------------


async def _called(
    options: argparse.Namespace, operations: HostOperations, tool: HostTool, where_configured: str
) -> int:
    arguments = read_arguments(options.words, tool.spec.parameters, "pluggent mcp call")
    done = await operations.call_tool(tool.spec.name, arguments, origin=ORIGIN)
    output = done.output
    text = _text(output)
    if options.json:
        document({"tool": tool.spec.name, "failed": output.is_error, "result": text, "data": thaw(output.data)})
    elif output.is_error:
        note(text)
        if EFFECTS in text and tool.effects is None:
            note(where_configured)
    else:
        line(text)
    return (_CODES.get(done.outcome, FAILED) if done.outcome else FAILED) if output.is_error else 0


def _text(output: ToolOutput) -> str:
    """Return the output as text, each part in lines of its own."""
    if isinstance(output.for_model, str):
        return output.for_model
    return "\n".join(
        part.text.removesuffix("\n") if isinstance(part, Text) else f"[{type(part).__name__.lower()}]"
        for part in output.for_model
    )


def _where_configured(options: argparse.Namespace, settings: Settings) -> str:
    """Return where the operator writes the effects of a server's tool."""
    if options.name not in settings.mcpServers:
        return f'Or with the server, in {settings.file}: "effects": {{{json.dumps(options.tool)}: [...]}}'
    path = ".".join(map(bare_or_quoted, (*SECTION, options.name, "effects")))
    where = f"[{path}] {bare_or_quoted(options.tool)} = [...]"
    return f"Or with the server, where `pluggent mcp add` writes its own description as a comment: {where}"


def read_arguments(words: Sequence[str], schema: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    """Return one JSON object, or ``key=value`` words (see read_words), as arguments. Raises ConfigError.

    >>> dict(read_arguments(['{"days": 2}'], {}, "here"))
    {'days': 2}
    """
    one = len(words) == 1 and words[0].lstrip().startswith("{")
    return _object(words[0], where) if one else read_words(words, schema, where)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(where, [f"the arguments are not JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise ConfigError(where, ["the arguments are not a JSON object"])
    return cast("dict[str, Any]", value)
