"""The official conformance suite of MCP against this client; .ci/run installs it."""

import asyncio
import json
import subprocess
import sys

import mcp_programs
import pytest
from mcp_conformance import WAIT_S, conform, conform_logged_in, suite_in

RELAY = mcp_programs.__file__
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
LOGGED_IN = [
    ("auth/metadata-default", "2025-11-25"),
    ("auth/metadata-var3", "2026-07-28"),
    ("auth/basic-cimd", "2026-07-28"),
    ("auth/scope-from-www-authenticate", "2025-11-25"),
    ("auth/scope-from-scopes-supported", "2026-07-28"),
    ("auth/scope-step-up", "2026-07-28"),
    ("auth/token-endpoint-auth-basic", "2025-06-18"),
    ("auth/token-endpoint-auth-none", "2026-07-28"),
    ("auth/pre-registration", "2026-07-28"),
    ("auth/2025-03-26-oauth-metadata-backcompat", "2025-03-26"),
    ("auth/resource-mismatch", "2026-07-28"),
    ("auth/offline-access-scope", "2026-07-28"),
    ("auth/authorization-server-migration", "2026-07-28"),
    ("auth/iss-supported", "2026-07-28"),
    ("auth/iss-supported-missing", "2026-07-28"),
    ("auth/iss-wrong-issuer", "2026-07-28"),
    ("auth/metadata-issuer-mismatch", "2026-07-28"),
]
"""Those in which a person logs in. Extensions without one, or with keys of another kind, are not here."""


@pytest.fixture
def suite(peers_folder):
    return suite_in(peers_folder)


@pytest.mark.parametrize("scenarios", [SCENARIOS, LOGGED_IN], ids=["plain", "logged in"])
async def test_the_client_conforms(suite, scenarios, tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGGENT_STATE_DIR", str(tmp_path / "state"))
    limit = asyncio.Semaphore(3)

    async def verdict(port, scenario, version):
        async with limit:
            child = await asyncio.create_subprocess_exec(
                *suite, "client", "--command", f"{sys.executable} -I -S {RELAY} relay {port}", "--scenario", scenario,
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
        said = await asyncio.gather(*(verdict(port, *each) for each in scenarios))

    assert {scenario: failure for scenario, failure in zip(scenarios, said, strict=True) if failure} == {}


async def relayed(reader, writer):
    """Use the server that the suite has started, and say what failed."""
    wanted = json.loads(await reader.readline())
    if wanted["scenario"].startswith("auth/"):
        failed = await conform_logged_in(wanted["url"], wanted["context"], wanted["scenario"])
    else:
        failed = await conform(wanted["url"], wanted["context"])
    writer.write(failed.encode())
    await writer.drain()
    writer.close()
