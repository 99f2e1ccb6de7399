"""Waits that end, connections that break, answers that are none."""

import asyncio
import socket

import pytest
from openai_server import (
    CLOSE,
    DONE,
    GO,
    HELLO,
    LEAVE,
    LENGTH,
    LENT,
    RESET,
    STOP,
    STREAM_HEAD,
    OddServer,
    answer,
    batches,
    failure_of,
    http_chunk,
    json_answer,
    plugin_at,
    provider_at,
    request,
)
from pluggent_hookspecs import Finished, ProviderError, ProviderErrorKind as Kind, TextDelta

pytestmark = pytest.mark.usefixtures("patience")


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


# ---- time limits ------------------------------------------------------------------------


@both
async def test_a_server_that_never_answers_is_given_up_naming_the_setting(stream):
    async with OddServer((LEAVE,)) as server:
        error = await failure_of(provider_at(server.url, first_byte_s=0.05), stream=stream)
        await server.left.wait()

    assert error.kind is Kind.TIMEOUT
    assert "0.05 s (setting first_byte_s)" in str(error)


@both
async def test_headers_alone_are_no_first_byte(stream):
    async with OddServer((STREAM_HEAD, LEAVE)) as server:
        error = await failure_of(provider_at(server.url, first_byte_s=0.05, silence_s=60), stream=stream)
        await server.left.wait()

    assert "setting first_byte_s" in str(error)


@both
async def test_silence_in_the_middle_is_given_up_naming_the_setting(stream):
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), LEAVE)) as server:
        error = await failure_of(provider_at(server.url, silence_s=0.05), stream=stream)
        await server.left.wait()

    assert error.kind is Kind.TIMEOUT
    assert "0.05 s (setting silence_s)" in str(error)


async def test_the_first_byte_may_take_longer_than_a_silence():
    steps = (STREAM_HEAD, GO, http_chunk(HELLO + STOP + DONE), b"0\r\n\r\n")
    async with OddServer(steps) as server:
        plugin, provider = plugin_at(server.url, silence_s=0.01, first_byte_s=15)
        async with plugin.open(LENT):
            asyncio.get_running_loop().call_later(0.1, server.go.set)
            found = await batches(provider)

    assert found[0] == TextDelta("Hello")


async def test_a_consumer_may_take_its_time_between_two_batches():
    steps = (STREAM_HEAD, http_chunk(HELLO), http_chunk(STOP + DONE), b"0\r\n\r\n")
    async with OddServer(steps) as server:
        plugin, provider = plugin_at(server.url, silence_s=0.02)
        async with plugin.open(LENT):
            found = []
            async for batch in provider.stream(request()):
                found += batch
                await asyncio.sleep(0.1)  # time itself is what is tried here

    assert found == [TextDelta("Hello"), Finished(model="m-1", id="c1")]


async def test_a_server_that_does_not_accept_is_given_up_naming_the_setting():
    # A listening socket whose queue is full drops what comes next, as an overloaded host does.
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        waiting = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            waiting.append(filler)
        error = await failure_of(provider_at(f"http://127.0.0.1:{address[1]}", connect_s=0.05), stream=False)
        for filler in waiting:
            filler.close()

    assert error.kind is Kind.TIMEOUT
    assert "0.05 s (setting connect_s)" in str(error)


# ---- losses -----------------------------------------------------------------------------


@both
async def test_nobody_listening_is_unavailable_and_says_where(stream):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await failure_of(provider_at(f"http://127.0.0.1:{port}/v1?token=hush"), stream=stream)

    assert error.kind is Kind.UNAVAILABLE
    assert f"http://127.0.0.1:{port}/v1 cannot be reached" in str(error)
    assert "hush" not in str(error)


async def test_a_name_that_nobody_has_is_unavailable():
    error = await failure_of(provider_at("http://no-such-host.invalid/v1"), stream=False)

    assert error.kind is Kind.UNAVAILABLE


async def test_a_server_without_tls_is_unavailable():
    async def greet(_, writer):
        writer.write(b"220 smtp.example ready\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await failure_of(provider_at(f"https://127.0.0.1:{port}/v1"), stream=False)

    assert error.kind is Kind.UNAVAILABLE
    assert f"https://127.0.0.1:{port}/v1 cannot be reached" in str(error)


@both
async def test_a_hang_up_before_the_answer_is_unavailable(stream):
    for step in (CLOSE, RESET):
        async with OddServer((step,)) as server:
            error = await failure_of(provider_at(server.url), stream=stream)

        assert error.kind is Kind.UNAVAILABLE


@both
async def test_what_is_no_http_is_a_protocol_error(stream):
    async with OddServer((b"SSH-2.0-OpenSSH\r\n\r\n", CLOSE)) as server:
        error = await failure_of(provider_at(server.url), stream=stream)

    assert error.kind is Kind.PROTOCOL


@pytest.mark.parametrize("end", [CLOSE, RESET])
@pytest.mark.parametrize("steps", [(LENGTH, b'{"choices'), (STREAM_HEAD, http_chunk(b"{"))])
async def test_a_whole_reply_that_is_cut_is_broken(steps, end):
    async with OddServer((*steps, end)) as server:
        error = await failure_of(provider_at(server.url), stream=False)

    assert error.kind is Kind.STREAM_BROKEN


@pytest.mark.parametrize("end", [CLOSE, RESET])
async def test_a_stream_that_is_cut_is_broken_after_what_came(end):
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), GO, end)) as server:
        stream = provider_at(server.url).stream(request())
        first = await anext(stream)
        server.go.set()
        with pytest.raises(ProviderError) as caught:
            await anext(stream)

    assert first == [TextDelta("Hello")]
    assert caught.value.kind is Kind.STREAM_BROKEN


async def test_a_stream_without_length_that_is_closed_after_done_is_whole():
    head = b"HTTP/1.0 200 OK\r\n\r\n"
    async with OddServer((head, HELLO, STOP, DONE, CLOSE)) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            found = await batches(provider)

    assert found[-1] == Finished(model="m-1", id="c1")


async def test_a_stream_that_stays_open_after_done_is_left():
    async with OddServer((STREAM_HEAD, http_chunk(HELLO + STOP + DONE), LEAVE)) as server:
        found = await batches(provider_at(server.url, silence_s=0.05))
        await server.left.wait()

    assert found[-1] == Finished(model="m-1", id="c1")


@both
async def test_an_answer_that_is_too_long_is_refused(stream):
    async with OddServer((STREAM_HEAD, *[http_chunk(b": " + b"x" * 500 + b"\n\n")] * 10, LEAVE)) as server:
        error = await failure_of(provider_at(server.url, max_response_bytes=2000), stream=stream)
        await server.left.wait()

    assert error.kind is Kind.PROTOCOL
    assert "max_response_bytes" in str(error)


@both
async def test_redirects_are_not_followed(stream):
    async with OddServer(answer("", 307, {"location": "http://127.0.0.1:9/"})) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=stream)

    assert error.kind is Kind.BAD_REQUEST
    assert "set base_url" in str(error)


@both
async def test_an_error_body_without_end_does_not_hold_the_call(stream):
    head = b"HTTP/1.1 503 X\r\ntransfer-encoding: chunked\r\n\r\n"
    async with OddServer((head, http_chunk(b"busy"), LEAVE)) as server:
        error = await failure_of(provider_at(server.url, silence_s=0.05), stream=stream)
        await server.left.wait()

    assert (error.kind, error.status) == (Kind.UNAVAILABLE, 503)
    assert "busy" in str(error)


@both
async def test_a_body_that_cannot_be_decompressed_is_a_protocol_error(stream):
    async with OddServer(answer("no gzip", headers={"content-encoding": "gzip"})) as server:
        error = await failure_of(provider_at(server.url), stream=stream)

    assert error.kind is Kind.PROTOCOL


@both
async def test_the_retry_after_of_a_real_answer_is_read(stream):
    async with OddServer(json_answer({"error": {"message": "slow"}}, 429, {"Retry-After": "3"})) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=stream)

    assert (error.kind, error.retry_after, error.status) == (Kind.RATE_LIMITED, 3.0, 429)
