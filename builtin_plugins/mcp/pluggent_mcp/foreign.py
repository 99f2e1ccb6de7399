"""What other hosts write into the file that they share with us, and what becomes of it here.

What is not understood never loosens anything: it is left aside where nothing more is allowed
without it, and is an error where it may have been a misspelt word of ours or may narrow something.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

SILENT = frozenset({"alwaysAllow", "autoApprove", "description", "timeout"})
"""Known words of others, not worth a word of ours: they approve nothing here, and nothing is lost by it."""

NEAR, SAME = 0.72, 0.85
"""From which likeness on, 0 to 1, a word may be a misspelt one of ours, and from which it surely is."""

_TYPES: Mapping[str, str] = {"stdio": "stdio", "sse": "sse", "http": "http", "streamablehttp": "http"}
_NARROWING = re.compile(
    r"tool|den[iy]|block|exclu|inclu|forbid|disab|enab|allow|active|restrict|readonly|permission|approv|confirm|sandbox"
)
_ABOUT_SERVERS = re.compile(r"mcp|server|tool")
_OF_TOOLS = ("tool", "tools")
_NARROWERS = ("allow", "block")
"""Our own words for what tools there are: with one of them somebody has thought of us."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})


def misread(key: str, value: Any, entry: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return why *key* of a server, none of *known*, cannot be left aside; empty where it can.

    >>> known = ["allow", "block", "env"]
    >>> misread("blok", ["rm"], {}, known)
    "unknown; did you mean 'block'?"
    >>> misread("excludeTools", ["rm"], {}, known)
    'unknown, and it may narrow what the server is used for; say so in allow, block or disabled'
    >>> misread("envFile", ".env", {}, known)
    ''
    """
    narrowing = _NARROWING.search(_folded(key)) is not None
    if meant := near(key, known, SAME if narrowing else NEAR):
        return f"unknown; did you mean '{meant}'?"
    said = _folded(key).endswith(_OF_TOOLS) and any(entry.get(own) for own in _NARROWERS)
    if narrowing and value not in _NOTHING and not said:
        return "unknown, and it may narrow what the server is used for; say so in allow, block or disabled"
    return ""


def misread_at_top(key: str, value: Any) -> str:
    """Return why *key*, beside ``mcpServers``, cannot be left aside; empty where it can.

    >>> misread_at_top("mcp_servers", {}), misread_at_top("globalShortcut", "Ctrl+Space")
    ("unknown; did you mean 'mcpServers'?", '')
    """
    if near(key, ["mcpServers"]):
        return "unknown; did you mean 'mcpServers'?"
    if _ABOUT_SERVERS.search(_folded(key)) and value not in _NOTHING:
        return "unknown, and it may be about the servers; say it in their own tables"
    return ""


def type_of(word: str) -> str:
    """Return our word for a *word* that says how a server is spoken to.

    >>> type_of("streamableHttp"), type_of("streamable-http"), type_of("pigeon")
    ('http', 'http', 'pigeon')
    """
    return _TYPES.get(_folded(word), word)


def near(word: str, known: Iterable[str], cutoff: float = NEAR) -> str:
    """Return the one of *known* that *word* was probably meant to be, empty if none."""
    plain = {_folded(name): name for name in sorted(known)}
    close = difflib.get_close_matches(_folded(word), plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else ""


def _folded(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
