"""A server as a process of its own group, with little of our environment. POSIX only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process as Child
from collections.abc import Mapping
from pathlib import Path

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
LOOK_S = 0.02
"""How often a group is looked at that is about to end; nobody tells when a grandchild does."""


class StartError(Exception):
    """The process could not be started."""


def environment(server: Server, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of *server*'s process.

    >>> environment(Server(command="x", env={"A": "1"}), {"PATH": "/bin", "OPENAI_API_KEY": "s3cret"})
    {'PATH': '/bin', 'A': '1', 'PLUGGENT_INSIDE': '1'}
    """
    inherited = {name: environ[name] for name in INHERITED if name in environ}
    return {**inherited, **server.env, INSIDE: environ.get(INSIDE) or "1"}


async def started(server: Server, environ: Mapping[str, str]) -> Child:
    """Start *server*'s command in a group of its own. Raises StartError saying what to do."""
    _check_folder(server.cwd)
    try:
        return await asyncio.create_subprocess_exec(
            server.command, *server.args, stdin=PIPE, stdout=PIPE, stderr=PIPE,
            cwd=server.cwd or None, env=environment(server, environ), start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise StartError(f"there is no command {server.command!r}; install it, or give its whole path") from None
    except (OSError, ValueError) as error:
        raise StartError(f"its command {server.command!r} cannot be run: {error}") from error


def _check_folder(cwd: str) -> None:
    if cwd and not Path(cwd).is_dir():
        raise StartError(f"its cwd {cwd!r} is no folder")


async def stop(child: Child, grace_s: float) -> None:
    """End *child* and all of its group: close its input, wait, SIGTERM, wait, SIGKILL."""
    killed = False
    try:
        if child.stdin is not None:
            child.stdin.close()
        await _exited(child, grace_s)
        if _signalled(child, signal.SIGTERM):
            await _gone(child, grace_s)
            killed = _signalled(child, signal.SIGKILL)
        if killed:
            await _gone(child, min(grace_s, KILLED_S))
    finally:
        # Also where the waits above are cancelled: nothing stays behind.
        _signalled(child, signal.SIGKILL)
        # Nothing public closes pipes that a grandchild in a session of its own still holds.
        transport = getattr(child, "_transport", None)
        if transport is not None:
            transport.close()


async def _exited(child: Child, limit_s: float) -> None:
    """Wait for the process itself. Not for its pipes, which a grandchild may hold open."""
    for _ in range(max(1, round(limit_s / LOOK_S))):
        if child.returncode is not None:
            return
        await asyncio.sleep(LOOK_S)


async def _gone(child: Child, limit_s: float) -> None:
    for _ in range(max(1, round(limit_s / LOOK_S))):
        if child.returncode is not None and not _signalled(child, 0):
            return
        await asyncio.sleep(LOOK_S)


def _signalled(child: Child, number: int) -> bool:
    """Send *number* to the group; return whether anybody is left in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
        return True
    return False
