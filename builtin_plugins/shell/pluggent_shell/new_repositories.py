"""Puts aside what git would run of repositories that a confined command has made. Not for those that were there."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count, islice
from pathlib import Path

from pluggent_shell.repositories import SETTINGS

_LONGEST = 1_000_000
_MOST_NESTED = 3_000
_ASIDE = "put-aside"
_SUBSECTIONED = re.compile(r'\[(remote|branch|submodule)(?: "[^"\\]*")?\]')
_PLAIN = re.compile(r"\[(core|user|extensions)\]")
_KEY = re.compile(r"([a-z]+)[ \t]*=[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)", re.IGNORECASE)
_HARMLESS = {
    "core": {"autocrlf", "bare", "eol", "filemode", "ignorecase", "logallrefupdates", "precomposeunicode",
             "repositoryformatversion", "symlinks", "worktree"},
    "user": {"email", "name"},
    "extensions": {"objectformat", "partialclone", "refstorage"},
    "remote": {"fetch", "partialclonefilter", "promisor", "pushurl", "tagopt", "url"},
    "branch": {"merge", "rebase", "remote"},
    "submodule": {"active", "url"},
}  # fmt: skip
"""Settings by which git runs nothing and reads no other settings; of all others that is not known here."""


def put_aside(made: Collection[Path], known: Collection[Path], workspace: Path) -> tuple[Path, ...]:
    """Rename settings, hooks and links of *made* by which git would run something; return what had which name.

    *known* are repositories that were there before. What is renamed can be looked at, and named back.
    """
    common = {os.path.realpath(path) for path in (*made, *known)}
    return tuple(path for git in made for path in _aside(git, common, workspace))


def _aside(git: Path, common: Collection[str], workspace: Path) -> Iterator[Path]:
    if git.is_symlink() or (git.is_file() and not _leads_to(common, git)):
        yield from _renamed(git)
    elif git.is_dir():
        for path in (git, *_nested(git)):
            yield from _aside_in(path, common, workspace)


def _leads_to(common: Collection[str], git: Path) -> bool:
    """Return whether the file *git* of a submodule or worktree leads to what later commands cannot write."""
    target = Path(os.path.realpath(git.parent / _first_line(git).removeprefix("gitdir:").strip()))
    protected = (above.parent for above in target.parents if above.name in {"modules", "worktrees"})
    return any(str(path) in common for path in (target, *protected))


def _nested(git: Path) -> Iterator[Path]:
    """Yield the repositories of submodules, whose names may have slashes, and of worktrees."""
    walked = (found for name in ("modules", "worktrees") for found in os.walk(git / name))
    for folder, folders, files in islice(walked, _MOST_NESTED):
        if "HEAD" in files:
            folders[:] = [name for name in folders if name == "modules"]
            yield Path(folder)


def _aside_in(git: Path, common: Collection[str], workspace: Path) -> Iterator[Path]:
    config, hooks, commondir = git / "config", git / "hooks", git / "commondir"
    for link in (path for name in SETTINGS if (path := git / name).is_symlink()):
        yield from _renamed(link)
    if os.path.lexists(config) and not (config.is_file() and _runs_nothing(config, workspace)):
        for path in _renamed(config):
            yield path
            with suppress(OSError):
                config.touch(exist_ok=False)  # what is there can be protected from the next command
    if _holds_hooks(hooks):
        yield from _renamed(hooks)
    if os.path.realpath(git / _first_line(commondir)) not in common:
        yield from _renamed(commondir)


def _runs_nothing(config: Path, workspace: Path) -> bool:
    keys: set[str] = set()
    whole = _read(config)
    if len(whole) == _LONGEST:
        return False
    for line in whole.replace("\r\n", "\n").split("\n"):
        text = line.strip(" \t")
        if not text or text[0] in "#;":
            continue
        if section := _SUBSECTIONED.fullmatch(text) or _PLAIN.fullmatch(text):
            keys = _HARMLESS[section[1]]
            continue
        key = _KEY.fullmatch(text)
        if key is None or key[1].lower() not in keys or text.endswith("\\"):
            return False
        if key[1].lower() == "worktree" and not _is_inside(config.parent / key[2], workspace):
            return False
    return True


def _is_inside(path: Path, workspace: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(workspace)


def _holds_hooks(folder: Path) -> bool:
    with suppress(OSError):
        return any(path.suffix != ".sample" for path in folder.iterdir())
    return False


def _first_line(path: Path) -> str:
    return _read(path).partition("\n")[0].strip()


def _read(path: Path) -> str:
    with suppress(OSError), path.open(encoding="latin-1", newline="") as file:
        return file.read(_LONGEST)
    return ""


def _renamed(path: Path) -> Iterator[Path]:
    if os.path.lexists(path):
        names = (path.with_name(f"{path.name}.{_ASIDE}" + (f"-{n}" if n else "")) for n in count())
        with suppress(OSError):
            path.rename(next(name for name in names if not os.path.lexists(name)))
            yield path
