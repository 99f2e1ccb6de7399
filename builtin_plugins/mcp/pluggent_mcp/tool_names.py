"""Names of tools: a server's prefix, two underscores, the tool. Always the same, and never two alike.

A prefix holds no two underscores in a row and ends in none, so that where it ends is never in
doubt. What had to be changed to fit ends in a hash of what it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from pluggent_hookspecs import ConfigError

from pluggent_mcp.settings import LONGEST_PREFIX, Server

LONGEST = 64
"""Characters that every vendor allows in the name of a tool: ``^[A-Za-z0-9_-]{1,64}$``."""
SEPARATOR = "__"

_ODD = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def prefixes(servers: Mapping[str, Server]) -> Mapping[str, str]:
    """Return the prefix of each server. Raises ConfigError if two have the same.

    >>> dict(prefixes({"my files": Server(command="x"), "git": Server(command="y", prefix="vcs")}))
    {'my files': 'my_files_3c02e611', 'git': 'vcs'}
    """
    found = {name: server.prefix or _prefix(name) for name, server in servers.items()}
    owners: dict[str, list[str]] = {}
    for name, prefix in found.items():
        owners.setdefault(prefix, []).append(name)
    if twice := {prefix: names for prefix, names in owners.items() if len(names) > 1}:
        raise ConfigError(
            "mcpServers", [f"{' and '.join(names)} have one prefix: {prefix}" for prefix, names in twice.items()]
        )
    return found


def tool_name(prefix: str, tool: str) -> str:
    """Return what the model calls *tool*.

    >>> tool_name("files", "read_file"), tool_name("files", "read file")
    ('files__read_file', 'files__read_file_1214148e')
    """
    length = LONGEST - len(prefix) - len(SEPARATOR)
    return f"{prefix}{SEPARATOR}{_fitted(tool, length)}"


def _prefix(server: str) -> str:
    name = re.sub(r"_{2,}", "_", _ODD.sub("_", server)).strip("_-")
    return _fitted(name, LONGEST_PREFIX, server) if name == server else _hashed(name, LONGEST_PREFIX, server)


def _fitted(name: str, length: int, original: str = "") -> str:
    safe = _ODD.sub("_", name)
    return safe if safe == name and 0 < len(safe) <= length else _hashed(safe, length, original or name)


def _hashed(name: str, length: int, original: str) -> str:
    digest = hashlib.sha256(original.encode(errors="surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: length - _HASH - 1].rstrip('_')}_{digest}".lstrip("_")
