"""Which exit code an ending has. Data, and one function that reads errors."""

from __future__ import annotations

import signal

from pluggent_hookspecs.errors import (
    ConfigError,
    Denied,
    LimitReached,
    NameTaken,
    PluginError,
    PluggentError,
)

OK = 0
FAILED = 1
USAGE = 2
DENIED = 3
LIMIT = 4
PLUGIN = 5
FAULT = 70
INTERRUPTED = 130
CLOSED = 141

MEANINGS = (
    (OK, "it worked"),
    (FAILED, "the work failed: the model could not be asked, a tool call failed"),
    (USAGE, "wrong usage or configuration"),
    (DENIED, "denied by a policy, or an approval that nobody gave"),
    (LIMIT, "a limit was reached"),
    (PLUGIN, "a plugin that has to run could not"),
    (FAULT, "a fault in pluggent itself"),
    (INTERRUPTED, "interrupted (Ctrl-C); 143 if terminated, 141 if nobody reads the output"),
)


class Interrupted(Exception):  # noqa: N818 (an ending, not a mistake)
    """The person or the system ended the command with a signal, and it has ended cleanly."""

    def __init__(self, signal_number: int) -> None:
        self.signal_number = signal_number
        super().__init__("interrupted" if signal_number == signal.SIGINT else "terminated")


def code_of(error: BaseException) -> int:
    """Return the exit code that *error* means.

    >>> code_of(ConfigError("--model", ["there is none"])), code_of(PluggentError("?"))
    (2, 1)
    """
    match error:
        case ConfigError(path="required"):
            return PLUGIN
        case ConfigError() | NameTaken():
            return USAGE
        case PluginError():
            return PLUGIN
        case Denied():
            return DENIED
        case LimitReached():
            return LIMIT
        case PluggentError():
            return FAILED
        case Interrupted():
            return 128 + error.signal_number
        case KeyboardInterrupt():
            return INTERRUPTED
        case BrokenPipeError():
            return CLOSED
        case OSError():
            return FAILED
        case _:
            return FAULT
