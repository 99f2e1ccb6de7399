"""Tools of a server that behaves: names, results, effects, the environment, what it asks beside."""

import asyncio
import json
import logging
import os

import pytest
from mcp_using import OPENED, Context, Used, peer, using
from pluggent_hookspecs import Audio, File, Image, Text, ToolError, ToolErrorKind
from pluggent_mcp.plugin import Mcp
from pluggent_mcp.settings import Settings


async def test_tools_bear_the_prefix_of_their_server_and_say_whose_they_are():
    async with using(one=peer(), two=peer(prefix="second")) as used:
        assert {"one__echo", "second__echo"} <= used.tools.keys()
        assert (await used.call("second__echo", text="hi")).for_model == "hi"
        assert used.tools["one__echo"].spec.description == "[MCP server one] Does echo."


async def test_every_kind_of_content_is_kept():
    async with using(one=peer()) as used:
        output = await used.call("one__everything")

    assert output.data == {"a": (1, None)}
    assert output.for_model == (
        Text("text"),
        Image(data="AAAA", media_type="image/gif"),
        Audio("BBBB", "mpeg"),
        Text('[resource] {"uri": "file:///a.txt", "name": "a"}'),
        Text("[file:///b.txt]\nin b"),
        File(data="CCCC", filename="file:///c.bin", media_type="application/zip"),
        Text("[file:///d.png]"),
        Image(data="DDDD", media_type="image/png"),
    )


async def test_a_result_that_is_an_error_is_one():
    async with using(one=peer()) as used:
        output = await used.call("one__fail")

    assert (output.for_model, output.is_error) == ("it did not work", True)


async def test_a_refusal_names_the_server_and_its_reason():
    async with using(one=peer()) as used:
        with pytest.raises(ToolError, match=r"MCP server 'one': it refused: not today \(-32000\)") as caught:
            await used.call("one__refuse")

    assert caught.value.kind is ToolErrorKind.FAILED


async def test_a_connection_that_closed_in_a_call_refused_nothing_whatever_still_runs():
    async with using(one=peer()) as used:
        with pytest.raises(ToolError, match=r"'one': the connection closed. The call may have taken effect") as caught:
            await used.call("one__refuse", why="Connection closed")

    assert caught.value.kind is ToolErrorKind.OUTCOME_UNKNOWN


async def test_only_allowed_tools_are_offered_and_block_wins():
    async with using(one=peer(allow=("e*", "fail"), block=("ev*", "environ"))) as used:
        assert used.tools.keys() == {"one__echo", "one__elicit", "one__fail"}


async def test_annotations_are_believed_of_a_trusted_server_alone_and_the_operator_knows_better():
    effects = {"e*": ("network_write",), "environ": ()}
    async with using(plain=peer(), trusted=peer(trusted=True), told=peer(trusted=True, effects=effects)) as used:
        found = {name: tool.spec.effects for name, tool in used.tools.items()}

    assert found["plain__echo"] is None
    assert found["trusted__echo"] == {"filesystem_read"}
    assert found["trusted__fail"] is None
    assert found["told__echo"] == {"network_write"}
    assert found["told__environ"] == frozenset()


async def test_a_server_sees_little_of_the_environment_and_what_it_is_given(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    monkeypatch.setenv("CITY", "Oslo")
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/etc/ssl/company.pem")
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:s3cret@proxy.example")
    server = peer(env={"GIVEN": "${CITY}", "OTHER": "${MISSING:-none}"}, cwd=str(tmp_path))
    async with using(one=server) as used:
        seen = json.loads(str((await used.call("one__environ")).for_model))

    assert (seen["GIVEN"], seen["OTHER"], seen["PLUGGENT_INSIDE"], seen["HOME"]) == (
        "Oslo", "none", "1", os.environ["HOME"],
    )  # fmt: skip
    assert seen["cwd"] == str(tmp_path)
    assert seen["NODE_EXTRA_CA_CERTS"] == "/etc/ssl/company.pem"
    assert not {"OPENAI_API_KEY", "HTTPS_PROXY"} & set(seen)


async def test_a_missing_variable_is_named_with_its_server_and_its_place():
    async with using(one=peer(env={"TOKEN": "${NO_SUCH_TOKEN}"}), two=peer()) as used:
        assert "one.env.TOKEN: the environment has no NO_SUCH_TOKEN" in used.failures["one"]
        assert "two__echo" in used.tools


async def test_progress_reaches_the_observer_of_the_call():
    context = Context()
    async with using(one=peer()) as used:
        await used.call("one__progress", context)

    assert context.progressed == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_a_cancelled_call_is_cancelled_at_the_server_and_the_connection_stays():
    async with using(one=peer()) as used:
        context = Context()
        call = asyncio.create_task(used.call("one__wait", context))
        await context.moved.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

        assert json.loads(str((await used.call("one__counts")).for_model))[0] == 1


async def test_what_a_server_logs_is_for_debugging_alone_and_bounded(caplog):
    caplog.set_level(logging.DEBUG, "pluggent.mcp.one")
    async with using(one=peer()) as used:
        await used.call("one__log")
        await used.call("one__echo", text="then")

    records = [record for record in caplog.records if "s3cret" in record.getMessage()]
    assert [record.levelno for record in records] == [logging.DEBUG]
    assert len(records[0].getMessage()) < 3_000


async def test_a_list_is_read_to_its_last_page():
    async with using(paged=peer("paged"), whole=peer()) as used:
        names = used.tools.keys()

    assert {name.removeprefix("paged__") for name in names if name.startswith("paged")} == {
        name.removeprefix("whole__") for name in names if name.startswith("whole")
    }


async def test_a_server_of_the_first_protocol_is_understood():
    async with using(one=peer("old"), two=peer("old", protocol="legacy")) as used:
        assert (await used.call("one__echo", text="old")).for_model == "old"
        assert (await used.call("two__echo", text="older")).for_model == "older"


async def test_a_server_that_takes_offence_at_a_question_it_does_not_know_is_greeted_the_old_way():
    async with using(one=peer("strict")) as used:
        assert (await used.call("one__echo", text="well")).for_model == "well"


async def test_a_plugin_that_was_closed_serves_the_next_host(tmp_path):
    plugin = Mcp(Settings(mcpServers={"one": peer()}))
    for _ in range(2):
        async with plugin.open(OPENED):
            used = Used(plugin)
            await used.ask()
            assert (await used.call("one__echo", text="x")).for_model == "x"


async def test_a_source_that_was_closed_starts_nothing():
    plugin = Mcp(Settings(mcpServers={"one": peer()}))
    async with plugin.open(OPENED):
        used = Used(plugin)
    await used.ask()

    assert used.failures == {"one": "MCP server 'one' is closed"}


async def test_a_pinned_tool_whose_definition_is_another_is_left_out(caplog):
    async with using(one=peer()) as used:
        version = used.tools["one__echo"].spec.version
    async with using(one=peer(pins={"echo": version}), two=peer(pins={"echo": "0" * 16})) as used:
        assert "one__echo" in used.tools
        assert "two__echo" not in used.tools
    assert f"changed since it was pinned. Look at it, and if it is well, pin {version}" in caplog.text
