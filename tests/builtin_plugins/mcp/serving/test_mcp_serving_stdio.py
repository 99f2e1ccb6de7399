"""``pluggent mcp serve`` over stdin and stdout: what a client sees, and how it ends."""

import asyncio
import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_serving import WAIT_S, Spoken, made, over_stdio
from mcp_using import PEER
from pluggent_hookspecs import ConfigError
from pluggent_mcp.serving.runner import serve_and_list

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.fixture
def cli(tmp_path):
    return made(tmp_path)


def text(result):
    return "".join(block.text for block in result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_calls_run_side_by_side_are_cancelled_and_print_what_they_like(cli, mode):
    began = asyncio.Event()

    async def told(progress, total, message):
        began.set()

    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme", mode=mode, fresh=True) as client:
        task = asyncio.create_task(client.call_tool("forever", {}, progress_callback=told))
        await began.wait()
        both = await asyncio.gather(client.call_tool("meet", {}), client.call_tool("meet", {}))
        task.cancel()
        cancelled = text(await client.call_tool("was_cancelled", {}))
        quiet = text(await client.call_tool("noisy", {}))

    assert [text(each) for each in both] == ["met", "met"]
    assert (cancelled, quiet) == ("it was", "quiet")
    assert (cli.work / "errors.txt").read_text("utf-8") == "noise\nmore noise\n"


GATEWAY = """
[plugins.pluggent-mcp.serve]
tools = ["behind__*"]

[plugins.pluggent-mcp.mcpServers.behind]
command = {python!r}
args = [{peer!r}, {marker!r}]
effects = {{ echo = [] }}

[[plugins.pluggent-permissions.rules]]
id = "quiet"
decision = "deny"
when.tool = "pluggent-mcp:tool/behind__echo"
when.arguments.text.equals = "secret"
tell_model = "not that word"
"""


async def test_policies_stand_before_the_tools_of_other_servers_which_end_with_it(cli, tmp_path):
    marker = f"marker-{tmp_path.name}"
    config = GATEWAY.format(python=sys.executable, peer=str(PEER), marker=marker)
    (cli.work / "mine.toml").write_text(config, encoding="utf-8")
    async with asyncio.timeout(WAIT_S), over_stdio(cli, fresh=True) as client:
        said = [text(await client.call_tool("behind__echo", {"text": word})) for word in ("public", "secret")]
        asked = await client.call_tool("behind__fail", {})
        running = processes(marker)

    assert said == ["public", "Denied: not that word"]
    assert "needs a person's approval" in text(asked)
    assert (len(running), processes(marker)) == (1, [])


def processes(marker):
    """Return the processes that were started with *marker*."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [file.parent.name] if marker.encode() in file.read_bytes() else []
    return found


# ---- without the SDK ---------------------------------------------------------------------


def test_broken_lines_are_answered_and_closing_stdin_ends_it_cleanly(cli):
    with Spoken(cli, "--tools", "facts") as spoken:
        spoken.say(INITIALIZE, "{broken", '{"jsonrpc": "2.0"}', "", PING)
        said = spoken.hear(4)
        out, err = spoken.process.communicate(timeout=WAIT_S)

    by_id = {answer["id"]: answer for answer in said if answer.get("id")}
    assert by_id[1]["result"]["serverInfo"]["name"] == "pluggent"
    assert by_id[2]["result"] == {}
    assert [answer["error"]["code"] for answer in said if answer.get("id") is None] == [-32700, -32700]
    assert (spoken.process.returncode, out, err) == (0, "", "")


def test_a_message_that_is_too_long_ends_it_with_a_word(cli):
    (cli.work / "mine.toml").write_text("[plugins.pluggent-mcp.serve]\nmax_message_bytes = 1000\n", encoding="utf-8")
    with Spoken(cli, "--tools", "facts") as spoken:
        spoken.say("x" * 5_000)
        (refusal,) = spoken.hear(1)
        code = spoken.process.wait(WAIT_S)

    assert refusal["error"]["message"] == "a message is at most 1,000 bytes long"
    assert code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_although_the_client_keeps_its_stdin_open(cli, number):
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {
        "name": "forever", "arguments": {}, "_meta": {"progressToken": "p"}}}  # fmt: skip
    with Spoken(cli, "--tools", "acme") as spoken:
        spoken.say(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call)
        _, progress = spoken.hear(2)

        spoken.process.send_signal(number)
        code = spoken.process.wait(WAIT_S)
        _, err = spoken.process.communicate(timeout=WAIT_S)

    assert progress["method"] == "notifications/progress"
    assert code == 128 + number
    assert "Traceback" not in err


SLOW = """
[plugins.pluggent-mcp.mcpServers.slow]
command = "sh"
args = ["-c", 'read go < {gate}; exec {python} {peer}']
"""


@pytest.fixture
def slow_cli(tmp_path):
    os.mkfifo(tmp_path / "gate")
    made_cli = made(tmp_path)
    settings = SLOW.format(gate=tmp_path / "gate", python=sys.executable, peer=PEER)
    (made_cli.work / "mine.toml").write_text(settings, encoding="utf-8")
    return made_cli


def test_a_client_that_has_connected_does_not_make_a_wrong_pattern_a_traceback(slow_cli, tmp_path):
    with Spoken(slow_cli, "--tools", "slow__nothing") as spoken:
        spoken.say(INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        (greeted,) = spoken.hear(1)
        listing = [{"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(2, 20)]
        spoken.say(*listing, {"jsonrpc": "2.0", "id": 99, "method": "ping"})
        (pong,) = spoken.hear(1)  # all of those wait for the list by now
        (tmp_path / "gate").write_text("go\n", encoding="utf-8")
        spoken.process.wait(WAIT_S)
        _, err = spoken.process.communicate(timeout=WAIT_S)

    assert pong["id"] == 99
    assert greeted["result"]["serverInfo"]["name"] == "pluggent"
    assert spoken.process.returncode == 2
    assert "there is no tool 'slow__nothing'" in err
    assert "tools of the servers of MCP that are set: slow__*" in err
    assert "Traceback" not in err
    assert "never retrieved" not in err


class Nothing:
    """What is exported where the pattern means nothing."""

    closed = False

    async def refresh(self):
        raise ConfigError("--tools", ["there is no tool 'nowhere__*'"])

    async def aclose(self):
        self.closed = True


async def breaking():
    """Serve until the end, and end as the SDK does whose streams were closed while a message came in."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ExceptionGroup("streams", [anyio.BrokenResourceError()]) from None


async def test_streams_that_break_because_the_serving_has_ended_are_not_reported():
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    exported: Any = Nothing()

    with pytest.raises(ConfigError, match="there is no tool 'nowhere__"):
        await serve_and_list(exported, breaking(), lambda: None)
    gc.collect()

    assert (heard, exported.closed) == ([], True)
