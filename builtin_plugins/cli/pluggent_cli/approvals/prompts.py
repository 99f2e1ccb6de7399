"""Prompts at the terminal: for an approval, and for the data that a tool asks a person for. POSIX only.

Without a person an approval is never given.
"""

from __future__ import annotations

import asyncio
import termios
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_contract_values.question_fields import Field, FieldKind, Option
from pluggent_hookspecs import Json
from pluggent_hookspecs.decisions import REACHES, Approval, Reach
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.events import ApprovalEvent, QuestionEvent, Scope
from pluggent_hookspecs.questions import Accepted, Cancelled, Declined, Elicited
from pluggent_host.inspection import Form, form_of
from pluggent_transcript.pending import Pending

from pluggent_cli.approvals.refusals import words_of
from pluggent_cli.approvals.view import request_lines
from pluggent_cli.terminal.console import Ink, hanging, width
from pluggent_cli.terminal.reader import PASTE_S, read_some
from pluggent_cli.terminal.tty import foreground_terminal, who, write

QUESTION = "Allow this once? [y/N] "
_QUESTIONS: Mapping[Reach, str] = MappingProxyType(
    {
        "once": QUESTION,
        "session": "Allow this once? [y/N, or s: all like it in this session] ",
        "always": "Allow this once? [y/N, or s: all like it in this session, a: always] ",
    }
)
_REACHES: Mapping[str, Reach] = MappingProxyType(
    {"y": "once", "yes": "once", "s": "session", "session": "session", "a": "always", "always": "always"}
)
REFUSAL_HELP = "to refuse and tell the model why: n, use the other folder"
_DIGEST_SHOWN = 12
_WORDLESS = max(map(len, _REACHES)) + 1
"""A longer answer has words."""
_CALL = "tool_call"
_DIFF = MappingProxyType({"+": "green", "-": "red"})
"""How lines of a preview that is a diff are shown."""


class ConsoleApprover:
    """Asks the person at the terminal about one request after the other.

    *shown* returns when everything said about the request of that digest is on the screen. While
    *lent* lasts, nothing else writes to the terminal or reads from it.
    """

    def __init__(
        self,
        ink: Ink,
        shown: Callable[[str], Awaitable[None]],
        lent: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.ink = ink
        self._shown = shown
        self.lent = lent
        self.one_at_a_time = asyncio.Lock()

    async def __call__(self, event: ApprovalEvent) -> Approval | None:
        """Return an approval for what was typed: y, s or a, anything else refuses; None without a terminal.

        The model reads the words of a refusal. What the policies that ask do not allow, such as *always*, refuses too.
        """
        async with self.one_at_a_time:
            await self._shown(event.digest)
            with self.lent(), foreground_terminal() as terminal:
                if terminal is None:
                    return None
                write(terminal, self._request(event))
                # What was typed before the question was shown does not answer it.
                termios.tcflush(terminal, termios.TCIFLUSH)
                write(terminal, self.ink("bold", _QUESTIONS[event.reach]))
                answer = b""
                try:
                    answer = await read_some(terminal)
                    while len(answer) > _WORDLESS and answer.endswith(b"\n"):  # pasted lines are one refusal
                        more = await read_some(terminal, PASTE_S)
                        if not more:
                            break
                        answer += more
                finally:
                    if not answer.endswith(b"\n"):  # Ctrl-D, or interrupted
                        write(terminal, "\n")
                return _approval(answer.decode("utf-8", "replace").strip(), event)

    def _request(self, event: ApprovalEvent) -> str:
        """Return what the person reads before answering: the whole request, escaped by the host."""
        lines = ["", self.ink("bold", "A person has to approve this:")]
        shown = request_lines(event.rendered, event.asks, width() - 2, approvers=event.approvers)
        lines += [f"  {self.ink(_DIFF.get(line[:1], 'plain'), line)}" for line in shown]
        lines.append(self.ink("dim", f"  request {event.digest[:_DIGEST_SHOWN]}"))
        if event.operation == _CALL:
            lines.append(self.ink("dim", f"  {REFUSAL_HELP}"))
        return "\n".join([*lines, ""])


def _approval(typed: str, event: ApprovalEvent) -> Approval:
    reach = _REACHES.get(typed.lower())
    if reach is None or REACHES.index(reach) > REACHES.index(event.reach):
        return Approval(agreed=False, reason=words_of(typed) if event.operation == _CALL else "")
    return Approval(agreed=True, reach=reach, by=who())


async def ask_about(waiting: Iterable[Pending], ink: Ink) -> Mapping[str, Approval]:
    """Ask the person at the terminal about each stored request; return the answers by call id. Raises ConfigError."""
    asking = ConsoleApprover(ink, _at_once)
    answers: dict[str, Approval] = {}
    for each in waiting:
        answer = await asking(event_of(each))
        if answer is None:
            raise ConfigError("/approve", ["wants a person at a terminal, and there is none in the foreground here"])
        answers[each.call_id] = attrs.evolve(answer, by=who())
    return answers


def event_of(pending: Pending) -> ApprovalEvent:
    """Return the question about *pending*."""
    asks = tuple((plugin, escape_all(words)) for plugin, words in pending.asks)
    return ApprovalEvent(
        Scope(principal=pending.principal, workspace=pending.workspace), pending.kind, pending.digest,
        pending.rendered, asks, pending.capability, pending.reach, pending.approvers,
    )  # fmt: skip


async def _at_once(_: str) -> None:
    """Wait for nothing: what is asked about has been shown before."""


# ---- data for a tool --------------------------------------------------------------------


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

    >>> read_value(Field("n", FieldKind.INTEGER), "12"), read_value(Field("ok", FieldKind.YES_NO), "Yes")
    (12, True)
    """
    match field.kind:
        case FieldKind.TEXT:
            return typed
        case FieldKind.INTEGER | FieldKind.NUMBER:
            return _number(typed, whole=field.kind is FieldKind.INTEGER)
        case FieldKind.YES_NO:
            if typed.lower() not in (*_YES, *_NO):
                raise ValueError("yes or no?")
            return typed.lower() in _YES
        case FieldKind.CHOICE:
            return _chosen(field.options, typed)
        case FieldKind.CHOICES:
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
