"""What ``.gitignore`` files leave out: patterns of one folder as a few regular expressions, matched in linear time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from pluggent_workspace_files.reach import SEPARATOR, open_below, open_folder, open_named

from pluggent_files.search.expressions import Expression, compiled as compiled_expression

IGNORE_FILE = ".gitignore"
MOST_BYTES = 64 << 10
"""Of a longer ignore file this beginning counts: each pattern costs time for each file."""
MOST_LINES = 2_000
LONGEST_LINE = 500
MOST_STARS = 12
"""In one pattern."""


class Rules(NamedTuple):
    """The patterns of one ignore file. ``groups`` are (ignores, expression), the last one that matches decides."""

    base: bytes
    """The folder of the file, below the folder that is walked, with ``/`` at its end; empty for that one itself."""
    groups: tuple[tuple[bool, Expression], ...]


class Ignored:
    """What is left out below one folder. Immutable: a folder with an ignore file has one of its own."""

    __slots__ = ("_rules",)

    def __init__(self, rules: tuple[Rules, ...] = ()) -> None:
        self._rules = rules

    def added(self, rules: Rules | None) -> Ignored:
        """Return this with the *rules* of a folder further down."""
        return self if rules is None or not rules.groups else Ignored((rules, *self._rules))

    def holds(self, path: bytes) -> bool:
        """Say whether *path*, a folder's with ``/`` at its end, is left out. Its folders are not."""
        for base, groups in self._rules:
            if path.startswith(base):
                below = path[len(base) :]
                for ignores, expression in groups:
                    if expression.search(below) is not None:
                        return ignores
        return False


def compiled(lines: Iterable[bytes], base: bytes = b"") -> Rules | None:
    """Return the rules of an ignore file with *lines* in the folder *base*.

    >>> ignored = Ignored().added(compiled([b"*.pyc", b"build/", b"!keep.pyc"]))
    >>> [ignored.holds(path) for path in (b"a/b.pyc", b"keep.pyc", b"build/", b"build")]
    [True, False, True, False]
    """
    groups: list[tuple[bool, list[bytes]]] = []
    for _, line in zip(range(MOST_LINES), lines, strict=False):
        expression, ignores = _expression(line.rstrip(b"\r\n"))
        if expression is None or ignores is None:
            continue
        if not groups or groups[-1][0] != ignores:
            groups.append((ignores, []))
        groups[-1][1].append(expression)
    made = [(ignores, one) for ignores, expressions in reversed(groups) for one in _joined(expressions)]
    return Rules(base, tuple(made)) if made else None


def _expression(line: bytes) -> tuple[bytes | None, bool | None]:
    if len(line) > LONGEST_LINE or line.count(b"*") > MOST_STARS:
        return None, None
    # Inside: it takes 7 ms, and only a walk through a folder with an ignore file needs it.
    from pathspec.patterns.gitignore.base import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        expression, ignores = GitIgnoreSpecPattern.pattern_to_regex(line)
    except GitIgnorePatternError:
        return None, None
    # The mark of folders, which a folder's path has at its end here.
    return expression and expression.replace(b"(?P<ps_d>/)", b"/"), ignores


def _joined(expressions: list[bytes]) -> list[Expression]:
    """Return *expressions* as one, or one by one where they are too many for that."""
    joined = _regexp(b"|".join(b"(?:%b)" % one for one in expressions))
    if joined is not None:
        return [joined]
    return [one for one in map(_regexp, expressions) if one is not None]


def _regexp(expression: bytes) -> Expression | None:
    try:
        return compiled_expression(expression, is_bytewise=True, dot_nl=True)  # as git: bytes
    except ValueError:
        return None


def read_rules(folder: int, base: bytes, name: str = IGNORE_FILE) -> Rules | None:
    """Return the rules of the ignore file *name* in the open *folder*, None without one."""
    try:
        opened = open_named(folder, name)
    except (OSError, ValueError):  # none; or a link, a pipe: git follows no link here either
        return None
    try:
        data = os.read(opened, MOST_BYTES + 1)
    finally:
        os.close(opened)
    lines = data.split(b"\n")
    return compiled(lines if len(data) <= MOST_BYTES else lines[:-1], base)


def rules_above(root: str, folder: str) -> Ignored:
    """Return what the ignore files from *root* down to above *folder* leave out, for paths below *root*.

    That of *root*'s repository (``.git/info/exclude``) counts first.
    """
    ignored = Ignored()
    parts = os.path.relpath(folder, root).split(SEPARATOR) if folder != root else []
    walked = root
    for number in range(len(parts) + 1):
        try:
            at = open_folder(walked)
        except OSError:
            return ignored
        try:
            base = b"".join(os.fsencode(part) + b"/" for part in parts[:number])
            ignored = ignored.added(_exclude(at, base))
            if number < len(parts):  # the folder's own is read when it is walked
                ignored = ignored.added(read_rules(at, base))
                walked = os.path.join(walked, parts[number])  # noqa: PTH118 (text is what descriptors take)
        finally:
            os.close(at)
    return ignored


def _exclude(folder: int, base: bytes) -> Rules | None:
    """Return the rules that the repository in the open *folder* has besides its ignore files."""
    try:
        git = open_below(folder, ".git")
    except OSError:
        return None
    try:
        info = open_below(git, "info")
    except OSError:
        return None
    finally:
        os.close(git)
    try:
        return read_rules(info, base, "exclude")
    finally:
        os.close(info)
