"""What an error that plugin code raised tells about itself: its line, and whether it is a person's Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from types import FrameType

_LIBRARY = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 (pathlib is not needed for it)
_PACKAGES = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))
_HOST = tuple(f"{os.sep}{name}{os.sep}" for name in ("pluggent_host", "pluggent_plugin_loader"))


def raised_at(error: BaseException) -> str:
    """Return `` (at file:line)`` for the innermost line outside the standard library and the host that raised *error*.

    Empty if there is none, as for an error of the host itself.
    """
    found = ""
    if isinstance(error, SyntaxError) and error.filename:
        found = f"{error.filename}:{error.lineno}"
    else:
        for frame, line in _frames(error):
            file = frame.f_code.co_filename
            is_library = file.startswith(_LIBRARY) and not any(name in file for name in _PACKAGES)
            is_host = file.startswith("<") or any(name in file for name in _HOST)
            if not is_host and not is_library:
                found = f"{file}:{line}"
    return f" (at {found})" if found else ""


def is_interrupt(error: BaseException) -> bool:
    """Say whether *error* is a KeyboardInterrupt that a signal may have raised, and not the plugin's own doing."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or handler is signal.default_int_handler:
        return True  # one that is not written in Python leaves no frame
    while isinstance(handler, partial):
        handler = handler.func
    code = getattr(handler, "__code__", None)
    return any(frame.f_code is code for frame, _ in _frames(error))


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
