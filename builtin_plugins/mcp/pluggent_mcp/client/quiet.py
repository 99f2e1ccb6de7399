"""Keeps what the SDK logs about our servers off other people's terminals: it holds what servers said.

The SDK writes whole messages and tracebacks to loggers of its own, at levels that are shown where
nobody has configured logging. What it logs while it works for a connection of ours goes to that
connection's logger, at level DEBUG; what it logs for others stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from pluggent_mcp.client.link import LONGEST_LINE, Link

SPEAKING: ContextVar[Link | None] = ContextVar("pluggent_mcp_speaking", default=None)
"""The connection for which the SDK works in this context."""

LOGGERS = (
    "client",  # the SDK's name for that of its sessions
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)


class _Aside(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        link = SPEAKING.get()
        if link is None:
            return True
        if link.log.isEnabledFor(logging.DEBUG):
            text = record.getMessage()[:LONGEST_LINE].encode(errors="replace")
            link.log.debug("SDK, %s: %s", record.levelname.lower(), link.shown(text))
        return False


_ASIDE = _Aside()


def keep_aside() -> None:
    """Begin with it; more than once does no more."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_ASIDE)


@contextmanager
def speaking(link: Link) -> Generator[None]:
    """Say that the SDK works for *link* meanwhile."""
    token = SPEAKING.set(link)
    try:
        yield
    finally:
        SPEAKING.reset(token)
