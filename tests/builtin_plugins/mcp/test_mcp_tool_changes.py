"""Servers whose tools change, and what becomes of a tool that is not any more what it was."""

import json

import pytest
from mcp_sdk import listening, made
from mcp_using import peer, using
from pluggent_hookspecs import ToolError
from pluggent_mcp.settings import Server


async def test_a_tool_whose_definition_changed_is_not_called_before_it_was_offered_anew():
    async with using(one=peer()) as used:
        before, old = used.sources["one"].revision, used.tools["one__echo"]
        await used.call("one__change")
        await used.revised("one", before)

        used.tools["old"] = old
        with pytest.raises(ToolError, match="the definition of 'echo' has changed since it was offered"):
            await used.call("old", text="x")
        assert used.tools["one__echo"].spec.description == "[MCP server one] Another one."
        assert (await used.call("one__echo", text="x")).for_model == "x"


async def test_a_tool_that_is_gone_is_not_called():
    async with using(one=peer()) as used:
        before, old = used.sources["one"].revision, used.tools["one__echo"]
        await used.call("one__remove")
        await used.revised("one", before)

        assert "one__echo" not in used.tools
        used.tools["old"] = old
        with pytest.raises(ToolError, match="it does not offer 'echo' any more"):
            await used.call("old", text="x")


async def test_a_server_that_comes_back_as_another_is_seen_through():
    async with using(one=peer()) as used:
        await used.call("one__grow")
        await used.revised("one", 0)
        before, grown = used.sources["one"].revision, used.tools["one__grown"]
        with pytest.raises(ToolError, match="exit code 9"):
            await used.call("one__die")

        used.tools["grown"] = grown
        with pytest.raises(ToolError, match="it does not offer 'grown' any more"):
            await used.call("grown")
        assert (used.sources["one"].revision or 0) > (before or 0)


async def test_a_list_that_did_not_change_is_no_news():
    async with using(one=peer(allow=("counts", "grow"))) as used:
        await used.call("one__grow")
        listings = 1
        while listings == 1:
            listings = json.loads(str((await used.call("one__counts")).for_model))[1]

        assert used.sources["one"].revision == 0
        assert used.tools.keys() == {"one__counts", "one__grow"}


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_new_tool_is_there_once_the_server_said_so_over_http(protocol):
    async with (
        listening(made().streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", protocol=protocol)) as used,
    ):
        await used.call("web__grow")
        await used.revised("web", 0)

        assert (await used.call("web__grown")).for_model == "grown"


async def test_a_tool_of_another_command_is_another_tool():
    async with using(one=peer()) as used:
        first = used.tools["one__echo"].spec
    async with using(one=peer("old")) as used:
        second = used.tools["one__echo"].spec

    assert first.version == second.version
    assert first.extra != second.extra
