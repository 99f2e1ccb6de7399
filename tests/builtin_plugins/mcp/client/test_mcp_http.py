"""Servers over HTTP: the SDK's own, both transports, answers that no server should give, and places out of reach."""

import asyncio
import errno
import logging
import shutil
import socket
import ssl
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp_answering import OLD, TAKEN, answering, old_transport
from mcp_sdk import Kept, listening, made
from mcp_using import WAIT_S, Context, using
from odd_server import openssl
from pluggent_hookspecs import ToolError, ToolErrorKind
from pluggent_mcp.client.http_transport import describe_failure
from pluggent_mcp.commands.server_check import check_server
from pluggent_mcp.settings import Server


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}], ids=str)
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_tools_are_listed_and_called_over_streamable_http(options, protocol):
    app = made().streamable_http_app(**options)
    async with listening(app) as url, using(web=Server(url=f"{url}/mcp", protocol=protocol)) as used:
        output = await used.call("web__add", a=1, b=2)

    assert (output.for_model, output.data) == ("3", {"result": 3})


async def test_the_old_transport_is_spoken_where_it_is_asked_for():
    async with listening(made().sse_app()) as url, using(web=Server(url=f"{url}/sse", type="sse")) as used:
        context = Context()
        assert (await used.call("web__progress", context)).for_model == "done"

    assert context.progressed == [(1, 2, "half")]


async def test_a_stream_that_breaks_off_is_taken_up_again():
    app = made().streamable_http_app(event_store=Kept(), retry_interval=10)
    async with listening(app) as url, using(web=Server(url=f"{url}/mcp", protocol="legacy")) as used:
        assert (await used.call("web__break_off")).for_model == "after the break"


async def test_a_server_that_forgot_the_session_is_greeted_anew_and_the_call_made_once_more():
    seen: list[str] = []

    async def answer(method, body, headers):
        seen.append(body.split(b'"method":"')[1].split(b'"')[0].decode())
        if seen.count("initialize") == 1 and seen[-1] == "tools/call":
            return 404, "text/plain", b"who?"
        return OLD.get(seen[-1], (404, "text/plain", b""))

    async with answering(answer) as url, using(web=Server(url=url, protocol="legacy")) as used:
        assert (await used.call("web__act")).for_model == "acted"
        assert seen.count("tools/call") == 2


async def test_headers_are_sent_and_what_stands_in_them_is_never_told(monkeypatch):
    monkeypatch.setenv("TOKEN", "abcdefgh12345678")
    seen: list[str] = []

    async def answer(method, body, headers):
        seen.append(headers.get("authorization", ""))
        return 401, "application/json", b'{"error": "no such token abcdefgh12345678"}'

    async with answering(answer) as url:
        server = Server(url=url, headers={"Authorization": "Bearer ${TOKEN}"})
        async with using(web=server) as used:
            assert "Its last answer was HTTP 401" in used.failures["web"]
            assert "abcdefgh" not in used.failures["web"] + repr(server)
    assert seen[0] == "Bearer abcdefgh12345678"


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"<html>hello</html>", "text/html", "Unexpected content type: text/html"),
        (b"{", "application/json", "Failed to parse JSON response"),
        (b" " * 70_000, "application/json", "longer than 65,536 bytes"),
        (b"data: " + b"x" * 70_000 + b"\n\n", "text/event-stream", "SSE"),
        (b": nothing\n\n", "text/event-stream", "SSE stream ended without a response"),
        (b'{"jsonrpc": "2.0", "id": 4711, "result": {}}', "application/json", "a request that was never made"),
    ],
    ids=["html", "cut", "long", "long event", "empty stream", "false id"],
)
async def test_what_is_no_answer_is_told_in_bounded_time(body, kind, why):
    async def answer(method, sent, headers):
        return 200, kind, body

    async with answering(answer) as url, using(web=Server(url=url, max_message_bytes=65_536)) as used:
        assert why in used.failures["web"]


async def test_what_the_sdk_logs_of_our_servers_is_for_debugging_alone(caplog):
    caplog.set_level(logging.DEBUG)

    async def answer(method, body, headers):
        return 200, "application/json", b'{"token": "s3cret"}'

    async with answering(answer) as url, using(web=Server(url=url)) as used:
        assert "web" in used.failures

    told = [record for record in caplog.records if record.levelno > logging.INFO]
    assert told == []
    assert [record for record in caplog.records if record.name == "pluggent.mcp.web" and "SDK" in record.getMessage()]


async def test_a_stream_of_the_old_transport_that_ends_is_begun_anew():
    async def break_off(reader, writer, stream):
        writer.write(TAKEN)
        stream.close()

    async with (
        old_transport(break_off) as url,
        using(web=Server(url=url, type="sse", protocol="legacy")) as used,
    ):
        with pytest.raises(ToolError, match=r"its connection ended\. The call may have taken effect"):
            await used.call("web__act")
        assert (await used.call("web__act")).for_model == "acted"


async def test_an_address_without_a_server_is_named():
    async with using(web=Server(url="http://127.0.0.1:9/mcp")) as used:
        assert used.failures["web"].startswith("MCP server 'web': cannot reach http://127.0.0.1:9")


async def test_a_stream_that_never_ends_ends_with_the_call_and_others_go_on():
    calls = asyncio.Event()

    async def answer(method, body, headers):
        called = b'"tools/call"' in body
        if called:
            calls.set()
        return (200, "text/event-stream", None) if called else OLD[body.split(b'"method":"')[1].split(b'"')[0].decode()]

    async with (
        answering(answer) as url,
        listening(made().streamable_http_app()) as good,
        using(web=Server(url=url, protocol="legacy"), good=Server(url=f"{good}/mcp")) as used,
    ):
        call = asyncio.create_task(used.call("web__act"))
        await calls.wait()
        assert (await used.call("good__add", a=1, b=1)).for_model == "2"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_connection_that_breaks_in_a_call_leaves_its_outcome_open():
    async def answer(method, body, headers):
        return None if b'"tools/call"' in body else OLD[body.split(b'"method":"')[1].split(b'"')[0].decode()]

    async with answering(answer) as url, using(web=Server(url=url, protocol="legacy")) as used:
        with pytest.raises(ToolError, match="The call may have taken effect") as caught:
            await asyncio.wait_for(used.call("web__act"), WAIT_S)

    assert caught.value.kind is ToolErrorKind.OUTCOME_UNKNOWN


SECRETS = "hunter2"


@asynccontextmanager
async def answering_once(says=b"", tls=None):
    """Answer every connection with *says*, and hang up."""

    async def answer(reader, writer):
        await reader.read(1)
        writer.write(says)
        writer.write_eof()
        await reader.read()  # or what is unread would be an error of its own, before what was said
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


async def problem(port, scheme="http", **settings):
    """Return why a server there, whose URL has secrets, could not be used."""
    server = Server(url=f"{scheme}://ann:{SECRETS}@127.0.0.1:{port}/{SECRETS}?key={SECRETS}", **settings)
    async with asyncio.timeout(WAIT_S):
        said = (await check_server("web", server)).problem
    assert SECRETS not in said
    return said.replace(str(port), "PORT")


@pytest.fixture
def free():
    """Return a closed port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_closed_port_is_named(free, kind):
    assert await problem(free, type=kind) == (
        "cannot reach http://127.0.0.1:PORT: the connection is refused; see whether it is running"
    )


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "it ended the connection without an answer"),
        (b"+OK ready\r\n\r\n", "what answers there does not speak HTTP"),
    ],
)
async def test_what_is_no_server_of_http_is_said(says, why):
    async with answering_once(says) as port:
        assert await problem(port) == f"cannot reach http://127.0.0.1:PORT: {why}"


async def test_what_speaks_no_tls_is_said():
    async with answering_once(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        said = await problem(port, "https")

    assert said.startswith("cannot reach https://127.0.0.1:PORT: what answers there does not speak TLS; write http://")


async def test_a_certificate_that_is_not_trusted_is_said(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    new = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out mine.pem -days 1 -subj /CN=mine"
    openssl(tmp_path, *new.split())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "mine.pem", tmp_path / "key.pem")

    async with answering_once(tls=tls) as port:
        said = await problem(port, "https")

    assert said.startswith("cannot reach https://127.0.0.1:PORT: its certificate is not trusted: self")
    assert "SSL_CERT_FILE" in said


@pytest.mark.parametrize(
    ("error", "cause", "why"),
    [
        (httpx2.ConnectError, socket.gaierror(socket.EAI_NONAME, "x"), "there is no host of that name"),
        (httpx2.ConnectError, socket.gaierror(socket.EAI_AGAIN, "x"), "its name cannot be looked up"),
        (httpx2.ConnectError, OSError(errno.ENETUNREACH, "x"), "network is unreachable"),
        (httpx2.ConnectError, ExceptionGroup("x", [OSError(errno.ECONNREFUSED, "x")]), "the connection is refused"),
        (httpx2.ConnectTimeout, TimeoutError(), "it does not answer; see"),
        (httpx2.ReadTimeout, TimeoutError(), "it took the connection, and said nothing in time"),
    ],
)
def test_what_no_test_can_have_happen_is_said_too(error, cause, why):
    wrong = error("x", request=httpx2.Request("POST", "https://mcp.example.com/mcp?key=hunter2"))
    wrong.__cause__ = cause

    assert describe_failure(wrong).startswith(f"cannot reach https://mcp.example.com: {why}")


def test_that_a_proxy_stands_in_between_is_said(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://ann:hunter2@127.0.0.1:9")
    wrong = httpx2.ConnectError("x", request=httpx2.Request("POST", "https://mcp.example.com/mcp"))

    assert describe_failure(wrong) == (
        "cannot reach https://mcp.example.com, by way of the proxy that the environment names: x"
    )


def test_what_is_no_failure_of_a_connection_is_left_to_others():
    assert describe_failure(ValueError("x")) == ""
