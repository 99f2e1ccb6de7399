"""A session at the console: runs turns in it, shows them while they run, and says how they ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import ConfigError, SessionError, SessionOwnerError
from pluggent_hookspecs.messages import Message, Part
from pluggent_hookspecs.observations import ModelCalled, Observation
from pluggent_host.common.process_marker import is_inside
from pluggent_host.host import Host
from pluggent_host.session import Session
from pluggent_host.turns.next_step import Why
from pluggent_host.turns.result import TurnResult, TurnStream
from pluggent_state_files.listing import SESSION_ID
from pluggent_transcript.pending import Pending

from pluggent_cli import exits
from pluggent_cli.host_access import Setup, folder_record, open_host, workspace_option
from pluggent_cli.terminal.console import Console
from pluggent_cli.terminal.live import Answer, Stage, answer_for
from pluggent_cli.terminal.person import person_at_terminal, say_how_to_approve
from pluggent_cli.terminal.progress import Waiting
from pluggent_cli.terminal.screen import Calls, Screen, Unwritten, last_asked, model_call_document
from pluggent_cli.terminal.tty import Keys

Show: TypeAlias = Callable[[Observation], None]
Content: TypeAlias = Sequence[str | Part] | Message
Answers: TypeAlias = Mapping[str, bool | Approval]

CODES = {
    Why.COMPLETED: exits.OK,
    Why.HANDLED: exits.OK,
    Why.WAITING: exits.OK,
    Why.DENIED: exits.DENIED,
    Why.LIMIT: exits.LIMIT,
    Why.CANCELLED: exits.INTERRUPTED,
    Why.FAILED: exits.FAILED,
    Why.PAUSED: exits.PAUSED,
    Why.INVALID_OUTPUT: exits.FAILED,
}
"""The exit code of a turn that ended so."""


class Talk:
    """One person, one host, one session after the other."""

    def __init__(self, setup: Setup, options: argparse.Namespace, console: Console, keys: Keys) -> None:
        self.setup = setup
        self.console = console
        self.options = options
        self.calls = Calls(lambda _: None)
        self.can_ask = False
        self._keys = keys
        self._stage = Stage(console, keys=keys)
        self._screen = Screen(console, self.calls, answer=None)
        self._model_calls: list[ModelCalled] = []
        self._opened: tuple[Host, Session] | None = None

    @property
    def host(self) -> Host:
        """The host that is open."""
        assert self._opened is not None
        return self._opened[0]

    @property
    def session(self) -> Session:
        """The session that is open."""
        assert self._opened is not None
        return self._opened[1]

    async def open(self, host: Host, id: str = "", model: str = "") -> None:
        """Open a session of *host* in place of the one before. Raises ConfigError and SessionError."""
        before = self._opened
        session = await _session(host, self.options, self.console, id, self.setup.model_named(model))
        self._opened = host, session
        if before is not None:
            await before[1].aclose()

    # ---- what an approval needs ----------------------------------------------------------

    async def shown(self, digest: str) -> None:
        """Wait until the decision about *digest* is on the screen."""
        await self._screen.shown(digest)

    def lent(self) -> contextlib.AbstractContextManager[None]:
        """Leave the terminal to a prompt."""
        return self._stage.lent()

    @contextlib.contextmanager
    def terminal_lent(self) -> Generator[None]:
        """Leave the terminal to a prompt while no turn runs."""
        held = self._keys.held
        self._keys.release()
        try:
            yield
        finally:
            if held:
                self._keys.hold()

    @contextlib.contextmanager
    def terminal_given(self) -> Generator[None]:
        """Leave the terminal to another program, and Ctrl-C too."""
        self._keys.given = True
        try:
            with self.terminal_lent():
                yield
        finally:
            self._keys.given = False

    # ---- turns ---------------------------------------------------------------------------

    async def turn(self, content: Message | Sequence[str | Part]) -> TurnResult[Any]:
        """Run one turn, show it, and print the answer if that is text. Raises what ``Session.say`` raises."""
        return await self._shown(lambda show: self._watched(content, None, show))

    async def unprinted_turn(self, content: Sequence[str | Part], output: Mapping[str, Any] | None) -> TurnResult[Any]:
        """Run one turn, show what happens in it, and print nothing of the answer; *output* is the schema of that."""
        try:
            return await self._shown(lambda show: self._watched(content, output, show), printed=False)
        except TypeError as error:
            if output is None or not str(error).startswith("output: "):
                raise
            problem = str(error).removeprefix("output: ").replace("the tool's own schema", "it", 1)
            raise ConfigError("--schema", [problem]) from error

    async def resume(self, answers: Answers | None = None) -> TurnResult[Any]:
        """Continue the paused turn with *answers* as ``turn`` does. Raises what ``Session.resume`` raises."""
        return await self._shown(lambda show: self._resumed(answers, show))

    async def _shown(
        self, work: Callable[[Show], Awaitable[TurnResult[Any]]], *, printed: bool = True
    ) -> TurnResult[Any]:
        console, session, options = self.console, self.session, self.options
        calls = self.calls = Calls(lambda call_id: last_asked(session.history, call_id))
        called = self._model_calls = []
        live = self._live and printed
        answer = answer_for(console, plain=options.plain)
        waiting = Waiting(session.model)
        unwritten = Unwritten()
        self._stage = Stage(console, answer=answer, status=waiting, keys=self._keys)
        drawn = self._stage.draws_status
        screen = self._screen = Screen(console, calls, answer=answer if live else None, drawn=drawn)

        def show(event: Observation) -> None:
            if isinstance(event, ModelCalled):
                called.append(event)
            waiting.read(event)
            unwritten.read(event)
            screen.show(event)
            self._stage.changed()

        with self._stage, _written(answer):
            text = ""
            try:
                result = await work(show)
                text = result.text
            except BaseException:
                text = unwritten.text
                raise
            finally:
                screen.end()
                if printed and not live and not options.json:
                    answer.add(text)
        return result

    async def _watched(
        self, content: Message | Sequence[str | Part], output: Mapping[str, Any] | None, show: Show
    ) -> TurnResult[Any]:
        if self.options.no_stream:
            return await self._followed(self.session.say(content, output=output, origin="cli"), show)
        return await self._streamed(self.session.stream(content, output=output, origin="cli"), show)

    async def _resumed(self, answers: Answers | None, show: Show) -> TurnResult[Any]:
        if self.options.no_stream:
            return await self._followed(self.session.resume(answers), show)
        return await self._streamed(self.session.stream_resume(answers), show)

    @property
    def _live(self) -> bool:
        """Whether a person sees an answer as it comes."""
        return not (self.options.no_stream or self.options.json) and self.console.out_is_terminal

    async def _streamed(self, stream: TurnStream[Any], show: Show) -> TurnResult[Any]:
        async with stream if self._live else stream.by_reply() as events:
            async for event in events:
                show(event)
        return events.result

    async def _followed(self, turn: Coroutine[Any, Any, TurnResult[Any]], show: Show) -> TurnResult[Any]:
        async with self.session.events() as events:
            task = asyncio.create_task(turn, name="pluggent-followed")
            task.add_done_callback(lambda _: events.end())
            try:
                async for event in events:
                    show(event)
            finally:
                task.cancel()
                await asyncio.wait((task,))
        return task.result()

    # ---- afterwards ----------------------------------------------------------------------

    def document(self, result: TurnResult[Any]) -> dict[str, Any]:
        """Return the turn as JSON has it."""
        return {
            "session": None if self.options.no_save else self.session.id,
            "model": self.session.model,
            "turn": result.turn_id,
            "why": str(result.why),
            "text": result.text,
            "detail": result.detail,
            "finish_reason": result.finish_reason and str(result.finish_reason),
            "limit": result.limit,
            "usage": attrs.asdict(result.usage),
            "model_calls": [model_call_document(called) for called in self._model_calls],
            "tool_calls": [call.document() for call in self.calls.all],
            "pending": _pending_document(result.pending),
            "exit_code": CODES[result.why],
        }

    def explain(self, result: TurnResult[Any], *, answer_with: str) -> None:
        """Say why the turn ended, unless it simply did; *answer_with* is how to answer a tool that waits."""
        ink = self.console.err_ink
        match result.why:
            case Why.DENIED:
                self.console.error(f"{ink('red', 'denied:')} {escape_all(result.detail)}")
                if not self.can_ask and "approv" in result.detail:
                    say_how_to_approve(self.console)
            case Why.LIMIT:
                self.console.error(f"{ink('red', 'stopped:')} {escape_all(result.detail)}; the conversation is whole")
            case Why.PAUSED:
                # Here and not above: most turns do not pause.
                from pluggent_cli.approvals.view import say_paused

                say_paused(self.console, self.session.id, result.pending, self.options, result.detail)
            case Why.WAITING:
                self.console.note(ink("dim", f"a tool waits for your answer; give it {answer_with}"))
            case Why.INVALID_OUTPUT:
                self.console.error(
                    f"{ink('red', 'error:')} the answer does not fit the schema: {escape_all(result.detail)}"
                )
            case Why.COMPLETED if result.detail:
                self.console.error(f"{ink('yellow', 'note:')} {escape_all(result.detail)}")
            case _:
                pass

    def say_where(self, command: str) -> None:
        """Print how to continue the session with *command*, where a person reads it."""
        console, id = self.console, self.session.id
        if not self.options.no_save and (console.err_is_terminal or console.verbose):
            console.note(console.err_ink("dim", f"session: {id} (continue: pluggent {command.format(id=id)})"))


@asynccontextmanager
async def open_talk(
    setup: Setup, options: argparse.Namespace, console: Console, keys: Keys, *, pausing: bool = False
) -> AsyncGenerator[Talk]:
    """Open a host with what *setup* and *options* say, and the session that they name.

    *pausing*: without a terminal an ask waits, unless the settings say to deny it or nothing is saved.
    """
    if not (options.model or options.session):
        setup.model_named(setup.settings.model)
    talk = Talk(setup, options, console, keys)
    person = person_at_terminal(setup, console.err_ink, talk.shown, talk.lent)
    talk.can_ask = person.approver is not None
    async with open_host(
        _unsaved(setup) if options.no_save else _waits(setup) if pausing else setup,
        tools=() if options.no_tools else tuple(options.tool) or ("*",),
        approver=person.approver,
        answerer=person.answerer,
        state_dir=None if options.no_save else setup.state_dir,
        workspace=workspace_option(options.workspace),
    ) as host:
        await talk.open(host, options.session, options.model)
        yield talk


def complete(setup: Setup, options: argparse.Namespace) -> None:
    """Put into *options* what they stand for: a model's full name, its parameters, the last session of this folder.

    Before anything is read or opened. Raises ConfigError for what is not there, or wrong.
    """
    options.model = setup.model_named(options.model)
    if options.option:
        from pluggent_cli.inputs.parameters import read_model_parameters  # here and not above: most turns have none

        options.parameters = read_model_parameters(options.option)
    if options.continues:
        # Here and not above: most turns begin a session, or name one.
        from pluggent_cli.inputs.last_session import last_session

        options.session = last_session(setup, "--continue")


def read_attachments(options: argparse.Namespace, console: Console) -> tuple[Part, ...]:
    """Return what *options* attach. Raises ConfigError naming all that cannot be sent."""
    if not (options.image or options.attach):
        return ()
    from pluggent_cli.inputs.attachments import attached  # here and not above: most turns have none

    return attached(options.attach, options.image, console.error)


def _pending_document(pending: Sequence[Pending]) -> list[dict[str, Any]]:
    if not pending:
        return []
    # Here and not above: most turns do not pause.
    from pluggent_cli.approvals.view import pending_document

    return pending_document(pending)


def _waits(setup: Setup) -> Setup:
    """Return *setup* with a pause for what would be denied only because there is no terminal to ask at."""
    if "on_ask" in setup.origins and setup.settings.on_ask == "deny":
        return setup
    return setup._replace(settings=setup.settings._replace(on_ask="pause"))


def _unsaved(setup: Setup) -> Setup:
    """Return *setup* without the store that keeps sessions."""
    return setup._replace(settings=setup.settings._replace(sessions=""))


async def _session(host: Host, options: argparse.Namespace, console: Console, id: str, model: str) -> Session:
    given: dict[str, Any] = {
        "model": model, "system": options.system, "origin": "cli", "metadata": folder_record(),
        "parameters": options.parameters,
    }  # fmt: skip
    try:
        return await host.session(id, **given)
    except SessionOwnerError as error:
        # The user of the command owns the files, and may continue what an application began for another principal;
        # what a host has started may not.
        if error.claimed or is_inside():
            error.add_note(f"Or look at it: pluggent sessions show {id}")
            raise
        note = f"note: session '{id}' belongs to '{escape_all(error.principal)}', and continues in that name"
        console.note(console.err_ink("yellow", note))
        return await host.session(id, **given, principal=error.principal)
    except SessionError as error:
        if id and not SESSION_ID.fullmatch(id):
            raise ConfigError("--session", [str(error)]) from error
        other = "To begin another one, leave out -c; to continue one of the others: --session ID"
        error.add_note(other if options.continues else "Or keep the session in memory: --no-save")
        raise


@contextlib.contextmanager
def _written(answer: Answer) -> Generator[None]:
    """Write what there is of *answer* whatever becomes of the turn."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the terminal is gone, and the turn ends because of it
            answer.end()
        raise
    answer.end()
