"""``pluggent mcp serve`` over stdin and stdout: what a client sees, and how it ends."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest
from mcp_serving import WAIT_S, arguments, environ, made, over_stdio

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

    async def told(*_):
        began.set()

    async with asyncio.timeout(WAIT_S), over_stdio(cli, "--tools", "acme", mode=mode) as client:
        task = asyncio.create_task(client.call_tool("forever", {}, progress_callback=told))
        await began.wait()
        both = await asyncio.gather(client.call_tool("meet", {}), client.call_tool("meet", {}))
        task.cancel()
        cancelled = text(await client.call_tool("was_cancelled", {}))
        quiet = text(await client.call_tool("noisy", {}))

    assert [text(each) for each in both] == ["met", "met"]
    assert (cancelled, quiet) == ("it was", "quiet")
    assert (cli.work / "errors.txt").read_text("utf-8") == "noise\nmore noise\n"


async def test_what_is_exported_may_stand_in_the_settings(cli):
    (cli.work / "mine.toml").write_text('[plugins.pluggent-mcp.serve]\ntools = ["facts"]\n', encoding="utf-8")
    async with asyncio.timeout(WAIT_S), over_stdio(cli) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert names == ["facts"]


# ---- without the SDK ---------------------------------------------------------------------


class Spoken:
    """The command with its pipes in the test's hands."""

    def __init__(self, cli, *words):
        self.process = subprocess.Popen(
            [sys.executable, *arguments(*words)], cwd=cli.work, env=environ(cli), text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate(timeout=WAIT_S)

    def say(self, *lines):
        self.process.stdin.write("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
        self.process.stdin.flush()

    def hear(self, count):
        return [json.loads(self.process.stdout.readline()) for _ in range(count)]


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
        err = spoken.process.stderr.read()

    assert progress["method"] == "notifications/progress"
    assert code == 128 + number
    assert "Traceback" not in err
