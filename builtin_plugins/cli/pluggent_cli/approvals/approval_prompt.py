"""Asks the person at the terminal for an approval. Without a person it is never given. POSIX only."""

from __future__ import annotations

import asyncio
import termios
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from pluggent_hookspecs.decisions import REACHES, Approval, Reach
from pluggent_hookspecs.events import ApprovalEvent

from pluggent_cli.approvals.view import request_lines
from pluggent_cli.terminal.consent import who, write
from pluggent_cli.terminal.console import Ink, width
from pluggent_cli.terminal.keys import foreground_terminal
from pluggent_cli.terminal.reader import read_some

QUESTION = "Allow this once? [y/N] "
_QUESTIONS: Mapping[Reach, str] = MappingProxyType(
    {
        "once": QUESTION,
        "session": "Allow this once? [y/N, or s: its like in this session] ",
        "always": "Allow this once? [y/N, or s: its like in this session, a: always] ",
    }
)
_REACHES: Mapping[str, Reach] = MappingProxyType(
    {"y": "once", "yes": "once", "s": "session", "session": "session", "a": "always", "always": "always"}
)
_DIGEST_SHOWN = 12


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

        What the policies that ask do not allow, such as *always*, refuses too.
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
                finally:
                    if not answer.endswith(b"\n"):  # Ctrl-D, or interrupted
                        write(terminal, "\n")
                return _approval(answer.decode("utf-8", "replace").strip().lower(), event)

    def _request(self, event: ApprovalEvent) -> str:
        """Return what the person reads before answering: the whole request, escaped by the host."""
        lines = ["", self.ink("bold", "A person has to approve this:")]
        shown = request_lines(event.rendered, event.asks, width() - 2, approvers=event.approvers)
        lines += [f"  {line}" for line in shown]
        lines.append(self.ink("dim", f"  request {event.digest[:_DIGEST_SHOWN]}"))
        return "\n".join([*lines, ""])


def _approval(typed: str, event: ApprovalEvent) -> Approval:
    reach = _REACHES.get(typed)
    if reach is None or REACHES.index(reach) > REACHES.index(event.reach):
        return Approval(agreed=False)
    return Approval(agreed=True, reach=reach, by=who())
