"""Servers that were not there when they were first needed: they are tried again, and not for ever."""

import asyncio
import sys

import pytest
from mcp_using import PEER, WAIT_S, peer, runs, talking, told, using
from pluggent_hookspecs import PluginLoadError, ToolError
from pluggent_host import Host
from pluggent_mcp.client import connection
from pluggent_mcp.settings import Server

READS = {"*": ["network_read"]}


async def test_a_server_that_failed_at_its_start_is_started_again_and_its_tools_come_into_the_open_session(tmp_path):
    late = told(f"needs:{tmp_path / 'database'}", effects=READS)
    async with talking({"late": late, "good": told(effects=READS)}) as session:
        assert "late__echo" not in {tool.name for tool in session.tools}
        (tmp_path / "database").touch()
        async with asyncio.timeout(WAIT_S):
            while "late__echo" not in {tool.name for tool in session.tools}:
                await session.call_tool("good__echo", {"text": "x"})

        assert (await session.call_tool("late__echo", {"text": "there"})).for_model == "there"


def dying(*behaviour, **settings):
    """Return the settings of mcp_peer.py that dies."""
    return Server(command=sys.executable, args=(str(PEER), "dying", *behaviour), **settings)


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_server_that_dies_while_it_is_spoken_to_is_told_with_its_last_words(protocol):
    async with using(deaf=dying("deaf", protocol=protocol)) as used:
        assert used.failures == {
            "deaf": "MCP server 'deaf': it ended with exit code 3. Its stderr ends: cannot find the database"
        }


async def test_a_server_that_dies_at_its_start_is_told_while_its_pipes_are_held_open(tmp_path):
    async with using(one=dying(f"leaves:{tmp_path / 'pid'}", protocol="legacy", stop_timeout_s=0.1)) as used:
        assert used.failures == {
            "one": "MCP server 'one': it ended with exit code 3. Its stderr ends: cannot find the database"
        }
    if sys.platform == "linux":  # elsewhere only the group is found
        assert not runs(int((tmp_path / "pid").read_text("utf-8")))


async def test_who_asks_again_meanwhile_finds_it_and_it_is_started_once(tmp_path):
    (tmp_path / "starts").mkdir()
    async with using(late=peer(f"needs:{tmp_path / 'database'}", f"counts:{tmp_path / 'starts'}")) as used:
        (tmp_path / "database").touch()
        async with asyncio.timeout(WAIT_S):
            while "late__echo" not in used.tools:
                await used.ask()

        assert used.sources["late"].revision is not None
        assert len(list((tmp_path / "starts").iterdir())) == 1


async def test_a_server_that_always_fails_is_given_up_and_that_is_told(monkeypatch, caplog):
    monkeypatch.setattr(connection, "MOST_TRIES", 1)
    async with using(bad=peer("dies")) as used, asyncio.timeout(WAIT_S):
        while "failed 2 times" not in caplog.text:  # noqa: ASYNC110 (a log sets no event)
            await asyncio.sleep(0)

        assert "MCP server 'bad' failed 2 times; the next session tries again" in caplog.text
        assert used.sources["bad"].revision is None


async def test_a_required_server_is_tried_again_by_the_next_session_and_not_in_between(tmp_path):
    servers = {"late": told(f"needs:{tmp_path / 'database'}", required=True)}
    async with Host.open(settings={"pluggent-mcp": {"mcpServers": servers}}, tools=["mcp"]) as host:
        with pytest.raises(PluginLoadError, match="cannot find the database"):
            await host.session()
        (tmp_path / "database").touch()
        async with await host.session() as session:
            assert "late__echo" in {tool.name for tool in session.tools}


async def test_a_setting_that_is_missing_is_no_reason_to_try_in_the_background(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    async with using(one=peer(env={"A": "${NOT_THERE}"})) as used:
        assert "the environment has no NOT_THERE" in used.failures["one"]
        assert [task for task in asyncio.all_tasks() if task.get_name().endswith("-again")] == []

        monkeypatch.setenv("NOT_THERE", "now it is")
        await used.ask()
        assert "one__echo" in used.tools


async def test_closing_does_not_wait_for_the_next_try():
    async with using(bad=peer("dies")) as used:
        await used.ask()

    with pytest.raises(ToolError, match="is closed"):
        await used.sources["bad"].tools()
