"""The process of a command that opens a host: signals end it cleanly, its log goes to standard error. POSIX only.

The first Ctrl-C or SIGTERM ends the work cleanly, the second ends the process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from pluggent_contract_values.escape import escape_all
from pluggent_plugin_loader.plugin_errors import raised_at

from pluggent_cli.exits import Interrupted
from pluggent_cli.terminal.console import Console, warning

T = TypeVar("T")
log = logging.getLogger("pluggent.cli")

STOPPING_S = 1.0
"""How long what still runs at the end may take to clean up before it is left behind."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(
    work: Coroutine[Any, Any, T],
    *,
    on_interrupt: Callable[[], bool] = bool,
    before_dying: Callable[[], None] = lambda: None,
) -> T:
    """Run *work* in an event loop of its own. Raises Interrupted after a signal, when it has ended.

    *on_interrupt* is called first at a Ctrl-C, and returns whether nothing else is to be done. Both
    it and *before_dying*, which is called before a second signal ends the process, must not wait.
    """
    received: list[int] = []
    tasks: list[asyncio.Task[T]] = []

    async def watched() -> T:
        task = asyncio.create_task(work, name="pluggent-command")
        tasks.append(task)
        if received:
            task.cancel()
        return await task

    def on_signal(number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and not received and on_interrupt():
            return
        received.append(number)
        if len(received) > 1:
            before_dying()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        for task in tasks:
            # A plugin may hold the loop: the cancellation waits for it, a second signal does not.
            task.get_loop().call_soon_threadsafe(task.cancel)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(_unhandled)
            try:
                return runner.run(watched())
            finally:
                runner.run(_ended())
    except (asyncio.CancelledError, OSError):  # a terminal that was closed cannot be written to any more
        if received:
            raise Interrupted(received[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def loading_plugins() -> Generator[None]:
    """Tell a KeyboardInterrupt of a plugin from a person's, while one is loaded outside of ``run``.

    A handler in Python leaves a frame, which the loader looks for; the interpreter's own leaves none.
    """

    def on_interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    is_default = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if is_default:
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        if is_default:
            signal.signal(signal.SIGINT, before)


async def _ended() -> None:
    """Cancel what still runs. What swallows that is left behind: asyncio would wait for it for ever."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if not left:
        return
    _, stubborn = await asyncio.wait(left, timeout=STOPPING_S)
    if stubborn:
        # That it is destroyed while it waits is what happens to it, and nothing to complain about.
        asyncio.get_running_loop().set_exception_handler(_unsaid)
    for task in stubborn:
        asyncio._unregister_task(task)  # noqa: SLF001 (documented; the only way of not being waited for)


def _unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of a background task: a person cannot do anything with asyncio's own words and traceback."""
    error = context.get("exception")
    if error is None:
        log.debug("%s", context.get("message"))
        return
    # Without its text: what no hook has seen may be a secret.
    where = f"{type(error).__name__}{raised_at(error)}"
    log.warning("something that a plugin runs beside failed, and all else continues: %s", where)


def _unsaid(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
    """Drop errors of tasks that were left behind."""


# ---- the log ----------------------------------------------------------------------------


def log_to(console: Console, *, debug: bool) -> None:
    """Show what is logged at WARNING and above; everything with *debug*."""
    logger = logging.getLogger("pluggent")
    logger.addHandler(_ConsoleHandler(console))
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)


class CollectedLog(logging.Handler):
    """What is logged at WARNING and above, for a command that shows it among its own findings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def collected_log() -> Generator[CollectedLog]:
    """Collect what is logged, and show nothing of it."""
    logger = logging.getLogger("pluggent")
    logger.addHandler(handler := CollectedLog())
    propagates, logger.propagate = logger.propagate, False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._show(record)
        except Exception:  # noqa: BLE001 (a full disk behind stderr must not reach the code that logs)
            self.handleError(record)

    def _show(self, record: logging.LogRecord) -> None:
        text = escape_all(record.getMessage())
        if record.levelno >= logging.WARNING:
            self._console.note(warning(self._console, text))
        else:
            self._console.error(self._console.err_ink("dim", f"{record.name}: {text}"))
