"""A server as a process of its own group, with little of our environment. POSIX only."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pluggent_mcp.client.kin import MARKS, Kin, marks_with
from pluggent_mcp.settings import Server

INHERITED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TERM", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""What a server sees of the environment without being given it. No keys, tokens or proxies."""
INSIDE = "PLUGGENT_INSIDE"
"""Says to every process below that a host started it."""
KILLED_S = 0.5
"""How long is waited for killed processes to be gone; who is buried by nobody stays as a name."""
MOST_LOOKS = 5
"""How often processes are killed that others start meanwhile."""
LOOK_S = 0.02
"""How often a group is looked at that is about to end; nobody tells when a grandchild does."""


READ_BYTES = 65_536
"""What is read of a pipe ahead, before who writes into it has to wait; twice as much at most."""


class StartError(Exception):
    """The process could not be started."""


class _Told(SubprocessStreamProtocol):
    """Hears of the end of a process when it ends. Process.wait() waits for its pipes too, which others may hold."""

    def __init__(self) -> None:
        super().__init__(READ_BYTES, asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class Child(Process):
    """A process of ours. ``exited`` is set when it has ended itself, whoever holds its pipes open."""

    def __init__(self, transport: asyncio.SubprocessTransport, told: _Told) -> None:
        super().__init__(transport, told, asyncio.get_running_loop())
        self.exited = told.exited
        self._pipes = transport

    def close(self) -> None:
        """Close its pipes on our side: who reads them finds their end."""
        self._pipes.close()


def environment(server: Server, environ: Mapping[str, str], mark: str) -> dict[str, str]:
    """Return the environment of *server*'s process, by whose *mark* all that it starts is found again.

    >>> environment(Server(command="x", env={"A": "1"}), {"PATH": "/bin", "OPENAI_API_KEY": "s3cret"}, "a1")
    {'PATH': '/bin', 'A': '1', 'PLUGGENT_INSIDE': '1', 'PLUGGENT_MCP_MARKS': 'a1'}
    """
    inherited = {name: environ[name] for name in INHERITED if name in environ}
    marks = marks_with(mark, environ.get(MARKS, ""))
    return {**inherited, **server.env, INSIDE: environ.get(INSIDE) or "1", MARKS: marks}


async def started(server: Server, environ: Mapping[str, str], mark: str) -> Child:
    """Start *server*'s command in a group of its own. Raises StartError saying what to do."""
    _check_folder(server.cwd)
    # A task of its own: asyncio loses a process whose start is cancelled.
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
    transport, told = await asyncio.get_running_loop().subprocess_exec(
        _Told, server.command, *server.args, stdin=PIPE, stdout=PIPE, stderr=PIPE,
        cwd=server.cwd or None, env=environ, start_new_session=True,
    )  # fmt: skip
    return Child(transport, told)


def _check_folder(cwd: str) -> None:
    if cwd and not Path(cwd).is_dir():
        raise StartError(f"its cwd {cwd!r} is no folder")


async def stop(child: Child, grace_s: float, mark: str) -> None:
    """End *child* and all that it started: close its input, wait, SIGTERM, wait, SIGKILL.

    That is its group everywhere, and on Linux what left the group too (see kin).
    """
    kin = Kin(mark, child.pid)
    killed = over = False
    try:
        # In a thread: with thousands of processes it takes long enough for others to notice.
        await asyncio.to_thread(kin.look)
        if child.stdin is not None:
            child.stdin.close()
        await _exited(child, grace_s)
        await asyncio.to_thread(kin.look)
        if _signalled(child, kin, signal.SIGTERM):
            await _gone(child, kin, grace_s)
            await asyncio.to_thread(kin.look)
            killed = _signalled(child, kin, signal.SIGKILL)
        if killed:
            await _gone(child, kin, min(grace_s, KILLED_S))
        await asyncio.to_thread(_kill_what_is_left, child, kin)
        over = True
    finally:
        if not over:  # also where the waits above are cancelled nothing stays behind
            _kill_what_is_left(child, kin)
        try:
            # asyncio itself has to see the end first: closing looks for it too, and would take it away.
            await _exited(child, KILLED_S)
        finally:
            child.close()


def _kill_what_is_left(child: Child, kin: Kin) -> None:
    """Kill, and look again: who is killed may have started another one just before."""
    for _ in range(MOST_LOOKS):
        kin.look()
        if not _signalled(child, kin, signal.SIGKILL):
            return


async def _exited(child: Child, limit_s: float) -> None:
    """Wait for the process itself. Not for its pipes, which a grandchild may hold open."""
    if child.exited.is_set():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await child.exited.wait()


async def _gone(child: Child, kin: Kin, limit_s: float) -> None:
    for _ in range(max(1, round(limit_s / LOOK_S))):
        if child.returncode is not None and not _signalled(child, kin, 0):
            return
        await asyncio.sleep(LOOK_S)


def _signalled(child: Child, kin: Kin, number: int) -> bool:
    """Send *number* to the group and to who left it; return whether anybody is left."""
    left = kin.signalled(number)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
        left = True
    return left
