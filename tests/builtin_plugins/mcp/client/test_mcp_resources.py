"""A server's resources and prompts, as tools that the operator switches on."""

import json

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_sdk import listening, made
from mcp_using import peer, using
from pluggent_hookspecs import ToolError, thaw
from pluggent_mcp.settings import Server


async def test_resources_and_prompts_are_listed_and_read():
    async with (
        listening(made().streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", resources=True, prompts=True)) as used,
    ):
        resources = json.loads(str((await used.call("web__list_resources")).for_model))
        prompts = (await used.call("web__list_prompts")).data
        read = await used.call("web__read_resource", uri="notes://today")
        prompt = await used.call("web__get_prompt", name="greet", arguments={"name": "Ann"})

    assert [entry["uri"] for entry in resources["entries"]] == ["notes://today"]
    assert [entry["name"] for entry in prompts["entries"]] == ["greet"]
    assert read.for_model == "[notes://today]\nnothing"
    assert prompt.for_model == "[user]\nGreet Ann."


async def test_their_tags_and_data_say_what_they_are_to_a_server_that_offers_them_again():
    async with (
        listening(made().streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", resources=True, prompts=True)) as used,
    ):
        tags = {name: tool.spec.tags - {"mcp"} for name, tool in used.tools.items()}
        read = await used.call("web__read_resource", uri="notes://today")
        prompt = await used.call("web__get_prompt", name="greet", arguments={"name": "Ann"})
        missing = await used.call("web__read_resource", uri="notes://yesterday")

    assert {name: found for name, found in tags.items() if found} == {
        "web__list_resources": {"mcp:resources/list"}, "web__read_resource": {"mcp:resources/read"},
        "web__list_prompts": {"mcp:prompts/list"}, "web__get_prompt": {"mcp:prompts/get"},
        "web__wait_for_resource": {"mcp:resources/wait"},
    }  # fmt: skip
    assert thaw(read.data) == {"contents": [{"uri": "notes://today", "mimeType": "text/plain", "text": "nothing"}]}
    assert thaw(prompt.data) == {"messages": [{"role": "user", "content": {"type": "text", "text": "Greet Ann."}}]}
    assert (missing.is_error, thaw(missing.data)) == (True, {"code": -32602})
    assert missing.for_model == "Error: MCP server 'web': it refused: Unknown resource: notes://yesterday (-32602)"


async def test_what_could_not_be_asked_for_as_it_is_shown_is_not_listed():
    server = MCPServer("odd", log_level="CRITICAL")
    for uri in ("notes://a", "notes://" + "b" * 3_000, "notes://\u202ec"):
        server.resource(uri, name="n")(lambda: "nothing")
    server.prompt(name="hidden\u200e")(lambda: "nothing")

    async with (
        listening(server.streamable_http_app()) as url,
        using(web=Server(url=f"{url}/mcp", resources=True, prompts=True)) as used,
    ):
        resources = thaw((await used.call("web__list_resources")).data)
        prompts = thaw((await used.call("web__list_prompts")).data)

    assert resources == {"entries": [{"uri": "notes://a", "name": "n", "type": "text/plain"}]}
    assert prompts == {"entries": []}


async def test_they_are_no_tools_unless_they_are_switched_on():
    async with listening(made().streamable_http_app()) as url, using(web=Server(url=f"{url}/mcp")) as used:
        assert [name for name in used.tools if "resource" in name or "prompt" in name] == []


async def test_they_read_from_the_network_unless_the_operator_says_otherwise():
    effects = {"read_resource": ("shell",), "get_*": ("messaging",)}
    async with using(one=peer("resources", resources=True, prompts=True, effects=effects, block=("list_p*",))) as used:
        wanted = ("one__list_", "one__read_", "one__get_")
        found = {name: set(tool.spec.effects or ()) for name, tool in used.tools.items() if name.startswith(wanted)}

    assert found == {
        "one__list_resources": {"network_read"}, "one__read_resource": {"shell"}, "one__get_prompt": {"messaging"}
    }  # fmt: skip


async def test_a_server_without_any_has_no_such_tools():
    async with using(one=peer(resources=True, prompts=True)) as used:
        assert "one__list_resources" not in used.tools


async def test_what_a_server_refuses_is_told():
    async with using(one=peer("resources", resources=True)) as used:
        with pytest.raises(ToolError, match=r"MCP server 'one': it refused: no such method \(-32601\)"):
            await used.call("one__read_resource", uri="notes://today")
