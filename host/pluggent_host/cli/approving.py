"""Puts a question to the person at the terminal. Never a yes without one. POSIX only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import termios
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from pluggent_hookspecs.events import ApprovalEvent

from pluggent_host.cli.assembling import Setup
from pluggent_host.cli.output import Console, Ink, width, wrapped
from pluggent_host.quoting import quoted

TERMINAL = "/dev/tty"
QUESTION = "Allow this once? [y/N] "
_DIGEST_SHOWN = 12


def can_ask() -> bool:
    """Say whether there is a terminal and this process is in its foreground.

    A process in the background must not wait for it: it would be stopped by reading from it.
    """
    with _terminal() as terminal:
        return terminal is not None


def console_approver(setup: Setup, ink: Ink, shown: Callable[[str], Awaitable[None]]) -> ConsoleApprover | None:
    """Return who asks at the terminal; None where nobody can be asked, or the settings say not to."""
    wanted = setup.settings.on_ask == "console" or "on_ask" not in setup.origins
    return ConsoleApprover(ink, shown) if wanted and can_ask() else None


def say_how_to_approve(console: Console) -> None:
    """Tell what to do where something needed an approval and nobody could be asked."""
    console.error(
        "  To be asked, run it in the foreground of a terminal. To let it run unasked, the settings must say so:"
    )
    console.error("  under [effects], what the tool really does, if it only reads; or a rule of a policy in")
    console.error('  [grants] may_allow, such as the guard\'s action = "allow".')


class ConsoleApprover:
    """Asks the person at the terminal about one request after the other.

    *shown* returns when everything said about the request of that digest is on the screen.
    """

    def __init__(self, ink: Ink, shown: Callable[[str], Awaitable[None]]) -> None:
        self._ink = ink
        self._shown = shown
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, event: ApprovalEvent) -> bool | None:
        """Return True for a typed ``y`` or ``yes``, False for anything else, None if nobody can be asked."""
        async with self._one_at_a_time:
            await self._shown(event.digest)
            with _terminal() as terminal:
                if terminal is None:
                    return None
                _write(terminal, self._request(event))
                # What was typed before the question was shown is no answer to it.
                termios.tcflush(terminal, termios.TCIFLUSH)
                _write(terminal, self._ink("bold", QUESTION))
                answer = b""
                try:
                    answer = await _line_from(terminal)
                finally:
                    if not answer.endswith(b"\n"):  # Ctrl-D, or interrupted
                        _write(terminal, "\n")
                return answer.strip().lower() in (b"y", b"yes")

    def _request(self, event: ApprovalEvent) -> str:
        """Return what the person reads before answering: the whole request, escaped by the host."""
        lines = ["", self._ink("bold", "A person has to approve this:")]
        lines += [f"  {line}" for line in event.rendered.split("\n")]
        for plugin, why in event.asks:
            lines += [f"  {line}" for line in wrapped(f"{quoted(plugin)} asks: {quoted(why)}", width() - 2)]
        lines.append(self._ink("dim", f"  request {event.digest[:_DIGEST_SHOWN]}"))
        return "\n".join([*lines, ""])


@contextmanager
def _terminal() -> Generator[int | None]:
    """Open the controlling terminal; None if there is none or this process is not in its foreground."""
    try:
        terminal = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            in_foreground = os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            in_foreground = False
        yield terminal if in_foreground else None
    finally:
        os.close(terminal)


def _write(terminal: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(terminal, data) :]


async def _line_from(terminal: int) -> bytes:
    """Return what is typed up to Return, without holding the loop; b"" at its end (Ctrl-D)."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    wake, waker = os.pipe()

    def settle(data: bytes) -> None:
        if not answer.done():
            answer.set_result(data)

    def read() -> None:
        data = b""
        with contextlib.suppress(OSError):  # a terminal that is gone says nothing, which is a no
            ready, _, _ = select.select([terminal, wake], [], [])
            data = os.read(terminal, 4096) if wake not in ready else b""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, data)

    # A thread and select(), not add_reader(): kqueue does not take a terminal.
    thread = threading.Thread(target=read, name="pluggent-terminal", daemon=True)
    thread.start()
    try:
        return await answer
    finally:
        os.close(waker)  # wakes the thread if it still waits
        thread.join()
        os.close(wake)
