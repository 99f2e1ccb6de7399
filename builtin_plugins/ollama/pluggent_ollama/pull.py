"""Gets a model onto a server: the request for it, and the progress that the server tells."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import attrs
import msgspec
from pluggent_hookspecs import ProviderError
from pluggent_provider_http.framing import FramingError
from pluggent_provider_http.ndjson import LineFeed
from pluggent_provider_http.payload import MalformedError, as_count, as_object, as_text, decode
from pluggent_provider_http.server_errors import Faults

from pluggent_ollama.addressing import request_headers, with_advice
from pluggent_ollama.provider import OllamaProvider
from pluggent_ollama.settings import Server

PULL = "/api/pull"
_SILENCE_S = 900.0
"""A server says nothing while it checks a large file."""
_MOST_BYTES = 1_073_741_824
_MOST_LINE = 1_048_576
_DONE = "success"


@attrs.frozen
class Progress:
    """What the server is doing: ``status`` in its words, ``completed`` of ``total`` bytes where it counts them."""

    status: str
    completed: int | None = None
    total: int | None = None


async def pull(name: str, server: Server, model: str) -> AsyncGenerator[Progress]:
    """Have *server*, the provider *name*, get *model*, and yield its progress until the model is there.

    Raises ProviderError, also if the server stops before it has said that all is well.
    """
    patient = attrs.evolve(server, silence_s=_SILENCE_S, max_response_bytes=_MOST_BYTES)
    provider = OllamaProvider(name, patient)
    headers, faults = request_headers(patient, Faults(name, provider.target, model, path=PULL))
    body = msgspec.json.encode({"model": model, "stream": True})
    done = False
    try:
        async with provider.http().post(PULL, body, headers, faults) as answer:
            await answer.check()
            async with aclosing(_lines(answer, faults)) as lines:
                async for line in lines:
                    progress = _read(line, faults)
                    done = done or progress.status == _DONE
                    yield progress
        if not done:
            raise faults.broken(f"broke off before {model} was there; pulling again continues")
    except ProviderError as error:
        raise with_advice(error) from error
    finally:
        await provider.close()


async def _lines(answer: AsyncIterator[bytes], faults: Faults) -> AsyncGenerator[bytes]:
    feed = LineFeed(_MOST_LINE)
    try:
        async for data in answer:
            for line in feed.feed(data):
                yield line
    except FramingError as error:
        raise faults.protocol(str(error)) from error
    for line in feed.end():
        yield line


def _read(line: bytes, faults: Faults) -> Progress:
    try:
        said = as_object(decode(line), "a line")
    except MalformedError as error:
        raise faults.protocol(f"sent a line that is no progress: {error}: {faults.shown(line)}") from error
    if said.get("error"):
        raise faults.from_payload(said)
    status = faults.shown(as_text(said.get("status")))
    return Progress(status, as_count(said.get("completed")), as_count(said.get("total")))
