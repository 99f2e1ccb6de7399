"""The user's file of settings: values are set, every other byte stays. The result is parsed and compared before use.

tomlkit is not used: it puts a new key between a comment and what that is about, and a new table between others.
"""

from __future__ import annotations

import difflib
import os
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import private_folder

from pluggent_cli.config.origins import lines_of
from pluggent_cli.config.sources import load_bytes
from pluggent_cli.config.toml import toml_key, toml_value

HEAD = "# Your settings of pluggent. All that there are: pluggent config example\n"


class Change(NamedTuple):
    """A value to set, at a path of keys, with a comment for where it is new."""

    path: tuple[str, ...]
    value: Any
    comment: str = ""

    @property
    def line(self) -> str:
        """The statement in TOML."""
        return f"{toml_key(self.path[-1:])} = {toml_value(self.value)}"


def read(path: Path) -> str:
    """Return the text of the file, "" where there is none. Raises ConfigError."""
    try:
        text = load_bytes(path).decode("utf-8-sig")
        tomllib.loads(text)
    except ConfigError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        raise
    except ValueError as error:
        raise ConfigError(str(path), [f"is not TOML: {error}; correct it first"]) from error
    return text


def with_changes(path: Path, text: str, changes: Sequence[Change]) -> str:
    r"""Return *text*, that of the file *path*, with the *changes*.

    Raises ConfigError, saying what to set by hand, for a notation to which nothing can be added.

    >>> print(with_changes(Path("x"), "# mine\n\n[limits]\nasks = 1\n", [Change(("model",), "a/b")]))
    # mine
    <BLANKLINE>
    model = "a/b"
    <BLANKLINE>
    [limits]
    asks = 1
    <BLANKLINE>
    """
    end = "\r\n" if "\r\n" in text else "\n"
    made = (text or HEAD).replace("\r\n", "\n")
    if not made.endswith("\n"):
        made += "\n"
    wanted: dict[str, Any] = tomllib.loads(text)
    try:
        for change in changes:
            _add_to(wanted, change)
            made = _with(made, change)
        if tomllib.loads(made) == wanted:
            return made.replace("\n", end)
    except (ValueError, TypeError):
        pass
    by_hand = "; ".join(f"{toml_key(change.path)} = {toml_value(change.value)}" for change in changes)
    raise ConfigError(str(path), [f"is written in a form to which setup can add nothing; set by hand: {by_hand}"])


def _add_to(document: dict[str, Any], change: Change) -> None:
    *tables, name = change.path
    for each in tables:
        document = document.setdefault(each, {})
    document[name] = change.value


def _with(text: str, change: Change) -> str:
    lines = text.split("\n")
    known = lines_of(text)
    if (at := known.get(".".join(change.path))) is not None:
        _replace(lines, at - 1, change)
        return "\n".join(lines)
    new = [f"# {change.comment}", change.line] if change.comment else [change.line]
    *tables, _ = change.path
    if not tables:
        return "\n".join(_at_the_top(lines, new, known))
    header = f"[{toml_key(tables)}]"
    for at, line in enumerate(lines):
        if _header(line) == tuple(tables):
            return "\n".join([*lines[: at + 1], *new, *lines[at + 1 :]])
    return "\n".join([text.rstrip("\n"), "", header, *new, ""])


def _replace(lines: list[str], at: int, change: Change) -> None:
    """Replace the statement at line *at*, up to its end; a comment behind it stays."""
    for last in range(at, len(lines)):
        if not _parses("\n".join(lines[at : last + 1])):
            continue
        line = lines[last]
        marks = [place for place, letter in enumerate(line) if letter == "#"]
        start = "\n".join([*lines[at:last], ""])
        comment = next((line[place:] for place in marks if _parses(start + line[:place])), "")
        key = lines[at].partition("=")[0].strip()
        lines[at : last + 1] = [f"{key} = {toml_value(change.value)}{f'  {comment}' if comment else ''}"]
        return


def _at_the_top(lines: list[str], new: list[str], known: Mapping[str, int]) -> list[str]:
    """Put *new* behind the last key outside of tables, or else before the first table and its comment."""
    first = next((at for at, line in enumerate(lines) if _header(line)), len(lines))
    keys = [line - 1 for line in known.values() if line - 1 < first]
    if keys:
        at = max(keys)
        while not _parses("\n".join(lines[max(keys) : at + 1])):
            at += 1
        return [*lines[: at + 1], "", *new, *lines[at + 1 :]]
    at = first
    while at and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    if first == len(lines) or at == 0:  # no table at all, or the comment before it may be about the file
        at = first if first < len(lines) else len(lines) - 1
    before = [*lines[:at], *([] if not at or not lines[at - 1].strip() else [""])]
    after = lines[at:]
    return [*before, *new, *([""] if after and after[0].strip() else []), *after]


def _parses(text: str) -> bool:
    try:
        return bool(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return False


def _header(line: str) -> tuple[str, ...]:
    """Return the path of the table that *line* begins, or nothing; arrays of tables are ("[]",)."""
    if not line.lstrip().startswith("["):
        return ()
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(found, dict) and found:
        ((name, found),) = cast("dict[str, Any]", found).items()
        path.append(name)
    return ("[]", *path) if isinstance(found, list) else tuple(path)


def difference(old: str, new: str) -> Sequence[str]:
    r"""Return the lines that are added and taken away.

    >>> difference("a = 1\n", "a = 2\n")
    ['- a = 1', '+ a = 2']
    """
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [line.rstrip() for line in lines if line[0] in "+-"]


def write(path: Path, text: str, before: str) -> None:
    """Put *text* in the place of the file, whole or not at all; its mode stays. Raises ConfigError.

    What stands there still has to be *before*.
    """
    if read(path) != before:
        raise ConfigError(str(path), ["was changed meanwhile, so nothing was written; run setup again"])
    real = Path(os.path.realpath(path))
    try:
        private_folder(real.parent)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        descriptor, temporary = tempfile.mkstemp(prefix=".pluggent.", dir=real.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(real)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be written: {error.strerror or error}"]) from error
