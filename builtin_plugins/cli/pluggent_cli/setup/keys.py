"""Where a key is kept: in the keyring of the computer, or in a file that only its owner can read.

Settings hold a reference to it (``keyring:…``, ``file:…``), so a provider reads it as any other Secret.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import home_folder, private_folder
from pluggent_hookspecs.secrets import Secret

from pluggent_cli.exits import Interrupted

WHERE = "pluggent setup"
"""How errors name the command."""
SERVICE = "pluggent"
FOLDER = "keys"
"""In the state folder; the host hides it from tools."""
_RECOMMENDED = 1
"""The least priority at which the keyring library itself calls a backend fit for use."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Undo = Callable[[], None]


class Place(NamedTuple):
    """Where a key would be kept: the reference for the settings, words for a person, and how to put it there.

    ``save`` returns what takes it back. It raises ConfigError, and then has changed nothing. It ``may_ask`` the person
    for a password of its own.
    """

    reference: str
    words: str
    save: Callable[[str], Undo]
    may_ask: bool = False


def keyring_place(name: str) -> Place | None:
    """Return the place in the keyring; None without the library, or without a keyring that is fit for use."""
    found = _keyring()
    if found is None or not _PLAIN_NAME.fullmatch(name):
        return None
    keyring, shown = found

    def save(key: str) -> Undo:
        before: str | None = None

        def undo() -> None:
            if before is not None:
                keyring.set_password(SERVICE, name, before)
            elif keyring.get_password(SERVICE, name) is not None:
                keyring.delete_password(SERVICE, name)

        try:
            before = keyring.get_password(SERVICE, name)
            keyring.set_password(SERVICE, name, key)
            kept = keyring.get_password(SERVICE, name)
        except Interrupted:
            undo()
            raise
        except Exception as error:
            raise ConfigError("keyring", [f"the key could not be stored: {type(error).__name__}"]) from error
        if kept != key:
            raise ConfigError("keyring", ["the key was stored and could not be read again"])
        return undo

    words = f"the keyring of this computer ({shown})"
    return Place(f"keyring:{SERVICE}/{name}", words, save, may_ask=True)


def _keyring() -> tuple[Any, str] | None:
    """Return the library and the name of its keyring."""
    try:
        keyring: Any = import_module("keyring")  # optional, and slow to import
        backend = keyring.get_keyring()
        fit = backend.priority >= _RECOMMENDED
    except Interrupted:
        raise
    except Exception:  # noqa: BLE001 (each backend has errors of its own, and none means: a file)
        return None
    return (keyring, str(getattr(backend, "name", "") or type(backend).__name__)) if fit else None


def file_place(name: str, state_dir: Path, project: Path) -> Place:
    """Return the place in the state folder. Raises ConfigError if that lies in *project*, or *name* is not plain."""
    if not _PLAIN_NAME.fullmatch(name):
        raise ConfigError(WHERE, [f"{name!r} cannot name a file; take letters, digits, - and _"])
    file = state_dir / FOLDER / name
    if _is_within(file, project):
        problem = f"{file.parent} lies in the folder that you work in, where a key would be copied and committed"
        raise ConfigError(WHERE, [f"{problem}; go to another folder"])
    words = f"the file {shown_path(file)}, which only you can read"
    return Place(f"file:{shown_path(file)}", words, partial(_save, file))


def _is_within(file: Path, project: Path) -> bool:
    home = Path(home_folder(os.environ)).resolve()
    here = project.resolve()
    return file.resolve().is_relative_to(here) and not home.is_relative_to(here)


def shown_path(file: Path) -> str:
    """Return the path as a person writes it, and as settings read it: with ``~/`` for the home."""
    home = Path(home_folder(os.environ))
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)


def _save(file: Path, key: str) -> Undo:
    """Put *key* in the place of the file, whole or not at all, with mode 0600."""
    try:
        private_folder(file.parent)
        _check_own(file.parent)
        before = file.read_bytes() if file.is_file() else None
        _replace(file, key.encode() + b"\n")
    except OSError as error:
        raise ConfigError(str(file), [f"the key could not be stored: {error.strerror or error}"]) from error

    def undo() -> None:
        if before is None:
            file.unlink(missing_ok=True)
        else:
            _replace(file, before)

    return undo


def _check_own(folder: Path) -> None:
    """Raise ConfigError if others can put a key of theirs in the place of one in *folder*: they would read along."""
    for each in (folder, folder.parent):
        found = each.stat()
        if found.st_uid != os.geteuid():
            raise ConfigError(str(each), [f"belongs to user {found.st_uid}, not to you; nothing was written"])
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            mend = f"see what is in it, then close it: chmod go-w {shlex.quote(str(each))}"
            raise ConfigError(
                str(each), [f"others can put files there (mode {stat.S_IMODE(found.st_mode):04o}); {mend}"]
            )


def _replace(file: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".key.", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def is_readable(reference: object) -> bool:
    """Say whether *reference* is a Secret that can be read now."""
    if not isinstance(reference, Secret):
        return False
    try:
        return bool(reference.reveal().strip())
    except ConfigError:
        return False


def problem_of(key: str) -> str:
    """Return what is wrong with *key* as a text for a header, "" if nothing is. It is not in the answer."""
    if not key:
        return "Nothing was typed."
    if not (key.isascii() and key.isprintable()) or " " in key:
        return "A key has no blanks and only plain characters; copy it again, and nothing around it."
    return ""
