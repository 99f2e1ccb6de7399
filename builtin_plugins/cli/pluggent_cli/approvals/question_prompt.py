"""Puts what a tool asks a person for to the terminal, one prompt a field. POSIX only."""

from __future__ import annotations

import termios
from collections.abc import Sequence

from pluggent_hookspecs import Json
from pluggent_hookspecs.events import QuestionEvent
from pluggent_hookspecs.questions import Accepted, Cancelled, Declined, Elicited
from pluggent_host.common.escape import escape_all
from pluggent_host.inspection import Field, Form, Kind, Option, form_of

from pluggent_cli.approvals.approval_prompt import ConsoleApprover
from pluggent_cli.terminal.consent import write
from pluggent_cli.terminal.console import hanging, width
from pluggent_cli.terminal.keys import foreground_terminal
from pluggent_cli.terminal.reader import read_some

HELP = "This is data for the one who asks; it approves nothing. Give no passwords. Ctrl-D leaves the question."
SEND = "Send this? [y/N] "
DECLINE = "Nothing given. Decline to answer? [y/N] "

_YES, _NO = ("y", "yes", "true"), ("n", "no", "false")


class _Left(Exception):  # noqa: N818 (the person does something else)
    """The person has left the question."""


class ConsoleAnswerer:
    """Asks the person at the terminal, never while an approval is asked for. One question after the other."""

    def __init__(self, approver: ConsoleApprover) -> None:
        self._ink = approver.ink
        self._lent = approver.lent
        self._one_at_a_time = approver.one_at_a_time

    async def __call__(self, event: QuestionEvent) -> Elicited | None:
        """Return what the person gave; None without a terminal."""
        async with self._one_at_a_time:
            with self._lent(), foreground_terminal() as terminal:
                if terminal is None:
                    return None
                write(terminal, self._head(event))
                try:
                    return await self._filled(terminal, form_of(event.schema))
                except _Left:
                    return Cancelled("the person left the question")

    def _head(self, event: QuestionEvent) -> str:
        who, *lines = hanging(event.rendered, width())
        return "\n".join(["", self._ink("bold", who), *lines, self._ink("dim", f"  {HELP}"), ""])

    async def _filled(self, terminal: int, form: Form) -> Elicited:
        content: dict[str, Json] = {}
        for field in form.fields:
            while True:
                typed = await self._typed(terminal, _prompt(field))
                if not typed:
                    if not field.required or field.has_default:
                        break
                    if await self._agreed(terminal, DECLINE):
                        return Declined()
                    continue
                try:
                    content[field.name] = value = read_value(field, typed)
                    problems: Sequence[str] = form.problems(field, value)
                except ValueError as error:
                    problems = [str(error)]
                if not problems:
                    break
                content.pop(field.name, None)
                write(
                    terminal,
                    "".join(f"  {escape_all(problem.partition(': ')[2] or problem)}\n" for problem in problems),
                )
        return Accepted(content) if await self._agreed(terminal, SEND) else Declined()

    async def _agreed(self, terminal: int, question: str) -> bool:
        return (await self._typed(terminal, question)).lower() in ("y", "yes")

    async def _typed(self, terminal: int, prompt: str) -> str:
        # What was typed before the question was shown does not answer it.
        termios.tcflush(terminal, termios.TCIFLUSH)
        write(terminal, self._ink("bold", prompt))
        answer = b""
        try:
            answer = await read_some(terminal)
        finally:
            if not answer.endswith(b"\n"):  # Ctrl-D, or interrupted
                write(terminal, "\n")
        if not answer.endswith(b"\n"):
            raise _Left
        return answer.decode("utf-8", "replace").strip()


def read_value(field: Field, typed: str) -> Json:
    """Return what *typed* means in *field*. Raises ValueError in words for the person.

    >>> read_value(Field("n", Kind.INTEGER), "12"), read_value(Field("ok", Kind.YES_NO), "Yes")
    (12, True)
    """
    match field.kind:
        case Kind.TEXT:
            return typed
        case Kind.INTEGER | Kind.NUMBER:
            return _number(typed, whole=field.kind is Kind.INTEGER)
        case Kind.YES_NO:
            if typed.lower() not in (*_YES, *_NO):
                raise ValueError("yes or no?")
            return typed.lower() in _YES
        case Kind.CHOICE:
            return _chosen(field.options, typed)
        case Kind.CHOICES:
            return [_chosen(field.options, each.strip()) for each in typed.split(",") if each.strip()]


def _number(typed: str, *, whole: bool) -> Json:
    try:
        return int(typed)
    except ValueError:
        if whole:
            raise ValueError("that is not a whole number") from None
    try:
        return float(typed)
    except ValueError:
        raise ValueError("that is not a number") from None


def _chosen(options: Sequence[Option], typed: str) -> Json:
    for option in options:
        if typed in (option.value, option.title):
            return option.value
    if typed.isdecimal() and 1 <= int(typed) <= len(options):
        return options[int(typed) - 1].value
    raise ValueError(f"{typed!r} is not one of them; type its number from 1 to {len(options)}")


def _prompt(field: Field) -> str:
    if field.has_default:
        return f"  {field.label} [{escape_all(field.shown(field.default))}]: "
    return f"  {field.label}{'' if field.required else ' (Enter leaves it out)'}: "
