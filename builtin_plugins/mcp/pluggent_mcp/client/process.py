"""A server as a process of its own group, with little of our environment. POSIX only."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pluggent_mcp.client.process_tree import MARKS, ProcessTree, marks_with
from pluggent_mcp.settings import Server

INHERITED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TERM", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""Environment variables that a server inherits. No keys, tokens or proxies."""
INSIDE = "PLUGGENT_INSIDE"
"""Set for all processes below a host."""
KILLED_S = 0.5
"""How long to wait for killed processes to disappear; those that no parent reaps stay as zombies."""
MOST_LOOKS = 5
"""Rounds of killing, for processes that are started meanwhile."""
LOOK_S = 0.02
"""Poll interval for a process group that is ending: there is no event for grandchildren."""


READ_BYTES = 65_536
"""Read-ahead of a pipe before the writer blocks; at most twice as much."""


class StartError(Exception):
    """The process could not be started."""


class _ExitWatcher(SubprocessStreamProtocol):
    """Sets an event when the process exits. Process.wait() waits for its pipes, too, which others may hold open."""

    def __init__(self) -> None:
        super().__init__(READ_BYTES, asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class Child(Process):
    """A child process. ``exited`` is set when it has exited, even if others hold its pipes open."""

    def __init__(self, transport: asyncio.SubprocessTransport, watcher: _ExitWatcher) -> None:
        super().__init__(transport, watcher, asyncio.get_running_loop())
        self.exited = watcher.exited
        self._pipes = transport

    def close(self) -> None:
        """Close our ends of its pipes: readers see the end of file."""
        self._pipes.close()


def environment(server: Server, environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of *server*'s process, with the *mark* by which its descendants are found.

    >>> environment(Server(command="x", env={"A": "1"}), {"PATH": "/bin", "OPENAI_API_KEY": "s3cret"}, "a1")
    {'PATH': '/bin', 'A': '1', 'PLUGGENT_INSIDE': '1', 'PLUGGENT_MCP_MARKS': 'a1'}
    """
    inherited = {name: environ[name] for name in INHERITED if name in environ}
    marks = marks_with(mark, environ.get(MARKS, ""))
    return {**inherited, **server.env, INSIDE: environ.get(INSIDE) or "1", MARKS: marks}


async def start_process(server: Server, environ: Mapping[str, str], mark: str) -> Child:
    """Start *server*'s command in a group of its own. Raises StartError saying what to do."""
    _check_folder(server.cwd)
    # In a task: asyncio loses a process if its start is cancelled.
    starting = asyncio.create_task(_start(server, environment(server, environ, mark)), name="pluggent-mcp-start")
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait((starting,))
        if starting.exception() is None:
            await stop(starting.result(), 0, mark)
        raise
    except FileNotFoundError:
        raise StartError(f"there is no command {server.command!r}; install it, or give its whole path") from None
    except (OSError, ValueError) as error:
        raise StartError(f"its command {server.command!r} cannot be run: {error}") from error


async def _start(server: Server, environ: Mapping[str, str]) -> Child:
    transport, watcher = await asyncio.get_running_loop().subprocess_exec(
        _ExitWatcher, server.command, *server.args, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        cwd=server.cwd or None, env=environ, start_new_session=True,
    )  # fmt: skip
    return Child(transport, watcher)


def _check_folder(cwd: str) -> None:
    if cwd and not Path(cwd).is_dir():
        raise StartError(f"its cwd {cwd!r} is not a folder")


async def stop(child: Child, grace_s: float, mark: str) -> None:
    """Stop *child* and all its descendants: close its input, wait, SIGTERM, wait, SIGKILL.

    On Linux that includes processes that left its group (see process_tree).
    """
    tree = ProcessTree(mark, child.pid)
    killed = over = False
    try:
        # In a thread: with thousands of processes it would block the loop noticeably.
        await asyncio.to_thread(tree.scan)
        if child.stdin is not None:
            child.stdin.close()
        await _wait_for_exit(child, grace_s)
        await asyncio.to_thread(tree.scan)
        if _signal_all(child, tree, signal.SIGTERM):
            await _wait_until_gone(child, tree, grace_s)
            await asyncio.to_thread(tree.scan)
            killed = _signal_all(child, tree, signal.SIGKILL)
        if killed:
            await _wait_until_gone(child, tree, min(grace_s, KILLED_S))
        await asyncio.to_thread(_kill_what_is_left, child, tree)
        over = True
    finally:
        if not over:  # also where the waits above are cancelled nothing stays behind
            _kill_what_is_left(child, tree)
        try:
            # asyncio itself has to see the end first: closing looks for it too, and would take it away.
            await _wait_for_exit(child, KILLED_S)
        finally:
            child.close()


def _kill_what_is_left(child: Child, tree: ProcessTree) -> None:
    """Kill and scan again: a killed process may have started another one just before."""
    for _ in range(MOST_LOOKS):
        tree.scan()
        if not _signal_all(child, tree, signal.SIGKILL):
            return


async def _wait_for_exit(child: Child, limit_s: float) -> None:
    """Wait for the process itself. Not for its pipes, which a grandchild may hold open."""
    if child.exited.is_set():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await child.exited.wait()


async def _wait_until_gone(child: Child, tree: ProcessTree, limit_s: float) -> None:
    for _ in range(max(1, round(limit_s / LOOK_S))):
        if child.returncode is not None and not _signal_all(child, tree, 0):
            return
        await asyncio.sleep(LOOK_S)


def _signal_all(child: Child, tree: ProcessTree, number: int) -> bool:
    """Send *number* to the group and to processes that left it; return whether any exist."""
    left = tree.signal_all(number)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
        left = True
    return left
