"""References to the environment: ``${NAME}``, ``${NAME:-default}``, and ``${env:NAME}`` as VS Code writes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_mcp.settings import Server

_REFERENCE = re.compile(r"\$\{(?P<inside>[^}]*)\}")
_NAME = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def resolved(name: str, server: Server, environ: Mapping[str, str]) -> Server:
    """Return *server* with every reference replaced. Raises ConfigError naming all that cannot be.

    >>> server = Server(command="run", args=("${DIRECTORY:-/srv}",))
    >>> resolved("files", server, {}).args
    ('/srv',)
    """
    problems: list[str] = []

    def text(where: str, value: str) -> str:
        return _REFERENCE.sub(lambda match: _value(name, where, match, environ, problems), value)

    changes: dict[str, Any] = {
        "command": text("command", server.command),
        "args": tuple(text(f"args[{index}]", value) for index, value in enumerate(server.args)),
        "env": _each("env", server.env, text),
        "cwd": text("cwd", server.cwd),
        "url": text("url", server.url),
        "headers": _each("headers", server.headers, text),
    }
    if problems:
        raise ConfigError("mcpServers", problems)
    try:
        return attrs.evolve(server, **changes)
    except ValueError as error:
        raise ConfigError("mcpServers", [f"{name}: {error}"]) from error


def _each(field: str, values: Mapping[str, str], text: Callable[[str, str], str]) -> dict[str, str]:
    return {key: text(f"{field}.{key}", value) for key, value in values.items()}


def _value(server: str, where: str, match: re.Match[str], environ: Mapping[str, str], problems: list[str]) -> str:
    known = _NAME.fullmatch(match["inside"])
    if known is None:
        problems.append(f"{server}.{where}: {match[0]} is not a reference; write ${{NAME}} or ${{NAME:-default}}")
        return ""
    found = environ.get(known["name"]) or known["default"]
    if found is None:
        name = known["name"]
        problems.append(f"{server}.{where}: the environment has no {name}; set it, or write ${{{name}:-default}}")
    return found or ""
