"""Servers that other people wrote, and every tool of theirs; .ci/run installs them, else these tests are skipped."""

import asyncio
import json
import logging
import os
import signal
import subprocess

import mcp_foreign
import pytest
from mcp_foreign import child_with, serving
from mcp_using import WAIT_S, Context, talking, using
from pluggent_hookspecs import Accepted, Cancelled, Declined, Image, Message, ModelResponse, ToolError, ToolErrorKind
from pluggent_mcp.settings import Server


@pytest.fixture
def program(peers_folder):
    """Return a function that finds an installed server, or skips."""
    return lambda name: mcp_foreign.program(peers_folder, name)


async def test_everything_over_a_pipe(program, tmp_path):
    server = Server(command=program("mcp-server-everything"), args=("stdio",), resources=True, prompts=True)
    async with using(every=server) as used:
        await check_everything(used, tmp_path)


async def test_everything_over_http(program, tmp_path):
    command = program("mcp-server-everything")
    async with serving(command) as url, using(every=Server(url=url, resources=True, prompts=True)) as used:
        await check_everything(used, tmp_path)


async def check_everything(used, folder):
    """Use what that server has of each kind."""
    assert used.failures == {}
    assert (await used.call("every__echo", message="hi")).for_model == "Echo: hi"
    weather = await used.call("every__get-structured-content", location="Chicago")
    assert set(weather.data) == {"temperature", "conditions", "humidity"}
    picture = await used.call("every__get-tiny-image")
    assert [part.media_type for part in picture.for_model if isinstance(part, Image)] == ["image/png"]
    assert "[resource] " in str((await used.call("every__get-resource-links", count=2)).for_model)
    embedded = await used.call("every__get-resource-reference", resourceType="Text", resourceId=1)
    assert "[demo://resource/dynamic/text/1]" in str(embedded.for_model)
    listed = await used.call("every__list_resources")
    uri = next(entry["uri"] for entry in listed.data["entries"] if "uri" in entry)
    assert f"[{uri}]" in str((await used.call("every__read_resource", uri=uri)).for_model)
    assert "simple prompt" in str((await used.call("every__get_prompt", name="simple-prompt")).for_model)
    context = Context(folder)
    await used.call("every__trigger-long-running-operation", context, duration=0.1, steps=2)
    assert [done for done, *_ in context.progressed] == [1, 2]
    roots = Context(folder)
    assert folder.as_uri() in str((await used.call("every__get-roots-list", roots)).for_model)
    model = Context(answer=ModelResponse(Message.assistant("forty-two"), model="m-1"))
    assert "forty-two" in str(
        (await used.call("every__trigger-sampling-request", model, prompt="?", maxTokens=5)).for_model
    )
    person = Context(answer=Accepted({"name": "Ann"}))
    assert "Ann" in str((await used.call("every__trigger-elicitation-request", person)).for_model)


async def test_files_below_the_folder_are_read_and_others_are_not(program, tmp_path):
    (tmp_path / "a.txt").write_text("in a", "utf-8")
    server = Server(command=program("mcp-server-filesystem"), args=(str(tmp_path),))
    async with using(files=server) as used:
        read = await used.call("files__read_text_file", path=str(tmp_path / "a.txt"))
        denied = await used.call("files__read_text_file", path="/etc/hostname")

    assert (read.for_model, read.is_error) == ("in a", False)
    assert denied.is_error


async def test_what_is_remembered_is_found_by_the_next_process(program, tmp_path):
    server = Server(command=program("mcp-server-memory"), env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes snow"]}
    async with using(memory=server) as used:
        await used.call("memory__create_entities", entities=[entity])
    async with using(memory=server) as used:
        found = await used.call("memory__search_nodes", query="snow")

    assert found.data["entities"][0]["name"] == "Ann"


async def test_the_time_is_told(program):
    async with using(clock=Server(command=program("mcp-server-time"))) as used:
        told = await used.call("clock__get_current_time", timezone="Europe/Oslo")
        wrong = await used.call("clock__get_current_time", timezone="Nowhere/At/All")

    assert json.loads(str(told.for_model))["timezone"] == "Europe/Oslo"
    assert wrong.is_error


async def test_a_repository_is_looked_at(program, tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True, timeout=WAIT_S)  # noqa: ASYNC221, S603, S607 (short)
    (tmp_path / "new.txt").write_text("x", "utf-8")
    server = Server(command=program("mcp-server-git"), args=("--repository", str(tmp_path)), allow=("git_status",))
    async with using(git=server) as used:
        assert used.tools.keys() == {"git__git_status"}
        assert "new.txt" in str((await used.call("git__git_status", repo_path=str(tmp_path))).for_model)


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
