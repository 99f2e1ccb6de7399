"""What holds for every test: an empty home, no network beyond loopback, nothing left running."""

import asyncio
import faulthandler
import gc
import inspect
import logging
import os
import re
import signal
import socket
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, NamedTuple

import importlib_metadata  # noqa: F401 (first imported in a test that restores sys.meta_path, its finder would be lost)
import pytest
import quick
from cli_support import Cli
from fork_server import children, close_server, forked
from hypothesis import HealthCheck, settings
from shared_run import SharedRun

# How fast a machine is says nothing of what is tested.
settings.register_profile(
    "pluggent", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("pluggent")

collect_ignore = ["benchmarks", "installs.py", "run.py"]  # programs

PEERS = Path(os.environ.get("PLUGGENT_TEST_PEERS") or Path.home() / ".cache" / "pluggent-test-peers")
"""Where .ci/run installs the foreign servers that some tests talk to; kept from before HOME is changed."""

DISK = os.environ.get("PLUGGENT_TEST_DISK")
"""Where temporary files are on a disk, if run.py has put those of the tests in memory; kept as PEERS is."""

HANGS_S = 120
"""Seconds after which a test that has not ended says where it stands."""

ENDS_S = 5
"""Seconds in which a process that another one had forked has to end once that one has ended."""

FEW = 50
"""How many tests have their folders side by side."""

UNWANTED_PREFIXES = ("PLUGGENT_", "XDG_")
UNWANTED_SUFFIXES = ("_API_KEY", "_PROXY", "_proxy")


class NetworkForbiddenError(RuntimeError):
    """A test tried to reach something that is not this machine."""


class Watch:
    """Has a test that hangs say where. One timer for all: pytest's own starts a thread for each test."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # what is captured is read too late
        faulthandler.register(signal.SIGALRM, file=self._stderr)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Let the time of a test begin and end with it."""
        signal.setitimer(signal.ITIMER_REAL, HANGS_S)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


class Isolation:
    """Fixtures for every test of the run, the doctests in the packages included.

    A conftest.py reaches only what lies below its folder, so this is registered as a plugin.
    """

    @pytest.fixture(scope="session")
    @classmethod
    def homes(cls, tmp_path_factory: pytest.TempPathFactory) -> "Homes":
        """Return the homes. ``mktemp`` for each test would take longer than many a test does."""
        return Homes(tmp_path_factory.mktemp("homes"))

    @pytest.fixture(autouse=True)
    def clean_home(self, homes: "Homes") -> Iterator[Path]:
        """Keep the test apart from the user and from other tests. One fixture: each costs as much as a small test.

        It has a home of its own and none of the user's settings, keys and proxies; what a command that ran in this
        process did to the log is taken back; a thread of ours or a child process that it leaves running fails it.
        """
        unwanted = {name: os.environ.pop(name) for name in [*os.environ] if is_unwanted(name)}
        before, log = threads() | children(), Log.now()
        home = homes.empty()
        unwanted["HOME"], os.environ["HOME"] = os.environ.get("HOME", ""), str(home)
        yield home
        log.restore()
        os.environ.update(unwanted)
        deadline = monotonic() + ENDS_S
        while forked() - before and monotonic() < deadline:
            sleep(0.005)  # no event says that the child of another process has ended
        assert threads() | children() <= before, "the test left these running"

    @pytest.fixture(scope="session")
    @classmethod
    def folders_of_tests(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
        """Name the folders of tests, a few in each folder: where thousands are side by side, what walks them is slow.

        Landlock lets a program read what is beside its folder, one by one.
        """
        base = tmp_path_factory.mktemp("tests")
        return (base / str(number // FEW) / str(number) for number in count())

    @pytest.fixture
    def tmp_path(self, folders_of_tests: Iterator[Path], request: pytest.FixtureRequest) -> Path:
        """Return a folder of the test's own, as pytest does; no other has its name."""
        name = re.sub(r"\W", "_", request.node.name)[:30]
        place = next(folders_of_tests)
        folder = place / f"{name}{place.name}"
        folder.mkdir(mode=0o700, parents=True)
        return folder

    @pytest.fixture
    async def no_task_left(self) -> AsyncIterator[None]:
        """Fail an async test whose loop still has tasks when all its other fixtures are closed."""
        before = asyncio.all_tasks()
        yield
        own = asyncio.current_task()
        for _ in range(20):  # a task that was just cancelled needs a few turns of the loop to end
            await asyncio.sleep(0)
        left = {task for task in asyncio.all_tasks() - before if task is not own and not task.done()}
        assert not left, "the test left these tasks running"


class Homes:
    """Empty folders, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._names = map(folder.joinpath, map(str, count()))
        self._last: Path | None = None

    def empty(self) -> Path:
        """Return the last one, if it was left empty and as it was, or a new one."""
        if self._last is None or not unused(self._last):
            self._last = next(self._names)
            self._last.mkdir(mode=0o700)
        return self._last


class Log(NamedTuple):
    """How the logger of pluggent is set."""

    handlers: list[logging.Handler]
    propagate: bool
    level: int

    @classmethod
    def now(cls) -> "Log":
        """Return how it is set now."""
        logger = logging.getLogger("pluggent")
        return cls(list(logger.handlers), logger.propagate, logger.level)

    def restore(self) -> None:
        """Set it so again."""
        logger = logging.getLogger("pluggent")
        logger.handlers[:], logger.propagate = self.handlers, self.propagate
        logger.setLevel(self.level)


def is_unwanted(name: str) -> bool:
    """Tell whether a variable is a setting, a key or a proxy of the user."""
    return name.startswith(UNWANTED_PREFIXES) or name.endswith(UNWANTED_SUFFIXES)


def unused(home: Path) -> bool:
    """Tell whether nobody wrote into *home*, shut it or took it away."""
    try:
        return not os.listdir(home) and stat.S_IMODE(home.lstat().st_mode) == 0o700  # noqa: PTH208 (half the time)
    except OSError:
        return False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the quick run, and the run of several processes."""
    parser.addoption("--quick", action="store_true", help="a part of the tests, for every day: tests/support/quick.py")
    parser.addoption("--share", metavar="FOLDER", type=Path, help="run the parts that no other process takes: run.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that a quick run does not read."""
    return True if config.getoption("quick") and not quick.wanted(collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """Start the rules that hold for the whole run."""
    config.pluginmanager.register(Isolation(), "pluggent-isolation")
    config.pluginmanager.register(Watch(), "pluggent-watch")
    if share := config.getoption("share"):
        config.pluginmanager.register(SharedRun(share), "pluggent-shared-run")
    keep_on_this_machine()


def pytest_collection_finish() -> None:
    """Take what was collected out of each garbage collection: it stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """End the process that starts the command."""
    close_server()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose those of a quick run; let every async test, and no other, watch its loop."""
    if config.getoption("quick"):
        items[:] = quick.chosen(items)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(inspect.unwrap(item.function)):
            names = item.fixturenames
            if "no_task_left" not in names:
                names.insert(0, "no_task_left")  # set up first, so closed last


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return the command in a folder of its own, without plugins beside ours."""
    return Cli(tmp_path)


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """Return a folder that is not in memory: in ``/dev/shm`` confined programs may write, as they need semaphores."""
    with TemporaryDirectory(prefix="pluggent-test-", dir=DISK, ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture(scope="session")
def peers_folder() -> Path:
    """Return where the foreign servers are, or skip."""
    if not (PEERS / "node_modules").is_dir():
        pytest.skip(f"no foreign servers in {PEERS}: .ci/run installs them where npm is there")
    return PEERS


@pytest.fixture
async def patience() -> AsyncIterator[None]:
    """Bound a test: what should end by itself does not get the run stuck."""
    async with asyncio.timeout(30):
        yield


def threads() -> set[str]:
    """Return the threads that pluggent started."""
    return {f"thread {thread.name}" for thread in threading.enumerate() if thread.name.startswith("pluggent-")}


def keep_on_this_machine() -> None:
    """Let sockets connect to loopback addresses and local paths alone, and look up no other name."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        refuse_elsewhere(self.family, address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        refuse_elsewhere(self.family, address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and name.endswith((".invalid", ".test")):
            raise socket.gaierror(socket.EAI_NONAME, f"no such host: {name}")
        if name not in {None, "", "localhost"}:
            refuse_elsewhere(socket.AF_INET, (name, 0))
        return getaddrinfo(host, *args, **kwargs)

    socket.socket.connect = guarded_connect  # type: ignore[assignment, method-assign]
    socket.socket.connect_ex = guarded_connect_ex  # type: ignore[assignment, method-assign]
    socket.getaddrinfo = guarded_getaddrinfo


def refuse_elsewhere(family: int, address: Any) -> None:
    """Raise NetworkForbiddenError unless *address* is on this machine."""
    if family not in {socket.AF_INET, socket.AF_INET6}:
        return
    host = str(address[0])
    if host == "localhost":
        return
    try:
        local = ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        local = False
    if not local:
        raise NetworkForbiddenError(f"a test may reach this machine only, not {host}")
