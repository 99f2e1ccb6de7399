"""What a server logs, made fit for whoever watches the call: bounded, printable, without the server's secrets."""

from __future__ import annotations

import json
from typing import Any, cast

from pluggent_hookspecs import LOG_LEVELS, Json

from pluggent_mcp.client.link import Link
from pluggent_mcp.client.offered import shown
from pluggent_mcp.settings import OFF

LONGEST_MESSAGE = 2_000
LONGEST_DATA = 8_000
"""Characters of what a server logs as JSON; longer data is left out."""
LONGEST_PART = 100

_WORDS = ("message", "msg", "text")
"""Where a server that logs objects has the sentence in them."""


def wanted(level: str, least: str) -> bool:
    """Say whether what is logged at *level* is told where *least* is set.

    >>> wanted("info", "warning"), wanted("alert", "warning"), wanted("alert", "off")
    (False, True, False)
    """
    return least != OFF and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def entry(data: Any, link: Link) -> tuple[str, Json]:
    """Return what is logged as a sentence for people, and, where it was more than a text, as data.

    >>> from pluggent_mcp.settings import Server
    >>> entry({"msg": "slow", "ms": 900}, Link("a", Server(command="x")))
    ('slow', {'msg': 'slow', 'ms': 900})
    """
    if isinstance(data, str):
        return _text(data, link), None
    size = len(json.dumps(data, ensure_ascii=False))
    small: Json = _clean(data, link) if size <= LONGEST_DATA else None
    found = _sentence(data)
    if found:
        return _text(found, link), small
    if size > LONGEST_DATA:
        return f"[{size:,} characters of data, which are left out]", None
    return _text(json.dumps(small, ensure_ascii=False), link), small


def part(logger: str | None, link: Link) -> str:
    """Return the name of the part of the server that logs."""
    return _text(logger or "", link, LONGEST_PART)


def _sentence(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    fields = cast("dict[str, object]", data)
    return next((said for word in _WORDS if isinstance(said := fields.get(word), str) and said), "")


def _text(text: str, link: Link, limit: int = LONGEST_MESSAGE) -> str:
    # Whole, and only then cut: of a secret that is cut nobody would see that it is one.
    return shown(link.shown(text.encode(errors="replace")), limit)


def _clean(value: Any, link: Link) -> Json:
    match value:
        case str():
            return _text(value, link, LONGEST_DATA)
        case list():
            return [_clean(item, link) for item in cast("list[object]", value)]
        case dict():
            return {
                _text(key, link, LONGEST_DATA): _clean(item, link)
                for key, item in cast("dict[str, object]", value).items()
            }
        case _:
            return cast("Json", value)
