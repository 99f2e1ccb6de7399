"""Resources and prompts that tools of any plugin make, as their tags say, served by ``pluggent mcp serve``."""

import asyncio
from contextlib import suppress

import pytest
from fake_distributions import install
from mcp.shared.exceptions import MCPError
from mcp_serving import BLOCKED, KEY, WAIT_S, client_of, made, over_http, over_stdio, settings_behind
from pluggent_cli.main import main

ACME = ("--resources", "acme", "--prompts", "acme", "--tools", "facts")
BETA = '''
from pluggent_hookspecs import ToolOutput, hookimpl, tool

@tool(effects=(), tags=("mcp:resources/list",))
def list_resources() -> dict[str, list[dict[str, str]]]:
    """List."""
    return {"entries": [{"uri": "beta://one", "name": "one"}]}

@tool(effects=(), tags=("mcp:resources/read",))
def read_resource(uri: str) -> ToolOutput:
    """Read."""
    return ToolOutput("of beta", data={"contents": [{"uri": uri, "text": "of beta"}]})

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [list_resources, read_resource]
'''
FEW = "\n[plugins.pluggent-mcp.serve]\nmax_calls = 1\nresources = ['acme']\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with over_http(made(tmp_path_factory.mktemp("tools")), *ACME) as running:
        yield running


def plain(thing):
    """Return *thing* as it stood on the wire."""
    return thing.model_dump(mode="json", by_alias=True, exclude_none=True)


async def test_a_long_list_comes_in_pages_and_none_is_missing_or_double(served):
    found, cursor, pages = [], None, 0
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        while pages == 0 or cursor is not None:
            page = await client.list_resources(cursor=cursor)
            found += [each.uri for each in page.resources]
            cursor, pages = page.next_cursor, pages + 1
        for garbage in ("-1", "next", "9" * 50, "¹"):
            with pytest.raises(MCPError, match="that cursor is none of this server's"):
                await client.list_resources(cursor=garbage)
        behind = (await client.list_resources(cursor="999999")).resources

    assert (pages, len(found), len(set(found))) == (3, 253, 253)
    assert [uri for uri in found if uri.startswith("many:")] == [f"many://{number}" for number in range(250)]
    assert behind == []


async def test_a_source_whose_reading_a_policy_denies_is_listed_and_not_read(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        with pytest.raises(MCPError, match="Denied: the letter is sealed"):
            await client.read_resource("sealed://letter")
        other = plain(await client.read_resource("test://static-text"))["contents"]
        tools = [tool.name for tool in (await client.list_tools()).tools]

    assert [each["text"] for each in other] == ["This is the content of the static text resource."]
    assert tools == ["facts"]


async def test_what_failed_or_was_cut_is_an_error_with_the_words_of_the_host(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        for uri, says in (
            ("test://template/broken", "Error: the disk is gone"),
            ("many://7", "what 'many__read_resource' returned is not served: text and data of the result"),
        ):
            with pytest.raises(MCPError, match=says) as raised:
                await client.read_resource(uri)
            assert raised.value.code == -32603


async def test_a_prompt_of_a_tool_passes_the_result_hooks(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        said = await client.get_prompt("leak")
        image = await client.get_prompt("test_prompt_with_image")

    assert KEY not in said.model_dump_json()
    assert "[redacted:" in plain(said)["messages"][0]["content"]["text"]
    assert [each.role for each in image.messages] == ["assistant", "user"]


async def test_two_plugins_with_tools_of_one_name_are_told_apart(tmp_path):
    cli = made(tmp_path)
    install(cli.site, "beta", {"tools/beta": "beta_served:Tools"}, modules={"beta_served": BETA})
    words = ("--tools", "acme:tool/list_resources", "--resources", "beta")
    async with asyncio.timeout(WAIT_S), over_stdio(cli, *words) as client:
        await client.list_resources()
        tools = [tool.name for tool in (await client.list_tools()).tools]
        called = plain(await client.call_tool("acme_list_resources", {}))["structuredContent"]
        listed = [each.uri for each in (await client.list_resources()).resources]
        read = plain(await client.read_resource("beta://one"))["contents"]

    assert tools == ["acme_list_resources"]
    assert called["entries"][0]["uri"] == "test://static-text"
    assert (listed, read) == (["beta://one"], [{"uri": "beta://one", "text": "of beta"}])


async def test_they_count_among_the_calls_that_may_run(tmp_path):
    cli = made(tmp_path)
    config = cli.work / "mine.toml"
    config.write_text(config.read_text("utf-8") + FEW, "utf-8")
    with over_http(cli, "--tools", "acme") as running:
        async with asyncio.timeout(WAIT_S), client_of(running) as client:
            await client.list_resources()
            calls = [asyncio.create_task(client.call_tool("forever", {})) for _ in range(18)]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(MCPError, match="17 calls are under way or waiting already") as raised:
                await client.list_resources()
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            after = None
            while after is None:  # until the server has heard that the others were cancelled
                with suppress(MCPError):
                    after = await client.list_resources()

    assert raised.value.code == -32000
    assert after.next_cursor is not None


@pytest.mark.parametrize("sort", ["resources", "prompts"])
def test_where_nothing_has_any_it_is_said_how_to_switch_them_on(sort, tmp_path, capfd):
    config = tmp_path / "mine.toml"
    config.write_text(settings_behind("one", "s", wanted=False), "utf-8")

    code = main(["--config", str(config), "mcp", "serve", f"--{sort}", "one__*", "--http", "127.0.0.1:0"])

    err = capfd.readouterr().err
    assert code == 2
    assert f"nothing that one__* means has {sort}" in err
    assert f"[plugins.pluggent-mcp.mcpServers.NAME] {sort} = true" in err


def test_a_reader_whose_list_is_missing_is_none(tmp_path):
    done = made(tmp_path)("mcp", "serve", "--resources", "lonely_*", "--http", "127.0.0.1:0", PLUGGENT_BLOCK=BLOCKED)

    assert done.code == 2
    assert "--resources: nothing that lonely_* means has resources" in done.err


NO_LIST = """
[[plugins.pluggent-permissions.rules]]
id = "curious"
decision = "deny"
when.tool = "acme:tool/list_prompts"
when.principal = "claimed:curious"
tell_model = "not for the curious"
"""


async def test_what_one_client_has_listed_is_nothing_for_another(tmp_path):
    cli = made(tmp_path)
    (cli.work / "mine.toml").write_text(NO_LIST, encoding="utf-8")
    with over_http(cli, *ACME) as running:
        async with (
            asyncio.timeout(WAIT_S),
            client_of(running, name="friend") as friend,
            client_of(running, name="curious") as curious,
        ):
            listed = await friend.list_prompts()
            with pytest.raises(MCPError, match="not for the curious"):
                await curious.list_prompts()
            with pytest.raises(MCPError, match="not for the curious"):
                await curious.get_prompt("test_prompt_with_arguments", {})

    assert "test_prompt_with_arguments" in {prompt.name for prompt in listed.prompts}
