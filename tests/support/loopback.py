"""What every server on loopback is that tests start in their own event loop."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Self, cast


class Loopback:
    """A server for the length of a block; a subclass says in ``serve`` what a connection is given."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self._wanted = port
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._wanted, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client; the connection is closed afterwards."""
        raise TypeError(f"{type(self).__name__} does not say what it answers: write serve(self, reader, writer)")

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handlers.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            # Cancelled at the end of the block; a stream server of asyncio complains of handlers that are.
            with suppress(asyncio.CancelledError):
                await self.serve(reader, writer)
        finally:
            writer.close()
