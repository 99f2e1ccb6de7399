"""How a stream of bytes is cut into events: what every framing offers to ReplyReader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias


class FramingError(Exception):
    """A stream is damaged; the message says how, ``before`` holds the events that came before the damage."""

    def __init__(self, problem: str, before: Sequence[bytes] = ()) -> None:
        super().__init__(problem)
        self.before = list(before)


class Feed(Protocol):
    """Takes what each read brought and gives the data of the events that it completed."""

    max_event_bytes: int

    @property
    def whole(self) -> bytes | None:
        """The answer so far if it is not a stream; None if it is one."""
        ...

    def feed(self, data: bytes) -> list[bytes]:
        """Return the data of the events that *data* completes. Raises FramingError."""
        ...

    def end(self) -> list[bytes]:
        """Return the data of an event that the end of the answer completes; it may be cut."""
        ...


Framing: TypeAlias = Callable[[int], Feed]
"""Makes the feed of one answer for events of so many bytes at most."""
