"""A model whose stream gives what a test feeds it, while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import TypeAlias

from pluggent_hookspecs import Message, ModelRequest, ModelResponse, Provider, hookimpl
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.models import Delta, Finished, TextDelta
from pluggent_hookspecs.observations import Observation, TextShown

Batch: TypeAlias = tuple[Delta, ...]


class Live:
    """A provider whose stream gives the batches in ``queue``, or raises an error that it finds there.

    ``streams`` counts the streams that are not closed, ``given`` the batches that were taken.
    """

    name = "live"
    target = "memory:"

    def __init__(self, *batches: Batch | BaseException) -> None:
        self.queue = asyncio.Queue[Batch | BaseException]()
        for batch in batches:
            self.queue.put_nowait(batch)
        self.streams = 0
        self.given = 0

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> list[Provider]:
        return [self]

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(Message.assistant("whole"))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        self.streams += 1
        try:
            while True:
                batch = await self.queue.get()
                if isinstance(batch, BaseException):
                    raise batch
                self.given += 1
                yield batch
                if any(isinstance(delta, Finished) for delta in batch):
                    return
        finally:
            self.streams -= 1


def text(*words: str) -> list[Batch]:
    """Return a batch for each word."""
    return [(TextDelta(word),) for word in words]


async def seen(events: AsyncIterable[Observation]) -> list[str]:
    """Read *events* to their end and return the texts that were shown."""
    return [event.text async for event in events if isinstance(event, TextShown)]
