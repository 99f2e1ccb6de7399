"""Clients of MCP that other people wrote, against the real ``pluggent mcp serve``; .ci/run installs them."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_support import Cli
from fake_distributions import install
from mcp_serving import WAIT_S, Served, arguments, environ, made
from mcp_suite import OLDEST_NODE, newest_node

TYPED = '''
import json
from pluggent_hookspecs import ToolOutput, hookimpl, tool

@tool(effects=())
def typed(word: str, count: int, share: float, sure: bool, names: list[str], more: dict[str, int]) -> ToolOutput:
    """Say what was given, and of which type it is.

    Args:
        word: Text that looks like a number.
    """
    given = [word, count, share, sure, names, more]
    return ToolOutput(" ".join(type(each).__name__ for each in given), data={"given": given})

class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [typed]
'''
GIVEN = {"word": "10115", "count": 2, "share": 0.5, "sure": True, "names": ["a", "b c"], "more": {"x": 1}}
"""What the tool ``typed`` is called with."""
TYPES = "str int float bool list dict"
EXPORTED = ("--tools", "acme", "typed", "--resources", "acme", "--prompts", "acme")
SCRIPT = Path(__file__).with_name("mcp_client.mjs")
MODULES = Path("node_modules", "@modelcontextprotocol")


class Seen(NamedTuple):
    """What a program left behind: its exit code, stdout as JSON (None if there was nothing), and stderr."""

    code: int
    said: Any
    err: str


def served_by(folder: Path) -> Cli:
    """Return a command with the tools of ``mcp_serving``, and one that takes arguments of every type."""
    cli = made(folder)
    install(cli.site, "typed", {"tools/typed": "typed_served:Tools"}, modules={"typed_served": TYPED})
    return cli


def desktop_file(cli: Cli, *words: str) -> Path:
    """Write what an operator pastes into the settings of a client that starts servers; return the file."""
    entry = {"command": sys.executable, "args": arguments(*words), "env": environ(cli)}
    file = cli.work / "desktop.json"
    file.write_text(json.dumps({"mcpServers": {"other": {"command": "no-such-command"}, "pluggent": entry}}), "utf-8")
    return file


def node_and(peers: Path, name: str) -> str:
    """Return a Node, or skip where it or the package *name* is missing."""
    node = newest_node()
    if node is None or not (peers / MODULES / name).is_dir():
        pytest.skip(f"no Node >= {OLDEST_NODE}, or no {name} in {peers}: .ci/run installs it where npm is there")
    return node


class Inspector:
    """The command line of the MCP Inspector."""

    def __init__(self, peers: Path, cli: Cli) -> None:
        program = peers / MODULES / "inspector" / "clients" / "launcher" / "build" / "index.js"
        self._command = [node_and(peers, "inspector"), str(program), "--cli", "--format", "json"]
        self._cli = cli

    def __call__(self, *words: str) -> Seen:
        return ran([*self._command, *words], self._cli, MCP_INSPECTOR_SECRET_STORE="memory")

    def call(self, where: Sequence[str], tool: str, given: Mapping[str, Any] | None = None) -> Seen:
        """Call *tool* of the server that *where* names."""
        words = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(given or {}))
        return self(*where, *words)


class TypeScript:
    """The official client of TypeScript, driven by a script of ours."""

    def __init__(self, peers: Path, cli: Cli) -> None:
        self._command = [node_and(peers, "client"), str(SCRIPT), str(peers)]
        self._cli = cli

    def over_stdio(self, *steps: Sequence[Mapping[str, Any]], mode: str) -> Seen:
        """Start the server as that client does, and take *steps*."""
        command = {"command": sys.executable, "args": arguments(*EXPORTED)}
        return self._ran({**command, "env": environ(self._cli), "cwd": str(self._cli.work)}, steps, mode)

    def over_http(self, served: Served, *steps: Sequence[Mapping[str, Any]], mode: str) -> Seen:
        """Reach a server that runs, and take *steps*."""
        return self._ran({"url": served.url, "headers": {"Authorization": f"Bearer {served.token}"}}, steps, mode)

    def _ran(self, where: Mapping[str, Any], steps: Sequence[Sequence[Mapping[str, Any]]], mode: str) -> Seen:
        return ran(self._command, self._cli, stdin=json.dumps({**where, "steps": steps, "mode": mode}))


def ran(command: Sequence[str], cli: Cli, *, stdin: str = "", **more: str) -> Seen:
    """Run *command* to its end; what it prints is one JSON document or nothing."""
    done = subprocess.run(
        command, cwd=cli.work, env=environ(cli, **more), input=stdin, capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip
    return Seen(done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr)
