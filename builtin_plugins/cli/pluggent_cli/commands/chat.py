"""``pluggent chat``: a conversation. At a terminal with a line editor, from a pipe one message a line."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import traceback
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Protocol

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.messages import Message, Part, Role

from pluggent_cli import exits, process
from pluggent_cli.chat.attachments import Attached
from pluggent_cli.chat.conversation import Chat
from pluggent_cli.chat.cost import status
from pluggent_cli.chat.drafts import keep_draft, take_draft
from pluggent_cli.chat.lines import PipedLines, TerminalLines
from pluggent_cli.chat.loop import CODES, Talk, complete, open_talk, read_attachments
from pluggent_cli.chat.slash_commands import completion, is_command, obey
from pluggent_cli.host_access import Setup, prepare
from pluggent_cli.parsing import Parser, add_talking_options, command_parser, examples, limit_flags
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, cut, escape_controls
from pluggent_cli.terminal.tty import Keys

_GO_ON = "chat --session {id}"
_RECALLED_LINES = 6
_PRESSES = 3
"""With which Ctrl-C during one turn the whole chat ends."""


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "chat",
        "[OPTIONS]",
        "Talk to a model: each message is a turn, and later turns see earlier ones. Tool calls pass the\n"
        "policies; one that needs approval is put to you. /help shows what can be typed.",
        examples(
            "pluggent chat --model openai/gpt-5-mini",
            "pluggent chat --session trip              continue an earlier conversation, or begin one of that name",
            "pluggent chat -c                          continue the last session of this folder",
            "pluggent chat -a cat.png                  the first message goes with an image",
            "pluggent chat --no-save --tool weather    nothing is kept, one tool is offered",
            "pluggent chat < questions.txt             one message a line; the answers go to standard output",
        )
        + "\n\nFrom a pipe the exit code is that of the first turn that went wrong, 0 if none did. With --json every\n"
        "line is a message, and every answer a line of JSON.",
    )
    add_talking_options(made)
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Talk until the person leaves or the input ends; return the exit code."""
    flags = limit_flags(options)
    if sys.stdin is None:
        raise ConfigError("standard input", ["is closed, so nothing can be said"])
    setup = prepare(options, console, flags)
    complete(setup, options)
    parts = read_attachments(options, console)
    log_to(console, debug=options.debug)
    keys = Keys(marking_pastes=_edits(console))
    chatting = _Chatting(setup, options, console, keys)
    return process.run(chatting.go_on(parts), on_interrupt=chatting.interrupted, before_dying=keys.release)


class Lines(Protocol):
    """Where messages come from."""

    @property
    def interactive(self) -> bool:
        """Whether a person types them."""
        ...

    async def read(self) -> str | None:
        """Return the next one, None at the end. Raises ConfigError for one that cannot be read."""
        ...

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        ...

    def offer(self, text: str) -> None:
        """Begin the next line with *text*, if it is typed and nothing was typed meanwhile."""
        ...

    @property
    def draft(self) -> str:
        """What was typed of a line when the terminal or the process was ended."""
        ...


class _Chatting:
    """Reads lines one after the other, and runs each as a command or as a turn."""

    def __init__(self, setup: Setup, options: argparse.Namespace, console: Console, keys: Keys) -> None:
        self._setup = setup
        self._options = options
        self._console = console
        self._keys = keys
        self._lines: Lines | None = None
        self._turn: asyncio.Task[int] | None = None
        self._presses = 0
        self._said = False

    async def go_on(self, parts: Sequence[Part]) -> int:
        """Return the exit code of the whole chat."""
        if _edits(self._console):
            self._keys.hold()  # from the beginning: what is typed early is read by the editor too
        try:
            async with open_talk(self._setup, self._options, self._console, self._keys) as talk:
                return await self._talk(Chat(talk, [Attached(each) for each in parts], [talk.session.model]))
        finally:
            self._keys.release()

    async def _talk(self, chat: Chat) -> int:
        code = exits.OK
        self._lines = lines = self._reader(chat)
        chat.typed = lines.interactive
        if lines.interactive:
            self._greet(chat.talk)
            self._offer_draft(lines)
        try:
            while not chat.left:
                came = await self._one(chat, lines)
                if came is None:
                    break
                code = code or came
        finally:
            self._lines = None  # from here on Ctrl-C ends everything
            if not self._options.no_save:
                keep_draft(self._setup.state_dir, lines.draft)
            self._keys.release()
            if self._said:
                chat.talk.say_where(_GO_ON)
        return exits.OK if lines.interactive else code

    def interrupted(self) -> bool:
        """Say whether a Ctrl-C ended a turn, or was the editor's; called by a signal, anywhere in the program."""
        lines, turn = self._lines, self._turn
        if lines is None or not lines.interactive:
            return False
        if self._keys.given:
            return True  # it is meant for the program that has the terminal
        if turn is None:
            asyncio.get_running_loop().call_soon_threadsafe(lines.interrupt)
            return True
        self._presses += 1
        if self._presses == 1:
            turn.get_loop().call_soon_threadsafe(_cancel, turn, lines)
        elif self._presses < _PRESSES:
            with suppress(OSError):
                os.write(2, b"\r\nIt is still ending; with Ctrl-C once more, the chat ends too.\r\n")
        return self._presses < _PRESSES

    # ---- one line ------------------------------------------------------------------------

    async def _one(self, chat: Chat, lines: Lines) -> int | None:
        """Read and run the next line; return its exit code, None at the end of the input."""
        line: str | None = ""
        try:
            if chat.draft:
                lines.offer(chat.draft)
                chat.draft = ""
            line = await lines.read()
            if line is None or not line.strip():
                return None if line is None else exits.OK
            if self._console.json or not is_command(line):
                chat.private = line.startswith((" ", "\t"))
                return await self._interruptible(self._say(chat, line.strip()))
            return await self._interruptible(self._obey(chat, line))
        except OSError:
            raise  # the output is closed
        except Exception as error:  # noqa: BLE001 (whatever it was, what was said before is not lost)
            return self._failed(error)
        finally:
            if line and lines.interactive and not chat.left:
                self._console.line()

    async def _interruptible(self, work: Coroutine[Any, Any, int]) -> int:
        """Return the result of *work*; Ctrl-C cancels it, and nothing else."""
        self._presses = 0
        self._turn = asyncio.create_task(work, name="pluggent-chat-turn")
        try:
            return await self._turn
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self._console.note("interrupted")
                raise
            self._console.note(self._console.err_ink("yellow", "interrupted; the conversation continues"))
            return exits.INTERRUPTED
        finally:
            self._turn = None

    async def _obey(self, chat: Chat, line: str) -> int:
        await obey(chat, line)
        return exits.OK

    async def _say(self, chat: Chat, text: str) -> int:
        self._said = True
        result = await chat.say(chat.message(text))
        if self._console.json:
            self._console.line(json.dumps(chat.talk.document(result), default=str))
        chat.talk.explain(result, answer_with="now")
        return CODES[result.why]

    def _failed(self, error: Exception) -> int:
        console, code, text = self._console, exits.code_of(error), exits.said_of(error)
        if console.json:
            facts = {"kind": type(error).__name__, "message": text}
            console.line(json.dumps({"error": facts, "exit_code": code}))
        console.problem(text)
        if code == exits.FAULT and self._options.debug:
            console.error(escape_controls("".join(traceback.format_exception(error))))
        for hint in getattr(error, "__notes__", ()):
            console.error(f"  {escape_controls(str(hint))}")
        return code

    # ---- the beginning -------------------------------------------------------------------

    def _reader(self, chat: Chat) -> Lines:
        stdin = sys.stdin.fileno()
        if not os.isatty(stdin):
            return PipedLines(stdin)
        if not _edits(self._console):
            return TerminalLines(self._console)
        # Here and not above: 150 ms, for terminals alone.
        from pluggent_cli.chat.editor import Editor

        # as above
        from pluggent_cli.chat.history import PrivateHistory

        history = PrivateHistory(self._setup.state_dir, saves=not self._options.no_save)
        return Editor(
            self._console, sys.stdout if self._console.out_is_terminal else sys.stderr, history, completion(chat),
            lambda: status(chat.talk.session, len(chat.attached)),
        )  # fmt: skip

    def _offer_draft(self, lines: Lines) -> None:
        draft = "" if self._options.no_save else take_draft(self._setup.state_dir)
        if draft:
            lines.offer(draft)
            self._console.note(self._console.err_ink("dim", "what was typed when the last chat was closed is back"))

    def _greet(self, talk: Talk) -> None:
        console, session = self._console, talk.session
        count = len(session.tools)
        tools = "1 tool" if count == 1 else f"{count} tools"
        text = f"{escape_all(session.model)}, {tools}. /help shows what can be typed; Ctrl-D leaves."
        console.note(console.err_ink("dim", text))
        if session.history:
            _recall(console, session.history)
        if session.paused:
            text = "A turn waits for an approval. /approve asks you here, a message withdraws it."
            if not session.pending:
                text = "A turn was not ended. /resume continues it, a message withdraws it."
            console.note(console.err_ink("yellow", text))
        console.note("")


def _cancel(turn: asyncio.Task[int], lines: Lines) -> None:
    """End *turn*; if it is over by now, it was the next line that was meant."""
    if not turn.cancel():
        lines.interrupt()


def _edits(console: Console) -> bool:
    """Say whether there is a terminal that can do what the line editor wants, and the editor itself."""
    terminal = console.out_is_terminal or console.err_is_terminal
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    return terminal and not dumb and sys.stdin.isatty() and find_spec("prompt_toolkit") is not None


def _recall(console: Console, history: Sequence[Message]) -> None:
    """Show the last exchange in short."""
    at = max((number for number, one in enumerate(history) if one.role is Role.USER), default=len(history))
    said = [one for one in history[at:] if one.role in (Role.USER, Role.ASSISTANT) and one.text.strip()]
    for one in said[:1] + said[-1:] if len(said) > 1 else said:
        lines = [line for line in escape_controls(one.text).splitlines() if line.strip()]
        shown = [cut(line, console.width - 4) for line in lines[:_RECALLED_LINES]]
        more = [f"… ({len(lines) - len(shown)} more lines)"] if len(lines) > len(shown) else []
        mark = "> " if one.role is Role.USER else "  "
        for number, line in enumerate(shown + more):
            console.note(console.err_ink("dim", (mark if number == 0 else "  ") + line))
