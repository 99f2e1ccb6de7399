"""Resources and prompts of servers behind ``pluggent mcp serve``, as they are for the SDK's client before it."""

import asyncio

import pytest
from mcp.shared.exceptions import MCPError
from mcp_sdk import DOT
from mcp_serving import KEY, WAIT_S, client_of, made, over_http, over_stdio, settings_behind

MODES = pytest.mark.parametrize(("mode", "missing"), [("auto", -32602), ("legacy", -32002)])
BOTH = ("--resources", "mcp", "--prompts", "mcp")


def gateway(folder, *servers):
    """Return a command with *servers* behind it."""
    cli = made(folder)
    config = cli.work / "mine.toml"
    config.write_text(config.read_text("utf-8") + "".join(settings_behind(name, KEY) for name in servers), "utf-8")
    return cli


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with over_http(gateway(tmp_path_factory.mktemp("native"), "one", "two"), *BOTH) as running:
        yield running


def plain(thing):
    """Return *thing* as it stood on the wire."""
    return thing.model_dump(mode="json", by_alias=True, exclude_none=True)


async def contents(client, uri):
    (found,) = (await client.read_resource(uri)).contents
    return plain(found)


@MODES
async def test_resources_are_listed_and_read_as_their_servers_have_them(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        listed = {each.uri: plain(each) for each in (await client.list_resources()).resources}
        templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
        read = {name: await contents(client, f"two://{name}") for name in ("page", "dot", "zip")}
        book = await contents(client, "one://shelves/7/books/left")

    assert listed["one://dot"] == {"uri": "one://dot", "name": "dot", "mimeType": "image/png"}
    assert listed["notes://shared"]["description"] == "What each of them has."
    assert templates == ["one://shelves/{shelf}/books/{book}", "two://shelves/{shelf}/books/{book}"]
    assert read == {
        "page": {"uri": "two://page", "mimeType": "text/html", "text": "<p>one\n</p>\n"},
        "dot": {"uri": "two://dot", "mimeType": "image/png", "blob": DOT},
        "zip": {"uri": "two://zip", "mimeType": "application/zip", "blob": "UEsDBP8="},
    }
    assert book == {"uri": "one://shelves/7/books/left", "mimeType": "text/plain", "text": "book left of 7"}


@MODES
async def test_prompts_keep_their_arguments_roles_and_content_under_the_name_of_their_server(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        listed = {each.name: plain(each) for each in (await client.list_prompts()).prompts}
        greeted = plain(await client.get_prompt("two__greet", {"who": "Ann"}))
        talk = plain(await client.get_prompt("one__talk"))

    assert list(listed) == ["one__greet", "one__talk", "one__secretive", "two__greet", "two__talk", "two__secretive"]
    assert [each["name"] for each in listed["one__greet"]["arguments"] if each.get("required")] == ["who"]
    assert listed["one__talk"]["title"] == "A talk"
    assert greeted["description"] == "How to greet."
    assert [each["content"]["text"] for each in greeted["messages"]] == ["Greet Ann, friendly."]
    assert [(each["role"], each["content"]) for each in talk["messages"]] == [
        ("user", {"type": "text", "text": "What is it?"}),
        ("assistant", {"type": "image", "data": DOT, "mimeType": "image/png"}),
        ("user", {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/x", "text": "in it"}}),
        ("assistant", {"type": "resource_link", "uri": "c://d", "name": 'a "link"', "mimeType": "text/y"}),
        ("user", {"type": "text", "text": "What is it?\n"}),
    ]


@MODES
async def test_what_a_hook_takes_out_is_in_neither(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        read = await contents(client, "one://leak")
        table = await contents(client, "one://table")
        prompt = plain(await client.get_prompt("one__secretive"))

    assert read["text"].startswith("the key is [redacted:")
    assert table["mimeType"] == "text/csv"
    assert table["blob"] != "a2V5O2FjbWUtN0hxMi16elB3LTA0NTE="
    assert prompt["messages"] == [{"role": "assistant", "content": {"type": "text", "text": read["text"]}}]


@MODES
async def test_each_is_an_operation_that_is_recorded_and_denied_to_whom_a_policy_denies_it(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode, "stranger") as client:
        for asked in (
            client.list_resources(), client.read_resource("one://page"), client.list_resource_templates(),
            client.list_prompts(), client.get_prompt("one__talk"),
        ):  # fmt: skip
            with pytest.raises(MCPError, match="Denied: not for strangers") as raised:
                await asked
            assert raised.value.code == -32603

    kept = "".join(file.read_text("utf-8") for file in (served.cli.state / "sessions").glob("*.jsonl"))
    assert "pluggent-mcp:tool/one__list_prompts" in kept
    assert '"origin":"mcp"' in kept


@MODES
async def test_what_two_servers_have_is_the_first_ones_and_what_none_has_is_not_found(served, mode, missing):
    odd = ["notes://other", "", "no uri", "one://shelves", "\u202e\x00", "file:///../../etc/passwd", "x" * 20_000]
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        listed = [each.uri for each in (await client.list_resources()).resources]
        shared = await contents(client, "notes://shared")
        refused = {}
        for uri in odd:
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
            refused[uri] = raised.value

    assert listed.count("notes://shared") == 1
    assert shared["text"] == "of one"
    assert {error.code for error in refused.values()} == {missing}
    assert refused["notes://other"].data == {"uri": "notes://other"}


@MODES
async def test_what_the_server_behind_has_not_is_not_found_either(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        with pytest.raises(MCPError, match="MCP server 'two': it refused: Unknown resource") as raised:
            await client.read_resource("two://shelves/7/windows/left")

    assert raised.value.code == missing


@MODES
async def test_a_prompt_that_is_not_there_or_wants_more_is_refused_before_its_server_is_asked(served, mode, missing):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        for name, arguments, says in (
            ("greet", {"who": "Ann"}, "Unknown prompt: greet"),
            ("three__greet", {}, "Unknown prompt: three__greet"),
            ("", {}, "Unknown prompt: "),
            ("one__greet", {"how": "cold"}, "the prompt one__greet needs who"),
        ):
            with pytest.raises(MCPError) as raised:
                await client.get_prompt(name, arguments)
            assert (raised.value.code, raised.value.message) == (-32602, says)


async def test_over_stdio_a_server_alone_gets_every_uri_and_nothing_else_is_offered(tmp_path):
    cli = gateway(tmp_path, "one")
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--resources", "one__*") as client:
        read = await contents(client, "one://page")
        with pytest.raises(MCPError, match="it refused: Unknown resource: what is this") as raised:
            await client.read_resource("what is this")
        for asked in (client.list_tools(), client.list_prompts(), client.get_prompt("one__talk")):
            with pytest.raises(MCPError, match="Method not found"):
                await asked
        can = client.server_capabilities

    assert (can.tools, can.prompts) == (None, None)
    assert can.resources is not None
    assert read["text"] == "<p>one\n</p>\n"
    assert raised.value.code == -32602
    errors = (cli.work / "errors.txt").read_text("utf-8")
    assert errors == ""
