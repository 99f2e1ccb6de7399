"""Servers in a JSON file of the shape that other MCP hosts use: ``{"mcpServers": {...}}``, or ``"servers"`` in VS Code.

A key of another host that is not known here never loosens anything: it is ignored where ignoring
it allows nothing more, and is an error where it may be a misspelt key of ours, or may narrow
what the server is used for.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import attrs
from pluggent_hookspecs import ConfigError

from pluggent_mcp.oauth.settings import in_file, problem_in_file
from pluggent_mcp.settings import Server, Settings, name_problems

MAX_BYTES = 1 << 20

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
_KNOWN = tuple(field.name for field in attrs.fields(Server))
_LISTS = ("args", "allow", "block")
_TABLES = ("env", "headers", "pins")


class Broken(NamedTuple):
    """An entry of a file that is not a server: why, and whether it is required."""

    error: ConfigError
    required: bool


class Entries(NamedTuple):
    """The servers in a file, the entries that are broken, and what is wrong with the file as a whole."""

    servers: Mapping[str, Server]
    broken: Mapping[str, Broken]
    problems: Sequence[str]


def entries_of(settings: Settings) -> Entries:
    """Return all servers of *settings*, those in its file too. Raises ConfigError for a file that cannot be used."""
    found = Entries({}, {}, ()) if settings.file is None else read_entries(settings.file.expanduser())
    broken = {name: each for name, each in found.broken.items() if name not in settings.mcpServers}
    return Entries({**found.servers, **settings.mcpServers}, broken, ())


def servers_of(settings: Settings) -> Mapping[str, Server]:
    """Return all servers of *settings* that are not broken. Raises ConfigError as ``entries_of``."""
    return entries_of(settings).servers


def ignored_keys_of(settings: Settings) -> list[str]:
    """Return a message for each ignored key in the file of *settings*. Raises ConfigError if it is unreadable."""
    return [] if settings.file is None else ignored_keys(read_document(settings.file.expanduser()))


def read_entries(file: Path) -> Entries:
    """Return what is in *file*. Raises ConfigError for what is wrong with it as a whole."""
    entries = entries_in(read_document(file), str(file))
    if entries.problems:
        raise ConfigError(str(file), entries.problems)
    return entries


def read_document(file: Path) -> Any:
    """Return what *file* holds. Raises ConfigError for a file that is unreadable, too long or not JSON."""
    try:
        with open(file, "rb", opener=_without_waiting) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ConfigError(str(file), ["is not a regular file"])
            text = opened.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise ConfigError(str(file), [f"longer than {MAX_BYTES:,} bytes"])
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigError(str(file), [f"cannot be read: {why}"]) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open *path* as open() does; a pipe without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def servers_in(document: Any) -> tuple[Mapping[str, Server], list[str]]:
    """Return the servers in *document* and everything that is wrong with it.

    >>> servers_in({"mcpServers": {"time": {"comand": "mcp-server-time"}}})[1]
    ["mcpServers.time.comand: unknown; did you mean 'command'?"]
    """
    entries = entries_in(document)
    return entries.servers, [
        *entries.problems,
        *(each for one in entries.broken.values() for each in one.error.problems),
    ]


def entries_in(document: Any, where: str = "") -> Entries:
    """Return the servers in *document*, which *where* holds, and what is wrong with each other entry."""
    if not isinstance(document, dict):
        return Entries({}, {}, ['expected {"mcpServers": {...}}'])
    table = cast("dict[str, Any]", document)
    place = place_of(table)
    unknown = {key: problem_of_top_key(key, value) for key, value in table.items() if key not in (place, "$schema")}
    problems = [f"{key}: {problem}" for key, problem in unknown.items() if problem]
    listed: Any = table.get(place)
    if not isinstance(listed, dict):
        return Entries({}, {}, [*problems, f"{place}: {_expected(dict, listed)}"])
    found: dict[str, Server] = {}
    broken: dict[str, Broken] = {}
    for name, value in cast("dict[str, Any]", listed).items():
        entry = with_http_url(value)
        wrong = [f"{place}: {problem}" for problem in name_problems({name: entry})]
        wrong += [f"{place}.{name}{problem}" for problem in _wrong(entry)]
        try:
            if not wrong:
                found[name] = Server(**_understood(entry))
        except (TypeError, ValueError) as error:
            wrong = [f"{place}.{name}: {error.args[0]}"]
        if wrong:
            required = isinstance(entry, dict) and cast("dict[str, Any]", entry).get("required") is True
            broken[name] = Broken(ConfigError(where, wrong), required)
    return Entries(found, broken, problems)


def place_of(table: Mapping[str, Any]) -> str:
    """Return the key of the servers in a file: ``mcpServers``, or ``servers`` as VS Code has it."""
    return "servers" if "servers" in table and "mcpServers" not in table else "mcpServers"


def with_http_url(entry: Any) -> Any:
    """Return *entry* with Gemini's ``httpUrl``, which comes before its ``url``, as our url.

    >>> with_http_url({"httpUrl": "https://a.test/mcp"})
    {'url': 'https://a.test/mcp', 'type': 'http'}
    """
    if not isinstance(entry, dict) or "httpUrl" not in entry or "command" in entry:
        return cast("object", entry)
    given = cast("dict[str, Any]", entry)
    rest = {key: value for key, value in given.items() if key not in ("httpUrl", "url", "type")}
    return {**rest, "url": given["httpUrl"], "type": "http"}


def ignored_keys(document: Any) -> list[str]:
    """Return a message for each ignored key of the servers in a *document* that is valid as a whole.

    >>> ignored_keys({"mcpServers": {"time": {"command": "mcp-server-time", "icon": "clock.png"}}})
    ['mcpServers.time.icon: left aside, for nothing here knows it']
    """
    place = place_of(document)
    return [
        f"{place}.{name}.{key}: left aside, for nothing here knows it"
        for name, entry in document[place].items()
        if isinstance(entry, dict)
        for key in with_http_url(entry)
        if key not in _KNOWN and key not in IGNORED_KEYS
    ]


def _understood(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return of *entry* what a Server knows; what is null is not given."""
    known = {key: value for key, value in entry.items() if key in _KNOWN and value is not None}
    if "oauth" in known:
        known["oauth"] = in_file(known["oauth"])
    return {**known, "type": type_of(known["type"])} if "type" in known else known


def _wrong(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f": {_expected(dict, value)}"
        return
    entry = cast("dict[str, Any]", value)
    for key, item in entry.items():
        if key in _KNOWN:
            yield from () if item is None else _unfit(key, item)
        elif key not in IGNORED_KEYS and (problem := problem_of_key(key, item, entry, _KNOWN)):
            yield f".{key}: {problem}"


def _unfit(key: str, item: Any) -> Iterator[str]:
    if key in _KINDS:
        fits = type(item) is _KINDS[key] or (_KINDS[key] is float and type(item) is int)
        yield from () if fits else (f".{key}: {_expected(_KINDS[key], item)}",)
    elif key in _LISTS:
        yield from _no_texts(key, item)
    elif key == "oauth":
        yield from (f".oauth{problem}" for problem in filter(None, (problem_in_file(item),)))
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


IGNORED_KEYS = frozenset({"alwaysAllow", "autoApprove", "description", "timeout"})
"""Known keys of other hosts that are ignored without a message: they approve nothing here."""

SIMILAR, SAME = 0.72, 0.85
"""Similarity, 0 to 1, from which a key may be a misspelt key of ours, and from which it surely is."""

_TYPES: Mapping[str, str] = {"stdio": "stdio", "sse": "sse", "http": "http", "streamablehttp": "http"}
_NARROWING = re.compile(
    r"tool|den[iy]|block|exclu|inclu|forbid|disab|enab|allow|active|restrict|readonly|permission|approv|confirm|sandbox"
)
_ABOUT_SERVERS = re.compile(r"mcp|server|tool")
_OF_TOOLS = ("tool", "tools")
_NARROWERS = ("allow", "block")
"""Our own keys that restrict the tools: an entry with one of them was written for this host."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})


def problem_of_key(key: str, value: Any, entry: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return why the unknown *key* of a server cannot be ignored; empty if it can.

    >>> known = ["allow", "block", "env"]
    >>> problem_of_key("blok", ["rm"], {}, known)
    "unknown; did you mean 'block'?"
    >>> problem_of_key("excludeTools", ["rm"], {}, known)
    'unknown, and it may narrow what the server is used for; say so in allow, block or disabled'
    >>> problem_of_key("envFile", ".env", {}, known)
    ''
    """
    narrowing = _NARROWING.search(_folded(key)) is not None
    if meant := closest_name(key, known, SAME if narrowing else SIMILAR):
        return f"unknown; did you mean '{meant}'?"
    said = _folded(key).endswith(_OF_TOOLS) and any(entry.get(own) for own in _NARROWERS)
    if narrowing and value not in _NOTHING and not said:
        return "unknown, and it may narrow what the server is used for; say so in allow, block or disabled"
    return ""


def problem_of_top_key(key: str, value: Any) -> str:
    """Return why *key*, next to ``mcpServers``, cannot be ignored; empty if it can.

    >>> problem_of_top_key("mcp_servers", {}), problem_of_top_key("globalShortcut", "Ctrl+Space")
    ("unknown; did you mean 'mcpServers'?", '')
    """
    if closest_name(key, ["mcpServers"]):
        return "unknown; did you mean 'mcpServers'?"
    if _ABOUT_SERVERS.search(_folded(key)) and value not in _NOTHING:
        return "unknown, and it may be about the servers; say it in their own tables"
    return ""


def type_of(word: str) -> str:
    """Return our name of a transport.

    >>> type_of("streamableHttp"), type_of("streamable-http"), type_of("pigeon")
    ('http', 'http', 'pigeon')
    """
    return _TYPES.get(_folded(word), word)


def closest_name(word: str, known: Iterable[str], cutoff: float = SIMILAR) -> str:
    """Return the one of *known* that is closest to *word*, empty if none is similar."""
    plain = {_folded(name): name for name in sorted(known)}
    close = difflib.get_close_matches(_folded(word), plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else ""


def _folded(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
