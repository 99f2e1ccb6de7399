"""How ``pluggent mcp serve`` ends when nobody wanted it to: in one sentence, whoever was connected."""

import asyncio
import gc
import os
import sys
from typing import Any

import anyio
import pytest
from mcp_serving import WAIT_S, Spoken, made
from mcp_using import PEER
from pluggent_hookspecs import ConfigError
from pluggent_mcp.serving.runner import serve_and_list

INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
SLOW = """
[plugins.pluggent-mcp.mcpServers.slow]
command = "sh"
args = ["-c", 'read go < {gate}; exec {python} {peer}']
"""


@pytest.fixture
def cli(tmp_path):
    os.mkfifo(tmp_path / "gate")
    made_cli = made(tmp_path)
    settings = SLOW.format(gate=tmp_path / "gate", python=sys.executable, peer=PEER)
    (made_cli.work / "mine.toml").write_text(settings, encoding="utf-8")
    return made_cli


def test_a_client_that_has_connected_does_not_make_a_wrong_pattern_a_traceback(cli, tmp_path):
    with Spoken(cli, "--tools", "slow__nothing") as spoken:
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


async def test_nobody_hears_of_streams_that_break_because_the_serving_has_ended():
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    exported: Any = Nothing()

    with pytest.raises(ConfigError, match="there is no tool 'nowhere__"):
        await serve_and_list(exported, breaking(), lambda: None)
    gc.collect()

    assert (heard, exported.closed) == ([], True)
