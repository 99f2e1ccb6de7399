"""Log records about a server: those that it sends, and those that the SDK writes while it works for the server."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from pluggent_hookspecs import LOG_LEVELS, Json

from pluggent_mcp.client.status import LONGEST_LINE, ServerStatus
from pluggent_mcp.client.tool_list import shown
from pluggent_mcp.settings import OFF

LONGEST_MESSAGE = 2_000
LONGEST_DATA = 8_000
"""Characters of what a server logs as JSON; longer data is left out."""
LONGEST_PART = 100

_WORDS = ("message", "msg", "text")
"""Fields of logged objects that hold the message."""


def wanted(level: str, least: str) -> bool:
    """Return whether a record of *level* is passed on if *least* is set.

    >>> wanted("info", "warning"), wanted("alert", "warning"), wanted("alert", "off")
    (False, True, False)
    """
    return least != OFF and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def entry(data: Any, status: ServerStatus) -> tuple[str, Json]:
    """Return the message of a record, and its data if it was more than text.

    >>> from pluggent_mcp.settings import Server
    >>> entry({"msg": "slow", "ms": 900}, ServerStatus("a", Server(command="x")))
    ('slow', {'msg': 'slow', 'ms': 900})
    """
    if isinstance(data, str):
        return _text(data, status), None
    size = len(json.dumps(data, ensure_ascii=False))
    small: Json = _clean(data, status) if size <= LONGEST_DATA else None
    found = _sentence(data)
    if found:
        return _text(found, status), small
    if size > LONGEST_DATA:
        return f"[{size:,} characters of data, which are left out]", None
    return _text(json.dumps(small, ensure_ascii=False), status), small


def part(logger: str | None, status: ServerStatus) -> str:
    """Return the name of the part of the server that logs."""
    return _text(logger or "", status, LONGEST_PART)


def _sentence(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    fields = cast("dict[str, object]", data)
    return next((said for word in _WORDS if isinstance(said := fields.get(word), str) and said), "")


def _text(text: str, status: ServerStatus, limit: int = LONGEST_MESSAGE) -> str:
    # Secrets are replaced before the text is cut: a cut secret would not be recognised.
    return shown(status.shown(text.encode(errors="replace")), limit)


def _clean(value: Any, status: ServerStatus) -> Json:
    match value:
        case str():
            return _text(value, status, LONGEST_DATA)
        case list():
            return [_clean(item, status) for item in cast("list[object]", value)]
        case dict():
            return {
                _text(key, status, LONGEST_DATA): _clean(item, status)
                for key, item in cast("dict[str, object]", value).items()
            }
        case _:
            return cast("Json", value)


CURRENT_STATUS: ContextVar[ServerStatus | None] = ContextVar("pluggent_mcp_speaking", default=None)
"""The connection that the SDK works for in this context."""

LOGGERS = (
    "client",  # the SDK's name for that of its sessions
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)


class _SdkFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        status = CURRENT_STATUS.get()
        if status is None:
            return True
        if status.log.isEnabledFor(logging.DEBUG):
            text = status.shown(record.getMessage().encode(errors="replace"))
            status.log.debug("SDK, %s: %s", record.levelname.lower(), text[:LONGEST_LINE])
        return False


_SDK_FILTER = _SdkFilter()


def filter_sdk_loggers() -> None:
    """Add the filter to the loggers of the SDK; idempotent."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_SDK_FILTER)


@contextmanager
def sdk_logs_of(status: ServerStatus) -> Generator[None]:
    """Attribute log records of the SDK to *status* in this block."""
    token = CURRENT_STATUS.set(status)
    try:
        yield
    finally:
        CURRENT_STATUS.reset(token)
