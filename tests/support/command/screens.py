"""Terminals for tests: one in memory that shows what a person would see, chats with keys pressed, and a slow model."""

import re
import termios
import unicodedata
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli_support import Cli, Done, Terminal
from fake_distributions import install

_PIECES = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|(.)", re.DOTALL)


class Screen:
    """Rows that scroll, with everything that has scrolled out kept in ``text``. No escapes but the stage's own."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns = columns
        self.rows = rows
        self.lines = [""]
        self.row = 0
        self.column = 0
        self._wraps = True

    @property
    def text(self) -> str:
        """All rows, without the spaces at their ends."""
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")

    def feed(self, written: str) -> None:
        """Show *written*. Raises ValueError for a sequence that the stage has no business with."""
        for private, numbers, letter, character in _PIECES.findall(written):
            if character:
                self._put(character)
            elif letter != "m":
                self._obey(private + numbers + letter)

    def _obey(self, sequence: str) -> None:
        match sequence:
            case "A":
                # The cursor stays below the top of the screen.
                self.row = max(self.row - 1, len(self.lines) - self.rows, 0)
            case "2K":
                self.lines[self.row] = ""
            case "?7l" | "?7h":
                self._wraps = sequence == "?7h"
            case "?2004h" | "?2004l":
                pass
            case _:
                raise ValueError(f"the sequence {sequence!r} was not expected")

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self.column = 0
            case "\n":
                self._down()
            case _:
                self._show(character)

    def _down(self) -> None:
        self.column = 0  # as a terminal does for a program, ONLCR
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append("")

    def _show(self, character: str) -> None:
        if ord(character) < 32 or character == "\x7f":
            raise ValueError(f"the character {character!r} was not expected")
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if self.column + width > self.columns:
            if not self._wraps:
                return
            self._down()
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += width


MODULE = '''
import asyncio
import pathlib

from pluggent_hookspecs import FinishReason, Message, ModelResponse, ProviderError, ProviderErrorKind, Role, ToolCall
from pluggent_hookspecs import TextDelta, ToolCallDelta, Finished, Usage, hookimpl, tool


class Speaker:
    """``speaker/x``: ``say TEXT`` is said word by word, ``read FILE`` says what is in a file or comes out of a pipe.

    ``fail`` raises; ``break TEXT`` says that and breaks off, ``break once TEXT`` the first time only;
    ``hang`` says two words and nothing more; ``call NAME JSON`` makes a call,
    after some words if ``then call`` stands in front of it, and before those of ``words`` if it is ``read call``.
    Everything else is echoed.
    """

    name = "speaker"
    target = "memory:"

    async def complete(self, request):
        message = Message.assistant("".join([text async for text in self._words(request)]))
        return ModelResponse(message, FinishReason.STOP, Usage(1, 1))

    async def stream(self, request):
        calling = False
        async for piece in self._words(request):
            if isinstance(piece, ToolCall):
                calling = True
                yield (ToolCallDelta(0, piece.id, piece.name, piece.arguments),)
            else:
                yield (TextDelta(piece),)
            await asyncio.sleep(0)
        reason = FinishReason.TOOL_CALLS if calling else FinishReason.STOP
        yield (Finished(reason, Usage(10, 5, cost_usd=0.25), request.model),)

    async def _words(self, request):
        last = request.messages[-1]
        if last.role is Role.TOOL:
            if any(message.text.startswith("read call ") for message in request.messages):
                async for text in _file("words"):
                    yield text
            else:
                yield "The tool said: " + last.text
            return
        verb, _, rest = last.text.partition(" ")
        if verb == "then":
            yield "Let me *see*.\\n\\nI will call a tool"
            verb, _, rest = rest.partition(" ")
        if verb == "read" and rest.startswith("call "):
            verb, _, rest = rest.partition(" ")
        if verb == "call":
            name, _, arguments = rest.partition(" ")
            yield ToolCall(f"c{len(request.messages)}", name, arguments or "{}")
        elif verb == "fail":
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, "the model is \\x1b[2Jout of order", provider="speaker")
        elif verb == "break":
            yield rest
            if not (rest.startswith("once") and pathlib.Path("broken.txt").exists()):
                pathlib.Path("broken.txt").touch()
                raise ProviderError(ProviderErrorKind.STREAM_BROKEN, "the reply broke off", provider="speaker")
        elif verb == "hang":
            yield "One moment please"  # a policy may hold the end of it back
            await asyncio.Event().wait()
        elif verb == "silent":
            await asyncio.Event().wait()
        elif verb == "say":
            for word in rest.replace("\\\\n", "\\n").split(" "):
                yield word + " "
        elif verb == "read":
            async for text in _file(rest):
                yield text
        else:
            parts = [type(part).__name__ for part in last.content[1:]]
            yield f"{request.model} heard: {last.text}" + (f" {parts}" if parts else "")


async def _file(name):
    file = await asyncio.to_thread(open, name, "rb", 0)
    with file:
        while data := await asyncio.to_thread(file.read, 4096):
            yield data.decode()


@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    """Send a mail."""
    with pathlib.Path("sent.txt").open("a") as file:
        file.write(to + "\\n")
    return f"sent to {to}"


@tool(effects=())
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()


class Models:
    @hookimpl
    def provide_providers(self, event):
        return [Speaker()]


class Tools:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail, wait]
'''


def install_speaker(site: Path) -> None:
    """Install the provider ``speaker`` and two tools: ``send_mail``, which asks, and ``wait``, which never ends."""
    install(
        site,
        "acme-speaker",
        {"providers/speaker": "acme_speaker:Models", "tools/speaker": "acme_speaker:Tools"},
        modules={"acme_speaker": MODULE},
    )


CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"
PROMPT = "\x1b[?25h"
"""What is shown when a line can be typed."""
GREETING = "Ctrl-D leaves."
QUESTION = "Allow this once? [y/N, or s: similar calls in this session too, a: always] "


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
