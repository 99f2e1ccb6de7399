"""The provider over real connections: reuse, cancellation, waits that end, connections that break."""

import asyncio
import logging
import socket
import ssl
from contextlib import aclosing

import httpx2
import pytest
from odd_server import leave_early
from openai_server import (
    CLOSE,
    DONE,
    GO,
    HELLO,
    KEY,
    LEAVE,
    LENGTH,
    LENT,
    REPLY,
    RESET,
    STOP,
    STREAM_HEAD,
    OddServer,
    answer,
    batches,
    completion,
    failure_of,
    http_chunk,
    json_answer,
    plugin_at,
    provider_at,
    request,
    stream_answer,
)
from pluggent_hookspecs import Finished, ProvideEvent, ProviderError, ProviderErrorKind as Kind, Secret, TextDelta
from pluggent_openai.plugin import OpenAI

pytestmark = pytest.mark.usefixtures("patience")


both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


async def test_a_whole_reply_comes_from_one_post():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url, organization="org", project="proj", headers={"X-Team": "a"})
        async with plugin.open(LENT):
            reply = await provider.complete(request())

    (sent,) = server.requests
    assert reply.message.text == "Hello"
    assert sent.line == "POST /v1/chat/completions HTTP/1.1"
    assert sent.json == {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    assert [sent.headers[name] for name in ("authorization", "openai-organization", "openai-project", "x-team")] == [
        f"Bearer {KEY}", "org", "proj", "a",
    ]  # fmt: skip


async def test_a_stream_is_told_read_by_read():
    steps = (STREAM_HEAD, http_chunk(HELLO), GO, http_chunk(HELLO + STOP + DONE), b"0\r\n\r\n")
    async with OddServer(steps) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT), aclosing(provider.stream(request())) as stream:
            first = await anext(stream)
            server.go.set()
            rest = [delta async for batch in stream for delta in batch]

    assert first == [TextDelta("Hello")]
    assert rest == [TextDelta("Hello"), Finished(model="m-1", id="c1")]
    assert server.requests[0].json["stream_options"] == {"include_usage": True}


async def test_connections_are_used_again():
    async with OddServer(
        json_answer(REPLY), stream_answer(HELLO, STOP, DONE), json_answer(REPLY, 429), json_answer(REPLY)
    ) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            await provider.complete(request())
            await batches(provider)
            await failure_of(provider, stream=False)
            await provider.complete(request())

    assert (server.connections, len(server.requests)) == (1, 4)


async def test_a_keyless_server_gets_no_authorization():
    async with OddServer(json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url, api_key=None)
        async with plugin.open(LENT):
            await provider.complete(request())

    assert "authorization" not in server.requests[0].headers


async def test_a_renewed_key_is_used_at_once(monkeypatch):
    async with OddServer(json_answer(REPLY), json_answer(REPLY)) as server:
        plugin, provider = plugin_at(server.url, api_key=Secret("env:SOME_KEY_HERE"))
        async with plugin.open(LENT):
            for key in ("old", "new"):
                monkeypatch.setenv("SOME_KEY_HERE", f"{key}\n")
                await provider.complete(request())

    assert [sent.headers["authorization"] for sent in server.requests] == ["Bearer old", "Bearer new"]


@both
@pytest.mark.parametrize(
    "key", [Secret("env:NO_SUCH_VARIABLE"), Secret.of("sk-ключ"), Secret.of("a\nb"), Secret.of(" ")]
)
async def test_a_key_that_cannot_be_sent_is_an_authentication_error_that_does_not_show_it(key, stream):
    error = await failure_of(provider_at("http://127.0.0.1:9/v1", api_key=key), stream=stream)

    assert error.kind is Kind.AUTHENTICATION
    assert "ключ" not in str(error)


async def test_a_short_key_does_not_garble_messages():
    async with OddServer(json_answer({"error": {"message": "an extra box"}}, 400)) as server:
        plugin, provider = plugin_at(server.url, api_key=Secret.of("x"), headers={"a": "b"})
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=False)

    assert "an extra box" in str(error)


@both
async def test_another_success_than_200_is_read_like_it(stream):
    async with OddServer(json_answer(REPLY, 201), (b"HTTP/1.1 204 X\r\n\r\n",)) as server:
        plugin, provider = plugin_at(server.url)
        async with plugin.open(LENT):
            await (batches(provider) if stream else provider.complete(request()))
            error = await failure_of(provider, stream=stream)

    assert error.kind is Kind.PROTOCOL


@both
async def test_the_key_is_in_no_error_and_no_log(stream, caplog):
    caplog.set_level(logging.DEBUG)
    async with OddServer(json_answer({"error": {"message": f"Incorrect key {KEY}"}}, 401)) as server:
        plugin, provider = plugin_at(server.url, headers={"x-second": "hush-hush"})
        async with plugin.open(LENT):
            error = await failure_of(provider, stream=stream)

    assert error.kind is Kind.AUTHENTICATION
    shown = f"{error!s}{error!r}{error.__cause__!r}{provider!r}{plugin!r}{caplog.text}"
    assert KEY not in shown
    assert "hush-hush" not in shown


# ---- leaving early ----------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(LEAVE,), (STREAM_HEAD, LEAVE), (STREAM_HEAD, http_chunk(HELLO), LEAVE)])
@both
async def test_a_cancelled_call_closes_its_connection(steps, stream):
    async with OddServer(steps) as server:
        await leave_early(server, provider_at(server.url), request(), stream=stream)

    assert server.left.is_set()


async def test_a_stream_that_is_closed_early_closes_its_connection():
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), LEAVE)) as server:
        stream = provider_at(server.url).stream(request())
        assert await anext(stream) == [TextDelta("Hello")]
        await stream.aclose()
        await server.left.wait()


async def test_a_timeout_from_outside_stays_what_it_is():
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), LEAVE)) as server:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await batches(provider_at(server.url))
        await server.left.wait()


async def test_many_calls_at_once_keep_their_replies_apart():
    async def one(provider, text):
        return (await provider.complete(request(model=text))).message.text

    async def echo(asked: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=completion({"content": asked.read().decode().split('"')[3]}))

    _, provider = at_transport(httpx2.MockTransport(echo))
    texts = [f"m{number}" for number in range(50)]

    assert await asyncio.gather(*(one(provider, text) for text in texts)) == texts


# ---- what the application gives ---------------------------------------------------------


def at_transport(transport):
    plugin = OpenAI(OpenAI.Settings(base_url="http://x/v1", api_key=None), transport=transport)
    return plugin, next(iter(plugin.provide_providers(ProvideEvent())))


async def test_a_transport_of_the_application_is_used_and_left_open():
    class Transport(httpx2.AsyncBaseTransport):
        closed = False

        async def handle_async_request(self, request):
            return httpx2.Response(200, json=REPLY)

        async def aclose(self):
            self.closed = True

    transport = Transport()
    plugin, provider = at_transport(transport)
    async with plugin.open(LENT):
        reply = await provider.complete(request())

    assert (reply.message.text, transport.closed) == ("Hello", False)


async def test_a_client_of_the_application_is_used_and_left_open():
    async with OddServer(json_answer(REPLY)) as server, httpx2.AsyncClient(headers={"x-mine": "1"}) as client:
        plugin = OpenAI(OpenAI.Settings(base_url=server.url, api_key=None), client=client)
        (provider,) = plugin.provide_providers(ProvideEvent())
        async with plugin.open(LENT):
            await provider.complete(request())

        assert not client.is_closed
    assert server.requests[0].headers["x-mine"] == "1"


async def test_a_closed_client_of_the_application_is_named():
    client = httpx2.AsyncClient()
    await client.aclose()
    plugin = OpenAI(OpenAI.Settings(base_url="http://x/v1", api_key=None), client=client)
    (provider,) = plugin.provide_providers(ProvideEvent())

    assert "is closed" in str(await failure_of(provider, stream=False))


def test_one_plugin_serves_one_event_loop_after_the_other():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    plugin, provider = plugin_at(f"http://127.0.0.1:{port}/v1")

    async def turn():
        async with OddServer(json_answer(REPLY), port=port), plugin.open(LENT):
            return (await provider.complete(request())).message.text

    assert [asyncio.run(turn()) for _ in range(2)] == ["Hello", "Hello"]


def test_certificates_are_loaded_for_https_only(monkeypatch):
    loaded = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: loaded.append(1))
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: loaded.append(1))

    async def ask(scheme):
        await failure_of(provider_at(f"{scheme}://127.0.0.1:9/v1"), stream=False)

    asyncio.run(ask("http"))

    assert loaded == []


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
async def test_a_closed_port_is_unavailable_and_says_where(stream):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    error = await failure_of(provider_at(f"http://127.0.0.1:{port}/v1?token=hush"), stream=stream)

    assert error.kind is Kind.UNAVAILABLE
    assert f"http://127.0.0.1:{port}/v1 cannot be reached" in str(error)
    assert "hush" not in str(error)


async def test_an_unknown_host_name_is_unavailable():
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
