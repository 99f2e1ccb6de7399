"""``pluggent mcp serve`` over stdio: the SDK's own client against the real command."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest
from cli_support import STEERING
from mcp.shared.exceptions import MCPError
from mcp_serving import KEY, WAIT_S, arguments, environ, made, over_stdio

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def cli(tmp_path):
    return made(tmp_path)


def text(result):
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_tools_are_offered_and_their_results_arrive_whole_in_both_eras(cli, mode, version):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme", mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        said = {name: await client.call_tool(name, {}) for name in sorted(tools) if name.startswith("test_")}
        facts, several = await client.call_tool("facts", {}), await client.call_tool("several", {})

    assert client.protocol_version == version
    assert text(said["test_simple_text"]) == "This is a simple text response for testing."
    assert [block.type for block in said["test_multiple_content_types"].content] == [
        "text", "image", "resource", "resource_link",
    ]  # fmt: skip
    assert said["test_image_content"].content[0].mime_type == "image/png"
    assert said["test_audio_content"].content[0].mime_type == "audio/wav"
    assert str(said["test_embedded_resource"].content[0].resource.uri) == "attachment:///table%201.csv"
    assert said["test_error_handling"].is_error
    assert "intentionally" in text(said["test_error_handling"])
    assert (text(facts), facts.structured_content) == ("22 degrees", {"degrees": 22})
    assert several.structured_content == ([1, 2] if version == "2026-07-28" else None)


async def test_annotations_say_what_the_effects_say(cli):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "facts", "reboot") as client:
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

    assert (tools["facts"].read_only_hint, tools["facts"].destructive_hint) == (True, False)
    assert (tools["reboot"].read_only_hint, tools["reboot"].destructive_hint) == (False, True)


async def test_policies_of_this_host_count(cli):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme") as client:
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


async def test_policies_see_the_origin_and_what_the_client_calls_itself(cli):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme", name="stranger") as client:
        denied = await client.call_tool("facts", {})

    assert text(denied) == "Denied: not for strangers"
    records = [json.loads(line) for file in (cli.state / "sessions").glob("*.jsonl") for line in file.open()]
    assert "claimed:stranger" in json.dumps(records)


async def test_nothing_but_what_was_chosen_can_be_called(cli):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "fac*") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        for hidden in ("several", "acme:tool/several"):
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(hidden, {})

    assert names == ["facts"]


async def test_what_is_exported_may_stand_in_the_settings(cli):
    config = cli.work / "mine.toml"
    config.write_text('[plugins.pluggent-mcp.serve]\ntools = ["facts"]\n', encoding="utf-8")
    async with asyncio.timeout(WAIT_S), over_stdio(cli) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert names == ["facts"]


async def test_progress_arrives_before_the_result_and_in_order(cli):
    steps = []

    async def told(*step):
        steps.append(step)

    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme") as client:
        result = await client.call_tool("test_tool_with_progress", {}, progress_callback=told)

    assert text(result) == "done"
    # Who filters results may hold words back; how far the call is is told all the same.
    assert [step[:2] for step in steps] == [(0, 100), (50, 100), (100, 100)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelling_ends_the_call_and_calls_run_side_by_side(cli, mode):
    began = asyncio.Event()

    async def told(*_):
        began.set()

    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme", mode=mode) as client:
        task = asyncio.create_task(client.call_tool("forever", {}, progress_callback=told))
        await began.wait()
        both = await asyncio.gather(client.call_tool("meet", {}), client.call_tool("meet", {}))
        task.cancel()
        said = text(await client.call_tool("was_cancelled", {}))

    assert [text(each) for each in both] == ["met", "met"]
    assert said == "it was"


async def test_what_a_tool_prints_is_no_part_of_the_protocol(cli):
    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "noisy") as client:
        assert text(await client.call_tool("noisy", {})) == "quiet"

    assert (cli.work / "errors.txt").read_text("utf-8") == "noise\nmore noise\n"


# ---- without the SDK ---------------------------------------------------------------------


def spoken(cli, lines, *words, ends=True):
    """Write *lines* to the command and close its stdin; return the process, and what it said."""
    process = subprocess.Popen(
        [sys.executable, *arguments(*words)], cwd=cli.work, env=environ(cli), text=True, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    if ends:
        out, err = process.communicate("".join(f"{line}\n" for line in lines), timeout=WAIT_S)
        return process.returncode, [json.loads(line) for line in out.splitlines()], err
    return process


def test_closing_stdin_ends_it_cleanly_and_broken_lines_are_answered(cli):
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    lines = [json.dumps(INITIALIZE), "{broken", '{"jsonrpc": "2.0"}', "", json.dumps(ping)]

    code, said, err = spoken(cli, lines, "--tools", "facts")

    assert (code, err) == (0, "")
    by_id = {answer.get("id"): answer for answer in said}
    assert by_id[1]["result"]["serverInfo"]["name"] == "pluggent"
    assert [answer["error"]["code"] for answer in said if answer.get("id") is None] == [-32700, -32700]
    assert by_id[2]["result"] == {}


def test_a_message_that_is_too_long_ends_it_with_a_word(cli):
    (cli.work / "mine.toml").write_text("[plugins.pluggent-mcp.serve]\nmax_message_bytes = 1000\n", encoding="utf-8")

    _, said, _ = spoken(cli, [json.dumps(INITIALIZE), "x" * 5_000], "--tools", "facts")

    assert said[-1]["error"]["message"] == "a message is at most 1,000 bytes long"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_although_the_client_keeps_its_stdin_open(cli, number):
    process = spoken(cli, [], "--tools", "acme", ends=False)
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    process.stdout.readline()

    process.send_signal(number)
    code = process.wait(WAIT_S)
    out, err = process.communicate(timeout=WAIT_S)

    assert (code, out) == (128 + number, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing is exported. Name tools: --tools 'files__*', or in the settings"),
        (("--tools", "nowhere__*"), "nowhere__*"),
        (("--tools", "facts", "--token", "env:X"), "--token goes with --http"),
        (("--tools", "facts", "--http", "x:y"), "'y' is no port"),
        (("--tools", "facts", "--http", "0.0.0.0:0", "--token", "none"), "only this machine may be served"),
        (("--tools", "facts", "--http", "127.0.0.1:0", "--token", "hunter2"), "never as itself"),
        (("--tools", "facts", "--http", "127.0.0.1:0", "--token", "env:SHORT"), "16 or more characters"),
        (("--tools", "facts", "--http", "127.0.0.1:0", "--token", "env:NONE"), "NONE is not set"),
    ],
)
def test_what_cannot_be_served_is_said_and_nothing_is_written_to_stdout(cli, words, says):
    done = cli("--config", "mine.toml", "mcp", "serve", *words, SHORT="short", PLUGGENT_BLOCK=environ(cli)["PLUGGENT_BLOCK"], ACME_KEY=KEY)

    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "hunter2" not in done.err
    assert not STEERING & set(done.err)
