"""What was typed and not sent when a chat was ended from outside: kept for the next chat, for its owner alone."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from pluggent_hookspecs.folders import private_folder

FILE_NAME = "chat-draft"
_MOST_BYTES = 1_000_000


def keep_draft(folder: Path, text: str) -> None:
    """Keep *text* in *folder*, unless it begins with a space, as what is private does. What cannot be kept is lost."""
    if not text.strip() or text.startswith((" ", "\t")):
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        private_folder(folder)
        with open(folder / FILE_NAME, "wb", opener=lambda path, _: os.open(path, flags, 0o600)) as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate()
            file.write(text.encode("utf-8", "replace"))


def take_draft(folder: Path) -> str:
    """Return the text that is kept in *folder*, and keep it no longer; "" if there is none."""
    path = folder / FILE_NAME
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
            path.unlink()
            return text
    return ""
