"""Tools of a server as the host knows tools; its resources and prompts too, where the operator switched them on.

All are ordinary tools with capability ids of their own, so every policy applies to them; what they
return is the result of a tool, never an instruction. serving.selection recognises the tools of
resources and prompts by their tags and serves them as resources and prompts again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Prompt, PromptReference, ResourceTemplateReference, ServerCapabilities
from pluggent_hookspecs import Effect, Json, Tool, ToolContext, ToolOutput, ToolSpec

from pluggent_mcp.client import content
from pluggent_mcp.client.connection import Connection
from pluggent_mcp.client.tool_list import ListedTool, allowed, effects_of, shown
from pluggent_mcp.settings import Server
from pluggent_mcp.tool_names import tool_name


async def tools_of(connection: Connection, prefix: str) -> list[Tool]:
    """Return the tools that *connection*'s server has now. Raises ToolError or ConfigError."""
    listed = await connection.listed_tools()
    running = await connection.running()
    tools: list[Tool] = [McpTool(connection, prefix, each) for each in listed.values()]
    tools += server_tools(connection, prefix, running.client.server_capabilities, set(listed))
    return tools


class McpTool:
    """One tool of one server, as it was defined when it was listed."""

    def __init__(self, connection: Connection, prefix: str, tool: ListedTool) -> None:
        self.spec = _spec(connection.name, connection.server, prefix, tool)
        self._connection = connection
        self._tool = tool

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return await self._connection.call(self._tool, arguments, context)


def _spec(name: str, server: Server, prefix: str, tool: ListedTool) -> ToolSpec:
    believed = tool.hints if server.trusted else None
    return ToolSpec(
        name=tool_name(prefix, tool.name),
        description=attributed(name, tool.description),
        parameters=tool.schema,
        effects=effects_of(server, tool.name, tool.hints),
        tags=("mcp",),
        category="mcp",
        version=tool.digest[:16],
        timeout_s=server.call_timeout_s,
        result_schema=tool.result,
        idempotent=believed is not None and believed.idempotent_hint is True,
        # An approval is for this server, not for another one that gets its name later.
        extra={"mcp": {"server": name, "target": target(server)}},
    )


def attributed(server: str, text: str) -> str:
    """Return *text* attributed to the server."""
    return f"[MCP server {server}] {shown(text)}".rstrip()


def target(server: Server) -> str:
    """Return a digest of the URL or command of *server*."""
    place: list[Any] = [server.command, server.args, server.cwd, server.url]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()[:16]


# ---- resources and prompts ----------------------------------------------------------------

PAGES = 20
ENTRIES = 500
"""Resources or prompts in one list."""
LONGEST_WORDS = 500
"""Characters of a title or description in a list."""
LONGEST_KEY = 2_000
"""Characters of a URI or name; an entry with a longer one, or with invisible characters, is left out."""
NOT_THERE = frozenset({INVALID_PARAMS, -32_002})
"""Error codes of servers for an unknown resource or prompt, or invalid arguments."""

VALUES = 100
"""Values of one completion, as MCP has it."""

WAIT_PART = 0.8
"""Of the time of a call, that is waited for a change."""

Use = Callable[[Client, Mapping[str, Any]], Awaitable[ToolOutput]]

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_URI: dict[str, Any] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "as it was listed, or made of a listed template"}},
    "required": ["uri"],
    "additionalProperties": False,
}
_WAIT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "uri": {"type": "string"},
        "since": {"type": "string", "description": "the revision that is known; without it the present one is told"},
    },
    "required": ["uri"],
    "additionalProperties": False,
}
_PROMPT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_ARGUMENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "the name of a prompt; or else"},
        "template": {"type": "string", "description": "the template of resources, as it was listed"},
        "argument": {"type": "string", "description": "the name of the argument"},
        "value": {"type": "string", "description": "how the value begins"},
        "known": {
            "type": "object",
            "description": "values of other arguments",
            "additionalProperties": {"type": "string"},
        },
    },
    "required": ["argument"],
    "oneOf": [{"required": ["prompt"]}, {"required": ["template"]}],
    "additionalProperties": False,
}


class ServerTool:
    """A tool of the plugin for the resources or prompts of one server."""

    def __init__(self, connection: Connection, spec: ToolSpec, use: Use) -> None:
        self.spec = spec
        self._connection = connection
        self._use = use

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return await self._connection.use(lambda client: self._used(client, arguments), context)

    async def _used(self, client: Client, arguments: Mapping[str, Json]) -> ToolOutput:
        try:
            return await self._use(client, arguments)
        except MCPError as error:
            if error.code not in NOT_THERE:
                raise
            text = f"Error: MCP server '{self._connection.name}': it refused: {shown(error.message)} ({error.code})"
            return ToolOutput(text, is_error=True, data={"code": error.code})


class WaitTool(ServerTool):
    """The tool that waits until a resource changes."""

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> ToolOutput:
        return await self._connection.use_apart(lambda client: self._used(client, arguments), context)


def server_tools(connection: Connection, prefix: str, has: ServerCapabilities, taken: set[str]) -> list[ServerTool]:
    """Return the tools for the resources and prompts that the server has and the operator enabled.

    If a name is *taken* by a tool of the server, ours ends in an underscore.
    """
    server, name = connection.server, connection.name
    wanted: list[tuple[str, str, str, dict[str, Any], Use]] = []
    if server.resources and has.resources is not None:
        wanted += [
            ("list_resources", "mcp:resources/list", "Lists the resources that", _NO_ARGUMENTS, _list_resources),
            ("read_resource", "mcp:resources/read", "Reads a resource that", _URI, _read_resource),
        ]
    if server.prompts and has.prompts is not None:
        wanted += [
            ("list_prompts", "mcp:prompts/list", "Lists the prompts that", _NO_ARGUMENTS, _list_prompts),
            ("get_prompt", "mcp:prompts/get", "Returns the text of a prompt that", _PROMPT, _get_prompt),
        ]
    if wanted and has.completions is not None:
        does = "Returns possible values of an argument, of a prompt or of a template of resources, that"
        wanted.append(("complete_argument", "mcp:completion/complete", does, _ARGUMENT, _complete))
    if server.resources and has.resources is not None and has.resources.subscribe:
        does = "Waits until a resource changes that"
        wanted.append(("wait_for_resource", "mcp:resources/wait", does, _WAIT, _waiting(connection)))
    made: list[ServerTool] = []
    for short, tag, does, parameters, use in wanted:
        if not allowed(server, short):
            continue
        effects = effects_of(server, short, None)
        spec = ToolSpec(
            name=tool_name(prefix, f"{short}_" if short in taken else short),
            description=f"{does} the MCP server '{name}' has.",
            parameters=parameters,
            effects=(Effect.NETWORK_READ,) if effects is None else effects,
            tags=("mcp", tag),
            category="mcp",
            timeout_s=server.call_timeout_s,
        )
        made.append((WaitTool if parameters is _WAIT else ServerTool)(connection, spec, use))
    return made


async def _list_resources(client: Client, _: Mapping[str, Any]) -> ToolOutput:
    found: list[dict[str, Any]] = []
    more = await _pages(
        lambda cursor: client.list_resources(cursor=cursor, cache_mode="bypass"),
        lambda page: [
            _entry("uri", str(one.uri), name=one.name, type=one.mime_type, size=one.size, **_said(one))
            for one in page.resources
        ],
        found,
    )
    more |= await _pages(
        lambda cursor: client.list_resource_templates(cursor=cursor, cache_mode="bypass"),
        lambda page: [
            _entry("template", one.uri_template, name=one.name, type=one.mime_type, **_said(one))
            for one in page.resource_templates
        ],
        found,
    )
    return _listing(found, more=more)


async def _read_resource(client: Client, arguments: Mapping[str, Any]) -> ToolOutput:
    return content.resource(await client.read_resource(arguments["uri"], cache_mode="bypass"))


def _waiting(connection: Connection) -> Use:
    async def wait(_: Client, arguments: Mapping[str, Any]) -> ToolOutput:
        uri, since = arguments["uri"], arguments.get("since")
        watch = (await connection.running()).watch
        revision = await watch.wait(uri, since, WAIT_PART * connection.server.call_timeout_s)
        data = {"uri": uri, "revision": revision, "changed": since is not None and since != revision}
        return ToolOutput(json.dumps(data, ensure_ascii=False), data=data)

    return wait


async def _list_prompts(client: Client, _: Mapping[str, Any]) -> ToolOutput:
    found: list[dict[str, Any]] = []
    more = await _pages(
        lambda cursor: client.list_prompts(cursor=cursor, cache_mode="bypass"),
        lambda page: [_entry("name", one.name, **_said(one), arguments=_arguments(one)) for one in page.prompts],
        found,
    )
    return _listing(found, more=more)


async def _get_prompt(client: Client, arguments: Mapping[str, Any]) -> ToolOutput:
    given = cast("dict[str, str]", dict(arguments.get("arguments") or {}))
    return content.prompt(await client.get_prompt(arguments["name"], given))


async def _complete(client: Client, arguments: Mapping[str, Any]) -> ToolOutput:
    prompt = arguments.get("prompt")
    ref = ResourceTemplateReference(uri=arguments["template"]) if prompt is None else PromptReference(name=prompt)
    argument = {"name": arguments["argument"], "value": arguments.get("value", "")}
    found = (await client.complete(ref, argument, dict(arguments.get("known") or {}))).completion
    values = [value for value in found.values[:VALUES] if shown(value, LONGEST_KEY) == value]
    more = bool(found.has_more) or len(found.values) > VALUES
    data: dict[str, Any] = {"values": values} | ({"more": True} if more else {})
    return ToolOutput(json.dumps(data, ensure_ascii=False), data=data)


async def _pages(
    ask: Callable[[str | None], Awaitable[Any]],
    entries: Callable[[Any], list[dict[str, Any]]],
    found: list[dict[str, Any]],
) -> bool:
    """Add the entries of all pages to *found*, up to a limit; return whether there are more."""
    cursor: str | None = None
    for _ in range(PAGES):
        page = await ask(cursor)
        found += filter(None, entries(page))
        cursor = page.next_cursor
        if cursor is None:
            return False
        if len(found) >= ENTRIES:
            return True
    return True


def _entry(key: str, value: str, **facts: Any) -> dict[str, Any]:
    """Return the entry of a list; empty if *value* cannot be shown unchanged."""
    if shown(value, LONGEST_KEY) != value:
        return {}
    words = {name: shown(fact, LONGEST_WORDS) if isinstance(fact, str) else fact for name, fact in facts.items()}
    return {key: value, **{name: fact for name, fact in words.items() if fact}}


def _said(one: Any) -> dict[str, Any]:
    return {"title": one.title, "description": one.description}


def _arguments(one: Prompt) -> list[dict[str, Any]]:
    made = (_entry("name", each.name, required=each.required, **_said(each)) for each in one.arguments or ())
    return [entry for entry in made if entry]


def _listing(found: list[dict[str, Any]], *, more: bool) -> ToolOutput:
    data: dict[str, Any] = {"entries": found[:ENTRIES]} | ({"more": True} if more or len(found) > ENTRIES else {})
    return ToolOutput(json.dumps(data, ensure_ascii=False), data=data)
