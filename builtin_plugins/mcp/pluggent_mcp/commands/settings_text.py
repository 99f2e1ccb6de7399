"""A server as TOML, with what its tools may be thought to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs

from pluggent_mcp.commands.settings_file import SECTION
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TABLES = ("effects", "pins")


def block(
    name: str, server: Server, proposed: Mapping[str, tuple[str, ...] | None], pins: Mapping[str, str], *, accept: bool
) -> str:
    """Return the tables of *server*.

    *proposed* is what each tool says of itself, None where it says nothing: a comment, unless
    *accept*. What *server* says of a tool stands.

    >>> print(block("time", Server(command="x"), {"now": ("network_read",)}, {"now": "ab" * 8}, accept=False))
    [plugins.pluggent-mcp.mcpServers.time]
    command = "x"
    <BLANKLINE>
    [plugins.pluggent-mcp.mcpServers.time.effects]
    # now = ["network_read"]
    <BLANKLINE>
    [plugins.pluggent-mcp.mcpServers.time.pins]
    now = "abababababababab"
    <BLANKLINE>
    """
    path = ".".join(map(bare_or_quoted, (*SECTION, name)))
    parts = ["\n".join((f"[{path}]", *_fields(server)))]
    effects = [*_said(server), *_proposals(server, proposed, accept=accept)]
    if effects:
        parts.append("\n".join((f"[{path}.effects]", *effects)))
    pinned = {**pins, **server.pins}
    if pinned:
        parts.append(
            "\n".join((f"[{path}.pins]", *(f"{bare_or_quoted(tool)} = {_text(pin)}" for tool, pin in pinned.items())))
        )
    return "\n\n".join(parts) + "\n"


def _fields(server: Server) -> Iterator[str]:
    """Yield what is not as it is by itself."""
    for field in attrs.fields(Server):
        value: Any = getattr(server, field.name)
        default: Any = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type,union-attr]
        if field.name not in _TABLES and value != default:
            yield f"{field.name} = {_value(value)}"


def _said(server: Server) -> Iterator[str]:
    for tool, effects in server.effects.items():
        yield f"{bare_or_quoted(tool)} = {_value(effects)}"


def _proposals(server: Server, proposed: Mapping[str, tuple[str, ...] | None], *, accept: bool) -> Iterator[str]:
    for tool, effects in proposed.items():
        if tool in server.effects:
            continue
        if effects is None:
            yield f'# {bare_or_quoted(tool)} = ["?"]  # it says nothing of itself, so it asks'
        else:
            yield f"{'' if accept else '# '}{bare_or_quoted(tool)} = {_value(effects)}"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _text(str(value))
        case OAuth():
            told = {
                name: item for name, item in attrs.asdict(value).items() if item
            }  # a file that has a secret is refused
            return _value(told or True)
        case Mapping():
            items = cast("Mapping[str, Any]", value).items()
            return "{ " + ", ".join(f"{bare_or_quoted(key)} = {_value(item)}" for key, item in items) + " }"
        case _:
            return "[" + ", ".join(_value(item) for item in value) + "]"


def bare_or_quoted(name: str) -> str:
    """Return *name* as a key of TOML."""
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    # TOML's basic strings are JSON's, but that DEL is escaped, and pairs of surrogates are not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
