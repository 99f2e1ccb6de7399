"""Chats at a terminal, for tests: opening one, and the keys that are pressed there."""

import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from cli_support import Cli, Done, Terminal

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
PROMPT = "\x1b[?25h"
"""What is shown when a line can be typed."""
GREETING = "Ctrl-D leaves."
QUESTION = "Allow this once? [y/N, or s: its like in this session, a: always] "


@contextmanager
def chat(cli: Cli, *arguments: str, **environ: str) -> Generator[Terminal]:
    """Yield a terminal at which a chat has begun."""
    with cli.at_terminal("chat", "-m", "speaker/x", *arguments, **dict[str, Any](environ)) as terminal:
        terminal.then(GREETING)
        yield terminal


def sent(cli: Cli) -> list[str]:
    """Return to whom mails were sent."""
    file = cli.work / "sent.txt"
    return file.read_text().split() if file.exists() else []


def echoes(terminal: Terminal) -> str:
    """Say whether the terminal shows what is typed: ``echo`` or ``silence``."""
    flags = terminal.attributes()[3]
    assert isinstance(flags, int)
    return "echo" if flags & termios.ECHO and flags & termios.ICANON else "silence"


def chatted(cli: Cli, *keys: str, arguments: Sequence[str] = (), **environ: str) -> Done:
    """Chat at a terminal: type the first of *keys*, wait for the second, and so on; return what was left behind."""
    with chat(cli, *arguments, **environ) as terminal:
        terminal.exchange(*keys)
        return terminal.end()
