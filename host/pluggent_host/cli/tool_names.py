"""Remembers what the tools are called, so that completing a name needs to load no plugin."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

FILE_NAME = "tool-names"
_MOST_BYTES = 65_536


def remembered(folder: str) -> tuple[str, ...]:
    """Return the names that tools had when they were last listed; none where nothing can be read."""
    try:
        with open(os.path.join(folder, FILE_NAME), encoding="utf-8") as file:  # noqa: PTH118, PTH123 (pathlib costs 4 ms)
            return tuple(file.read(_MOST_BYTES).split())
    except (OSError, ValueError):
        return ()  # a memory aid: damaged is as good as absent


def remember(folder: str, names: Iterable[str]) -> None:
    """Take down *names*, for this user alone. Where nothing can be written, nothing is remembered."""
    text = "".join(f"{name}\n" for name in names)
    if text.split() == list(remembered(folder)):
        return
    place = os.path.join(folder, FILE_NAME)  # noqa: PTH118 (as above)
    temporary = f"{place}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103 (as above)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123 (a descriptor)
            file.write(text)
        os.replace(temporary, place)  # noqa: PTH105 (as above)
