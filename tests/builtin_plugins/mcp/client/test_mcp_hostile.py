"""Servers over HTTP that mean harm: each ends in a clear error, in bounded time and memory, and the others go on."""

import asyncio
import gzip
import shutil
import ssl
import tracemalloc

import pytest
from mcp_answering import JSON, OLD, answering, old_transport, poured
from mcp_sdk import listening, made
from mcp_using import WAIT_S, using
from odd_server import Certificates
from pluggent_hookspecs import ToolError, ToolErrorKind
from pluggent_mcp.client.http_transport import certificates_for
from pluggent_mcp.settings import Server

LIMIT = 65_536
ZEROS = gzip.compress(bytes(200_000_000), 9)
"""Two hundred million bytes in two hundred thousand."""
PIECE = b"10000\r\n" + b" " * 65_536 + b"\r\n"


def plain(status, kind, body=b"", *headers):
    """Return an answer of HTTP as it stands on the wire."""
    lines = (
        f"HTTP/1.1 {status} X",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "connection: close",
        *headers,
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(status, kind):
    """Return the head of an answer that comes in pieces."""
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()


def always(said):
    """Return what answers everything with *said*."""

    async def answer(method, body, headers):
        return said

    return answer


def at_calls(said):
    """Return what answers a call with *said*, and all else well."""

    async def answer(method, body, headers):
        return said if b'"tools/call"' in body else OLD[body.split(b'"method":"')[1].split(b'"')[0].decode()]

    return answer


async def failed(used, name="web__act"):
    """Return the error of a call that must fail."""
    with pytest.raises(ToolError) as caught:
        await asyncio.wait_for(used.call(name), WAIT_S)
    return caught.value


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (plain(200, JSON, ZEROS, "content-encoding: gzip"), "the answer is longer than 65,536 bytes"),
        (plain(200, "text/event-stream", b"", "content-encoding: gzip"), "SSE stream ended"),
        (plain(200, JSON, b"{}", "content-encoding: br"), "packed in a way that was not asked for ('br')"),
        (plain(200, JSON, b"{}", "content-encoding: gzip"), "the answer cannot be unpacked"),
        ([chunked(200, JSON), PIECE], "the answer is longer than 65,536 bytes"),
        ([chunked(200, "text/event-stream"), PIECE], "SSE"),
        (plain(200, "image/png", b"\x89PNG"), "Unexpected content type: image/png"),
        (plain(200, ""), "Unexpected content type"),
        ([chunked(401, "text/html"), PIECE], "HTTP 401"),
        ([chunked(403, JSON), PIECE], "HTTP 403"),
        ([chunked(404, JSON), PIECE], "HTTP 404"),
        ([chunked(500, "text/event-stream"), PIECE], "HTTP 500"),
        ([chunked(307, "text/event-stream")[:-2] + b"location: /mcp\r\n\r\n", PIECE], ""),
    ],
    ids=[
        "gzip bomb", "gzip of nothing", "brotli", "no gzip", "endless", "endless event", "image", "no type",
        "endless 401", "endless 403", "endless 404", "endless 500", "endless redirect",
    ],
)  # fmt: skip
async def test_what_is_too_much_or_no_answer_is_told_and_kept_out_of_memory(said, why):
    tracemalloc.start()
    try:
        async with (
            answering(always(said)) as url,
            listening(made().streamable_http_app()) as good,
            using(web=Server(url=url, max_message_bytes=LIMIT), good=Server(url=f"{good}/mcp")) as used,
        ):
            assert why in used.failures["web"]
            assert (await used.call("good__add", a=1, b=1)).for_model == "2"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 50_000_000


async def test_an_event_that_unpacks_to_too_much_is_told():
    bomb = gzip.compress(b"data: " + bytes(50_000_000))
    said = plain(200, "text/event-stream", bomb, "content-encoding: gzip")
    async with answering(always(said)) as url, using(web=Server(url=url, max_message_bytes=LIMIT)) as used:
        assert "exceeded the 65536 byte limit" in used.failures["web"]


async def test_an_answer_that_is_packed_is_understood():
    async def answer(method, body, headers):
        seen.append(headers["accept-encoding"])
        status, kind, content = OLD[body.split(b'"method":"')[1].split(b'"')[0].decode()]
        return plain(status, kind, gzip.compress(content), "content-encoding: gzip", "mcp-session-id: s1")

    seen: list[str] = []
    async with answering(answer) as url, using(web=Server(url=url, protocol="legacy")) as used:
        assert (await used.call("web__act")).for_model == "acted"
    assert set(seen) == {"gzip"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_to_another_host_is_followed(status):
    seen: list[str] = []

    async def elsewhere(method, body, headers):
        seen.append(method)
        return 200, JSON, b"{}"

    async with answering(elsewhere) as theirs:
        said = plain(status, JSON, b"", f"location: {theirs}")
        headers = {"Authorization": "Bearer abcdefgh12345678"}
        async with answering(always(said)) as url, using(web=Server(url=url, headers=headers)) as used:
            assert f"Redirect to {theirs} not followed" in used.failures["web"]

    assert seen == []


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://a.test/x", "//a.test/x", "http://[", "\x7f"])
async def test_a_redirect_to_nowhere_is_an_error(where):
    said = plain(307, JSON, b"", f"location: {where}")
    async with answering(always(said)) as url, using(web=Server(url=url)) as used:
        assert used.failures["web"].startswith("MCP server 'web': ")
        assert "root:" not in used.failures["web"]


async def test_who_sends_its_callers_on_to_https_is_to_be_set_so():
    said = plain(308, JSON, b"", "location: https://127.0.0.1/mcp?x=1")
    async with answering(always(said)) as url, using(web=Server(url=url)) as used:
        assert "it is at https://127.0.0.1/mcp: write that into its url" in used.failures["web"]


async def test_certificates_are_loaded_for_https_alone_and_once(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    plain_http = await certificates_for("http://a.test/mcp")
    first, second = await asyncio.gather(certificates_for("https://a.test/mcp"), certificates_for("https://b.test/mcp"))
    monkeypatch.setenv("http_proxy", "https://proxy.test")
    proxied = await certificates_for("http://a.test/mcp")

    assert plain_http.get_ca_certs() == []
    assert all(each.verify_mode is ssl.CERT_REQUIRED and each.check_hostname for each in (plain_http, first))
    assert first is second is proxied


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Return certificates of our own."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make certificates")
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


async def test_a_server_with_an_untrusted_certificate_is_not_contacted(certificates, monkeypatch):
    seen: list[bytes] = []

    async def answer(method, body, headers):
        seen.append(body)
        return OLD[body.split(b'"method":"')[1].split(b'"')[0].decode()]

    async with answering(answer, certificates.server()) as url:
        async with using(web=Server(url=url, protocol="legacy")) as used:
            assert "its certificate is not trusted" in used.failures["web"]
        assert seen == []
        monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
        async with using(web=Server(url=url, protocol="legacy")) as used:
            assert (await used.call("web__act")).for_model == "acted"


@pytest.mark.parametrize(
    "said", [plain(500, "text/html"), [chunked(200, "text/event-stream"), PIECE]], ids=["500", "endless"]
)
async def test_over_the_old_transport_a_message_that_is_refused_ends_the_connection(said):
    async def refuse(reader, writer, stream):
        await poured(said, reader, writer)

    async with (
        old_transport(refuse) as url,
        using(web=Server(url=url, type="sse", protocol="legacy", max_message_bytes=LIMIT)) as used,
    ):
        error = await failed(used)
        assert "The call may have taken effect" in error.message
        assert (await used.call("web__act")).for_model == "acted"


@pytest.mark.parametrize(
    ("headers", "advice"),
    [
        ({}, 'it wants a token. Write headers = { Authorization = "Bearer ${TOKEN}" } into its settings'),
        ({"authorization": "Bearer abcdefgh12345678"}, "it does not take the Authorization that its headers hold"),
    ],
)
async def test_who_wants_a_token_is_told_with_what_to_do(headers, advice):
    said = plain(401, JSON, b'{"error": "invalid_token"}', 'www-authenticate: Bearer realm="abcdefgh12345678"')
    async with answering(always(said)) as url, using(web=Server(url=url, headers=headers)) as used:
        told = used.failures["web"]

    assert f"Its last answer was HTTP 401: {advice}" in told
    assert "It wants: Bearer realm=" in told
    assert ("abcdefgh" in told) == (not headers)


async def test_a_token_that_is_not_good_any_more_is_told_by_the_call():
    async with (
        answering(at_calls(plain(401, JSON, b"{}"))) as url,
        using(web=Server(url=url, protocol="legacy")) as used,
    ):
        error = await failed(used)

    assert "HTTP 401: it wants a token" in error.message


async def test_headers_that_come_byte_by_byte_end_with_the_time_to_start():
    drip = [b"HTTP/1.1 200 OK\r\nx: ", b"x"]
    async with answering(always(drip)) as url, using(web=Server(url=url, start_timeout_s=0.5)) as used:
        assert "web" in used.failures


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nx: ",
        chunked(200, JSON) + b"1\r\n \r\n",
        chunked(200, "text/event-stream") + b"5\r\n: ok\n\r\n",
    ],
    ids=["no answer", "no body", "no event"],
)
async def test_who_gives_a_call_up_leaves_no_connection_behind(said):
    begun, gone = asyncio.Event(), asyncio.Event()

    async def hold(reader, writer):
        writer.write(said)
        begun.set()
        await reader.read()
        gone.set()

    async with answering(at_calls(hold)) as url, using(web=Server(url=url, protocol="legacy")) as used:
        call = asyncio.create_task(used.call("web__act"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        await asyncio.wait_for(gone.wait(), WAIT_S)


async def test_a_call_over_http_that_is_answered_with_an_id_that_was_never_used_fails_at_once():
    other = OLD["tools/call"][2].replace(b'"id":3', b'"id":99')
    async with (
        answering(at_calls(plain(200, JSON, other))) as url,
        using(web=Server(url=url, protocol="legacy")) as used,
    ):
        error = await failed(used)

    assert "it answered a request that was never made (id '99'). The call may have taken effect" in error.message
    assert error.kind is ToolErrorKind.OUTCOME_UNKNOWN
