"""Runs the real command in a process of its own, with or without a terminal; turns that pause for an approval."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from fake_distributions import install, policy
from fork_server import MODULE, Forked, server_for

PATIENCE_S = 30.0
NOT_BY_DEFAULT = (
    "pluggent-audit,pluggent-budget,pluggent-mcp,pluggent-office-hours,pluggent-ollama,pluggent-openai-media,"
    "pluggent-permissions,pluggent-redact"
)
"""What is installed beside the tests, and not with ``pluggent`` itself."""
EVIL = "\x1b]0;title\x07\x9b2J\u202e\r\x00"
"""Text that steers a terminal."""
STEERING = set("\x1b\x07\x9b\u202e\r\x00")
COMMAND = (sys.executable, "-m", MODULE)
_WITH_SYSTEM = """
from pathlib import Path
from pluggent_cli.config import sources
sources.system_config = lambda: Path({!r})
"""
_OWN_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)  # a session leader's first terminal is its controlling one
for stream in (0, 1, 2):
    os.dup2(terminal, stream)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Done(NamedTuple):
    """What a command that has ended left behind."""

    code: int
    out: str
    err: str


def usual_environ() -> dict[str, str]:
    """Return the environment as it is, but for what decides about colours, width, buffers and Python."""
    decided = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "PYTHONPATH", "PYTHONUNBUFFERED"}
    kept = {name: value for name, value in os.environ.items() if name not in decided}
    return {**kept, "TERM": "xterm", "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}


def started(
    environ: Mapping[str, str], *arguments: str, script: str = "", fresh: bool = False, **options: Any
) -> subprocess.Popen[Any]:
    """Start the command with the *options* of Popen, by fork if that is the same as a new interpreter."""
    server = None if script or fresh else server_for(environ)
    if server is not None:
        return Forked(server, arguments, env=environ, **options)
    wrapper = ["/bin/sh", "-c", script, "sh"] if script else []
    return subprocess.Popen([*wrapper, *COMMAND, *arguments], env=environ, start_new_session=True, **options)


def words_to_fork(program: Path | None, *arguments: str) -> list[str]:
    """Return the words with which another process starts *program*, or the command for None, by fork."""
    server = server_for(usual_environ())
    assert server is not None
    return server.words(program, *arguments)


class Cli:
    """The command in *work*, with the distributions of *site* installed beside our own."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        self.site = folder / "site"
        self.state = folder / "state"
        self.work.mkdir()
        self.site.mkdir()

    def environ(self, **more: str | None) -> dict[str, str]:
        """Return the environment: as it is, without what decides about colours, width and buffers; None takes away."""
        own = {
            "PYTHONPATH": str(self.site), "PLUGGENT_STATE_DIR": str(self.state), "PLUGGENT_BLOCK": NOT_BY_DEFAULT
        }  # fmt: skip
        return {name: value for name, value in {**usual_environ(), **own, **more}.items() if value is not None}

    def __call__(
        self, *arguments: str, stdin: str | bytes = b"", stdout: int = subprocess.PIPE, script: str = "",
        system: Path | None = None, fresh: bool = False, **environ: str | None,
    ) -> Done:  # fmt: skip
        """Run the command without a terminal. With *script*, a shell script runs it, as ``"$@"``.

        A *fresh* one is a new interpreter's; so is that of a script. *system* stands for the settings of the whole
        system.
        """
        process = self.process(
            *arguments, script=script, fresh=fresh, system=system, environ=environ,
            stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE,
        )  # fmt: skip
        return _done(process, stdin.encode() if isinstance(stdin, str) else stdin)

    def document(self, *arguments: str, **options: Any) -> Any:
        """Return the JSON document that the command writes."""
        return json.loads(self(*arguments, "--json", **options).out)

    def talk(self, *arguments: str, keys: Sequence[str], **options: Any) -> Done:
        """Run the command at a terminal: wait for the first of *keys*, type the second, and so on."""
        with self.at_terminal(*arguments, **options) as terminal:
            terminal.exchange("", *keys)
            return terminal.end()

    def plugin(
        self, name: str, source: str = "", kind: str = "tools", *, accepted: bool = False, folder: Path | None = None,
        **options: Any,
    ) -> Path:  # fmt: skip
        """Install a plugin whose one module has *source*, and return its metadata folder."""
        module = name.replace("-", "_")
        info = install(
            folder or self.site, name, {f"{kind}/{module.removeprefix('acme_')}": f"{module}:Plugin"},
            modules={module: source}, **options,
        )  # fmt: skip
        if accepted:
            assert self("trust", "--plugin", f"{name}=={options.get('version', '1.0')}").code == 0
        return info

    def imported(self, *arguments: str) -> set[str]:
        """Return the modules that are imported when the command has ended."""
        source = f"""
import sys
from pluggent_cli.main import main
main({list(arguments)!r})
print(*sys.modules, file=sys.stderr)
"""
        process = subprocess.Popen(
            [sys.executable, "-c", source], cwd=self.work, env=self.environ(), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        return set(_done(process, b"").err.split())

    def start(
        self, *arguments: str, stdin: int = subprocess.DEVNULL, script: str = "", fresh: bool = False
    ) -> subprocess.Popen[str]:
        """Start the command without a terminal. With *script*, a shell script runs it, as ``"$@"``."""
        return self.process(
            *arguments, script=script, fresh=fresh, text=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def process(
        self, *arguments: str, script: str = "", fresh: bool = False, system: Path | None = None,
        environ: Mapping[str, str | None] | None = None, **options: Any,
    ) -> subprocess.Popen[Any]:  # fmt: skip
        """Start the command with the *options* of Popen, by fork if that is the same as a new interpreter."""
        wanted = self.environ(**(environ or {}))
        if system is not None:
            server = server_for(wanted)
            assert server is not None, "only a fork reads other settings of the system"
            return Forked(
                server, arguments, first=_WITH_SYSTEM.format(str(system)), cwd=self.work, env=wanted, **options
            )
        return started(wanted, *arguments, script=script, fresh=fresh, cwd=self.work, **options)

    @contextmanager
    def at_terminal(
        self, *arguments: str, columns: int = 100, script: str = "", fresh: bool = False, first: str = "",
        files: Mapping[int, Path] | None = None, **environ: str,
    ) -> Generator["Terminal"]:  # fmt: skip
        """Run the command at a terminal of its own; it is killed if it still runs in the end.

        With *script*, a shell script runs it, as ``"$@"``. A *fresh* one is a new interpreter's. In a fork, the Python
        of *first* runs before it, and *files* are in place of its standard descriptors with these numbers.
        """
        person, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, bytes((40, 0, columns, 0, 0, 0, 0, 0)))
        wanted = self.environ(**environ)
        server = None if script or fresh else server_for(wanted)
        name = os.ttyname(terminal)
        if server is not None:
            options: dict[str, Any] = {"terminal": name, "first": first, "files": files}
            process: subprocess.Popen[bytes] = Forked(server, arguments, cwd=self.work, env=wanted, **options)
        else:
            assert (first, files) == ("", None), "these are for a fork"
            wrapper = [sys.executable, "-c", _OWN_TERMINAL, name, *(["/bin/sh", "-c", script, "sh"] if script else ())]
            process = subprocess.Popen(
                [*wrapper, *COMMAND, *arguments], cwd=self.work, env=wanted, start_new_session=True
            )
        made = Terminal(process, person, terminal)
        try:
            yield made
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            made.close()


class Terminal:
    """The person's side of a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], person: int, program: int) -> None:
        self.process = process
        self._person = person
        self._program = program
        self._awaited: int = 0
        self.shown = ""

    def type(self, keys: str) -> None:
        """Press *keys*; ``\\x03`` is Ctrl-C, ``\\x04`` Ctrl-D."""
        os.write(self._person, keys.encode())

    def wait_for(self, text: str) -> str:
        """Return all that was shown up to *text*; fail if it does not turn up in time."""
        deadline = monotonic() + PATIENCE_S
        while text not in self.shown:
            left = deadline - monotonic()
            ready = select.select([self._person], [], [], max(0.0, left))[0]
            data = self._read() if ready else ""
            if not data and (left <= 0 or self.process.poll() is not None):
                raise AssertionError(f"{text!r} was not shown, but:\n{self.shown}")
            self.shown += data
        return self.shown

    def then(self, text: str) -> str:
        """Return what was shown behind what was awaited last, up to *text*; fail as wait_for does."""
        before, already = self.shown, self._awaited
        self.shown = before[already:]
        try:
            self.wait_for(text)
        finally:
            self.shown = before[:already] + self.shown
        self._awaited = self.shown.index(text, already) + len(text)
        return self.shown[already : self._awaited]

    def exchange(self, *texts: str) -> None:
        """Type the first of *texts*, wait for the second, and so on."""
        for number, text in enumerate(texts):
            if number % 2:
                self.then(text)
            else:
                self.type(text)

    def resize(self, columns: int, rows: int = 40) -> None:
        """Give the terminal another size, as a person does with a window."""
        fcntl.ioctl(self._person, termios.TIOCSWINSZ, bytes((rows, 0, columns, 0, 0, 0, 0, 0)))

    def attributes(self) -> list[object]:
        """Return how the terminal is set: echo, line by line, and so on."""
        return list(termios.tcgetattr(self._person))

    def close(self) -> None:
        """Close the terminal, as closing its window does. Safe twice."""
        for descriptor in {self._person, self._program} - {-1}:
            os.close(descriptor)
        self._person = self._program = -1

    def end(self) -> Done:
        """Wait until the command ends; return its exit code and all that was shown."""
        code = self.process.wait(PATIENCE_S)
        while select.select([self._person], [], [], 0)[0] and (data := self._read()):
            self.shown += data
        return Done(code, self.shown, "")

    def _read(self) -> str:
        try:
            return os.read(self._person, 65_536).decode(errors="replace").replace("\r\n", "\n")
        except OSError:  # Linux says so when the last process has closed its side
            return ""


def _done(process: subprocess.Popen[bytes], given: bytes) -> Done:
    with process:
        try:
            out, err = process.communicate(given or None, timeout=PATIENCE_S)
        except BaseException:
            process.kill()
            raise
    return Done(process.returncode, (out or b"").decode(), err.decode())


@contextmanager
def umask(value: int) -> Generator[None]:
    """Let files and processes be made with this umask."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def without_reader() -> Generator[int]:
    """Yield the writing end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        yield writer
    finally:
        os.close(writer)


def signalled(process: subprocess.Popen[str], number: signal.Signals) -> Done:
    """Send a signal, wait for the end, and return what came of it."""
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def wait_for_line(process: subprocess.Popen[str], text: str) -> str:
    """Return the first line on standard error that holds *text*."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"{text!r} was not said")


QUESTION = "Approve this? [y/N] "
PAUSED = 6
TOOLS = """
import pathlib
from pluggent_hookspecs import hookimpl, tool

@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    '''Send a mail.'''
    with pathlib.Path("sent.txt").open("a") as file:
        file.write(to + ";")
    return f"sent to {to}"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail]
"""
ASKING = policy("decide_tool_call", r'Ask("is \x1b[2Jbob a friend?")')


def mailing(folder: Path) -> Cli:
    """Return a command that has the tool send_mail."""
    made = Cli(folder)
    install(made.site, "acme-mail", {"tools/mail": "acme_mail:Plugin"}, modules={"acme_mail": TOOLS})
    return made


def sent(cli: Cli) -> str:
    """Return to whom mails were sent."""
    file = cli.work / "sent.txt"
    return file.read_text() if file.exists() else ""


def requests(cli: Cli, *, whole: bool = False) -> dict[str, str]:
    """Return the request of each call that waits, by session and call."""
    listed = json.loads(cli("approvals", "--json").out)["waiting"]
    return {
        f"{one['session']} {call['call_id']}": call["digest"][: None if whole else 16]
        for one in listed
        for call in one["calls"]
        if call["asks"] and not call["answer"]
    }


def pause(cli: Cli, *mails: str, session: str = "s") -> str:
    """Let a turn pause, and return the request of its first call."""
    done = cli("run", "--session", session, " & ".join(f"send_mail to={mail}" for mail in mails or ("bob",)))
    assert done.code == PAUSED, done
    return next(digest for name, digest in requests(cli).items() if name.startswith(f"{session} "))


def approve(cli: Cli, *words: str, answer: str = "y\n", question: str = QUESTION) -> Done:
    """Approve at a terminal."""
    with cli.at_terminal("approvals", "approve", "--color", "never", *words) as terminal:
        terminal.wait_for(question)
        terminal.type(answer)
        return terminal.end()


def requests_of(cli: Cli, session: str) -> str:
    """Return the whole digest of the one call of a session, answered or not."""
    document = json.loads(cli("approvals", "show", session, "--json").out)
    return str(document["calls"][0]["digest"])
