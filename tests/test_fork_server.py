"""A process of the fork server is what a new interpreter would be, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import fork_server
import pytest
from cli_support import PATIENCE_S, Cli, signalled, wait_for_line, words_to_fork
from fake_distributions import install

TOOLS = """
import asyncio, json, os, signal, sys, threading, warnings
from pathlib import Path
from pluggent_hookspecs import hookimpl, tool

def terminal():
    try:
        return os.tcgetpgrp(os.open("/dev/tty", os.O_RDWR)) == os.getpgrp()
    except OSError:
        return None

@tool(effects=())
def about() -> str:
    '''Write what this process is.'''
    streams = (sys.stdin, sys.stdout, sys.stderr)
    Path("about.json").write_text(json.dumps({
        "streams": [[s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through] for s in streams],
        "files": [[s.fileno(), s.isatty(), repr(s.buffer), s.buffer.raw.mode] for s in streams],
        "arguments": [sys.argv, sys.orig_argv],
        "path": sys.path,
        "place": os.getcwd(),
        "environ": {**os.environ, "PLUGGENT_INSIDE": ""},
        "filters": [[rule[0], rule[2].__name__] for rule in warnings.filters],
        "session": os.getsid(0) == os.getpid() == os.getpgrp(),
        "signals": {number.name: str(signal.getsignal(number)) for number in (signal.SIGPIPE, signal.SIGCHLD)},
        "mask": os.umask(0),
        "descriptors": len(os.listdir("/dev/fd")),
        "threads": threading.active_count(),
        "terminal": terminal(),
    }))
    return "written"

@tool(effects=())
async def wait() -> str:
    '''Wait for ever.'''
    await asyncio.Event().wait()

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [about, wait]
"""
START = """
import os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from pathlib import Path
from cli_support import Cli

cli = Cli(Path(sys.argv[2]))
process = cli.start("run", "hello")
os._exit(0)
"""

PROGRAM = """
import json, os, signal, sys, time
print(json.dumps([sys.argv[1:], sys.stdin.readline(), os.getcwd(), os.environ.get("MINE")]), flush=True)
if "wait" in sys.argv:
    # No print: the signal may come while the one below is not over.
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told to end\\n") and sys.exit())
    print("waits", flush=True)
    time.sleep(60)
sys.exit(7)
"""


@pytest.fixture
def cli(tmp_path):
    made = Cli(tmp_path)
    install(made.site, "acme", {"tools/acme": "acme_tools:Plugin"}, modules={"acme_tools": TOOLS})
    return made


def about(cli):
    return json.loads((cli.work / "about.json").read_text())


@pytest.mark.parametrize("stdout", [subprocess.PIPE, subprocess.DEVNULL])
def test_it_is_what_a_new_interpreter_would_be(cli, stdout):
    forked = cli("tools", "call", "about", stdout=stdout), about(cli)
    fresh = cli("tools", "call", "about", stdout=stdout, fresh=True), about(cli)

    assert forked == fresh
    assert forked[0].code == 0


def test_at_a_terminal_it_is_what_a_new_interpreter_would_be(cli):
    ends = []
    for fresh in (False, True):
        with cli.at_terminal("tools", "call", "about", fresh=fresh) as terminal:
            ends.append((terminal.end(), about(cli)))

    assert ends[0] == ends[1]
    assert ends[0][1]["terminal"] is True


@pytest.mark.parametrize("words", [["--version"], ["plugins"], ["run", "weather city=Oslo"], ["nonsense"], ["run", ""]])
def test_its_output_and_exit_code_are_those_of_a_new_interpreter(cli, words):
    assert cli(*words) == cli(*words, fresh=True)


def test_a_signal_that_kills_it_is_its_exit_code(cli):
    process = cli.start("run", "wait")
    wait_for_line(process, "→ wait()")

    assert signalled(process, signal.SIGKILL).code == -signal.SIGKILL


def test_a_wait_for_it_is_bounded(cli):
    process = cli.start("run", "wait")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)

    assert process.poll() is None
    signalled(process, signal.SIGKILL)
    assert process.poll() == -signal.SIGKILL


@pytest.mark.parametrize("place", ["site", "work"])
@pytest.mark.parametrize("name", ["sitecustomize", "json"])
def test_modules_of_its_own_are_seen_as_by_a_new_interpreter(cli, place, name):
    (getattr(cli, place) / f"{name}.py").write_text("import sys\nprint('mine', file=sys.stderr)\n")

    forked = cli("plugins")

    assert forked == cli("plugins", fresh=True)
    assert ("mine" in forked.err) == (place == "site")


def test_variables_of_the_interpreter_are_for_a_new_one(cli):
    assert fork_server.server_for(cli.environ()) is not None
    for variables in ({"LC_ALL": "C"}, {"PYTHONWARNINGS": "ignore"}, {"PYTHONPATH": f"{cli.site}:"}):
        assert fork_server.server_for(cli.environ(**variables)) is None


def test_a_process_that_is_left_running_is_noticed_and_the_server_is_not(cli):
    before = fork_server.children()
    process = cli.start("run", "wait")

    assert fork_server.children() == before | {f"process {process.pid}"}
    signalled(process, signal.SIGKILL)
    assert fork_server.children() == before


def test_the_server_and_what_it_started_end_with_the_tests(tmp_path):
    folder = Path(fork_server.__file__).parent
    program = [sys.executable, "-c", START, os.pathsep.join((str(folder), str(folder.parent))), str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:  # noqa: S603
        said = started.communicate(timeout=PATIENCE_S)  # until the last process that holds the pipes has ended

    assert said == ("", "")


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)

    def start(*arguments):
        return subprocess.Popen(  # noqa: S603 (ours)
            words_to_fork(file, *arguments), cwd=tmp_path, env={**os.environ, "MINE": "yes"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def test_another_process_starts_programs_and_the_command(cli, program, tmp_path):
    with program("one", "two") as started:
        said = started.communicate("line\n", PATIENCE_S)
    plugins = subprocess.run(  # noqa: S603 (ours)
        words_to_fork(None, "plugins"), cwd=cli.work, env=cli.environ(), capture_output=True, text=True, check=False
    )

    assert (json.loads(said[0]), said[1], started.returncode) == (
        [["one", "two"], "line\n", str(tmp_path), "yes"],
        "",
        7,
    )
    assert (plugins.returncode, plugins.stdout, plugins.stderr) == cli("plugins")


def test_another_process_that_ends_tells_what_it_has_started_to_end(program):
    with program("wait") as started:
        started.stdin.write("line\n")
        started.stdin.flush()
        assert started.stdout.readline()
        assert started.stdout.readline() == "waits\n"
        started.kill()

        assert started.stdout.read() == "told to end\n"


def test_variables_of_the_interpreter_are_for_a_new_one_there_too(cli):
    environ = {**cli.environ(PYTHONWARNINGS="ignore"), "LC_ALL": "C"}
    done = subprocess.run(  # noqa: S603 (ours)
        words_to_fork(None, "tools", "call", "about"), cwd=cli.work, env=environ, capture_output=True, check=False
    )

    assert (done.returncode, about(cli)["filters"][0]) == (0, ["ignore", "Warning"])
