"""Lets a person edit a text in the editor of their choice, in a private file that is gone afterwards."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from pluggent_hookspecs.errors import ConfigError

_NAME = "message.md"
_USUAL = "vi"


def edited(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return *text* as the person left it in ``$VISUAL``, else ``$EDITOR``, without line breaks at its end.

    Blocks until the editor ends; it has the terminal meanwhile. Raises ConfigError if there is no editor, or
    it fails.
    """
    command = _command(environ)
    with TemporaryDirectory(prefix="pluggent-") as folder:  # with mode 0700, and what an editor puts beside the file
        path = Path(folder) / _NAME
        path.touch(mode=0o600)
        path.write_text(text, "utf-8")
        try:
            code = subprocess.run([*command, str(path)], check=False).returncode  # noqa: S603 (the person's own editor)
        except OSError as error:
            raise ConfigError("/edit", [f"{command[0]} cannot be started: {error.strerror}; set VISUAL"]) from error
        if code:
            raise ConfigError("/edit", [f"{command[0]} ended with code {code}; the text is as it was"])
        try:
            return path.read_text("utf-8", "replace").rstrip("\r\n")
        except OSError as error:
            raise ConfigError("/edit", [f"{command[0]} has left no file: {error.strerror}"]) from error


def _command(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the editor's command; on a terminal that only prints, it has to be named. Raises ConfigError.

    >>> _command({"TERM": "xterm", "VISUAL": "code --wait", "EDITOR": "vi"}), _command({"TERM": "dumb", "EDITOR": "ed"})
    (['code', '--wait'], ['ed'])
    """
    dumb = environ.get("TERM", "dumb") in ("dumb", "unknown")
    chosen = ("" if dumb else environ.get("VISUAL", "")) or environ.get("EDITOR", "") or ("" if dumb else _USUAL)
    try:
        command = shlex.split(chosen)
    except ValueError as error:
        raise ConfigError("/edit", [f"VISUAL or EDITOR is no command: {error}"]) from error
    if not command:
        raise ConfigError("/edit", ["this terminal can do little; set EDITOR to an editor for such, as ed"])
    return command
