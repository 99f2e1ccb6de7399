"""The HTTP client: two methods, their limits, what comes back."""

import asyncio
import gzip
import zlib

import httpx2
import pytest
from odd_server import CLOSE, LEAVE, RESET, STREAM_HEAD, OddServer, answer, http_chunk, json_answer
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.client import Client
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.server_errors import Faults

OK = json_answer({"ok": True})
HEAD = b"HTTP/1.1 200 OK\r\n"


pytestmark = pytest.mark.usefixtures("patience")


async def asked(url: str, method: str = "post", transport=None, **settings) -> bytes:
    """Ask the server at *url* once and return the body of its answer."""
    endpoint = Endpoint(base_url=url, **settings)
    client = Client(endpoint, transport=transport)
    faults = Faults("acme", endpoint.base_url, "m", path="/say")
    coming = client.get("/say", {}, faults) if method == "get" else client.post("/say", b"{}", {}, faults)
    try:
        async with coming as reply:
            await reply.check()
            return await reply.read()
    finally:
        await client.close()


async def failure(url: str, **settings) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await asked(url, **settings)
    return caught.value


async def test_post_sends_a_body_below_the_base_url():
    async with OddServer(OK) as server:
        body = await asked(server.url + "?version=7")

    (sent,) = server.requests
    assert (sent.line, sent.body, body) == ("POST /v1/say?version=7 HTTP/1.1", b"{}", b'{"ok": true}')


async def test_get_asks_with_a_query_and_without_a_body():
    async with OddServer(OK) as server:
        client = Client(Endpoint(base_url=server.url + "?version=7"))
        headers, query = {"x-api-key": "k"}, {"limit": "9", "after_id": "a/b"}
        async with client.get("/models", headers, Faults("acme", "t"), query) as reply:
            body = await reply.read()
        await client.close()

    (sent,) = server.requests
    assert sent.line == "GET /v1/models?version=7&limit=9&after_id=a%2Fb HTTP/1.1"
    assert (sent.headers["x-api-key"], sent.body, body) == ("k", b"", b'{"ok": true}')


async def test_both_share_their_connections():
    async with OddServer(*[OK] * 100) as server:
        client = Client(Endpoint(base_url=server.url))
        for number in range(100):
            async with client.post(f"/models/{number}", b"{}", {}, Faults("acme", "t")) as reply:
                await reply.read()
        await client.close()

    assert (server.connections, len(server.requests)) == (1, 100)


@pytest.mark.parametrize("method", ["post", "get"])
async def test_redirects_are_not_followed(method):
    async with OddServer(answer("", 307, {"location": "/elsewhere"})) as server:
        error = await failure(server.url, method=method)

    assert (error.kind, len(server.requests)) == (Kind.BAD_REQUEST, 1)
    assert "base_url" in str(error)


@pytest.mark.parametrize("method", ["post", "get"])
@pytest.mark.parametrize(
    ("steps", "settings", "kind", "words"),
    [
        ((LEAVE,), {"first_byte_s": 0.05}, Kind.TIMEOUT, "first_byte_s"),
        ((STREAM_HEAD, LEAVE), {"first_byte_s": 0.05}, Kind.TIMEOUT, "first_byte_s"),
        ((STREAM_HEAD, http_chunk(b"x"), LEAVE), {"silence_s": 0.05}, Kind.TIMEOUT, "silence_s"),
        ((CLOSE,), {}, Kind.UNAVAILABLE, "hung up"),
        ((RESET,), {}, Kind.UNAVAILABLE, ""),
        ((b"SSH-2.0\r\n\r\n", CLOSE), {}, Kind.PROTOCOL, "does not speak HTTP"),
        ((HEAD + b"content-length: 9\r\n\r\nx", CLOSE), {}, Kind.STREAM_BROKEN, "broke off"),
        ((HEAD + b"content-length: 9\r\n\r\n123456789",), {"max_response_bytes": 8}, Kind.PROTOCOL, "max_response"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_has_its_kind(steps, settings, kind, words, method):
    async with OddServer(steps) as server:
        error = await failure(server.url, method=method, **settings)

    assert (error.kind, error.provider) == (kind, "acme")
    assert words in str(error)


async def test_a_server_that_is_not_there_is_unavailable():
    assert (await failure("http://127.0.0.1:9/v1")).kind is Kind.UNAVAILABLE


async def test_a_compressed_answer_is_read():
    async with OddServer(answer(gzip.compress(b"hello"), headers={"content-encoding": "gzip"})) as server:
        assert await asked(server.url) == b"hello"


async def test_an_answer_that_only_says_it_is_compressed_is_no_answer():
    async with OddServer(answer(b"hello", headers={"content-encoding": "gzip"})) as server:
        error = await failure(server.url)

    assert error.kind is Kind.PROTOCOL


async def test_the_limit_holds_for_what_an_answer_unpacks_to():
    bomb = zlib.compress(b"0" * 10_000_000)
    async with OddServer(answer(bomb, headers={"content-encoding": "deflate"})) as server:
        error = await failure(server.url, max_response_bytes=1_000_000)

    assert "max_response_bytes" in str(error)


async def test_a_request_id_is_in_the_message():
    headers = {"request-id": "req_1\x1b[31m" + "x" * 200}
    async with OddServer(json_answer({"error": "no"}, 400, headers)) as server:
        error = str(await failure(server.url))

    assert "(request req_1" in error
    assert "\x1b" not in error
    assert len(error) < 250


async def test_an_error_of_endless_length_is_read_in_part():
    async with OddServer(answer("x" * 1_000_000, 500)) as server:
        error = await failure(server.url)

    assert error.kind is Kind.UNAVAILABLE
    assert len(str(error)) < 700


async def test_a_cancelled_get_closes_its_connection():
    async with OddServer((STREAM_HEAD, LEAVE)) as server:
        task = asyncio.ensure_future(asked(server.url, "get"))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.left.wait()


async def test_a_transport_of_the_application_keeps_proxies_of_the_environment_out(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "not a proxy: at all")
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=b"mine"))

    assert await asked("http://model.test/v1", transport=transport) == b"mine"
