"""Every tool of the servers that other people wrote, listed and called; and what else they do in a call.

.ci/run installs them, and without them these tests are skipped.
"""

import asyncio
import json
import logging
import os
import signal

import mcp_foreign
import pytest
from mcp_foreign import child_with, serving
from mcp_using import WAIT_S, Context, talking, using
from pluggent_hookspecs import Cancelled, Declined, ToolError, ToolErrorKind
from pluggent_mcp.settings import Server


@pytest.fixture
def program(peers_folder):
    """Return a function that finds an installed server, or skips."""
    return lambda name: mcp_foreign.program(peers_folder, name)


@pytest.fixture
def every(program):
    """Return the settings of the server that has something of each kind."""
    return Server(command=program("mcp-server-everything"), args=("stdio",))


async def check_all(used, uses, folder=None):
    """Call every tool of the one server of *used*."""
    assert used.failures == {}
    assert {use.tool for use in uses} == {name.partition("__")[2] for name in used.tools}
    for use in uses:
        output = await used.call(f"one__{use.tool}", Context(folder, use.answer), **use.arguments)
        assert use.comes in str(output.for_model), use.tool
        assert not output.is_error, use.tool


async def test_every_tool_of_everything_over_a_pipe(every, tmp_path):
    async with using(one=every) as used:
        await check_all(used, mcp_foreign.everything(tmp_path), tmp_path)


async def test_every_tool_of_everything_over_http(program, tmp_path):
    async with serving(program("mcp-server-everything")) as url, using(one=Server(url=url)) as used:
        await check_all(used, mcp_foreign.everything(tmp_path), tmp_path)


async def test_every_tool_of_filesystem(program, tmp_path):
    async with using(one=Server(command=program("mcp-server-filesystem"), args=(str(tmp_path),))) as used:
        await check_all(used, mcp_foreign.files(tmp_path))


async def test_every_tool_of_memory(program, tmp_path):
    env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    async with using(one=Server(command=program("mcp-server-memory"), env=env)) as used:
        await check_all(used, mcp_foreign.memory(tmp_path))


async def test_every_tool_of_time(program, tmp_path):
    async with using(one=Server(command=program("mcp-server-time"))) as used:
        await check_all(used, mcp_foreign.clock(tmp_path))


async def test_every_tool_of_git(program, tmp_path):
    uses = mcp_foreign.repository(tmp_path)
    async with using(one=Server(command=program("mcp-server-git"), args=("--repository", str(tmp_path)))) as used:
        await check_all(used, uses)


async def test_a_tool_that_is_for_clients_with_tasks_is_left_out(every, caplog):
    caplog.set_level(logging.INFO, "pluggent.mcp.one")
    async with using(one=every) as used:
        assert "one__simulate-research-query" not in used.tools

    assert "its tool 'simulate-research-query' is left out: it is for clients with tasks" in caplog.text


async def test_a_call_that_is_given_up_leaves_the_connection_as_it_was(every):
    async with using(one=every) as used:
        context = Context()
        calling = asyncio.create_task(used.call("one__trigger-long-running-operation", context, duration=60, steps=600))
        await asyncio.wait_for(context.moved.wait(), WAIT_S)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

        assert (await used.call("one__echo", message="hi")).for_model == "Echo: hi"


async def test_a_call_that_takes_too_long_is_ended_by_the_host(program):
    server = {
        "command": program("mcp-server-everything"), "args": ["stdio"], "call_timeout_s": 0.2,
        "effects": {"*": ["network_read"]},
    }  # fmt: skip
    async with talking({"one": server}) as session:
        late = await session.call_tool("one__trigger-long-running-operation", {"duration": 60, "steps": 1})
        after = await session.call_tool("one__echo", {"message": "hi"})

    assert late.is_error
    assert "0.2 s" in str(late.for_model)
    assert after.for_model == "Echo: hi"


async def test_questions_that_are_not_answered_are_told_to_the_server(every):
    async with using(one=every) as used:
        declined = await used.call("one__trigger-elicitation-request", Context(answer=Declined()))
        cancelled = await used.call("one__trigger-elicitation-request", Context(answer=Cancelled()))

    assert "declined" in str(declined.for_model)
    assert "cancelled" in str(cancelled.for_model)


async def test_two_servers_with_the_same_tools_are_kept_apart(program, tmp_path):
    command = program("mcp-server-memory")
    servers = {
        name: Server(command=command, env={"MEMORY_FILE_PATH": str(tmp_path / name)}) for name in ("home", "work")
    }
    ann = {"name": "Ann", "entityType": "person", "observations": []}
    async with using(**servers) as used:
        await used.call("home__create_entities", entities=[ann])
        home, work = await used.call("home__read_graph"), await used.call("work__read_graph")

    assert ("Ann" in str(home.for_model), "Ann" in str(work.for_model)) == (True, False)


async def test_a_server_that_is_killed_in_a_call_is_told_and_comes_back(every, tmp_path):
    async with using(one=every) as used:
        context = Context()
        calling = asyncio.create_task(used.call("one__trigger-long-running-operation", context, duration=60, steps=600))
        await asyncio.wait_for(context.moved.wait(), WAIT_S)
        os.kill(child_with("mcp-server-everything"), signal.SIGKILL)
        with pytest.raises(ToolError, match="ended by signal 9") as caught:
            await asyncio.wait_for(calling, WAIT_S)

        assert caught.value.kind is ToolErrorKind.OUTCOME_UNKNOWN
        assert (await used.call("one__echo", message="hi")).for_model == "Echo: hi"


async def test_the_arguments_are_what_the_servers_own_schema_says(program):
    server = {"command": program("mcp-server-everything"), "args": ["stdio"], "effects": {"*": []}}
    async with talking({"one": server}) as session:
        wrong = await session.call_tool("one__get-sum", {"a": "1", "b": 2})
        right = await session.call_tool("one__get-sum", {"a": 1, "b": 2})

    assert "$.a" in str(wrong.for_model)
    assert "3" in str(right.for_model)
    assert json.dumps(right.data) == "null"
