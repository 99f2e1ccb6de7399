"""The tools of a session as listings show them."""

from __future__ import annotations

from typing import Any, cast

from pluggent_hookspecs import Json, thaw
from pluggent_hookspecs.errors import ConfigError
from pluggent_host.session import OfferedTool, Session
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli.terminal.console import Row


def tool_row(tool: OfferedTool) -> Row:
    """Return *tool* as a line of a table: name, plugin, effects, and whether its calls need approval."""
    says = {"allow": "run", "ask": "need approval"}.get(tool.default, tool.default)
    about = (tool.spec.description or "(no description)").strip().partition("\n")[0]
    styles = ("bold", "plain", "plain", "green" if tool.default == "allow" else "yellow")
    return Row((tool.name, tool.plugin, _effects(tool), says), styles, [("dim", about)])


def _effects(tool: OfferedTool) -> str:
    if tool.effects is None:
        return "not declared"
    return ", ".join(sorted(tool.effects)) or "none"


def find_tool(session: Session, name: str, where: str) -> OfferedTool:
    """Return the tool that *name*, its own or its capability's, means. Raises ConfigError at *where*."""
    for tool in session.tools:
        if name in (tool.name, tool.capability):
            return tool
    have = [tool.name for tool in session.tools]
    installed = f"; installed: {', '.join(have)}" if have else "; no tools are installed"
    raise ConfigError(where, [f"there is no tool {name!r}{did_you_mean(name, have) or installed}"])


def tool_document(tool: OfferedTool) -> dict[str, Any]:
    """Return all about *tool* as JSON has it."""
    return {
        "name": tool.name,
        "description": tool.spec.description,
        "parameters": thaw(cast("Json", tool.spec.parameters)),
        "capability": tool.capability,
        "plugin": tool.plugin,
        "effects": None if tool.effects is None else sorted(tool.effects),
        "calls": tool.default,
    }
