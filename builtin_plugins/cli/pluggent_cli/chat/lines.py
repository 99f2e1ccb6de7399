"""Reads the messages of a chat line by line: from a pipe or a file, or from a terminal without a line editor."""

from __future__ import annotations

import asyncio
import codecs
import os

from pluggent_hookspecs.errors import ConfigError

from pluggent_cli.terminal.console import Console, escape_controls
from pluggent_cli.terminal.reader import PASTE_S, read_some
from pluggent_cli.terminal.tty import foreground_terminal

PROMPT = b"> "
_CTRL_D = b"\x04"
"""The end of the input, if it was typed while a turn ran."""


class PipedLines:
    """One message a line from *descriptor*, empty lines left out."""

    interactive = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = []
        self._rest = b""
        self._ended = False
        self._number = 0

    async def read(self) -> str | None:
        """Return the next message; None at the end. Raises ConfigError for a line that is not UTF-8 text."""
        while True:
            line = await self._line()
            if line is None:
                return None
            self._number += 1
            try:
                text = line.removeprefix(codecs.BOM_UTF8 if self._number == 1 else b"").decode()
            except UnicodeDecodeError as error:
                where = f"line {self._number} is not UTF-8 text (byte {error.start})"
                raise ConfigError("standard input", [where]) from error
            if text.strip():
                return text.removesuffix("\r")

    def interrupt(self) -> None:
        """Do nothing: a pipe has no keyboard."""

    def offer(self, text: str) -> None:
        """Do nothing: what a pipe says is not edited."""

    @property
    def draft(self) -> str:
        """Nothing: a pipe says it again."""
        return ""

    async def _line(self) -> bytes | None:
        while not self._lines and not self._ended:
            data = await read_some(self._descriptor)
            self._ended = not data
            *self._lines, self._rest = (self._rest + data).split(b"\n")
            self._lines.reverse()
            if self._ended and self._rest:
                self._lines.insert(0, self._rest)
        return self._lines.pop() if self._lines else None


class TerminalLines:
    """What is typed at a terminal, edited by the terminal itself. Lines that come at once are one message."""

    interactive = True

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reading: asyncio.Task[bytes] | None = None
        self._interrupted = False
        """Whether there was a Ctrl-C while no line was read."""
        self._offered = ""

    async def read(self) -> str | None:
        """Return what is typed up to Return; None when the person leaves with Ctrl-D, or Ctrl-C twice."""
        for warning in ("Ctrl-C again, or Ctrl-D, leaves", ""):
            with foreground_terminal() as terminal:
                if terminal is None:
                    return None
                typed = None if self._interrupted else await self._typed(terminal)
                self._interrupted = False
            if typed is not None:
                offered, self._offered = self._offered, ""
                return (_text(typed).strip() and _text(typed)) or offered if typed.removesuffix(_CTRL_D) else None
            if warning:
                self._console.note(warning)
        return None

    def interrupt(self) -> None:
        """Do what Ctrl-C does. Call it in the loop."""
        if self._reading is not None:
            self._reading.cancel()
        else:
            self._interrupted = True

    def offer(self, text: str) -> None:
        """Let an empty line say *text*: this terminal edits no text that it is given."""
        self._offered = text
        for line in escape_controls(text).splitlines():
            self._console.note(f"  {line}")
        self._console.note("Return sends this; another message takes its place")

    @property
    def draft(self) -> str:
        """What was offered and not said; what is typed of a line is the terminal's own."""
        return self._offered

    async def _typed(self, terminal: int) -> bytes | None:
        """Return lines as they come, ``b""`` at the end; None if interrupted."""
        os.write(terminal, PROMPT)
        data = b""
        while not data or data.endswith(b"\\\n"):
            self._reading = asyncio.create_task(_lines(terminal))
            try:
                more = await self._reading
            except asyncio.CancelledError:
                os.write(terminal, b"\n")
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                return None
            finally:
                self._reading = None
            data += more
            if not more:
                os.write(terminal, b"\n")
                break
        return data


def _text(typed: bytes) -> str:
    lines = typed.removesuffix(_CTRL_D).decode(errors="replace").replace("\r", "\n")
    return lines.replace("\\\n", "\n").removesuffix("\n")


async def _lines(terminal: int) -> bytes:
    data = await read_some(terminal)
    while data.endswith(b"\n") and (more := await read_some(terminal, PASTE_S)):
        data += more
    return data
