"""Providers of every wire against a mock of their servers that others wrote: npm @copilotkit/aimock."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anthropic_server
import openai_server
import pytest
from aimock_peer import LONG, ODD_FIXTURES, aimock_at_work, cut_short, text_of
from pluggent_hookspecs import (
    Finished,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    Reply,
)


class Wire(NamedTuple):
    """A wire: its module of replies, and what its server does in its own way."""

    server: Any
    path: str
    model: str
    overloaded: int
    too_long: tuple[int, int]
    whole: dict[str, Any]
    """Settings without which a whole reply would be made of a stream."""


WIRES = {
    "openai": Wire(openai_server, "/v1", "gpt-4o", 503, (9000, 8192), {}),
    "anthropic": Wire(anthropic_server, "", "opus-5", 529, (215_000, 200_000), {"stream": False}),
}
FIXTURES = [
    *ODD_FIXTURES,
    {"match": {"userMessage": "openai too long"}, "response": {"status": 400, "error": {
        "message": "maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "type": "invalid_request_error", "code": "context_length_exceeded"}}},
    {"match": {"userMessage": "anthropic too long"}, "response": {"status": 400, "error": {
        "message": "prompt is too long: 215000 tokens > 200000 maximum", "type": "invalid_request_error"}}},
    {"match": {"userMessage": "openai overloaded"}, "response": {
        "error": {"message": "Overloaded", "type": "server_error"}, "status": 503}},
    {"match": {"userMessage": "anthropic overloaded"}, "response": {
        "error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529}},
    {"match": {"userMessage": "cut"}, "response": {"content": LONG}, "truncateAfterChunks": 6, "latency": 30},
]  # fmt: skip


@pytest.fixture(scope="module", params=WIRES)
def wire(request):
    return request.param


@pytest.fixture(scope="module")
def url(wire, peers_folder: Path, tmp_path_factory):
    """Start the mock, one for each wire: it counts requests of a kind. Return its URL."""
    with aimock_at_work(peers_folder, tmp_path_factory.mktemp("aimock"), FIXTURES) as found:
        yield found + WIRES[wire].path


@pytest.fixture
async def provider(wire, url, request):
    streamed = request.node.callspec.params.get("streamed", True)
    how = {} if streamed else WIRES[wire].whole
    provider = WIRES[wire].server.provider_at(url, silence_s=5, first_byte_s=5, **how)
    yield provider
    await provider.close()


both = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@pytest.fixture
def asked(wire) -> Callable[[str], ModelRequest]:
    return lambda text: ModelRequest(WIRES[wire].model, (Message.user(text),))


async def response_of(provider, request: ModelRequest, *, streamed: bool) -> ModelResponse:
    if not streamed:
        return await provider.complete(request)
    reply = Reply()
    async for batch in provider.stream(request):
        reply.add(batch)
    return reply.response()


async def failure_of(provider, request: ModelRequest, *, streamed: bool) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await response_of(provider, request, streamed=streamed)
    assert openai_server.KEY not in str(caught.value)
    assert anthropic_server.KEY not in str(caught.value)
    return caught.value


async def test_a_long_text_comes_in_pieces(provider, asked):
    found = [delta async for batch in provider.stream(asked("tell")) for delta in batch]

    assert text_of(found) == LONG
    assert isinstance(found[-1], Finished)


async def test_a_rate_limit_says_when_to_come_back_and_passes(provider, asked):
    error = await failure_of(provider, asked("limited"), streamed=True)
    reply = await response_of(provider, asked("limited"), streamed=True)

    assert (error.kind, error.retry_after, error.retryable) == (Kind.RATE_LIMITED, 7.0, True)
    assert reply.message.text == "At last."


@both
async def test_a_request_that_is_too_long_says_by_how_much(wire, provider, asked, streamed):
    error = await failure_of(provider, asked(f"{wire} too long"), streamed=streamed)

    assert (error.kind, error.retryable) == (Kind.CONTEXT_LENGTH, False)
    assert (error.actual, error.limit) == WIRES[wire].too_long


@both
async def test_an_overloaded_server_is_unavailable(wire, provider, asked, streamed):
    error = await failure_of(provider, asked(f"{wire} overloaded"), streamed=streamed)

    assert (error.kind, error.status) == (Kind.UNAVAILABLE, WIRES[wire].overloaded)


async def test_a_stream_that_is_cut_is_broken_after_what_came(provider, asked):
    text, error = await cut_short(provider, asked("cut"))

    assert error.kind is Kind.STREAM_BROKEN
    assert text
    assert LONG.startswith(text)


@both
async def test_malformed_json_is_a_protocol_error(provider, asked, streamed):
    assert (await failure_of(provider, asked("malformed"), streamed=streamed)).kind is Kind.PROTOCOL


@both
async def test_a_hang_up_is_worth_another_try(provider, asked, streamed):
    error = await failure_of(provider, asked("hang up"), streamed=streamed)

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, True)


async def test_a_slow_stream_is_given_up(wire, url, asked):
    hasty = WIRES[wire].server.provider_at(url, silence_s=0.2, first_byte_s=0.2)
    async with asyncio.timeout(10):
        error = await failure_of(hasty, asked("slow"), streamed=True)
    await hasty.close()

    assert error.kind is Kind.TIMEOUT
