"""Reads servers from a JSON file of the shape that other MCP hosts use: ``{"mcpServers": {...}}``."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_mcp.settings import Server, Settings, name_problems

MAX_BYTES = 1 << 20

FOREIGN = frozenset({"alwaysAllow", "autoApprove", "description", "timeout"})
"""What other hosts read in the same file and we do not: it approves nothing here, and nothing is lost by it."""

_WORDS: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}
_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("type", "command", "cwd", "url", "prefix", "protocol", "log_level"), str),
    **dict.fromkeys(("enabled", "disabled", "required", "trusted", "resources", "prompts"), bool),
    **dict.fromkeys(("start_timeout_s", "call_timeout_s", "stop_timeout_s"), float),
    **dict.fromkeys(("max_message_bytes", "max_tools"), int),
}
_LISTS = ("args", "allow", "block")
_TABLES = ("env", "headers", "pins")


def servers_of(settings: Settings) -> Mapping[str, Server]:
    """Return all servers of *settings*, those in its file too. Raises ConfigError as ``read_servers``."""
    return {**({} if settings.file is None else read_servers(settings.file.expanduser())), **settings.mcpServers}


def read_servers(file: Path) -> Mapping[str, Server]:
    """Return the servers in *file*. Raises ConfigError naming every problem with its path."""
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ConfigError(str(file), [f"longer than {MAX_BYTES:,} bytes"])
        document: Any = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigError(str(file), [f"cannot be read: {why}"]) from error
    servers, problems = servers_in(document)
    if problems:
        raise ConfigError(str(file), problems)
    return servers


def servers_in(document: Any) -> tuple[Mapping[str, Server], list[str]]:
    """Return the servers in *document* and what is wrong with it.

    >>> servers_in({"mcpServers": {"time": {"comand": "mcp-server-time"}}})[1]
    ["mcpServers.time.comand: unknown; did you mean 'command'?"]
    """
    if not isinstance(document, dict):
        return {}, ['expected {"mcpServers": {...}}']
    table = cast("dict[str, Any]", document)
    problems = [
        f"{key}: unknown{_nearest(key, ['mcpServers'])}" for key in table if key not in ("mcpServers", "$schema")
    ]
    listed: Any = table.get("mcpServers")
    if not isinstance(listed, dict):
        return {}, [*problems, f"mcpServers: {_expected(dict, listed)}"]
    servers = cast("dict[str, Any]", listed)
    problems += [f"mcpServers: {problem}" for problem in name_problems(servers)]
    found: dict[str, Server] = {}
    for name, value in servers.items():
        wrong = [f"mcpServers.{name}{problem}" for problem in _wrong(value)]
        try:
            if not wrong:
                found[name] = Server(**{key: item for key, item in value.items() if key not in FOREIGN})
        except (TypeError, ValueError) as error:
            wrong = [f"mcpServers.{name}: {error.args[0]}"]
        problems += wrong
    return found, problems


def _wrong(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f": {_expected(dict, value)}"
        return
    known = [field.name for field in attrs.fields(Server)]
    for key, item in cast("dict[str, Any]", value).items():
        if key in FOREIGN:
            continue
        if key not in known:
            yield f".{key}: unknown{_nearest(key, known)}"
        else:
            yield from _unfit(key, item)


def _unfit(key: str, item: Any) -> Iterator[str]:
    if key in _KINDS:
        fits = type(item) is _KINDS[key] or (_KINDS[key] is float and type(item) is int)
        yield from () if fits else (f".{key}: {_expected(_KINDS[key], item)}",)
    elif key in _LISTS:
        yield from _no_texts(key, item)
    elif not isinstance(item, dict):
        yield f".{key}: {_expected(dict, item)}"
    else:
        for name, value in cast("dict[str, Any]", item).items():
            if key in _TABLES:
                yield from () if type(value) is str else (f".{key}.{name}: {_expected(str, value)}",)
            else:
                yield from _no_texts(f"{key}.{name}", value)


def _no_texts(key: str, items: Any) -> Iterator[str]:
    if not isinstance(items, list):
        yield f".{key}: {_expected(list, items)}"
        return
    for index, item in enumerate(cast("list[object]", items)):
        if type(item) is not str:
            yield f".{key}[{index}]: {_expected(str, item)}"


def _expected(wanted: type, value: object) -> str:
    given = "nothing" if value is None else _WORDS.get(type(value), type(value).__name__)
    return f"expected {_WORDS[wanted]}, got {given}"


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, sorted(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
