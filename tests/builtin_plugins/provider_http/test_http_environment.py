"""Proxies and certificate authorities that the environment names, with real ones on loopback."""

import asyncio
import shutil

import pytest
from odd_server import Certificates, Loopback, OddServer, Proxy, json_answer
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.client import Client
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.server_errors import Faults

OK = json_answer({"ok": True})


@pytest.fixture(autouse=True)
async def clean(monkeypatch):
    """Start without certificates of the environment, and bound every wait."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    async with asyncio.timeout(30):
        yield


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make certificates with")
    return Certificates.make(tmp_path_factory.mktemp("tls"))


async def asked(url: str) -> bytes:
    client = Client(Endpoint(base_url=url))
    try:
        async with client.post("/say", b"{}", {"x-api-key": "sk-12345678"}, Faults("acme", url)) as reply:
            return await reply.read()
    finally:
        await client.close()


async def failure(url: str) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await asked(url)
    return caught.value


async def test_plain_http_goes_through_http_proxy(monkeypatch):
    async with OddServer(OK) as server, Proxy(server.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        body = await asked("http://model.test/v1")

    assert body == b'{"ok": true}'
    assert proxy.lines == ["POST http://model.test/v1/say HTTP/1.1"]


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_https_goes_through_a_tunnel_of_the_proxy(name, monkeypatch, certificates):
    async with OddServer(OK, tls=certificates.server()) as server, Proxy(server.port) as proxy:
        monkeypatch.setenv(name, f"http://{proxy.address}")
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
        body = await asked("https://model.test/v1")

    assert body == b'{"ok": true}'
    assert proxy.lines == ["CONNECT model.test:443 HTTP/1.1"]
    assert not [header for header in proxy.headers if "sk-12345678" in header]


async def test_no_proxy_names_who_is_asked_directly(monkeypatch):
    async with OddServer(OK) as server, Proxy(server.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.address}")
        monkeypatch.setenv("NO_PROXY", "example.org,127.0.0.1")
        await asked(server.url)

    assert (proxy.lines, len(server.requests)) == ([], 1)


async def test_a_name_and_password_of_the_proxy_are_sent_to_it_alone(monkeypatch, certificates):
    async with OddServer(OK, tls=certificates.server()) as server, Proxy(server.port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:hush@{proxy.address}")
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
        await asked("https://model.test/v1")

    assert "proxy-authorization: basic yw5uomh1c2g=" in proxy.headers
    assert "proxy-authorization" not in server.requests[0].headers


async def test_a_proxy_that_refuses_is_named_without_its_password(monkeypatch, certificates):
    async with Proxy(1, b"407 Proxy Authentication Required") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:hush-hush@{proxy.address}")
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
        error = await failure("https://model.test/v1")

    assert error.kind is Kind.UNAVAILABLE
    assert "HTTPS_PROXY" in str(error)
    assert "407" in str(error)
    assert "hush-hush" not in str(error)


@pytest.mark.parametrize("proxy", ["gopher://ann:hush-hush@x", "http://ann:hush-hush@x:port", "http://[::1"])
async def test_a_proxy_that_cannot_be_one_is_said_without_its_password(proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)

    error = await failure("http://127.0.0.1:9/v1")

    assert error.kind is Kind.BAD_REQUEST
    assert "HTTP_PROXY" in str(error)
    assert "hush-hush" not in f"{error!s}{error!r}"


async def test_a_proxy_that_is_not_there_is_unavailable(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    assert (await failure("http://model.test/v1")).kind is Kind.UNAVAILABLE


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_a_certificate_authority_of_ones_own_is_trusted(name, monkeypatch, certificates):
    monkeypatch.setenv(name, certificates.file if name.endswith("FILE") else certificates.hashed)
    async with OddServer(OK, tls=certificates.server()) as server:
        assert await asked(server.url) == b'{"ok": true}'


async def test_the_file_and_the_folder_of_authorities_both_count(monkeypatch, certificates, tmp_path):
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
    async with OddServer(OK, OK, tls=certificates.server()) as server:
        by_file = await asked(server.url)
        monkeypatch.setenv("SSL_CERT_DIR", certificates.hashed)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.folder / "server.pem"))
        by_folder = await asked(server.url)

    assert by_file == by_folder == b'{"ok": true}'


async def test_no_other_authority_is_trusted_and_the_error_says_what_to_do(certificates):
    async with OddServer(OK, tls=certificates.server()) as server:
        error = await failure(server.url)

    assert (error.kind, server.requests) == (Kind.UNAVAILABLE, [])
    assert "SSL_CERT_FILE" in str(error)


async def test_a_certificate_for_another_name_is_not_accepted(monkeypatch, certificates):
    monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
    async with OddServer(OK, tls=certificates.server()) as server:
        error = await failure(server.url.replace("127.0.0.1", "localhost"))

    assert (error.kind, server.requests) == (Kind.UNAVAILABLE, [])


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_authorities_that_cannot_be_read_are_named(content, monkeypatch, tmp_path):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))

    error = await failure("https://127.0.0.1:9/v1")

    assert error.kind is Kind.BAD_REQUEST
    assert "SSL_CERT_FILE" in str(error)


async def test_a_certificate_that_is_not_trusted_is_not_worth_another_try(certificates):
    async with OddServer(OK, tls=certificates.server()) as server:
        error = await failure(server.url)

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, False)
    assert "SSL_CERT_FILE" in str(error)


class NoTls(Loopback):
    """Answers the beginning of TLS with *words*, and closes."""

    def __init__(self, words: bytes) -> None:
        super().__init__()
        self._words = words

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(self._words)


@pytest.mark.parametrize(("words", "retryable"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", False), (b"", True)])
async def test_tls_that_is_refused_does_not_pass_and_tls_that_is_lost_may(words, retryable):
    async with NoTls(words) as server:
        error = await failure(f"https://127.0.0.1:{server.port}")

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, retryable)


async def test_a_proxy_that_wants_a_password_is_not_asked_again(monkeypatch):
    async with Proxy(0, refusal=b"407 Proxy Authentication Required") as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.address}")
        error = await failure("https://model.test")

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, False)
