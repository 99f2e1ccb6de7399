"""A place that cannot be reached is named, with what is wrong there and what to look at; nothing secret is."""

import asyncio
import errno
import shutil
import socket
import ssl
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp_using import WAIT_S
from odd_server import openssl
from pluggent_mcp.client.http_transport import describe_failure
from pluggent_mcp.commands.server_check import check_server
from pluggent_mcp.settings import Server

SECRETS = "hunter2"


@asynccontextmanager
async def answering(says=b"", tls=None):
    """Answer whoever comes with *says*, and hang up."""

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
    """Return a port at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_port_at_which_nobody_listens_is_named(free, kind):
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
    async with answering(says) as port:
        assert await problem(port) == f"cannot reach http://127.0.0.1:PORT: {why}"


async def test_what_speaks_no_tls_is_said():
    async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        said = await problem(port, "https")

    assert said.startswith("cannot reach https://127.0.0.1:PORT: what answers there does not speak TLS; write http://")


async def test_a_certificate_that_is_not_trusted_is_said(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here")
    new = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out mine.pem -days 1 -subj /CN=mine"
    openssl(tmp_path, *new.split())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "mine.pem", tmp_path / "key.pem")

    async with answering(tls=tls) as port:
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
