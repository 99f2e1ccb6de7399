"""A person at the terminal agrees to something, or not: who may, and a question put in plain sight. POSIX only."""

from __future__ import annotations

import os
import pwd
import termios
from collections.abc import Sequence

from pluggent_hookspecs.errors import ConfigError
from pluggent_host.approvals.process_marker import INSIDE, is_inside

from pluggent_cli.terminal.keys import foreground_terminal

_TYPED = 1024


def can_ask() -> bool:
    """Say whether there is a terminal and this process is in its foreground.

    A process in the background must not wait for it: it would be stopped by reading from it.
    """
    if is_inside():
        return False
    with foreground_terminal() as terminal:
        return terminal is not None


def check_outside(where: str) -> None:
    """Raise ConfigError if something that a host runs has started this process: it cannot approve itself."""
    if is_inside():
        problem = f"cannot be given from inside of what asks for it ({INSIDE} is set); use a terminal of your own"
        raise ConfigError(where, [problem])


def who() -> str:
    """Return who answers at this terminal, as the record has it."""
    try:
        return f"terminal:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"terminal:{os.getuid()}"


def agreed(where: str, lines: Sequence[str], question: str) -> bool:
    """Show *lines* at the terminal and say whether the person then types ``y`` or ``yes``.

    Raises ConfigError where there is no terminal, or this process is not in its foreground.
    """
    with foreground_terminal() as terminal:
        if terminal is None:
            raise ConfigError(where, ["wants a person at a terminal, and there is none in the foreground here"])
        write(terminal, "\n".join([*lines, ""]))
        # What was typed before the question was shown does not answer it.
        termios.tcflush(terminal, termios.TCIFLUSH)
        write(terminal, question)
        answer = b""
        while not answer.endswith(b"\n") and (typed := os.read(terminal, _TYPED)):
            answer += typed
        if not answer.endswith(b"\n"):
            write(terminal, "\n")
        return answer.strip().lower() in (b"y", b"yes")


def write(terminal: int, text: str) -> None:
    """Write all of *text* to the terminal."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(terminal, data) :]
