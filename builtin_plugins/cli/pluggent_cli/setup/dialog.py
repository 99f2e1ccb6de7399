"""Questions to a person at the terminal, one after the other. Knows neither providers nor settings."""

from __future__ import annotations

import contextlib
import signal
import termios
from collections.abc import Generator, Mapping, Sequence
from types import FrameType
from typing import NoReturn

from pluggent_contract_values.escape import escape_all, escape_controls
from pluggent_hookspecs.errors import ConfigError

from pluggent_cli import exits
from pluggent_cli.terminal.console import Ink, cells, cut, wrapped
from pluggent_cli.terminal.tty import typed_line, write

_LOCAL = 3
"""Where in the attributes of a terminal the flags for echo are."""


class Dialog:
    """Asks at *terminal*, an open descriptor; lines are at most *width* columns."""

    def __init__(self, terminal: int, ink: Ink, width: int) -> None:
        self._terminal = terminal
        self._width = width
        self.ink = ink

    def say(self, text: str = "", style: str = "plain") -> None:
        """Write *text*, wrapped; what could steer the terminal is escaped."""
        for line in wrapped(text, self._width):
            self._write((self.ink(style, line) if style != "plain" else line) + "\n")

    def unwrapped(self, lines: Sequence[str], styles: Mapping[str, str]) -> None:
        """Write *lines* as they are, each in the style of its first character."""
        for line in lines:
            self._write(f"  {self.ink(styles.get(line[:1], 'plain'), escape_all(line))}\n")

    def listed(self, rows: Sequence[tuple[str, str]]) -> None:
        """Write numbered *rows*: a name, and what it is."""
        names = [cut(escape_all(name), max(20, self._width - 8)) for name, _ in rows]
        wide, digits = max(map(cells, names), default=0), len(str(len(rows)))
        for number, (name, (_, about)) in enumerate(zip(names, rows, strict=True), 1):
            head = f"  {number:>{digits}}  "
            first, *others = wrapped(about, max(20, self._width - len(head) - wide - 2))
            self._write(f"{head}{self.ink('bold', name)}{' ' * (wide - cells(name))}  {first}".rstrip() + "\n")
            for other in others:
                self._write(f"{' ' * (len(head) + wide + 2)}{other}\n")

    def ask(self, question: str, default: str = "") -> str:
        """Return what is typed, without blanks around it; *default* for nothing. Raises ConfigError at Ctrl-D."""
        shown = f" [{escape_all(default)}]" if default else ""
        return self._answer(f"{question}{shown}: ") or default

    def ask_hidden(self, question: str) -> str:
        """Return what is typed, which is not shown."""
        with self._without_echo():
            answer = self._answer(f"{question}: ")
            self._write("\n")
        return answer

    def agrees(self, question: str, *, default: bool) -> bool:
        """Ask until yes or no is the answer."""
        while True:
            answer = self._answer(f"{question} [{'Y/n' if default else 'y/N'}] ").lower()
            if answer in ("", "y", "yes", "n", "no"):
                return answer.startswith("y") if answer else default
            self.say("Type y for yes or n for no.")

    def _answer(self, question: str) -> str:
        self._write(escape_controls(question))
        line = typed_line(self._terminal)
        if not line.endswith(b"\n"):
            self._write("\n")
            raise ConfigError("pluggent setup", ["the input ended, and nothing was written"])
        return line.decode("utf-8", "replace").strip()

    def _write(self, text: str) -> None:
        write(self._terminal, text)

    @contextlib.contextmanager
    def _without_echo(self) -> Generator[None]:
        before = termios.tcgetattr(self._terminal)
        silent = list(before)
        flags = silent[_LOCAL]
        assert isinstance(flags, int)
        silent[_LOCAL] = flags & ~termios.ECHO
        # What was typed before the question was shown does not answer it.
        termios.tcsetattr(self._terminal, termios.TCSAFLUSH, silent)
        try:
            yield
        finally:
            termios.tcsetattr(self._terminal, termios.TCSADRAIN, before)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ends_cleanly() -> Generator[None]:
    """Let a signal raise Interrupted, so that the terminal is given back and nothing is left half done."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise exits.Interrupted(number)

    before = {number: signal.signal(number, end) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Generator[None]:
    """Hold signals back until what is done here is whole."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
