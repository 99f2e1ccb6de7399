"""What the host's tools are as an MCP server's: the SDK's own client against the real command, over HTTP.

At the end policies on outputs (rules 25, 40): the person at the client sees the result, and no text of a model of
ours follows, so these are the last policies there are.
"""

import asyncio

import pytest
from fake_distributions import install
from mcp.shared.exceptions import MCPError
from mcp_serving import KEY, WAIT_S, client_of, made, over_http
from mcp_serving_sites import asking_site, client
from mcp_types import TextContent
from pluggent_cli.main import main

MODES = pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with over_http(made(tmp_path_factory.mktemp("served")), "--tools", "acme") as running:
        yield running


def plain(thing):
    """Return a result's first block of content, or anything else, as it stood on the wire."""
    first = thing.content[0] if hasattr(thing, "content") else thing
    return first.model_dump(mode="json", by_alias=True, exclude_none=True)


def text(result):
    return "".join(block.text for block in result.content)


@MODES
async def test_tools_are_offered_and_their_results_arrive_whole_in_both_eras(served, mode, version):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        said = {name: await client.call_tool(name, {}) for name in sorted(tools) if name.startswith("test_")}
        facts, several = await client.call_tool("facts", {}), await client.call_tool("several", {})
        spoken = client.protocol_version

    assert spoken == version
    assert text(said["test_simple_text"]) == "This is a simple text response for testing."
    assert [block.type for block in said["test_multiple_content_types"].content] == [
        "text", "image", "resource", "resource_link",
    ]  # fmt: skip
    assert plain(said["test_image_content"])["mimeType"] == "image/png"
    assert plain(said["test_audio_content"])["mimeType"] == "audio/wav"
    assert plain(said["test_embedded_resource"])["resource"] == {
        "uri": "attachment:///table%201.csv", "mimeType": "text/csv", "blob": "MTsy",
    }  # fmt: skip
    assert said["test_error_handling"].is_error
    assert "intentionally" in text(said["test_error_handling"])
    assert (text(facts), facts.structured_content) == ("22 degrees", {"degrees": 22})
    assert several.structured_content == ([1, 2] if version == "2026-07-28" else None)


async def test_annotations_say_what_the_effects_say(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        tools = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}

    assert tools["facts"]["annotations"] == {
        "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
    }  # fmt: skip
    assert tools["reboot"]["annotations"] == {
        "readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True,
    }  # fmt: skip


@MODES
async def test_policies_of_this_host_count(served, mode, version):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        denied = await client.call_tool("forbidden", {})
        asked = await client.call_tool("reboot", {})
        redacted = await client.call_tool("leak", {})
        invalid = await client.call_tool("facts", {"more": 1})

    assert (denied.is_error, text(denied)) == (True, "Denied: not over this wire")
    assert asked.is_error
    assert "under [effects], what 'acme:tool/reboot' really does" in text(asked)
    assert KEY not in redacted.model_dump_json()
    assert not redacted.is_error
    assert "[redacted:" in text(redacted)
    assert "invalid arguments" in text(invalid)


@MODES
async def test_policies_see_the_origin_and_what_the_client_calls_itself(served, mode, version):
    async with asyncio.timeout(WAIT_S), client_of(served, mode, "stranger") as client:
        denied = await client.call_tool("facts", {})

    assert text(denied) == "Denied: not for strangers"
    kept = "".join(file.read_text("utf-8") for file in (served.cli.state / "sessions").glob("*.jsonl"))
    assert "claimed:stranger" in kept


async def test_every_client_is_its_own_name_however_many_there_are(served):
    async with asyncio.timeout(WAIT_S):
        for number in range(20):
            async with client_of(served, name=f"client {number}") as client:
                await client.call_tool("facts", {})

    kept = "".join(file.read_text("utf-8") for file in (served.cli.state / "sessions").glob("*.jsonl"))
    assert all(f'"claimed:client {number}"' in kept for number in range(20))


async def test_nothing_but_what_was_chosen_can_be_called(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as client:
        for hidden in ("weather", "acme:tool/facts", "pluggent-weather:tool/weather"):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(hidden, {"city": "Paris"})


@MODES
async def test_progress_arrives_before_the_result_and_in_order(served, mode, version):
    steps = []

    async def told(progress, total, message):
        steps.append((progress, total))

    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        result = await client.call_tool("test_tool_with_progress", {}, progress_callback=told)

    assert text(result) == "done"
    # While something filters results the words are held back; how far the call is is told all the same.
    assert steps == [(0, 100), (50, 100), (100, 100)]


async def test_calls_run_side_by_side(served):
    async with asyncio.timeout(WAIT_S), client_of(served) as one, client_of(served, "legacy") as other:
        both = await asyncio.gather(one.call_tool("meet", {}), other.call_tool("meet", {}))

    assert [text(each) for each in both] == ["met", "met"]


@MODES
async def test_cancelling_ends_the_call_in_the_host(served, mode, version):
    began = asyncio.Event()

    async def told(progress, total, message):
        began.set()

    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        task = asyncio.create_task(client.call_tool("forever", {}, progress_callback=told))
        await began.wait()
        task.cancel()
        said = text(await client.call_tool("was_cancelled", {}))

    assert said == "it was"


# ---- what cannot be served ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "nothing is exported. Name tools: --tools 'files__*', or in the settings"),
        ("--tools nowhere__* --http 127.0.0.1:0", "nowhere__*"),
        ("--tools weather --token env:X", "--token goes with --http"),
        ("--tools weather --http x:y", "'y' is not a port"),
        ("--tools weather --http 127.0.0.1:99999", "'99999' is not a port"),
        ("--tools weather --http ::1", "stands in brackets"),
        ("--tools weather --http 0.0.0.0:0 --token none", "only this machine may be served"),
        ("--tools weather --http 127.0.0.1:0 --token hunter2", "never as itself"),
        ("--tools weather --http 127.0.0.1:0 --token env:SHORT", "16 or more characters"),
        ("--tools weather --http 127.0.0.1:0 --token env:NONE", "NONE is not set"),
        ("--tools weather --http 127.0.0.1:0 -- x", "nothing is expected behind --"),
    ],
)
def test_what_cannot_be_served_is_said_and_nothing_is_written_to_stdout(words, says, capsys, monkeypatch):
    monkeypatch.setenv("SHORT", "hunter2")

    code = main(["mcp", "serve", *words.split()])

    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert says in err
    assert "hunter2" not in err


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('token = "hunter2"', "serve.token: a secret is given as env:NAME"),
        ('hosts = ["http://x"]', "is not a name of a host"),
        ("max_calls = 0", "expected more than 0, got 0"),
        ('tools = "facts"', "serve.tools: expected a list, got text"),
        ("tool = []", "serve.tool: unknown; did you mean 'tools'?"),
    ],
)
def test_a_mistake_in_the_settings_of_serving_is_named(setting, says, tmp_path, capsys):
    config = tmp_path / "mine.toml"
    config.write_text(f"[plugins.pluggent-mcp.serve]\n{setting}\n", "utf-8")

    code = main(["--config", str(config), "mcp", "serve"])

    out, err = capsys.readouterr()
    assert (code, out) != (0, "")
    assert says in err
    assert "hunter2" not in err


WORD = "one"
DENIES = f"""
from pluggent_hookspecs import Deny, hookimpl

class Policy:
    @hookimpl
    def decide_output(self, event):
        return Deny("not for clients") if "{WORD}" in event.message.text else None
"""
REWRITES = """
import attrs
from pluggent_hookspecs import hookimpl

class Policy:
    @hookimpl
    def transform_output(self, event):
        change = {"one": "three", '{"n":1}': '{"n":3}'}
        content = tuple(attrs.evolve(part, text=change.get(part.text, part.text)) for part in event.message.content)
        return attrs.evolve(event.message, content=content)
"""
PASSES = DENIES.replace(f'"{WORD}"', '"another word"')


@pytest.mark.parametrize(
    ("policy", "text", "data"),
    [
        (DENIES, "The result of this call was withheld: not for clients", None),
        (REWRITES, "three", {"n": 3}),
        (PASSES, "one", {"n": 1}),
    ],
    ids=["denies", "rewrites", "passes"],
)
async def test_a_client_gets_what_policies_on_outputs_let_pass(tmp_path, policy, text, data):
    cli = asking_site(tmp_path)
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Policy"}, modules={"acme_policy": policy})
    cli("trust", "--plugin", "acme-policy==1.0")

    async with client("stdio", cli, "auto") as connected:
        result = await connected.call_tool("counted", {})

    (block,) = result.content
    assert isinstance(block, TextContent)
    assert (block.text, result.structured_content, result.is_error) == (text, data, data is None)
