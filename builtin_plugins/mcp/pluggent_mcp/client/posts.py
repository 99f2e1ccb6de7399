"""Which message an HTTP request is for, so that one for which nobody waits any more can be given up.

In the handshake protocols the SDK tells a server that a call is cancelled, and goes on reading
the answer: of a server that never ends one, a connection would stay behind for each such call.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

MOST_REQUESTS = 500
"""HTTP requests for one message: for the rest of an answer that breaks off it is asked again and again."""
BETWEEN_GETS_S = 0.2
"""The least time between two of them: how soon it wants to be asked again, a server says itself."""


class Post:
    """A message that is sent, and all HTTP requests that are made for its answer, *most* of them."""

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        self.given_up = False
        self._most = most
        self._scopes: set[anyio.CancelScope] = set()
        self._requests = 0
        self._next_get = 0.0

    def wanted(self) -> bool:
        """Count one HTTP request more; return whether it is worth being made."""
        self._requests += 1
        return not self.given_up and self._requests <= self._most

    async def paced(self) -> None:
        """Wait until it is time for another stream."""
        now = anyio.current_time()
        wait_s = self._next_get - now
        self._next_get = max(now, self._next_get) + BETWEEN_GETS_S
        if wait_s > 0:
            await anyio.sleep(wait_s)

    def give_up(self) -> None:
        """End what is waited for."""
        self.given_up = True
        for scope in self._scopes:
            scope.cancel()

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Leave the block where this is given up."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)


_FOR: ContextVar[Post | None] = ContextVar("pluggent_mcp_post", default=None)


def current() -> Post | None:
    """Return the message for which this runs, None where it is none that is answered."""
    return _FOR.get()


@contextmanager
def sending(post: Post | None) -> Generator[None]:
    """Say that what is sent meanwhile is *post*; who sends it for us inherits that."""
    token = _FOR.set(post)
    try:
        yield
    finally:
        _FOR.reset(token)
