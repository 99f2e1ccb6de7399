"""What clients differ in, against ``pluggent mcp serve``: their protocols, how much they send, how they give up."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp.shared.exceptions import MCPError
from mcp_foreign import EXPORTED, GIVEN, served_by
from mcp_serving import WAIT_S, client_of, over_http, over_stdio
from mcp_types import PromptReference

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ANY = '\u00e9\u6587\U0001f600\u2028\u202e\t"\\\n'
"""Characters of one to four bytes, and some that break lines or turn them round."""


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    return served_by(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def served(cli):
    with over_http(cli, *EXPORTED) as running:
        yield running


def text(result):
    return "".join(block.text for block in result.content)


async def test_every_protocol_with_a_handshake_is_spoken_and_of_others_the_newest_of_these(served):
    spoken, said = [], []
    async with asyncio.timeout(WAIT_S):
        for version in (*HANDSHAKES, "2999-01-01"):
            async with raw(served) as ask:
                info = {"name": "raw", "version": "1"}
                greeting = await ask("initialize", protocolVersion=version, capabilities={}, clientInfo=info)
                spoken.append(greeting["protocolVersion"])
                said.append((await ask("tools/call", name="facts", arguments={}))["content"])

    assert spoken == [*HANDSHAKES, HANDSHAKES[-1]]
    assert said == [[{"type": "text", "text": "22 degrees"}]] * 5


@asynccontextmanager
async def raw(served):
    """Yield what asks over HTTP and returns the result; it keeps to its session, and sends no other header."""
    headers = {"Authorization": f"Bearer {served.token}", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http:

        async def ask(method, **params):
            document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await http.post(served.url, json=document)
            http.headers.update({"Mcp-Session-Id": answer.headers.get("Mcp-Session-Id", "")})
            (line,) = [line for line in answer.text.splitlines() if line.startswith("data: {")]
            return json.loads(line.removeprefix("data: "))["result"]

        yield ask
        await http.delete(served.url)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_long_texts_of_any_characters_arrive_as_they_were(cli, served, mode):
    given = {**GIVEN, "word": ANY * 30_000, "names": [ANY, ""]}

    async with asyncio.timeout(WAIT_S), client_of(served, mode) as http, over_stdio(cli, *EXPORTED, mode=mode) as pipe:
        results = [await client.call_tool("typed", given) for client in (http, pipe)]

    for result in results:
        assert result.structured_content == {"given": list(given.values())}


async def test_many_calls_of_one_client_at_once_get_each_its_own_answer(cli, served):
    async with asyncio.timeout(WAIT_S), client_of(served) as http, over_stdio(cli, *EXPORTED) as pipe:
        for client in (http, pipe):
            calls = [client.call_tool("typed", {**GIVEN, "count": number}) for number in range(60)]
            counts = [result.structured_content["given"][1] for result in await asyncio.gather(*calls)]

            assert counts == list(range(60))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_waits_no_longer_ends_the_call_in_the_host(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        with pytest.raises(MCPError):
            await client.call_tool("forever", {}, read_timeout_seconds=0.2)
        said = text(await client.call_tool("was_cancelled", {}))

    assert said == "it was"


async def test_what_is_not_offered_is_an_error_and_the_client_goes_on(served):
    async with asyncio.timeout(WAIT_S), client_of(served, "legacy") as client:
        with pytest.raises(MCPError):
            await client.session.complete(PromptReference(name="x"), {"name": "a", "value": "b"})
        after = await client.call_tool("facts", {})

    assert text(after) == "22 degrees"
