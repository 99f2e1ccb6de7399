"""Which exit code an ending has. Data, and one function that reads errors."""

from __future__ import annotations

import errno
import signal

from pluggent_hookspecs.errors import (
    ConfigError,
    Denied,
    LimitReached,
    NameTaken,
    PluggentError,
    PluginError,
)

OK = 0
FAILED = 1
USAGE = 2
DENIED = 3
LIMIT = 4
PLUGIN = 5
PAUSED = 6
FAULT = 70
INTERRUPTED = 130
CLOSED = 141

MEANINGS = (
    (OK, "it worked"),
    (FAILED, "the work failed: the model could not be asked, a tool call failed"),
    (USAGE, "wrong usage or configuration"),
    (DENIED, "denied by a policy, or an approval was not given"),
    (LIMIT, "a limit was reached"),
    (PLUGIN, "a plugin that has to run could not"),
    (PAUSED, "the turn waits for an approval (pluggent approvals) or for its reply; a batch runs"),
    (FAULT, "a fault in pluggent itself"),
    (INTERRUPTED, "interrupted (Ctrl-C); 143 if terminated, 141 if the output is closed"),
)


class Interrupted(Exception):  # noqa: N818 (an ending, not a mistake)
    """The person or the system ended the command with a signal, and it has ended cleanly."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__("interrupted" if signal_number == signal.SIGINT else "terminated")


_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (NameTaken, USAGE),
    (ConfigError, USAGE),
    (PluginError, PLUGIN),
    (Denied, DENIED),
    (LimitReached, LIMIT),
    (PluggentError, FAILED),
    (KeyboardInterrupt, INTERRUPTED),
    (BrokenPipeError, CLOSED),
    (OSError, FAILED),
)
"""The first that fits counts."""


def said_of(error: BaseException) -> str:
    """Return what a person reads of *error*.

    >>> said_of(ZeroDivisionError("division by zero"))
    'a fault in pluggent: ZeroDivisionError: division by zero. To see where: pluggent --debug …'
    """
    if code_of(error) == FAULT:
        return f"a fault in pluggent: {type(error).__name__}: {error}. To see where: pluggent --debug …"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    return str(error) or type(error).__name__


def is_of_output(error: BaseException) -> bool:
    """Say whether *error* is that the output cannot be written: the disk behind it is full, or damaged."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT


def code_of(error: BaseException) -> int:
    """Return the exit code that *error* means.

    >>> code_of(ConfigError("--model", ["there is none"])), code_of(PluggentError("?"))
    (2, 1)
    """
    if isinstance(error, Interrupted):
        return 128 + error.signal_number
    if isinstance(error, ConfigError) and error.path == "required":
        return PLUGIN
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAULT)
