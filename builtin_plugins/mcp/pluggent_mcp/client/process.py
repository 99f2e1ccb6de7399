"""A server as a process of its own group, with little of our environment. POSIX only."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from asyncio.subprocess import Process, SubprocessStreamProtocol
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

import pluggent_process_engine
from pluggent_process_engine.process_table import marks_with, process_info

import pluggent_mcp
from pluggent_mcp.client.process_tree import LOOK_S, MARKS, ProcessTree
from pluggent_mcp.settings import Server

INHERITED = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    # Where trusted certificate authorities are, in the words of the usual programs and package managers.
    "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT", "DENO_TLS_CA_STORE", "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "NPM_CONFIG_CAFILE", "PIP_CERT",
    "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "npm_config_cafile",
)  # fmt: skip
"""Environment variables that a server inherits. No keys, tokens or proxies: the URL of a proxy may hold a password."""
_WITHHELD = re.compile(
    r"(?i:(?:all|https?|no)_proxy|npm_config_(?:.*proxy|.*registry))|PIP_(?:INDEX_URL|PROXY|EXTRA_INDEX_URL)"
    r"|UV_(?:DEFAULT_INDEX|INDEX|INDEX_URL)"
)
"""Variables that programs commonly need for the network, and that a server gets from its ``env`` alone."""
LIBRARIES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Environment variables without which some interpreters do not start."""
INSIDE = "PLUGGENT_INSIDE"
"""Set for all processes below a host."""
_GUARD = "import sys; sys.path += sys.argv[2:]; from pluggent_mcp.client.process_tree import main; main(sys.argv[1])"
_FOLDERS = tuple(str(Path(package.__path__[0]).parent) for package in (pluggent_mcp, pluggent_process_engine))
KILLED_S = 0.5
"""How long to wait for killed processes to disappear; those that no parent reaps stay as zombies."""
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


class Guard:
    """A process that ends the servers of this one when this one dies without stopping them. One for any number.

    It runs as long as there are servers. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[str, tuple[int, float]] = {}
        self._process: Popen[bytes] | None = None

    def watch(self, mark: str, pid: int, grace_s: float) -> None:
        """Give it the server with *mark* and its first process, 0 before that is there."""
        with self._lock:
            self._watched[mark] = (pid, grace_s)
            if self._process is None or not self._tell(f"+ {mark} {pid} {grace_s}"):
                self._start()

    def forget(self, mark: str) -> None:
        """Let go of a server that has ended. After the last one it blocks until a killed process has ended."""
        with self._lock:
            if self._watched.pop(mark, None) is None:
                return
            if self._watched:
                self._tell(f"- {mark}")
            else:
                self._end()

    def _start(self) -> None:
        self._end()
        if not sys.executable or getattr(sys, "frozen", False):
            return  # there is no interpreter to run it
        command = [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), *_FOLDERS]
        needed = {name: os.environ[name] for name in LIBRARIES if name in os.environ}
        with suppress(OSError):  # a server without its guard is better than none
            self._process = Popen(  # noqa: S603 (this interpreter with a file of ours)
                command, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=needed, cwd="/", start_new_session=True
            )
        for mark, (pid, grace_s) in self._watched.items():
            self._tell(f"+ {mark} {pid} {grace_s}")

    def _tell(self, line: str) -> bool:
        """Write *line* to it; return False if it has ended."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError, TimeoutExpired):
                process.communicate(timeout=KILLED_S)


class Child(Process):
    """A child process. ``exited`` is set when it has exited, even if others hold its pipes open."""

    def __init__(self, transport: asyncio.SubprocessTransport, watcher: _ExitWatcher, guard: Guard, mark: str) -> None:
        super().__init__(transport, watcher, asyncio.get_running_loop())
        self.exited = watcher.exited
        self._guard = guard
        self._mark = mark
        found = process_info(transport.get_pid())
        self.identity = None if found is None else found.process
        """What tells it from a later process with the same pid; None where that cannot be known."""
        self._pipes = transport

    def unguard(self) -> None:
        """Tell the guard that it has ended. May block for a moment."""
        self._guard.forget(self._mark)

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


def withheld(server: Server, environ: Mapping[str, str]) -> str:
    """Return the names of variables in *environ* that *server* may need for the network and does not get.

    >>> withheld(Server(command="npx"), {"HTTPS_PROXY": "http://ann:s3cret@proxy", "PATH": "/bin"})
    'HTTPS_PROXY'
    """
    return ", ".join(sorted(name for name in environ if _WITHHELD.fullmatch(name) and name not in server.env))


async def start_process(server: Server, environ: Mapping[str, str], mark: str, guard: Guard) -> Child:
    """Start *server*'s command in a group of its own. Raises StartError saying what to do."""
    _check_folder(server.cwd)
    # In a task: asyncio loses a process if its start is cancelled.
    starting = asyncio.create_task(
        _start(server, environment(server, environ, mark), mark, guard), name="pluggent-mcp-start"
    )
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


async def _start(server: Server, environ: Mapping[str, str], mark: str, guard: Guard) -> Child:
    # The guard comes first: at no moment does a server run without it.
    guard.watch(mark, 0, server.stop_timeout_s)
    try:
        transport, watcher = await asyncio.get_running_loop().subprocess_exec(
            _ExitWatcher, server.command, *server.args, stdin=PIPE, stdout=PIPE, stderr=PIPE,
            cwd=server.cwd or None, env=environ, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        guard.forget(mark)
        raise
    guard.watch(mark, transport.get_pid(), server.stop_timeout_s)
    return Child(transport, watcher, guard, mark)


def _check_folder(cwd: str) -> None:
    if cwd and not Path(cwd).is_dir():
        raise StartError(f"its cwd {cwd!r} is not a folder")


async def stop(child: Child, grace_s: float, mark: str) -> None:
    """Stop *child* and all its descendants: close its input, wait, SIGTERM, wait, SIGKILL.

    On Linux that includes processes that left its group (see process_tree).
    """
    tree = ProcessTree(mark, child.pid, leader=child.identity)
    killed = over = False
    try:
        # In a thread: with thousands of processes it would block the loop noticeably.
        await asyncio.to_thread(tree.scan)
        if child.stdin is not None:
            child.stdin.close()
        await _wait_for_exit(child, grace_s)
        await asyncio.to_thread(tree.scan)
        if tree.signal_all(signal.SIGTERM):
            await _wait_until_gone(child, tree, grace_s)
            await asyncio.to_thread(tree.scan)
            killed = tree.signal_all(signal.SIGKILL)
        if killed:
            await _wait_until_gone(child, tree, min(grace_s, KILLED_S))
        await asyncio.to_thread(tree.kill)
        await asyncio.to_thread(child.unguard)
        over = True
    finally:
        if not over:  # also where the waits above are cancelled nothing stays behind
            tree.kill()
        try:
            # asyncio itself has to see the end first: closing looks for it too, and would take it away.
            await _wait_for_exit(child, KILLED_S)
        finally:
            child.close()
            child.unguard()


async def _wait_for_exit(child: Child, limit_s: float) -> None:
    """Wait for the process itself. Not for its pipes, which a grandchild may hold open."""
    if child.exited.is_set():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await child.exited.wait()


async def _wait_until_gone(child: Child, tree: ProcessTree, limit_s: float) -> None:
    for _ in range(max(1, round(limit_s / LOOK_S))):
        if child.returncode is not None and not tree.signal_all(0):
            return
        await asyncio.sleep(LOOK_S)
