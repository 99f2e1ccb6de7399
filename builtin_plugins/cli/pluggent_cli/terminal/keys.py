"""What is typed while a turn runs: it is not shown, and waits for the next prompt. POSIX only."""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Generator

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
