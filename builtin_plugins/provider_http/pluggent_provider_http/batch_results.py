"""Results of a batch, a JSON line each, as they come: read line by line, each id once, what is missing at the end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from typing import Literal

from pluggent_hookspecs import BatchResult, ProviderError

from pluggent_provider_http.framing.feed import FramingError
from pluggent_provider_http.framing.ndjson import LineFeed
from pluggent_provider_http.server_errors import Faults

MOST_LINE_BYTES = 33_554_432
"""A longer result is an error."""
MOST_BYTES = 4_294_967_296
"""All results of a batch; more is an error."""


async def read_lines(
    answer: AsyncIterable[bytes], read: Callable[[bytes], BatchResult | None], faults: Faults
) -> AsyncGenerator[Sequence[BatchResult]]:
    """Yield what *read* makes of each line of *answer*, a page for each read. Raises ProviderError."""
    feed = LineFeed(MOST_LINE_BYTES)
    try:
        async for data in answer:
            if page := [result for line in feed.feed(data) if (result := read(line)) is not None]:
                yield page
    except FramingError as error:
        raise faults.protocol(str(error)) from error
    if page := [result for line in feed.end() if (result := read(line)) is not None]:
        yield page


def failed(id: str, error: ProviderError) -> BatchResult:
    """Return the result of a request that its server refused."""
    return BatchResult(id, "failed", kind=error.kind, message=error.message)


def missing(ids: Iterable[str], status: str) -> list[BatchResult]:
    """Return the results of requests that a batch has ended without, with *status*, the server's word."""
    outcome: Literal["cancelled", "expired", "failed"] = "failed"
    if "cancel" in status:
        outcome = "cancelled"
    elif "expired" in status:
        outcome = "expired"
    return [BatchResult(id, outcome, message=f"the batch has ended without a result ({status})") for id in ids]
