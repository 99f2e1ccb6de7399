"""Who may speak HTTP to ``pluggent mcp serve``, and how much: raw requests, without a client that behaves."""

import asyncio
import json
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from mcp.shared.exceptions import MCPError
from mcp_serving import BLOCKED, WAIT_S, client_of, made, over_http

NEWEST = "2026-07-28"
TOKEN = "correct-horse-battery"
SETTINGS = """
[plugins.pluggent-mcp.serve]
tools = ["acme"]
token = "env:MCP_TOKEN"
hosts = ["mcp.example.com"]
max_message_bytes = 4000
max_sessions = 2
max_calls = 1
request_timeout_s = 0.5
"""
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
ASKS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
KNOWS = {**ASKS, "Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    cli = made(tmp_path_factory.mktemp("guarded"))
    (cli.work / "mine.toml").write_text(SETTINGS, encoding="utf-8")
    with over_http(cli, token_is_set=True, MCP_TOKEN=TOKEN) as running:
        yield running


def ask(served, headers, body=INITIALIZE, *, method="POST", path="/mcp"):
    """Return the status, the headers and the text of an answer."""
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_S)
    try:
        connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()
    finally:
        connection.close()


def end(served, headers):
    """End the session that an answer began."""
    session = {name.lower(): value for name, value in headers.items()}["mcp-session-id"]
    assert ask(served, {**KNOWS, "Mcp-Session-Id": session}, b"", method="DELETE")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8722"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost@evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost.evil.example"}, 403),
        ({"Origin": "file://localhost"}, 403),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": "Bearer \xe9"}, 401),
    ],
)
def test_foreign_hosts_foreign_pages_and_strangers_are_refused(served, headers, status):
    got, sent, said = ask(served, {**KNOWS, **headers})

    assert got == status
    assert not any(value and value in said for value in headers.values())
    assert ("www-authenticate" in sent) == (status == 401)


def test_without_any_authorization_nothing_is_answered(served):
    assert ask(served, ASKS)[0] == 401
    assert ask(served, ASKS, b"", method="GET")[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:1"},
        {"Host": "[::1]:8722"},
        {"Host": "MCP.Example.com"},
        {"Origin": "http://localhost:6274"},
        {"Origin": "https://mcp.example.com"},
        {"Authorization": f"bearer {TOKEN}"},
    ],
)
def test_names_of_this_machine_and_those_that_the_operator_gave_are_known(served, headers):
    status, sent, said = ask(served, {**KNOWS, **headers})

    assert status == 200
    assert '"serverInfo"' in said
    end(served, sent)


def test_there_is_nothing_beside_the_one_address(served):
    assert ask(served, KNOWS, path="/")[0] == 404
    assert ask(served, KNOWS, path="/mcp/../etc")[0] == 404


def test_a_body_that_is_too_long_is_refused_before_it_is_read(served):
    assert ask(served, KNOWS, b"x" * 4_001)[0] == 413


def test_a_request_that_does_not_come_to_its_end_is_given_up(served):
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as slow:
        slow.sendall(
            f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        with slow.makefile("rb") as file:
            said = file.read()

    assert said.startswith(b"HTTP/1.1 408 ")


def test_two_names_for_one_host_are_none(served):
    parts = urlsplit(served.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as raw:
        raw.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n")
        with raw.makefile("rb") as file:
            said = file.read()

    assert said.split(b" ")[1] in (b"400", b"421")


def session_of(answer):
    """Return the id of the session that an answer began."""
    assert answer[0] == 200
    return {name.lower(): value for name, value in answer[1].items()}["mcp-session-id"]


def streaming(served, session):
    """Let the server send at any time, until what is returned is closed; the session is in use until then."""
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_S)
    connection.request("GET", "/mcp", headers={**KNOWS, "Mcp-Session-Id": session})
    response = connection.getresponse()
    stream = ExitStack()
    stream.callback(connection.close)
    stream.callback(response.close)
    assert response.status == 200
    return stream


@pytest.mark.parametrize("event", ["1", "", "another-session_1", "x" * 10_000])
def test_a_stream_that_a_client_wants_to_resume_begins_anew(served, event):
    _, begun, _ = ask(served, KNOWS)
    session = {name.lower(): value for name, value in begun.items()}["mcp-session-id"]
    connection = HTTPConnection(urlsplit(served.url).netloc, timeout=WAIT_S)
    try:
        connection.request("GET", "/mcp", headers={**KNOWS, "Mcp-Session-Id": session, "Last-Event-ID": event})
        answer = connection.getresponse()

        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    finally:
        connection.close()
    end(served, begun)


def test_sessions_that_were_opened_and_left_lock_no_client_out(served):
    abandoned = [session_of(ask(served, KNOWS)) for _ in range(5)]
    last = session_of(ask(served, KNOWS))
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

    assert ask(served, {**KNOWS, "Mcp-Session-Id": abandoned[0]}, listing)[0] == 404
    assert ask(served, {**KNOWS, "Mcp-Session-Id": last}, listing)[0] == 200


def test_sessions_in_use_are_not_ended_for_others_who_are_told_when_to_come_back(served):
    used, streams = [], []
    for _ in range(2):
        used.append(session_of(ask(served, KNOWS)))
        streams.append(streaming(served, used[-1]))

    status, headers, _ = ask(served, KNOWS)
    for stream in streams:
        stream.close()

    assert (status, headers["retry-after"]) == (503, "5")
    for session in used:
        assert ask(served, {**KNOWS, "Mcp-Session-Id": session}, b"", method="DELETE")[0] == 200


def test_the_calls_of_a_hundred_clients_at_once_wait_for_each_other_and_none_fails(tmp_path):
    meta = {"protocolVersion": NEWEST, "clientInfo": {"name": "raw", "version": "1"}, "clientCapabilities": {}}
    params = {"name": "facts", "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    more = {"Mcp-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "facts"}
    at_once = threading.Barrier(100)

    with over_http(made(tmp_path), "--tools", "acme") as running, ThreadPoolExecutor(100) as clients:

        def call(_):
            at_once.wait(WAIT_S)
            return ask(running, {**ASKS, **more, "Authorization": f"Bearer {running.token}"}, body)

        answers = list(clients.map(call, range(100)))

    assert {(status, '"isError":false' in said) for status, _, said in answers} == {(200, True)}


async def test_more_calls_than_may_wait_are_refused_and_the_others_go_on(served):
    async with asyncio.timeout(WAIT_S), client_of(served._replace(token=TOKEN)) as client:
        calls = [asyncio.create_task(client.call_tool("forever", {})) for _ in range(18)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in waiting:
            call.cancel()
        await asyncio.wait(waiting)
        after = None
        while after is None:  # until the server has heard that the others were cancelled
            with suppress(MCPError):
                after = await client.call_tool("facts", {})

    assert {str(call.exception()) for call in done} == {"17 calls are under way or waiting already; try again later"}
    assert not after.is_error


async def test_what_the_settings_export_is_served_and_protocols_without_sessions_need_none(served):
    async with client_of(served._replace(token=TOKEN)) as one, client_of(served._replace(token=TOKEN)) as other:
        answers = [await client.call_tool("facts", {}) for client in (one, other, one)]

    assert [answer.is_error for answer in answers] == [False] * 3


def test_a_signal_ends_it_with_sessions_open_and_says_no_secret(tmp_path):
    with over_http(made(tmp_path), "--tools", "acme") as running:
        begun = {name.lower(): value for name, value in ask(running, {**ASKS, **bearer(running)})[1].items()}
        listening = HTTPConnection(urlsplit(running.url).netloc, timeout=WAIT_S)
        own = {**bearer(running), "Accept": "text/event-stream", "Mcp-Session-Id": begun["mcp-session-id"]}
        listening.request("GET", "/mcp", headers=own)
        stream = listening.getresponse()

        running.process.send_signal(signal.SIGTERM)
        out, err = running.process.communicate(timeout=WAIT_S)
        status = stream.status
        stream.close()
        listening.close()

    assert status == 200
    assert (running.process.returncode, out) == (128 + signal.SIGTERM, "")
    assert running.token not in err
    assert "Traceback" not in err


def bearer(served):
    return {"Authorization": f"Bearer {served.token}"}


def test_without_a_token_this_machine_is_served_if_the_operator_wants_it(tmp_path):
    with over_http(made(tmp_path), "--tools", "acme", "--token", "none", token_is_set=True) as running:
        assert ask(running, ASKS)[0] == 200
        assert ask(running, {**ASKS, "Host": "evil.example"})[0] == 421


def test_a_port_that_is_taken_is_said(tmp_path):
    cli = made(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = cli("mcp", "serve", "--tools", "acme", "--http", str(port), PLUGGENT_BLOCK=BLOCKED)

    assert done.code == 2
    assert f"cannot listen at 127.0.0.1:{port}" in done.err
