"""Connections over HTTP: those on which nobody asks for anything take nothing from those who do.

The headers of a request have a time limit, which uvicorn does not know. And where there are too
many connections, the one that has said nothing for the longest makes room for the next.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEADERS_S = 5.0
"""How long the headers of a request may take to arrive, from the connection's beginning or their first byte."""


def limited(request_timeout_s: float) -> type[H11Protocol]:
    """Return how connections are handled where a whole request may take that long."""

    class Limited(Connection):
        headers_s = min(HEADERS_S, request_timeout_s)

    return Limited


class Connection(H11Protocol):
    """One connection, which may be silent, or slow, only so long."""

    headers_s = HEADERS_S

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.silent_since = 0.0
        """Since when nothing has been asked for on it, if that is so."""
        self._waiting: asyncio.TimerHandle | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is asked for on it now, and everything was answered."""
        return not self._asked and self.transport.get_write_buffer_size() == 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self.silent_since = self.loop.time()
        self._wait()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Wait on, or no longer, if that was the end of the headers."""
        super().data_received(data)
        if self._asked:
            self._wait_no_more()
        elif self._waiting is None:
            self._wait()

    def on_response_complete(self) -> None:
        """Be silent again. That it does not last for ever is uvicorn's to see to, until something is said."""
        self.silent_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def _asked(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.headers_s, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _make_room(self) -> None:
        """Drop who has been silent for the longest, if this one would be refused otherwise."""
        if self.limit_concurrency is None or len(self.connections) < self.limit_concurrency:
            return
        others: list[Connection] = [each for each in self.connections if isinstance(each, Connection)]
        silent = (each for each in others if each is not self and each.silent)
        oldest = min(silent, key=_silent_since, default=None)
        if oldest is not None:
            self.connections.discard(oldest)
            oldest.transport.abort()


def _silent_since(connection: Connection) -> float:
    return connection.silent_since
