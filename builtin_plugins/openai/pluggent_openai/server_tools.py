"""The setting ``server_tools``: tools that run at the vendor, as Responses declares them. Values only."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from pluggent_hookspecs import Secret
from pluggent_provider_http.hosted_tools import Declared

MCP = "mcp"
PRICE = "price_usd"
"""What one call costs in dollars: a setting of ours, which is not sent."""
_OURS = frozenset(
    {
        "apply_patch",
        "builtin_function",
        "computer",
        "computer_use_preview",
        "custom",
        "function",
        "local_shell",
        "namespace",
    }
)
"""Kinds of tools whose calls are handed to us."""
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECRETS = ("authorization", "headers")
_ALWAYS = "always"


def tools_of(tools: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return *tools* read-only, as a converter of attrs; what says who asks is a Secret."""
    return tuple(
        MappingProxyType({name: _secret(value) if name in _SECRETS else value for name, value in tool.items()})
        for tool in tools
    )


def _secret(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _secret(each) for name, each in cast("Mapping[str, Any]", value).items()}
    return Secret(value) if isinstance(value, str) else value


def check_tools(_: object, attribute: Any, tools: tuple[Mapping[str, Any], ...]) -> None:
    """Refuse, as a validator of attrs, what does not run at the vendor, or would run there without approval."""
    for tool in tools:
        kind = tool.get("type")
        if not isinstance(kind, str) or not kind:
            raise ValueError(f"{attribute.name}: each has a type, such as web_search")
        if runs_here(kind, tool):
            raise ValueError(f"{attribute.name}: {kind!r} runs here, not at the vendor: a plugin or the code offers it")
        if kind == MCP:
            _check_server(attribute.name, tool)
        price = tool.get(PRICE, 0)
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < math.inf:
            raise ValueError(f"{attribute.name}: {PRICE} of {kind}: expected the dollars of one call, got {price!r}")
    names = [_name(tool) for tool in tools]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{attribute.name}: there are two called {twice[0]!r}")


def runs_here(kind: str, tool: Mapping[str, Any]) -> bool:
    """Say whether calls of a tool of this *kind* are handed to us, and not made by the vendor."""
    if kind == "shell":
        given = tool.get("environment")
        return isinstance(given, Mapping) and cast("Mapping[str, Any]", given).get("type") == "local"
    return kind in _OURS or (kind == "tool_search" and tool.get("execution") == "client")


def _check_server(setting: str, tool: Mapping[str, Any]) -> None:
    label = tool.get("server_label")
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        raise ValueError(f"{setting}: an mcp has a server_label of letters, digits, - and _, 64 at most")
    if not any(isinstance(tool.get(name), str) for name in ("server_url", "connector_id", "tunnel_id")):
        raise ValueError(f"{setting}: the mcp {label!r} has a server_url or a connector_id")
    if tool.get("require_approval", _ALWAYS) != _ALWAYS:
        raise ValueError(f"{setting}: the mcp {label!r}: policies decide about each call; leave out require_approval")


def _name(tool: Mapping[str, Any]) -> str:
    return f"{MCP}/{tool['server_label']}" if tool["type"] == MCP else str(tool["type"])


def declared(tools: Iterable[Mapping[str, Any]]) -> tuple[Declared, ...]:
    """Return *tools*, as the setting has them, under the names that policies see."""
    return tuple(Declared(_name(tool), tool["type"], _declaration(tool)) for tool in tools)


def _declaration(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    sent = {name: value for name, value in tool.items() if name != PRICE}
    return {**sent, "require_approval": _ALWAYS} if tool["type"] == MCP else sent


def prices(tools: Iterable[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return the dollars of one call by the names of those of *tools* that have a price."""
    return {_name(tool): tool[PRICE] for tool in tools if PRICE in tool}


_ENDS = ("_call", "_call_output", "_output")
_BY_US = ("computer", "shell", "local_shell", "apply_patch", "function", "custom_tool")


def hosted_by(item: Mapping[str, Any]) -> str:
    """Return the name of the tool at the vendor that has made *item*, as policies see it; empty if none has.

    >>> hosted_by({"type": "web_search_call"}), hosted_by({"type": "mcp_call", "server_label": "wiki"})
    ('web_search', 'mcp/wiki')
    """
    kind = str(item.get("type"))
    if kind.startswith("mcp_"):
        return f"{MCP}/{item.get('server_label') or ''}"
    if kind in ("program", "program_output"):
        return "programmatic_tool_calling"
    tool = next((kind.removesuffix(end) for end in _ENDS if kind.endswith(end)), "")
    return "" if tool in _BY_US else tool
