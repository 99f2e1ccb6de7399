"""``pluggent mcp tools`` and ``call``: a server's tools as this host has them, under all policies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from pluggent_hookspecs import (
    ConfigError,
    HostOperations,
    HostTool,
    Json,
    PluggentError,
    Text,
    ToolErrorKind,
    ToolOutput,
    thaw,
)

from pluggent_mcp.commands_list import chosen
from pluggent_mcp.naming import SEPARATOR, prefixes, tool_name
from pluggent_mcp.printing import document, line, note, table
from pluggent_mcp.reading import servers_of
from pluggent_mcp.settings import Server, Settings

FAILED = 1
DENIED = 3
USAGE = 2
ORIGIN = "cli"

_CODES = {ToolErrorKind.DENIED: DENIED, ToolErrorKind.WITHHELD: DENIED, ToolErrorKind.ARGUMENTS: USAGE}


async def run(options: argparse.Namespace, operations: HostOperations, settings: Settings) -> int:
    """List a server's tools, or call one. Raises ConfigError and PluginError."""
    where = f"pluggent mcp {options.what}"
    server = chosen(settings, options.name, where)
    prefix = prefixes({name: each for name, each in servers_of(settings).items() if each.used})[options.name]
    found = await _tools(operations, prefix, options.name, server)
    if options.what == "tools":
        return _listed(options, found)
    wanted = tool_name(prefix, options.tool)
    if wanted not in found:
        have = ", ".join(sorted(name.removeprefix(f"{prefix}{SEPARATOR}") for name in found)) or "none"
        raise ConfigError(where, [f"the server {options.name!r} has no tool {options.tool!r}; it has: {have}"])
    return await _called(options, operations, found[wanted], where)


async def _tools(operations: HostOperations, prefix: str, name: str, server: Server) -> Mapping[str, HostTool]:
    pattern = f"{prefix}{SEPARATOR}*"
    try:
        found = await operations.tools(pattern)
    except PluggentError as error:
        # The host says that there are none; why there are none the server's own start says.
        from pluggent_mcp.trial import tried  # the SDK, a second

        trial = await tried(name, server)
        if trial.problem:
            raise ConfigError(f"MCP server '{name}'", [trial.problem]) from error
        raise
    return {tool.spec.name: tool for tool in found}


def _listed(options: argparse.Namespace, found: Mapping[str, HostTool]) -> int:
    tools = [found[name] for name in sorted(found)]
    if options.json:
        document({"tools": [_facts(tool) for tool in tools]})
    elif tools:
        table(("TOOL", "EFFECTS", "CALLS", "DESCRIPTION"), [_row(tool) for tool in tools])
    else:
        line("it has no tools")
    return 0


def _row(tool: HostTool) -> tuple[str, ...]:
    says = tool.spec.description.partition("] ")[2] or tool.spec.description
    return (tool.spec.name, _effects(tool), tool.calls, says.partition("\n")[0][:60])


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


async def _called(options: argparse.Namespace, operations: HostOperations, tool: HostTool, where: str) -> int:
    arguments = read_arguments(options.words, tool.spec.parameters, where)
    done = await operations.call_tool(tool.spec.name, arguments, origin=ORIGIN)
    output = done.output
    text = "".join(_texts(output))
    if options.json:
        document({"tool": tool.spec.name, "failed": output.is_error, "result": text, "data": thaw(output.data)})
    elif output.is_error:
        note(text)
    else:
        line(text)
    return (_CODES.get(done.outcome, FAILED) if done.outcome else FAILED) if output.is_error else 0


def _texts(output: ToolOutput) -> Iterator[str]:
    if isinstance(output.for_model, str):
        yield output.for_model
        return
    for part in output.for_model:
        yield part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]"


def read_arguments(words: Sequence[str], schema: Mapping[str, Json], where: str) -> dict[str, Any]:
    """Return *words* as arguments; whether they suit the tool is the host's to say.

    One JSON object, or ``key=value``: text where *schema* says text, otherwise JSON if it can be
    read so. ``key:=value`` is always JSON. Raises ConfigError naming every word that is neither.

    >>> read_arguments(["city=10115", "days=2"], {"properties": {"city": {"type": "string"}}}, "here")
    {'city': '10115', 'days': 2}
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return _object(words[0], where)
    properties = schema.get("properties")
    known: Mapping[str, Any] = cast("Mapping[str, Any]", properties) if isinstance(properties, Mapping) else {}
    made: dict[str, Any] = {}
    problems: list[str] = []
    for word in words:
        key, equals, text = word.partition("=")
        name = key.removesuffix(":")
        if not equals or not name:
            problems.append(f"{word!r} is no KEY=VALUE and no JSON object")
        elif name in made:
            problems.append(f"{name!r} is given twice")
        else:
            made[name] = _value(text, known.get(name), problems, as_json=key.endswith(":"))
    if problems:
        raise ConfigError(where, problems)
    return made


def _value(text: str, schema: object, problems: list[str], *, as_json: bool) -> Any:
    known: Mapping[str, Any] = cast("Mapping[str, Any]", schema) if isinstance(schema, Mapping) else {}
    if not as_json and known.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if as_json:
            problems.append(f"{text!r} is no JSON: {error}")
        return text


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(where, [f"the arguments are no JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise ConfigError(where, ["the arguments are no JSON object"])
    return cast("dict[str, Any]", value)
