"""The controlling terminal: keys typed while a turn runs, and yes-or-no questions to the person. POSIX only."""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import signal
import termios
from collections.abc import Generator, Sequence

from pluggent_hookspecs.errors import ConfigError
from pluggent_host.common.process_marker import INSIDE, is_inside

TERMINAL = "/dev/tty"
_LOCAL = 3
"""Where in the attributes of a terminal the flags for echo and lines are."""
_PASTE_ON, _PASTE_OFF = b"\x1b[?2004h", b"\x1b[?2004l"


@contextlib.contextmanager
def foreground_terminal() -> Generator[int | None]:
    """Open the controlling terminal; None if there is none or this process is not in its foreground."""
    try:
        terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            in_foreground = os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            in_foreground = False
        yield terminal if in_foreground else None
    finally:
        os.close(terminal)


class Keys:
    """Holds back what is typed; Ctrl-C and Ctrl-Z still work.

    With *marking_pastes* the terminal marks what is pasted, for a line editor that knows the marks.
    """

    def __init__(self, *, marking_pastes: bool = False) -> None:
        self.given = False
        """Whether another program has the terminal for the moment."""
        self._marking = marking_pastes
        self._before: list[int | list[bytes | int]] | None = None

    @property
    def held(self) -> bool:
        """Whether they are held back."""
        return self._before is not None

    def hold(self) -> None:
        """Begin, if this process is in the foreground of a terminal. Again after it was changed."""
        with contextlib.suppress(OSError, termios.error), foreground_terminal() as terminal:
            if terminal is None:
                return
            found = termios.tcgetattr(terminal)
            if self._before is None:
                self._before = found
            held = list(found)
            flags = held[_LOCAL]
            assert isinstance(flags, int)
            held[_LOCAL] = flags & ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(terminal, termios.TCSANOW, held)
            if self._marking:
                os.write(terminal, _PASTE_ON)

    def release(self) -> None:
        """Let the terminal be as it was. Safe twice."""
        before, self._before = self._before, None
        if before is None:
            return
        with contextlib.suppress(OSError, termios.error), foreground_terminal() as terminal:
            if terminal is not None:
                termios.tcsetattr(terminal, termios.TCSANOW, before)
                if self._marking:
                    os.write(terminal, _PASTE_OFF)


# ---- a person agrees, or not ------------------------------------------------------------


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
    """Show *lines* at the terminal and say whether the person then types ``y`` or ``yes``. Raises as ``answer_to``."""
    return is_yes(answer_to(where, lines, question))


def is_yes(typed: str) -> bool:
    """Say whether *typed* is a yes."""
    return typed.lower() in ("y", "yes")


def answer_to(where: str, lines: Sequence[str], question: str) -> str:
    """Show *lines* at the terminal and return what the person then types.

    Raises ConfigError where there is no terminal, or this process is not in its foreground.
    """
    with foreground_terminal() as terminal:
        if terminal is None:
            raise ConfigError(where, ["wants a person at a terminal, and there is none in the foreground here"])
        write(terminal, "\n".join([*lines, ""]))
        # What was typed before the question was shown does not answer it.
        termios.tcflush(terminal, termios.TCIFLUSH)
        write(terminal, question)
        answer = typed_line(terminal)
        if not answer.endswith(b"\n"):
            write(terminal, "\n")
        return answer.decode("utf-8", "replace").strip()


def typed_line(terminal: int) -> bytes:
    """Return what is typed up to its line end; without one if the terminal has ended.

    A signal that comes between the last look at signals and ``os.read`` does not end the read, so
    what waits here is select(), which a signal always ends by the pipe of set_wakeup_fd.
    """
    line = b""
    with _signals() as arrived:
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([terminal, arrived], [], [])
            if arrived in ready:
                os.read(arrived, _TYPED)  # the handler has run before this line: it raises, or there is more to read
                continue
            typed = os.read(terminal, _TYPED)
            if not typed:
                break
            line += typed
    return line


@contextlib.contextmanager
def _signals() -> Generator[int]:
    """Yield what can be read as soon as a signal has arrived; only in the main thread, which alone gets them."""
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(reader)
        os.close(writer)


def write(terminal: int, text: str) -> None:
    """Write all of *text* to the terminal."""
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(terminal, data) :]
