"""Starts the command by fork from a process that has imported it and run a turn: a tenth of a new interpreter's time.

The server is a child of the test process, started at the first use; it has no thread and no event
loop. Each run is a real process: own session, own terminal, real signals and exit codes. What an
interpreter does before the first import cannot be done after a fork: a run that has variables for
it other than the server's, modules of its own in place of imported ones, or modules in its working
directory gets an interpreter of its own.

A process that is not a test's own, such as an MCP client, starts the command or a program of the tests by
fork with the words of ``ForkServer.words``: see forked.py.
"""

import atexit
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import IO, Any, NamedTuple, NoReturn, Self

MODULE = "pluggent_cli"
"""What ``python -m`` runs."""
PREFIX = "pluggent_"
"""What the packages are called that the server imports."""
FIRST_USED = ("anyio._backends._asyncio", "cattrs.strategies", "prompt_toolkit.input.vt100", "prompt_toolkit.shortcuts")
"""Modules of libraries that are imported when they are first used, by many of the runs."""
USED_BY_PROGRAMS = ("mcp.server.mcpserver", "mcp.server.subscriptions", "uvicorn")
"""The same for programs of the tests; imported when the first one is started."""
FORKED = Path(__file__).with_name("forked.py")
_INTERPRETER = ("PYTHON", "LC_", "LANG")
_RUN_AT_THE_START = {"sitecustomize", "usercustomize"}
_LENGTH = struct.Struct("!I")


# ---- the test's side --------------------------------------------------------------------


class ForkServer:
    """A running server."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        own, its = socket.socketpair()
        self._folder = tempfile.mkdtemp(prefix="pluggent-fork-")
        self._door = f"{self._folder}/door"
        with its, socket.socket(socket.AF_UNIX) as door:
            door.bind(self._door)
            door.listen()
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno()), str(door.fileno())], env=environ,
                pass_fds=[its.fileno(), door.fileno()],
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self._control = own
        self._started_with = _interpreter(environ)
        self.pid = self._process.pid

    def suits(self, environ: Mapping[str, str]) -> bool:
        """Tell whether a fork is what a new interpreter with *environ* would be."""
        places = environ.get("PYTHONPATH") or os.sep
        return _interpreter(environ) == self._started_with and all(map(os.path.isabs, places.split(os.pathsep)))

    def words(self, program: Path | None, *arguments: str) -> list[str]:
        """Return the words with which any process starts *program*, or the command for None, by fork."""
        return [sys.executable, "-I", "-S", str(FORKED), self._door, str(program or ""), *arguments]

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Have a process started. The last of *descriptors* is where its id and its end are written to."""
        data = json.dumps(request).encode()
        socket.send_fds(self._control, [_LENGTH.pack(len(data))], descriptors)
        self._control.sendall(data)

    def of_others(self) -> set[str]:
        """Return the processes that were started through the door, by one that lives."""
        return {f"process {file.name}" for file in Path(self._folder).iterdir()}

    def close(self) -> None:
        """End the server, and what it has started."""
        self._control.close()
        self._process.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)


class Forked(subprocess.Popen[Any]):
    """A process that the server has started, used as any other one.

    ``subprocess`` makes the pipes and reads them; how a process begins and ends is replaced here.
    """

    def __init__(
        self, server: ForkServer, arguments: Sequence[str], *, terminal: str | None = None, first: str = "",
        files: Mapping[int, Path] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self._server = server
        self._terminal = terminal
        self._first = first
        self._files = {str(number): str(file) for number, file in (files or {}).items()}
        self._ended: IO[bytes] | None = None
        super().__init__([*arguments], **options)

    def _execute_child(self, args: list[str], *given: Any) -> None:
        cwd, environ, pipes = given[4], given[5], given[9:15]
        mask = os.umask(0)
        os.umask(mask)
        request = {
            "arguments": args, "cwd": str(cwd), "environ": environ, "terminal": self._terminal, "umask": mask,
            "first": self._first, "files": self._files, "program": "",
        }  # fmt: skip
        reader, writer = os.pipe()
        self._ended = open(reader, "rb", buffering=0)  # noqa: SIM115, PTH123 (closed at the end of the process)
        try:
            standard = (pipes[0], pipes[3], pipes[5])
            inherited = [number if own == -1 else own for number, own in enumerate(standard)]
            self._server.ask(request, [*inherited, writer])
        finally:
            os.close(writer)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = self._told()
        self._child_created = True

    def _told(self) -> int:
        assert self._ended is not None
        line = b""
        while not line.endswith(b"\n"):
            data = self._ended.read(1)
            if not data:
                raise RuntimeError("the server that starts the command has ended")
            line += data
        return int(line)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._after(0.0)

    def _wait(self, timeout: float | None) -> int:
        code = self._after(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def _after(self, timeout: float | None) -> int | None:
        if self.returncode is None and self._ended and select.select([self._ended], [], [], timeout)[0]:
            with self._ended:
                self.returncode = os.waitstatus_to_exitcode(self._told())
        return self.returncode


_servers: list[ForkServer] = []


def server_for(environ: Mapping[str, str]) -> ForkServer | None:
    """Return this process's server, started now if there is none; None if it does not suit *environ*."""
    if not _servers:
        _servers.append(ForkServer({**environ, "PYTHONPATH": ""}))
    return _servers[0] if _servers[0].suits(environ) else None


def close_server() -> None:
    """End this process's server if there is one."""
    while _servers:
        _servers.pop().close()


def children() -> set[str]:
    """Return this process's children and those of its server, without it; nothing where the system lists none."""
    servers = {f"process {server.pid}" for server in _servers}
    return (_children("self") - servers) | forked()


def forked() -> set[str]:
    """Return the children of this process's server, but for those that belong to another process, which lives."""
    return set[str]().union(*(_children(str(server.pid)) - server.of_others() for server in _servers))


def _children(process: str) -> set[str]:
    found: set[bytes] = set()
    # Asked twice for every test: pathlib takes six times as long.
    with suppress(FileNotFoundError, ProcessLookupError):  # a system that lists none
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                descriptor = os.open(f"/proc/{process}/task/{thread}/children", os.O_RDONLY)
                try:
                    while data := os.read(descriptor, 65_536):
                        found.update(data.split())
                finally:
                    os.close(descriptor)
    return {f"process {int(child)}" for child in found}


def _interpreter(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in environ if name.startswith(_INTERPRETER) and name != "PYTHONPATH"}


# ---- the server's process ---------------------------------------------------------------


class _Request(NamedTuple):
    """What is to run."""

    arguments: list[str]
    cwd: str
    environ: dict[str, str]
    terminal: str | None
    umask: int
    first: str
    """Python that runs first, in place of what no test may write or could wait for."""
    files: dict[str, str]
    """Files in place of the standard descriptors with these numbers."""
    program: str
    """The file of a program of the tests; the command, if there is none."""


class _Child(Exception):  # noqa: N818 (no error: the way out of the server's loop)
    """This process is the one that was asked for."""

    def __init__(self, request: _Request) -> None:
        self.request = request


def serve(control: socket.socket, door: socket.socket) -> None:
    """Start processes until the other side closes. Raises _Child in each of them."""
    running: dict[int, int] = {}
    with control, door, _woken_by_children() as woken, _Lines(Path(door.getsockname()).parent) as lines:
        while True:
            waited: list[Any] = [control, door, woken, *lines.open]
            ready = select.select(waited, [], [])[0]
            if woken in ready:
                os.read(woken, 4096)
                _report(running)
            for line in set(lines.open).intersection(ready):
                lines.end(line, running)
            if door in ready:
                lines.begin(door.accept()[0], running)
            if control in ready and not _start(control, running):
                break
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)


class _Lines:
    """Connections of those that started a process through the door: when one closes, its process is told to end.

    Until then *folder* has a file with the name of the process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.open: dict[socket.socket, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for line in self.open:
            line.close()

    def begin(self, line: socket.socket, running: dict[int, int]) -> None:
        """Start the process that is asked for on *line*."""
        self.open[line] = 0
        self.open[line] = process = _start(line, running)
        (self._folder / str(process)).touch()

    def end(self, line: socket.socket, running: Mapping[int, int]) -> None:
        """Close *line*, and tell its process to end if it runs."""
        process = self.open.pop(line)
        line.close()
        (self._folder / str(process)).unlink()
        if process in running:
            os.killpg(process, signal.SIGTERM)


@contextmanager
def _woken_by_children() -> Generator[int]:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def ignore(_: int, __: FrameType | None) -> None:
        """The descriptor says all there is to say."""

    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, ignore)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in the background
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(reader)
        os.close(writer)


def _report(running: dict[int, int]) -> None:
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        ended = running.pop(process)
        with suppress(BrokenPipeError):  # the test has ended without asking
            os.write(ended, b"%d\n" % status)
        os.close(ended)


def _start(control: socket.socket, running: dict[int, int]) -> int:
    """Start what is asked for, and return its id; 0 if the other side has closed."""
    head, descriptors, _, _ = socket.recv_fds(control, _LENGTH.size, 4)
    if not head:
        return 0
    data = b""
    while len(data) < _LENGTH.unpack(head)[0]:
        data += control.recv(65_536)
    request = _Request(**json.loads(data))
    if request.program:
        _import_for_programs()
    process = os.fork()
    if process:
        running[process] = descriptors.pop()
        for descriptor in descriptors:
            os.close(descriptor)
        return process
    for other in running.values():
        os.close(other)
    _become(request, descriptors)
    raise _Child(request)


def _become(request: _Request, descriptors: list[int]) -> None:
    """Let this process be what a new one in that place would be, but for its output."""
    os.setsid()
    *standard, told = descriptors
    if request.terminal:  # a session leader's first terminal is its controlling one
        descriptors.append(os.open(request.terminal, os.O_RDWR))
        standard = [descriptors[-1]] * 3
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    for name, file in request.files.items():
        descriptors.append(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666))
        os.dup2(descriptors[-1], int(name))
    os.chdir(request.cwd)
    os.umask(request.umask)
    os.environ.clear()
    os.environ.update(request.environ)
    os.write(told, b"%d\n" % os.getpid())
    for descriptor in descriptors:
        os.close(descriptor)


def run(request: _Request, started_with: Mapping[str, str]) -> NoReturn:
    """Run the command as ``python -m`` does, or a program as ``python`` does; end as an interpreter does."""
    main = _program(request) if request.program else _command(request, started_with)
    _open_streams()
    try:
        sys.exit(main())
    except SystemExit as ending:
        _end_at_once(ending.code)
        raise


def _command(request: _Request, started_with: Mapping[str, str]) -> Callable[[], Any]:
    main = f"{MODULE}.__main__"
    places = [place for place in request.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if _interpreter(request.environ) != started_with or _interpreter_wanted(request.cwd, places):
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *request.arguments], request.environ)  # noqa: S606
    exec(request.first, {})  # noqa: S102 (the tests' own)
    sys.path[:0] = dict.fromkeys(places)
    importlib.invalidate_caches()
    spec = importlib.util.find_spec(main)
    assert spec is not None
    sys.argv = [str(spec.origin), *request.arguments]
    sys.orig_argv = [sys.executable, "-m", MODULE, *request.arguments]
    main_of_command: Callable[[], Any] = importlib.import_module(f"{MODULE}.main").main
    return main_of_command


def _program(request: _Request) -> Callable[[], Any]:
    warnings.simplefilter("ignore")  # the server's own are errors
    sys.path.insert(0, str(Path(request.program).parent))
    sys.argv = [request.program, *request.arguments]
    sys.orig_argv = [sys.executable, *sys.argv]

    def main() -> int:
        runpy.run_path(request.program, run_name="__main__")
        return 0

    return main


def _open_streams() -> None:
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        setattr(sys, name, _stream(name, number, mode))
        setattr(sys, f"__{name}__", getattr(sys, name))


def _interpreter_wanted(cwd: str, places: list[str]) -> bool:
    """Tell whether a file of the run's own would count before all that is imported here."""
    there = {entry.name.partition(".")[0] for place in map(Path, places) if place.is_dir() for entry in place.iterdir()}
    taken = {name.partition(".")[0] for name in sys.modules} | _RUN_AT_THE_START
    return not taken.isdisjoint(there) or any(Path(cwd).glob("*.py"))


def _stream(name: str, number: int, mode: str) -> TextIOWrapper:
    was: Any = getattr(sys, f"__{name}__")
    binary = open(number, f"{mode}b", closefd=False)  # noqa: SIM115 (the interpreter's own are never closed)
    text = TextIOWrapper(
        binary, encoding=was.encoding, errors=was.errors, newline="\n",
        line_buffering=name == "stderr" or os.isatty(number),
    )  # fmt: skip
    binary.raw.name = f"<{name}>"  # type: ignore[attr-defined]
    text.mode = mode  # type: ignore[misc]
    return text


def _end_at_once(code: object) -> None:
    """End, unless the interpreter has more to do than to forget its modules, which takes the longest."""
    if threading.active_count() > 1 or not isinstance(code, int):
        return
    atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] (no other way to it)
    gc.collect()  # what complains of not having been closed does so now
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001 (the interpreter meets it again, and says so)
            return
    os._exit(code & 0xFF)


def _import_all() -> None:
    for package in pkgutil.iter_modules():
        if package.name.startswith(PREFIX) and package.name != "pluggent_testing":
            found = importlib.import_module(package.name)
            for module in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{package.name}."):
                if module.name.rpartition(".")[2] != "__main__":
                    importlib.import_module(module.name)


def _import_for_programs() -> None:
    for name in USED_BY_PROGRAMS:
        importlib.import_module(name)


def _run_once() -> None:
    """Run a turn: what the first one imports, compiles and caches, every process then has."""
    for name in FIRST_USED:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="pluggent-first-turn-") as folder:
        os.environ["HOME"] = folder
        run_turn = importlib.import_module("pluggent_host").Host.run_sync
        run_turn("read_file path=nothing", tools=["*"], state_dir=f"{folder}/state", workspace=folder)


def _main() -> None:
    started_with = _interpreter(os.environ)
    control, door = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    with control, door:
        del sys.path[0]  # this folder
        _import_all()
        _run_once()
        gc.collect()
        gc.freeze()
        assert threading.active_count() == 1
        try:
            serve(control, door)
        except _Child as child:
            request = child.request
        else:
            return
    run(request, started_with)


if __name__ == "__main__":
    _main()
