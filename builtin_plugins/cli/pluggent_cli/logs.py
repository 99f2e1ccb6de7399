"""Where the log of the host and its plugins goes while a command runs: to standard error, in short."""

from __future__ import annotations

import logging

from pluggent_host.common.escape import escape_all

from pluggent_cli.terminal.console import Console, warning


def log_to(console: Console, *, debug: bool) -> None:
    """Show what is logged at WARNING and above; everything with *debug*."""
    logger = logging.getLogger("pluggent")
    logger.addHandler(_ConsoleHandler(console))
    logger.propagate = False
    logger.setLevel(logging.DEBUG if debug else logging.WARNING)


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
