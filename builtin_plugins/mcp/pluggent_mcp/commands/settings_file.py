"""Servers in the user's settings file: added and removed; every other byte stays as it is.

Tables are found by their headers, and the result is parsed and compared before it is written. A
file with servers in another notation (inline, dotted) is refused.

tomlkit is not used: when it removes a table, it also removes the comment above the next header,
and it inserts a new table between the user's tables.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs import ConfigError, private_folder
from pluggent_hookspecs.folders import home_folder

from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

SECTION = ("plugins", "pluggent-mcp", "mcpServers")
MAX_BYTES = 1 << 20

_HEADER = re.compile(r"\s*\[(?!\[).*\]\s*(?:#.*)?")
_ANY_HEADER = re.compile(r"\s*\[.*\]\s*(?:#.*)?")


def user_file(environ: Mapping[str, str]) -> Path:
    """Return where the user's settings are, as the host finds them."""
    given = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = given if given.is_absolute() else Path(home_folder(environ), ".config")
    return folder / "pluggent" / "pluggent.toml"


def read(path: Path) -> str:
    """Return the file's text, empty where there is none. Raises ConfigError for an unreadable or invalid file."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror or error}"]) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(str(path), [f"longer than {MAX_BYTES:,} bytes"])
    try:
        text = data.decode()
        tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(str(path), [f"is not TOML: {error}"]) from error
    return text


def written_servers(text: str) -> Mapping[str, Any]:
    r"""Return the servers in *text*.

    >>> list(written_servers('[plugins.pluggent-mcp.mcpServers.time]\ncommand = "x"'))
    ['time']
    """
    found: Any = tomllib.loads(text)
    for name in SECTION:
        found = cast("dict[str, Any]", found).get(name, {}) if isinstance(found, dict) else {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def with_server(text: str, name: str, block: str) -> str:
    """Return *text* with *block*, the tables of server *name*, behind it. Raises ValueError where that cannot be."""
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else end if text.endswith("\n") else end * 2
    made = text + gap + block.replace("\n", end)
    if not _says(made, _set(tomllib.loads(text), name, written_servers(block)[name])):
        raise ValueError("its servers are written in a form to which no table can be added")
    return made


def without_server(text: str, name: str) -> str:
    """Return *text* without the tables of server *name*. Raises ValueError where they cannot be separated."""
    lines = text.splitlines(keepends=True)
    cut = _cut(lines, (*SECTION, name))
    made = "".join(line for number, line in enumerate(lines) if number not in cut)
    if not _says(made, _set(tomllib.loads(text), name, None)):
        raise ValueError("it is written in a form in which it cannot be separated from the rest")
    return made


def edited(path: Path, name: str, how: Callable[..., str], *arguments: str) -> str:
    """Return what *how*, one of the above, makes of *arguments*. Raises ConfigError where it can make nothing."""
    try:
        return how(*arguments)
    except ValueError as error:
        raise ConfigError(str(path), [f"mcpServers.{name}: {error}; change it by hand"]) from error


def _cut(lines: list[str], path: tuple[str, ...]) -> set[int]:
    """Return the numbers of the lines of all tables at and below *path*, and of one empty line before them."""
    cut: set[int] = set()
    inside = False
    for number, line in enumerate(lines):
        if _ANY_HEADER.fullmatch(line.rstrip("\r\n")):
            before, inside = inside, _path(line)[: len(path)] == path
            if inside and not before and number and not lines[number - 1].strip():
                cut.add(number - 1)
            if before and not inside:
                cut -= _of_the_next(lines, number, cut)
        if inside:
            cut.add(number)
    return cut


def _of_the_next(lines: list[str], header: int, cut: set[int]) -> set[int]:
    """Return the lines before a header that are its own: comments, and what is empty, back to an empty line."""
    above = header
    while above - 1 in cut and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    empty = above
    while empty - 1 in cut and not lines[empty - 1].strip():
        empty -= 1
    return set(range(empty, header)) if empty < above else set()


def _path(line: str) -> tuple[str, ...]:
    if not _HEADER.fullmatch(line.rstrip("\r\n")):
        return ()
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(found, dict) and found:
        ((name, found),) = cast("dict[str, Any]", found).items()
        path.append(name)
    return tuple(path)


def _says(text: str, document: dict[str, Any]) -> bool:
    """Say whether *text* is *document*, but for tables that are empty."""
    try:
        return _full(tomllib.loads(text)) == _full(document)
    except tomllib.TOMLDecodeError:
        return False


def _set(document: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return *document* with server *name* as *value*, without it for None."""
    servers = document
    for key in SECTION:
        servers = servers.setdefault(key, {})
    if value is None:
        del servers[name]
    else:
        servers[name] = value
    return document


def _full(document: dict[str, Any], path: tuple[str, ...] = SECTION) -> dict[str, Any]:
    """Return *document* without those tables on *path* that are empty: they may stand there, or not."""
    if not path or path[0] not in document:
        return document
    inner = _full(document[path[0]], path[1:])
    rest = {key: value for key, value in document.items() if key != path[0]}
    return {**rest, path[0]: inner} if inner else rest


def write(path: Path, text: str) -> None:
    """Put *text* in the place of the file, whole or not at all; its mode stays. Raises ConfigError."""
    real = Path(os.path.realpath(path))
    try:
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        private_folder(real.parent)
        descriptor, temporary = tempfile.mkstemp(prefix=".pluggent.", dir=real.parent)
        try:
            with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor)
                file.write(text.encode())
            Path(temporary).chmod(mode)
            Path(temporary).replace(real)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror or error}"]) from error


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
