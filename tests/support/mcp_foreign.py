"""MCP servers that other people wrote, as .ci/run installs them, and what each of their tools is called with."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp_using import WAIT_S
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
