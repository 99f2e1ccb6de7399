"""The provider over real connections: waits, losses, cancellation, reuse."""

import asyncio
import logging
import socket
import ssl
from contextlib import aclosing

import httpx2
import pytest
from odd_server import leave_early
from openai_server import (
    DONE,
    GO,
    HELLO,
    KEY,
    LEAVE,
    LENT,
    REPLY,
    STOP,
    STREAM_HEAD,
    OddServer,
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
from pluggent_hookspecs import Finished, ProvideEvent, ProviderErrorKind as Kind, Secret, TextDelta
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
