"""The person at the terminal, if there is one: approves requests and answers questions of tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from pluggent_cli.host_access import Setup
from pluggent_cli.terminal.console import Console, Ink
from pluggent_cli.terminal.tty import can_ask

if TYPE_CHECKING:  # imported where there is a terminal to ask at
    from pluggent_cli.approvals.prompts import ConsoleAnswerer, ConsoleApprover


class Person(NamedTuple):
    """What asks for approvals and for data; both are None where it is not possible to ask."""

    approver: ConsoleApprover | None = None
    answerer: ConsoleAnswerer | None = None


def person_at_terminal(
    setup: Setup,
    ink: Ink,
    shown: Callable[[str], Awaitable[None]],
    lent: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Person:
    """Return the person at the terminal, if there is one and the settings do not say to ask no one.

    *shown* and *lent* as for ConsoleApprover.
    """
    wanted = setup.settings.on_ask == "console" or "on_ask" not in setup.origins
    if not (wanted and can_ask()):
        return Person()
    # Here and not above: a run without a terminal needs neither prompt.
    # as above
    from pluggent_cli.approvals.prompts import ConsoleAnswerer, ConsoleApprover

    approver = ConsoleApprover(ink, shown, lent)
    return Person(approver, ConsoleAnswerer(approver))


def say_how_to_approve(console: Console) -> None:
    """Say what to do where something needed an approval and there was no terminal to ask at."""
    console.error(
        "  To be asked, run it in the foreground of a terminal. To let it run unasked, the settings must say so:"
    )
    console.error("  under [effects], what the tool really does, if it only reads; or a rule of a policy in")
    console.error('  [grants] may_allow, such as the guard\'s action = "allow".')
