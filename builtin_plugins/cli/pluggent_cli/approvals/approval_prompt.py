"""Puts a question to the person at the terminal. Never a yes without one. POSIX only."""

from __future__ import annotations

import asyncio
import termios
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from pluggent_hookspecs.decisions import REACHES, Approval, Reach
from pluggent_hookspecs.events import ApprovalEvent

from pluggent_host.cli.assembling import Setup
from pluggent_host.cli.consent import who, write
from pluggent_host.cli.keys import foreground_terminal
from pluggent_host.cli.output import Console, Ink, hanging, width
from pluggent_host.cli.reading import read_some
from pluggent_host.inside import is_inside
from pluggent_host.quoting import quoted

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


def can_ask() -> bool:
    """Say whether there is a terminal and this process is in its foreground.

    A process in the background must not wait for it: it would be stopped by reading from it.
    """
    if is_inside():
        return False
    with foreground_terminal() as terminal:
        return terminal is not None


def console_approver(
    setup: Setup,
    ink: Ink,
    shown: Callable[[str], Awaitable[None]],
    lent: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> ConsoleApprover | None:
    """Return who asks at the terminal; None where nobody can be asked, or the settings say not to."""
    wanted = setup.settings.on_ask == "console" or "on_ask" not in setup.origins
    return ConsoleApprover(ink, shown, lent) if wanted and can_ask() else None


def say_how_to_approve(console: Console) -> None:
    """Tell what to do where something needed an approval and nobody could be asked."""
    console.error(
        "  To be asked, run it in the foreground of a terminal. To let it run unasked, the settings must say so:"
    )
    console.error("  under [effects], what the tool really does, if it only reads; or a rule of a policy in")
    console.error('  [grants] may_allow, such as the guard\'s action = "allow".')


class ConsoleApprover:
    """Asks the person at the terminal about one request after the other.

    *shown* returns when everything said about the request of that digest is on the screen. While
    *lent* lasts, nobody else writes to the terminal or reads from it.
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
        """Return an approval for what was typed: y, s or a, anything else refuses; None if nobody can be asked.

        What the policies that ask do not allow, such as *always*, refuses too.
        """
        async with self.one_at_a_time:
            await self._shown(event.digest)
            with self.lent(), foreground_terminal() as terminal:
                if terminal is None:
                    return None
                write(terminal, self._request(event))
                # What was typed before the question was shown is no answer to it.
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
        lines += [f"  {line}" for line in hanging(event.rendered, width() - 2)]
        for plugin, why in event.asks:
            lines += [f"  {line}" for line in hanging(f"{quoted(plugin)} asks: {quoted(why)}", width() - 2)]
        for names in event.approvers:
            lines += [f"  {line}" for line in hanging(f"only {quoted(' or '.join(names))} may approve it", width() - 2)]
        lines.append(self.ink("dim", f"  request {event.digest[:_DIGEST_SHOWN]}"))
        return "\n".join([*lines, ""])


def _approval(typed: str, event: ApprovalEvent) -> Approval:
    reach = _REACHES.get(typed)
    if reach is None or REACHES.index(reach) > REACHES.index(event.reach):
        return Approval(agreed=False)
    return Approval(agreed=True, reach=reach, by=who())
