"""Writes the answer of a model as it comes, and draws at the bottom of the terminal while a turn runs.

Drawn are the unfinished block of Markdown and what the turn waits for; all other output goes above
it. Nothing here waits, and no drawn line stays behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, Self, TextIO, TypeAlias

from pluggent_cli.terminal.console import Console, Line, cells, escape_controls
from pluggent_cli.terminal.tty import Keys, foreground_terminal

if TYPE_CHECKING:  # 150 ms, for terminals alone
    from pluggent_cli.terminal.markdown import Markdown

FRAME_S = 0.05
_SHARE = 4
_PART = 3
"""Which part of the rows the calls that run may take."""
_SECOND = 1.0

_CLEAR, _UP = "\x1b[2K", "\x1b[A"
"""Line by line: some terminals keep in their history what is cleared all at once."""
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""While a line is cut at the margin, it takes one row, however wide a terminal thinks an emoji is."""
_ASSUMED = os.terminal_size((80, 24))


def terminal_size(stream: TextIO) -> os.terminal_size:
    """Return columns and lines of the terminal behind *stream*; 80 by 24 where they are not known."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _ASSUMED
    return os.terminal_size((size.columns or _ASSUMED.columns, size.lines or _ASSUMED.lines))


class Live:
    """Draws on *stream*. Without *escapes* it draws one line, and only by writing over it."""

    def __init__(self, stream: TextIO, *, escapes: bool) -> None:
        self._stream = stream
        self.escapes = escapes
        self._drawn: tuple[Line, ...] = ()
        self._columns = 0

    @property
    def size(self) -> os.terminal_size:
        """Columns and lines of the terminal."""
        return terminal_size(self._stream)

    def draw(self, lines: Sequence[Line]) -> None:
        """Show *lines* in place of those that are there."""
        columns = self.size.columns
        new = tuple(lines) if self.escapes else tuple(_cut(line, columns - 1) for line in lines[-1:])
        if new == self._drawn and columns == self._columns:
            return
        erased = self._erasing(columns)
        self._drawn, self._columns = new, columns
        text = "\r\n".join(line for line, _ in new)
        self._write(erased + (f"{_NO_WRAP}{text}{_WRAP}" if new and self.escapes else text))

    def clear(self) -> None:
        """Take the lines away."""
        if self._drawn:
            erased = self._erasing(self.size.columns)
            self._drawn = ()
            self._write(erased)

    def forget(self) -> None:
        """Leave the drawn lines alone: another process has had the terminal."""
        self._drawn = ()

    def _erasing(self, columns: int) -> str:
        """Return what takes the drawn lines away, on a terminal that is *columns* wide by now."""
        if not self._drawn:
            return ""
        if not self.escapes:
            return "\r" + " " * self._drawn[0][1] + "\r"
        # A terminal that has become narrower has broken what was too wide for it.
        rows = sum(max(1, -(-min(width, self._columns) // columns)) for _, width in self._drawn)
        return "\r" + _CLEAR + (_UP + _CLEAR) * (rows - 1)

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()


def _cut(line: Line, columns: int) -> Line:
    text, _ = line
    while cells(text) > columns:
        text = text[:-1]
    return text, cells(text)


# ---- the stage --------------------------------------------------------------------------


Status: TypeAlias = Callable[[int, int], Sequence[str]]


class Unfinished(Protocol):
    """An answer that is being written."""

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        """Print what is complete, and return the end of what is not, *rows* lines at most."""
        ...


class Stage:
    """Draws several times a second at most, while ``with stage:`` lasts.

    *status* returns what the turn waits for, in lines of so many columns, and so many at most. Without a
    terminal, or with a dumb one, nothing is drawn.
    """

    def __init__(
        self,
        console: Console,
        *,
        answer: Unfinished | None = None,
        status: Status | None = None,
        keys: Keys | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._console = console
        self._answer = answer
        self._keys = keys or Keys()
        self._live = _live(console, environ)
        self._status = status if self._live and console.err_is_terminal and not console.quiet else None
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lent = False
        self._held_before = False
        self._pause_s = FRAME_S

    @property
    def draws_status(self) -> bool:
        """Whether what the turn waits for is shown."""
        return self._status is not None

    # ---- lifetime ------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if self._live is not None:
            self._loop = asyncio.get_running_loop()
            self._console.above = self.above
            self._held_before = self._keys.held
            self._keys.hold()
            self._on_stops(self._loop)
            self._later(0.0)
        return self

    def __exit__(self, *exc: object) -> None:
        loop, self._loop = self._loop, None
        if loop is None or self._live is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        for number in (signal.SIGTSTP, signal.SIGCONT):
            loop.remove_signal_handler(number)
        self._console.above = None
        if not self._held_before:
            self._keys.release()
        with contextlib.suppress(OSError):  # the terminal is gone: there is nothing to take away
            self._live.clear()

    @contextlib.contextmanager
    def lent(self) -> Generator[None]:
        """Give the terminal to a prompt."""
        if self._loop is None or self._live is None:
            yield
            return
        self._lent = True
        self._live.clear()
        self._keys.release()
        try:
            yield
        finally:
            self._lent = False
            self._keys.hold()
            self.changed()

    # ---- drawing -------------------------------------------------------------------------

    def changed(self) -> None:
        """Request a new frame. Safe from any thread; returns at once."""
        loop = self._loop
        if loop is not None:
            if threading.current_thread() is threading.main_thread():
                self._later(self._pause_s)
            else:
                loop.call_soon_threadsafe(self._later, self._pause_s)

    def above(self, write: Callable[[], None]) -> None:
        """Let *write* write to the terminal, with the stage out of its way. Safe from any thread."""
        with self._lock:
            if self._live is not None:
                self._live.clear()
            write()
        self.changed()

    def _later(self, delay_s: float) -> None:
        loop = self._loop
        if loop is None:
            return
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._frame)

    def _frame(self) -> None:
        self._timer = None
        began = perf_counter()
        try:
            with self._lock:
                self._draw()
        except OSError:
            self._live = None  # writing the answer fails too, and that error is reported
        # What takes long to draw is drawn less often: the turn comes first.
        self._pause_s = max(FRAME_S, _SHARE * (perf_counter() - began))
        self._later(_SECOND)

    def _draw(self) -> None:
        if self._live is None or self._lent:
            return
        size = self._live.size
        lines = self._answer.frame(size.columns, max(3, size.lines // 2)) if self._answer is not None else ()
        if not _in_foreground():
            return  # another process has the terminal
        if not lines and not self._console.in_line and self._status is not None:
            status = self._status(size.columns - 1, max(1, size.lines // _PART) if self._live.escapes else 1)
            signs = [self._console.signs(line) for line in status]
            lines = [(self._console.err_ink("dim", line), cells(line)) for line in signs]
        self._live.draw(lines)

    # ---- being stopped -------------------------------------------------------------------

    def _on_stops(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._go_on)

    def _stop(self) -> None:
        """Ctrl-Z: leave the terminal as a shell wants it, and stop."""
        if self._loop is None or self._live is None:
            return
        self._live.clear()
        if not self._lent:
            self._keys.release()
        self._loop.remove_signal_handler(signal.SIGTSTP)
        os.kill(os.getpid(), signal.SIGTSTP)  # stops here until SIGCONT

    def _go_on(self) -> None:
        if self._loop is None or self._live is None:
            return
        self._on_stops(self._loop)
        self._live.forget()
        if not self._lent:
            self._keys.hold()
        self.changed()


def _live(console: Console, environ: Mapping[str, str]) -> Live | None:
    stream = sys.stderr if console.err_is_terminal else sys.stdout if console.out_is_terminal else None
    if stream is None or environ.get("TERM", "dumb") == "dumb":
        return None
    ink = console.err_ink if console.err_is_terminal else console.ink
    return Live(stream, escapes=ink.on)


def _in_foreground() -> bool:
    with foreground_terminal() as terminal:
        return terminal is not None


# ---- the answer -------------------------------------------------------------------------


_LIBRARIES = ("markdown_it", "rich")


class Answer(Protocol):
    """The text of a turn, written piece by piece."""

    def add(self, text: str) -> None:
        """Take what comes next."""
        ...

    def end(self) -> None:
        """Write all that there is, and end its line: something else follows."""
        ...

    def drop(self) -> None:
        """What was added is void: write no more of it."""
        ...

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        """Write what is complete; return the end of the rest, *rows* lines at most."""
        ...


def answer_for(console: Console, *, plain: bool, environ: Mapping[str, str] = os.environ) -> Answer:
    """Return Markdown on a terminal with colours, if its libraries are installed; else, or if *plain*, the text."""
    dumb = environ.get("TERM", "dumb") == "dumb"
    if plain or dumb or not (console.out_is_terminal and console.ink.on) or not all(map(find_spec, _LIBRARIES)):
        return PlainAnswer(console)
    return MarkdownAnswer(console)


class PlainAnswer:
    """The text as it is; escaped for a terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def add(self, text: str) -> None:
        self._console.write(escape_controls(text) if self._console.out_is_terminal else text)

    def end(self) -> None:
        self._console.end_line()

    def drop(self) -> None:
        pass

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        return ()


class MarkdownAnswer:
    """Blocks are written as soon as they are complete; ``frame`` returns the unfinished one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._new: list[str] = []
        self._painted: Markdown | None = None
        self._frames = 0

    def add(self, text: str) -> None:
        self._new.append(text)

    def end(self) -> None:
        if self._new or self._painted is not None:
            painted = self._take_in(terminal_size(sys.stdout).columns)
            self._console.write(self._console.drawn(painted.end()))
        self._painted = None

    def drop(self) -> None:
        self._new.clear()
        self._painted = None

    def frame(self, columns: int, rows: int) -> Sequence[Line]:
        self._frames += 1
        if self._new or self._painted is not None:
            return [(self._console.drawn(line), wide) for line, wide in self._take_in(columns).unfinished(rows)]
        if self._frames > 1:
            _new_markdown()  # imports rich while the model works
        return ()

    def _take_in(self, columns: int) -> Markdown:
        if self._painted is None:
            self._painted = _new_markdown()
        self._painted.resize(columns)
        text = "".join(self._new)
        self._new.clear()
        self._console.write(self._console.drawn(self._painted.add(text)))
        return self._painted


def _new_markdown() -> Markdown:
    # Here and not above: rich costs 150 ms, for answers on a terminal alone.
    from pluggent_cli.terminal.markdown import Markdown

    return Markdown()
