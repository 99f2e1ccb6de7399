"""Clients of ``pluggent mcp serve`` subscribe to single resources of a server behind it."""

import asyncio
from pathlib import Path

import pytest
from cli_support import words_to_fork
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_serving import WAIT_S, client_of, made, over_http, over_stdio
from mcp_types import (
    EmptyResult,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

PROGRAM = Path(__file__).parents[1] / "support" / "mcp_changing.py"
BEHIND = pytest.mark.parametrize("behind", ["auto", "legacy"])
WORDS = ("--resources", "notes__*", "--tools", "notes__change", "notes__counts")
DENIED = """
[[plugins.pluggent-permissions.rules]]
id = "no waiting"
decision = "deny"
when.tool = "pluggent-mcp:tool/notes__wait_for_resource"
when.principal = "claimed:impatient"
tell_model = "nothing is watched for you"
"""


def gateway(folder, behind):
    cli = made(folder)
    config = cli.work / "mine.toml"
    command, *words = words_to_fork(PROGRAM)
    server = f"[plugins.pluggent-mcp.mcpServers.notes]\ncommand = {command!r}\nargs = {words!r}\n"
    more = f"resources = true\nprotocol = {behind!r}\neffects = {{ '*' = [] }}\n"
    config.write_text(config.read_text("utf-8") + DENIED + server + more, "utf-8")
    return cli


@pytest.fixture(scope="module", params=["auto", "legacy"])
def served(request, tmp_path_factory):
    with over_http(gateway(tmp_path_factory.mktemp("changing"), request.param), *WORDS) as running:
        yield running


class News:
    """The resources that a client was notified of."""

    def __init__(self):
        self.uris: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, message):
        if isinstance(message, ResourceUpdatedNotification):
            await self.uris.put(message.params.uri)


def announced(client):
    return client.server_capabilities.resources.subscribe


async def subscribed(client, uri):
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


async def unsubscribed(client, uri):
    await client.session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)


async def test_a_client_of_a_handshake_protocol_is_notified_until_it_unsubscribes(served):
    news = News()
    async with asyncio.timeout(WAIT_S), client_of(served, "legacy", message_handler=news) as client:
        await subscribed(client, "notes://1")
        await client.call_tool("notes__change", {"uri": "notes://1"})
        first = await news.uris.get()
        await client.call_tool("notes__change", {"uri": "notes://1"})
        second = await news.uris.get()
        await unsubscribed(client, "notes://1")
        await subscribed(client, "notes://2")
        await client.call_tool("notes__change", {"uri": "notes://1"})
        await client.call_tool("notes__change", {"uri": "notes://2"})
        third = await news.uris.get()

    assert (first, second, third) == ("notes://1", "notes://1", "notes://2")


async def test_a_client_of_the_newest_protocol_hears_it_on_its_stream(served):
    wanted = ["notes://3", "nothing://there"]
    async with (
        asyncio.timeout(WAIT_S),
        client_of(served) as client,
        client.listen(resource_subscriptions=wanted, tools_list_changed=True) as events,
    ):
        honored = events.honored.resource_subscriptions
        await client.call_tool("notes__change", {"uri": "notes://3"})
        event = await anext(events)

    assert honored is not None
    assert "notes://3" in honored
    assert event == ResourceUpdated("notes://3")


async def test_a_policy_that_denies_the_wait_denies_the_subscription(served):
    async with asyncio.timeout(WAIT_S), client_of(served, "legacy", "impatient") as client:
        with pytest.raises(MCPError, match="Denied: nothing is watched for you"):
            await subscribed(client, "notes://4")
    async with (
        asyncio.timeout(WAIT_S),
        client_of(served, "auto", "impatient") as client,
        client.listen(resource_subscriptions=["notes://4"]) as events,
    ):
        assert not events.honored.resource_subscriptions


async def test_a_client_has_at_most_sixteen(served):
    async with asyncio.timeout(WAIT_S), client_of(served, "legacy") as client:
        for number in range(16):
            await subscribed(client, f"notes://{number + 10}")
        with pytest.raises(MCPError, match="subscriptions are at their limit"):
            await subscribed(client, "notes://40")
        await subscribed(client, "notes://10")  # it has that one
        await unsubscribed(client, "notes://10")
        await subscribed(client, "notes://40")
        with pytest.raises(MCPError, match="the URI is longer than"):
            await subscribed(client, "notes://" + "x" * 2_000)


@BEHIND
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_stdio_it_is_announced_and_ends_with_the_client(behind, mode, tmp_path):
    cli, news = gateway(tmp_path, behind), News()
    async with asyncio.timeout(3 * WAIT_S), over_stdio(cli, *WORDS, mode=mode, message_handler=news) as client:
        assert announced(client) is True
        if mode == "legacy":
            await subscribed(client, "notes://5")
            await client.call_tool("notes__change", {"uri": "notes://5"})
            assert await news.uris.get() == "notes://5"
        else:
            async with client.listen(resource_subscriptions=["notes://5"]) as events:
                await client.call_tool("notes__change", {"uri": "notes://5"})
                assert await anext(events) == ResourceUpdated("notes://5")

    assert "Traceback" not in (cli.work / "errors.txt").read_text("utf-8")


async def test_it_is_refused_where_nothing_says_what_changes(tmp_path):
    cli = made(tmp_path)
    async with asyncio.timeout(3 * WAIT_S), over_stdio(cli, "--resources", "acme", mode="legacy") as client:
        with pytest.raises(MCPError, match="it is not known when that resource changes"):
            await subscribed(client, "test://static-text")


async def test_subscribing_takes_a_slot_like_every_call_so_that_a_flood_of_it_is_refused(tmp_path):
    cli = gateway(tmp_path, "auto")
    config = cli.work / "mine.toml"
    config.write_text(config.read_text("utf-8") + "\n[plugins.pluggent-mcp.serve]\nmax_calls = 1\n", "utf-8")
    words = (*WORDS, "forever")
    async with asyncio.timeout(3 * WAIT_S), over_stdio(cli, *words, mode="legacy") as client:
        await client.list_tools()  # which waits until the servers behind have said what they have
        calls = [asyncio.create_task(client.call_tool("forever", {})) for _ in range(17)]
        await asyncio.sleep(0)  # they are sent before it
        with pytest.raises(MCPError, match="17 calls are under way or waiting already"):
            await subscribed(client, "notes://1")
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
