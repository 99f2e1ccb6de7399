"""What a client is told beside results: logs, what structured results look like, and that lists have changed."""

import asyncio

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_serving_sites import asking_site, client
from mcp_types import ContentBlock, TextContent, ToolListChangedNotification

ERAS = ("auto", "legacy")
WAIT_S = 20.0


def seasonal(cli, *names):
    """Change the tools of the source that changes."""
    part = cli.work / "season.part"
    part.write_text(" ".join(names))
    part.replace(cli.work / "season.txt")


@pytest.mark.parametrize("wire", ["stdio", "http"])
async def test_a_client_of_the_older_protocols_gets_logs_from_the_level_that_it_sets(wire, tmp_path):
    told = []

    async def heard(params):
        told.append((params.level, params.logger, params.data))

    async with client(wire, asking_site(tmp_path), "legacy", logging_callback=heard) as connected:
        assert connected.server_capabilities.logging is not None
        await connected.call_tool("chatter", {})
        unset = [*told]
        told.clear()
        with pytest.warns(Warning, match="deprecated"):
            await connected.set_logging_level("error")
        await connected.call_tool("chatter", {})

    error = ("error", "oven", {"message": "as error", "data": {"degrees": 250}})
    assert unset == [("info", "oven", "as info"), error]
    assert told == [error]


async def test_a_client_of_the_newest_protocol_gets_the_logs_that_its_request_asks_for(tmp_path):
    told = []

    async def heard(params):
        told.append(params.level)

    async with client("stdio", asking_site(tmp_path), "auto", logging_callback=heard) as connected:
        await connected.call_tool("chatter", {})
        assert told == []
        await connected.call_tool("chatter", {}, meta={"io.modelcontextprotocol/logLevel": "info"})

    assert told == ["info", "error"]


@pytest.mark.parametrize("mode", ERAS)
async def test_schemas_of_results_are_listed_and_kept(mode, tmp_path):
    async with client("stdio", asking_site(tmp_path), mode) as connected:
        listed = {tool.name: tool.output_schema for tool in (await connected.list_tools()).tools}
        kept = await connected.call_tool("counted", {})
        broken = await connected.call_tool("silent", {})

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (listed["counted"], listed["chatter"]) == (schema, None)
    assert (kept.structured_content, kept.is_error) == ({"n": 1}, False)
    assert broken.is_error
    assert [text(block) for block in broken.content][1:] == ["nothing"]
    assert "The call has run. Its structured result is not what its schema promises" in text(broken.content[0])


@pytest.mark.parametrize("wire", ["stdio", "http"])
async def test_clients_of_the_older_protocols_are_told_that_tools_have_changed(wire, tmp_path):
    cli, changed = asking_site(tmp_path), anyio.Event()

    async def noticed(message):
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    async with client(wire, cli, "legacy", message_handler=noticed) as connected:
        assert changing(connected)
        assert "seasonal_soup" not in await names(connected)
        seasonal(cli, "seasonal_soup")

        await asyncio.wait_for(changed.wait(), WAIT_S)
        assert "seasonal_soup" in await names(connected)


@pytest.mark.parametrize("wire", ["stdio", "http"])
async def test_clients_of_the_newest_protocol_are_told_if_they_listen(wire, tmp_path):
    cli = asking_site(tmp_path)
    async with client(wire, cli, "auto") as connected:
        assert changing(connected)
        await names(connected)
        async with asyncio.timeout(WAIT_S), connected.listen(tools_list_changed=True) as events:
            seasonal(cli, "seasonal_soup")
            event = await anext(aiter(events))
        found = await names(connected)

    assert type(event).__name__ == "ToolsListChanged"
    assert "seasonal_soup" in found


async def test_a_tool_that_is_gone_cannot_be_called(tmp_path):
    cli = asking_site(tmp_path)
    seasonal(cli, "seasonal_soup", "seasonal_salad")
    async with client("stdio", cli, "legacy") as connected:
        assert text((await connected.call_tool("seasonal_soup", {})).content[0]) == "seasonal_soup is fine"
        seasonal(cli, "seasonal_salad")
        with pytest.raises(MCPError, match="Unknown tool: seasonal_soup"):
            await until_gone(connected, "seasonal_soup")


def text(block: ContentBlock) -> str:
    """Return the text of *block*."""
    assert isinstance(block, TextContent)
    return block.text


def changing(connected: Client) -> bool | None:
    """Say whether the server announces that its tools may change."""
    tools = connected.server_capabilities.tools
    return tools is not None and tools.list_changed


async def until_gone(connected: Client, tool: str) -> None:
    """Call *tool* until that is an error of the protocol; until then it is one of the host."""
    async with asyncio.timeout(WAIT_S):
        while True:
            assert (await connected.call_tool(tool, {})).is_error
            await connected.list_tools()


async def names(connected: Client) -> set[str]:
    """Return the names of all tools."""
    return {tool.name for tool in (await connected.list_tools(cache_mode="bypass")).tools}
