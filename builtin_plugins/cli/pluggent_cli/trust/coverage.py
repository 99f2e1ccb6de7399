"""Finds the files that a settings file refers to: trust in it covers them all, with their digests.

A TOML or JSON file refers to each file that one of its texts names, also after ``=``. In the table of a
program (one with ``command``, or ``scripts``) each word counts, as a path or as a module, and a folder stands
for the programs in it. Names are relative to the file, to the accepted file, and to folders that are named
there (``cwd``); ``${NAME}`` is replaced. What such a program reads or imports beside is not covered.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError

_HASHED_BYTES = 16_777_216
_MOST_FILES = 100
MOST_IN_FOLDERS = 2_000
"""Programs in one folder; of one with more, and of one with as many entries times ten, only the top is covered."""
_MOST_BASES = 20
_MOST_WORDS = 200
_LONGEST_PATH = 4_096
_READERS: Mapping[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads}

TOP = "top"
"""What stands for the digest of a folder of which only the programs at its top are covered."""

_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}|\$(?P<plain>[A-Za-z_]\w*)")
_BETWEEN_WORDS = re.compile(r"[\s\"'`;|&=,:@()<>]+")
_OPTION = re.compile(r"-{1,2}[A-Za-z]")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_PROGRAM, _SCRIPTS = "command", "scripts"
_PROGRAMS = frozenset((
    ".bash", ".bat", ".cjs", ".cmd", ".cts", ".dll", ".dylib", ".exe", ".go", ".jar", ".js", ".jsx", ".lua", ".mjs",
    ".mts", ".node", ".php", ".pl", ".ps1", ".py", ".pyc", ".pyd", ".pyw", ".rb", ".rs", ".sh", ".so", ".toml",
    ".ts", ".tsx", ".wasm", ".zsh",
))  # fmt: skip
_ENTRIES = frozenset((
    "__init__.py", "__main__.py", "main.py", "server.py", "setup.py", "pyproject.toml", "uv.toml", "index.js",
    "index.cjs", "index.mjs", "index.ts", "main.js", "main.ts", "mod.ts", "server.js", "server.ts", "package.json",
    "deno.json", "deno.jsonc", "bunfig.toml", ".npmrc", "main.go", "go.mod", "Cargo.toml", "Gemfile", "Rakefile",
    "Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "Taskfile.yml", "composer.json",
))  # fmt: skip
"""What programs look for in the folder in which they run."""
_PASSED_OVER = frozenset({".git", "__pycache__", "node_modules", ".venv", "venv"})
"""Folders of other tools, and what package managers have installed: as that what a program imports."""


class _Named(NamedTuple):
    """A text in a file, and whether it belongs to a program."""

    text: str
    program: bool


def covered(place: Path, content: bytes, environ: Mapping[str, str]) -> dict[str, str]:
    """Return *place* and every file that it refers to, directly or through others, with their digests.

    A folder of which only the top is covered is there too, with ``TOP``. Raises ConfigError for too many files,
    OSError for a file that cannot be read.
    """
    root = place.parent
    found = {str(place): hashlib.sha256(content).hexdigest()}
    named = {place}
    waiting = _referred(place, content, root, environ)
    while waiting:
        other = waiting.pop()
        if other in named:
            continue
        named.add(other)
        if other.is_dir():
            inside = _of_folder(other, root)
            found |= inside
            entries = [path for path in map(Path, inside) if path.parent == other and path.name in _ENTRIES]
            waiting += [each for path in entries for each in _referred(path, _hashable(path) or b"", root, environ)]
        elif str(other) not in found:
            found[str(other)] = _digest(other)
            waiting += _referred(other, _hashable(other) or b"", root, environ)
        if len(named) > _MOST_FILES:
            raise ConfigError(str(place), [f"refers to more than {_MOST_FILES} files; accept fewer at a time"])
    return found


def content_of(path: Path) -> bytes:
    """Return what the regular file *path* holds. Raises OSError."""
    if not path.is_file() and path.exists():  # a pipe would be waited for
        raise OSError(errno.EINVAL, "it is not a regular file")
    return path.read_bytes()


def _digest(path: Path) -> str:
    data = _hashable(path)
    # A file too big to be read at every start is identified by what a user cannot set back.
    return _fingerprint(path.stat()) if data is None else hashlib.sha256(data).hexdigest()


def _hashable(path: Path) -> bytes | None:
    return path.read_bytes() if path.stat().st_size <= _HASHED_BYTES else None


def _fingerprint(status: os.stat_result) -> str:
    return f"stat:{status.st_size}:{status.st_ctime_ns}:{status.st_ino}"


# ---- names in a file -------------------------------------------------------------------


def _referred(place: Path, content: bytes, root: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the files, and the folders of programs, that the file *place* refers to."""
    read = _READERS.get(place.suffix)
    if read is None:
        return []
    try:
        texts = {_Named(_replaced(each.text, environ), each.program) for each in _texts(read(content.decode()))}
    except (ValueError, RecursionError):
        return []  # such a file cannot be used, so it refers to nothing
    names = {(name, each.program) for each in texts for name in _names(each)}
    bases = list(dict.fromkeys((place.parent, root)))
    folders = {folder: None for name, program in sorted(names) if program for folder in _folders(name, bases)}
    bases += [folder for folder in folders if folder not in bases][:_MOST_BASES]
    files = {file: None for name, _ in sorted(names) for base in bases if (file := _regular(base, name))}
    packages = {
        path: None
        for name, program in sorted(names)
        if program and _MODULE.fullmatch(name)
        for base in bases
        for path in _module(base, name)
    }
    every = [*files, *(folder for folder in folders if _is_within(folder, root) or _is_within(root, folder)), *packages]
    return list(dict.fromkeys(every))


def _texts(value: object, *, program: bool = False) -> Iterator[_Named]:
    if isinstance(value, str):
        yield _Named(value, program)
    elif isinstance(value, dict):
        table = cast("dict[str, object]", value)
        program = program or _PROGRAM in table
        for key, item in table.items():
            yield _Named(key, program=False)
            yield from _texts(item, program=program or key == _SCRIPTS)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _texts(item, program=program)


def _replaced(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return environ.get(match["name"] or match["plain"]) or match["default"] or match[0]

    return _REFERENCE.sub(value, text) if "$" in text else text


def _names(named: _Named) -> Iterator[str]:
    """Yield what in a text may be the name of a file, a folder or a module."""
    text = named.text
    yield text
    if "=" in text:
        yield text.partition("=")[2]
    if not named.program or len(text) > _LONGEST_PATH:
        return
    for word in _BETWEEN_WORDS.split(text)[:_MOST_WORDS]:
        yield word
        if option := _OPTION.match(word):
            yield word[option.end() :]


def _regular(folder: Path, text: str) -> Path | None:
    path = _path(folder, text)
    try:
        return path if path is not None and path.is_file() else None
    except (OSError, ValueError):
        return None


def _folders(text: str, bases: list[Path]) -> Iterator[Path]:
    for base in bases:
        path = _path(base, text)
        try:
            if path is not None and path.is_dir():
                yield path
        except (OSError, ValueError):
            continue


def _path(folder: Path, text: str) -> Path | None:
    if not text or len(text) > _LONGEST_PATH or "\n" in text:
        return None
    try:
        return Path(os.path.realpath(folder / Path(text).expanduser()))
    except (OSError, ValueError, RuntimeError):
        return None  # not the name of a file: too long, a null character, an unknown home


def _module(base: Path, name: str) -> Iterator[Path]:
    """Yield what Python may run as the module *name* in *base*: a file, or the folder of the whole package."""
    first = name.partition(".")[0]
    if "." in name and (folder := next(_folders(first, [base]), None)):
        yield folder
    if file := _regular(base, f"{first}.py"):
        yield file


def _is_within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


# ---- folders ---------------------------------------------------------------------------


def _of_folder(folder: Path, root: Path) -> dict[str, str]:
    """Return the programs in *folder*, with their digests; those at its top if it holds *root*, or too many."""
    programs = None if _is_within(root, folder) else _programs_below(folder)
    if programs is not None:
        return {str(path): _digest(path) for path in programs}
    top = [path for name in _ENTRIES if (path := _regular(folder, name))]
    return {f"{folder}{os.sep}": TOP, **{str(path): _digest(path) for path in top}}


def _programs_below(folder: Path) -> list[Path] | None:
    """Return all programs in *folder* and below; None if that is too much to look at."""
    found: list[Path] = []
    seen = {folder}
    waiting = [folder]
    looked_at = 0
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                looked_at += 1
                path = Path(os.path.realpath(entry.path))
                if entry.is_dir():
                    if entry.name not in _PASSED_OVER and path not in seen:
                        seen.add(path)
                        waiting.append(path)
                elif entry.is_file() and _is_program(entry):
                    found.append(path)
                if looked_at > 10 * MOST_IN_FOLDERS or len(found) > MOST_IN_FOLDERS:
                    return None
    return found


def _is_program(entry: os.DirEntry[str]) -> bool:
    suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122 (for each of thousands)
    return suffix in _PROGRAMS or entry.name in _ENTRIES or bool(entry.stat().st_mode & 0o111)
