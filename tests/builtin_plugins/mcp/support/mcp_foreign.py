"""MCP servers and clients that other people wrote, as .ci/run installs them, and what each tool is called with."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cli_support import Cli
from fake_distributions import install
from mcp_conformance import OLDEST_NODE, newest_node
from mcp_serving import WAIT_S, Served, arguments, environ, made
from pluggent_hookspecs import Accepted, Message, ModelResponse


class Use(NamedTuple):
    """One call, what is in what comes of it, and what the call's context answers if it is asked."""

    tool: str
    arguments: dict[str, Any]
    comes: str
    answer: Any = None


def program(peers: Path, name: str) -> str:
    """Return an installed server, or skip."""
    for folder in (peers / "node_modules" / ".bin", peers / "mcp-python" / "bin"):
        if (folder / name).exists():
            return str(folder / name)
    pytest.skip(f"no {name} in {peers}: .ci/run installs it where npm and a network are there")


@asynccontextmanager
async def serving(command: str) -> AsyncGenerator[str]:
    """Run the server "everything" over HTTP on a port of its own; yield its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = await asyncio.create_subprocess_exec(
        command, "streamableHttp", env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stderr is not None
    drained = None
    try:
        async with asyncio.timeout(WAIT_S):
            while b"listening" not in (line := await child.stderr.readline()):
                assert line, "it ended before it listened"
        drained = asyncio.create_task(child.stderr.read())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.kill()
        await child.wait()
        if drained is not None:
            await drained


def everything(folder: Path) -> list[Use]:
    """Return a use of each tool of "everything"."""
    return [
        Use("echo", {"message": "hi"}, "Echo: hi"),
        Use("get-annotated-message", {"messageType": "error", "includeImage": True}, "Error: "),
        Use("get-env", {}, "PATH"),
        Use("get-resource-links", {"count": 2}, "[resource] "),
        Use("get-resource-reference", {"resourceType": "Blob", "resourceId": 1}, "demo://resource/dynamic/blob/1"),
        Use("get-structured-content", {"location": "Chicago"}, "temperature"),
        Use("get-sum", {"a": 1, "b": 2}, "3"),
        Use("get-tiny-image", {}, "image/png"),
        Use(
            "gzip-file-as-resource",
            {"name": "a.gz", "data": "data:text/plain;base64,SGVsbG8=", "outputType": "resource"},
            "application/gzip",
        ),
        Use("toggle-simulated-logging", {}, "logging"),
        Use("toggle-subscriber-updates", {}, "updates"),
        Use("trigger-long-running-operation", {"duration": 0.1, "steps": 2}, "completed"),
        Use("get-roots-list", {}, folder.as_uri()),
        Use("trigger-elicitation-request", {}, "Ann", Accepted({"name": "Ann"})),
        # None for questions that open a web page: who says that it has forms alone is not offered that tool.
        Use(
            "trigger-sampling-request",
            {"prompt": "?", "maxTokens": 5},
            "forty-two",
            ModelResponse(Message.assistant("forty-two"), model="m-1"),
        ),
    ]


def files(folder: Path) -> list[Use]:
    """Return a use of each tool of "filesystem", for *folder*."""
    one, two = str(folder / "a.txt"), str(folder / "b.txt")
    return [
        Use("write_file", {"path": one, "content": "in a\n"}, "Successfully wrote"),
        Use("read_file", {"path": one}, "in a"),
        Use("read_text_file", {"path": one, "head": 1}, "in a"),
        Use("read_multiple_files", {"paths": [one]}, "in a"),
        Use("read_media_file", {"path": one}, "application/octet-stream"),
        Use("edit_file", {"path": one, "edits": [{"oldText": "in a", "newText": "in b"}]}, "+in b"),
        Use("create_directory", {"path": str(folder / "sub")}, "Successfully created"),
        Use("list_directory", {"path": str(folder)}, "[DIR] sub"),
        Use("list_directory_with_sizes", {"path": str(folder), "sortBy": "size"}, "a.txt"),
        Use("directory_tree", {"path": str(folder)}, "a.txt"),
        Use("move_file", {"source": one, "destination": two}, "Successfully moved"),
        Use("search_files", {"path": str(folder), "pattern": "**/b.*"}, "b.txt"),
        Use("get_file_info", {"path": two}, "size: 5"),
        Use("list_allowed_directories", {}, str(folder)),
    ]


def memory(_: Path) -> list[Use]:
    """Return a use of each tool of "memory"."""
    ann = {"name": "Ann", "entityType": "person", "observations": ["likes snow"]}
    oslo: dict[str, Any] = {"name": "Oslo", "entityType": "city", "observations": []}
    lives = {"from": "Ann", "to": "Oslo", "relationType": "lives in"}
    return [
        Use("create_entities", {"entities": [ann, oslo]}, "likes snow"),
        Use("create_relations", {"relations": [lives]}, "lives in"),
        Use("add_observations", {"observations": [{"entityName": "Ann", "contents": ["is tall"]}]}, "is tall"),
        Use("search_nodes", {"query": "snow"}, "Ann"),
        Use("open_nodes", {"names": ["Oslo"]}, "city"),
        Use("delete_observations", {"deletions": [{"entityName": "Ann", "observations": ["is tall"]}]}, "success"),
        Use("delete_relations", {"relations": [lives]}, "success"),
        Use("delete_entities", {"entityNames": ["Oslo"]}, "success"),
        Use("read_graph", {}, "Ann"),
    ]


def clock(_: Path) -> list[Use]:
    """Return a use of each tool of "time"."""
    there = {"source_timezone": "Europe/Oslo", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    return [
        Use("get_current_time", {"timezone": "Europe/Oslo"}, "Europe/Oslo"),
        Use("convert_time", there, "Asia/Tokyo"),
    ]


def repository(folder: Path) -> list[Use]:
    """Return a use of each tool of "git", for a new repository at *folder*."""
    git = str(shutil.which("git"))
    for words in ("init --quiet -b main", "config user.name Ann", "config user.email a@b.test"):
        subprocess.run([git, "-C", str(folder), *words.split()], check=True, timeout=WAIT_S)
    (folder / "new.txt").write_text("x\n", "utf-8")
    at = {"repo_path": str(folder)}
    return [
        Use("git_status", at, "new.txt"),
        Use("git_add", at | {"files": ["new.txt"]}, "staged"),
        Use("git_commit", at | {"message": "The first"}, "committed"),
        Use("git_log", at | {"max_count": 1}, "The first"),
        Use("git_show", at | {"revision": "HEAD"}, "new.txt"),
        Use("git_reset", at, "reset"),
        Use("git_diff_unstaged", at, "Unstaged"),
        Use("git_diff_staged", at, "Staged"),
        Use("git_create_branch", at | {"branch_name": "other"}, "other"),
        Use("git_checkout", at | {"branch_name": "other"}, "other"),
        Use("git_diff", at | {"target": "main"}, "main"),
        Use("git_branch", at | {"branch_type": "local"}, "other"),
    ]


def child_with(word: str) -> int:
    """Return the pid of a child of this process whose command line has *word* (Linux)."""
    children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text("ascii").split()]
    return next(int(pid) for pid in children if word in Path(f"/proc/{pid}/cmdline").read_text("utf-8"))


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


def desktop_file(cli: Cli, *words: str, fresh: bool = False) -> Path:
    """Write what an operator pastes into the settings of a client that starts servers; return the file."""
    entry = {"command": sys.executable, "args": arguments(*words, fresh=fresh), "env": environ(cli)}
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

    def over_stdio(self, *steps: Sequence[Mapping[str, Any]], mode: str, fresh: bool = False) -> Seen:
        """Have that client start the server, and take *steps*."""
        command = {"command": sys.executable, "args": arguments(*EXPORTED, fresh=fresh)}
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
