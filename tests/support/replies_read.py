"""Reads replies as a host does from a provider, and as a provider does without a server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from odd_server import OddServer
from pluggent_hookspecs import ModelRequest, ModelResponse, Provider, ProviderError, Reply
from pluggent_provider_http.reply_reader import ReplyReader


def read_all(reader: ReplyReader, *reads: bytes) -> list[Any]:
    """Return the deltas of a reply that came in these reads, or raise what went wrong."""
    found: list[Any] = []
    for data in reads:
        found += reader.feed(data)
        if reader.failure is not None:
            raise reader.failure
    if not reader.done:
        found += reader.end()
    if reader.failure is not None:
        raise reader.failure
    return found


def reply_in(reader: ReplyReader, *reads: bytes) -> ModelResponse:
    """Return the reply that came in these reads."""
    collected = Reply()
    collected.add(read_all(reader, *reads))
    return collected.response()


def failure_in(reader: ReplyReader, *reads: bytes) -> ProviderError:
    """Return what reading these raises."""
    with pytest.raises(ProviderError) as caught:
        read_all(reader, *reads)
    return caught.value


async def deltas_of(provider: Provider, asked: ModelRequest) -> list[Any]:
    """Return all deltas of a stream in a row."""
    stream: AsyncIterator[Sequence[Any]] = provider.stream(asked)
    return [delta async for batch in stream for delta in batch]


async def error_of(provider: Provider, asked: ModelRequest, *, stream: bool) -> ProviderError:
    """Ask *provider* and return the error that it raises."""
    with pytest.raises(ProviderError) as caught:
        await (deltas_of(provider, asked) if stream else provider.complete(asked))
    return caught.value


async def leave_early(server: OddServer, provider: Provider, asked: ModelRequest, *, stream: bool) -> None:
    """Cancel a call while *server* answers, and wait until that has seen its client leave."""
    task = asyncio.ensure_future(deltas_of(provider, asked) if stream else provider.complete(asked))
    await server.asked.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.left.wait()
