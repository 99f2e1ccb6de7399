"""Servers that other people wrote; .ci/run installs them, and without them these tests are skipped."""

import json
import subprocess

import mcp_foreign
import pytest
from mcp_foreign import serving
from mcp_using import WAIT_S, Context, using
from pluggent_hookspecs import Accepted, Image, Message, ModelResponse
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
