"""The line editor of a chat at a terminal. Imported where there is one and its library is installed."""

from __future__ import annotations

import asyncio
import select
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO

from pluggent_hookspecs.errors import ConfigError
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion as Offered
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, is_done
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from pluggent_cli.chat.completer import Completion
from pluggent_cli.chat.external_editor import edited
from pluggent_cli.chat.history import PrivateHistory
from pluggent_cli.terminal.console import Console, escape_controls

PROMPT = "> "
_MENU_ROWS = 6
_STYLE = Style.from_dict(
    {
        "prompt": "bold",
        "status": "dim",
        "completion-menu": "bg:default fg:default noreverse",
        "completion-menu.completion": "bg:default fg:default",
        "completion-menu.completion.current": "bg:default fg:default reverse",
        "completion-menu.meta.completion": "bg:default fg:default",
        "completion-menu.meta.completion.current": "bg:default fg:default reverse",
        "scrollbar.background": "bg:default",
        "scrollbar.button": "bg:default reverse",
    }
)


class Editor:
    """Reads messages of one or more lines. Ctrl-C empties the line; on an empty one, twice, it leaves like Ctrl-D.

    What a line held when it was emptied is in the history. *status* returns the text below the line.
    """

    interactive = True

    def __init__(
        self, console: Console, terminal: TextIO, history: PrivateHistory, completion: Completion,
        status: Callable[[], str],
    ) -> None:  # fmt: skip
        self._console = console
        self._offered = ""
        self._unsent = ""
        self._edits = False
        """Whether another program edits the line."""
        # No cursor position reports: one that comes late would be taken for what is typed next.
        output = Vt100_Output.from_pty(terminal)
        output.enable_cpr = False
        self._prompt = PromptSession[str](
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            completer=_Completer(completion),
            complete_while_typing=Condition(self._is_command),
            reserve_space_for_menu=_MENU_ROWS,
            history=history,
            key_bindings=self._keys(),
            style=_STYLE,
            include_default_pygments_style=False,
            color_depth=None if console.ink.on else ColorDepth.MONOCHROME,
            enable_suspend=True,
            input=create_input(),
            output=output,
        )
        layout = self._prompt.layout
        # Not bottom_toolbar: without cursor position reports it is never shown.
        shown = FormattedTextControl(lambda: [("class:status", console.signs(status()))])
        layout.container = HSplit(
            [layout.container, ConditionalContainer(Window(shown, height=1, style="class:status"), ~is_done)]
        )
        self._warned = False
        self._interrupted = False
        """Whether there was a Ctrl-C before there was a line to edit."""

    async def read(self) -> str | None:
        """Return what is typed up to Return; None when the person leaves."""
        while True:
            self._console.above = self._above(asyncio.get_running_loop())
            try:
                if self._interrupted:
                    raise KeyboardInterrupt  # noqa: TRY301 (as the editor does)
                offered, self._offered = self._offered, ""
                default = "" if _is_typed() else offered
                return await self._prompt.prompt_async(
                    default=default, handle_sigint=False, set_exception_handler=False
                )
            except (EOFError, OSError, asyncio.CancelledError) as error:
                # Ctrl-D wants an empty line: where there is text, the terminal or the process has ended.
                self._unsent = self._prompt.default_buffer.text
                if isinstance(error, EOFError):
                    return None
                raise
            except KeyboardInterrupt:
                self._interrupted = False
                if self._warned:
                    return None
                self._warned = True
                self._console.above = None
                self._console.note(self._console.err_ink("dim", "Ctrl-C again, or Ctrl-D, leaves"))
            finally:
                self._console.above = None

    def offer(self, text: str) -> None:
        """Begin the next line with *text*, unless one was typed meanwhile; it is in the history in any case."""
        self._offered = text
        if text not in self._prompt.history.get_strings()[-1:]:
            self._prompt.history.append_string(text)

    @property
    def draft(self) -> str:
        """What was typed of a line when the terminal or the process was ended."""
        return self._offered or self._unsent

    def interrupt(self) -> None:
        """Do what Ctrl-C does. For signals that come from elsewhere; call it in the loop."""
        app = self._prompt.app
        if self._edits:
            return  # it is meant for that program
        if app.is_running:
            app.current_buffer.reset(append_to_history=True)
            app.exit(exception=KeyboardInterrupt())
        else:
            self._interrupted = True

    def _is_command(self) -> bool:
        return self._prompt.default_buffer.text.startswith("/")

    def _above(self, loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
        """Return what lets others write above the line that is being edited, from any thread."""

        async def make_room(write: Callable[[], None]) -> None:
            with suppress(OSError):  # the terminal is gone
                await run_in_terminal(write)

        def above(write: Callable[[], None]) -> None:
            context = self._prompt.app.context
            if not self._prompt.app.is_running or context is None:
                write()
                return
            loop.call_soon_threadsafe(lambda: loop.create_task(make_room(write), context=context))

        return above

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            self._warned = False
            buffer = event.current_buffer
            if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
                buffer.complete_state = None
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("escape", "c-j")  # typed while a turn ran
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-x", "c-e")
        def _(event: KeyPressEvent) -> None:
            event.app.create_background_task(self._edit(event.app.current_buffer))

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._leave_or_empty(event)

        return keys

    def _leave_or_empty(self, event: KeyPressEvent) -> None:
        buffer: Buffer = event.current_buffer
        if buffer.text or buffer is not self._prompt.default_buffer:
            self._warned = False
            buffer.reset(append_to_history=buffer is self._prompt.default_buffer)
        else:
            event.app.exit(exception=KeyboardInterrupt())

    async def _edit(self, buffer: Buffer) -> None:
        """Let the person's own editor edit the line."""
        self._edits, text = True, buffer.text
        try:
            text = await run_in_terminal(lambda: edited(text), in_executor=True)
        except ConfigError as error:
            self._console.error(escape_controls(str(error)))
        finally:
            self._edits = False
        buffer.text = text
        buffer.cursor_position = len(text)


def _is_typed() -> bool:
    """Say whether something was typed that is not read yet."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


class _Completer(Completer):
    def __init__(self, completion: Completion) -> None:
        self._completion = completion

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Offered]:
        """Yield what may stand at the cursor."""
        for one in self._completion.candidates(document.text_before_cursor):
            yield Offered(one.text, -one.length, display_meta=one.about)
