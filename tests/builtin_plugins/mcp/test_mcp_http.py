"""Servers over HTTP: the SDK's own, both transports, and answers that no server should give."""

import asyncio
import logging

import pytest
from mcp_answering import OLD, TAKEN, answering, old_transport
from mcp_sdk import Kept, listening, made
from mcp_using import WAIT_S, Context, using
from pluggent_hookspecs import ToolError, ToolErrorKind
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


async def test_nobody_at_the_other_end_is_told():
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
