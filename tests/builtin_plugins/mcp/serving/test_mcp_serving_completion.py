"""Arguments of prompts and templates that ``pluggent mcp serve`` completes for the SDK's client."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_serving import KEY, WAIT_S, client_of, made, over_http, over_stdio, settings_behind
from mcp_types import PromptReference, ResourceTemplateReference
from pluggent_mcp.serving.selection import Selection
from pluggent_mcp.serving.sources.completion import Announced

MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
BOOKS = ResourceTemplateReference(uri="one://shelves/{shelf}/books/{book}")
GREET = PromptReference(name="one__greet")
DENIED = """
[[plugins.pluggent-permissions.rules]]
id = "no completion"
decision = "deny"
when.tool = "pluggent-mcp:tool/two__complete_argument"
tell_model = "nothing is completed there"
"""


def gateway(folder, *servers):
    cli = made(folder)
    config = cli.work / "mine.toml"
    more = "".join(settings_behind(name, KEY) for name in servers) + DENIED * ("two" in servers)
    config.write_text(config.read_text("utf-8") + more, "utf-8")
    return cli


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    words = ("--resources", "mcp", "acme", "--prompts", "mcp", "acme")
    with over_http(gateway(tmp_path_factory.mktemp("completing"), "one", "two", "mute"), *words) as running:
        yield running


async def completed(client, ref, name, value="", known=None):
    """Return the values, and whether there are more."""
    found = (await client.complete(ref, {"name": name, "value": value}, known)).completion
    return found.values, found.has_more


@MODES
async def test_the_server_behind_completes_arguments_of_its_prompts_and_templates(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        prompt = await completed(client, GREET, "how", "fr")
        book = await completed(client, BOOKS, "book", "7-1", {"shelf": "7"})
        announced = client.server_capabilities.completions

    assert prompt == (["friendly"], True)
    assert book[0][:4] == ["7-1", "7-10", "7-11", "7-12"]
    assert announced is not None


@MODES
async def test_a_secret_among_the_values_is_taken_out_as_from_every_result(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        values, _ = await completed(client, GREET, "how", "key ")

    assert KEY not in "".join(values)
    assert [value[:14] for value in values] == ["key [redacted:"]


@MODES
async def test_a_policy_that_denies_the_tool_denies_the_completion(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        with pytest.raises(MCPError, match="Denied: nothing is completed there"):
            await completed(client, PromptReference(name="two__greet"), "how")
    async with asyncio.timeout(WAIT_S), client_of(served, mode, "stranger") as client:
        with pytest.raises(MCPError, match="Denied: not for strangers"):
            await completed(client, GREET, "how")


@MODES
async def test_what_no_source_completes_has_no_values(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        found = await completed(client, PromptReference(name="mute__greet"), "how")

    assert found == ([], False)


@MODES
async def test_a_prompt_template_or_argument_that_is_not_there_is_refused(served, mode):
    odd = [
        (PromptReference(name="nine"), "how", "Unknown prompt: nine"),
        (GREET, "colour\u202e", "it has no argument"),
        (ResourceTemplateReference(uri="three://{x}"), "x", "Unknown template: three://{x}"),
        (GREET, "how" * 1_000, "a name or value is longer than 2,000 characters"),
    ]
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        for ref, name, says in odd:
            with pytest.raises(MCPError) as raised:
                await completed(client, ref, name)
            assert (raised.value.code, raised.value.message[: len(says)]) == (-32602, says)


@MODES
async def test_a_tool_of_a_plugin_completes_at_most_a_hundred_values_and_only_what_its_text_has(served, mode):
    async with asyncio.timeout(WAIT_S), client_of(served, mode) as client:
        values, more = await completed(client, ResourceTemplateReference(uri="many://{at}/more"), "at", "v")

    assert values == [f"v{number}" for number in range(100)]
    assert more is True


@pytest.mark.parametrize(("server", "values"), [("one", (["formal"], True)), ("mute", ([], False))])
@MODES
async def test_over_stdio_no_handshake_waits_for_the_servers_behind(server, values, mode, tmp_path):
    cli = gateway(tmp_path, server)
    async with asyncio.timeout(3 * WAIT_S), over_stdio(cli, "--prompts", f"{server}__*", mode=mode) as client:
        assert client.server_capabilities.completions is not None
        assert await completed(client, PromptReference(name=f"{server}__greet"), "how", "form") == values


async def test_what_no_source_has_is_not_announced_once_that_is_known():
    listed = asyncio.Event()
    announced = Announced(listed, Selection)

    async def answer(_):
        return {"capabilities": {"completions": {}, "resources": {"subscribe": True}}}

    first: Any = SimpleNamespace(method="initialize")
    later: Any = SimpleNamespace(method="server/discover")
    before = await announced(first, answer)
    listed.set()
    after = await announced(later, answer)

    assert before == await answer(None)
    assert after == {"capabilities": {"resources": {"subscribe": False}}}
