"""Remembers which files of working directories, and which packages with hooks, a person accepted.

A record holds only while what it is about is unchanged, and only with its seal (an HMAC under a
key next to the store): a damaged or forged record is not trusted, and is named. POSIX only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from pluggent_hookspecs.errors import ConfigError
from pluggent_state_files.seals import Record, SealedRecords

from pluggent_cli.trust.coverage import content_of, covered

FILE, PLUGIN, SOURCE, LEFT_OUT = "file", "plugin", "source", "left out"
State = Literal["accepted", "changed", "damaged"]


class Accepted(NamedTuple):
    """One record. ``about`` are the covered files of a file, or the accepted versions of a plugin.

    Of a folder in a project they are the plugins, with their versions, that run from there
    (kind "source") or do not although they have hooks (kind "left out").
    """

    kind: str
    name: str
    about: tuple[str, ...]
    state: State


class TrustStore:
    """The store at *path*, read afresh by every call; nothing is made before the first acceptance.

    Every call raises ConfigError if the store, its key or its folder belongs to another user, can
    be written by others, or cannot be read. Two processes may write at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records = SealedRecords(path)

    def trust_file(self, path: Path) -> tuple[str, ...]:
        """Accept *path* as it is now, with every file that it refers to; return all of them.

        See ``coverage``: of a folder among them, which ends in "/", only the top is covered. Raises
        ConfigError if *path* cannot be read or refers to more than 100 files and folders.
        """
        place = Path(os.path.realpath(path))
        try:
            found = covered(place, content_of(place), os.environ)
        except OSError as error:
            raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
        self._records.put(FILE, str(place), lambda _: dict(found))
        return tuple(found)

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        """Return whether *path* and all it refers to are as they were accepted.

        *content* are the bytes that will be used, for a caller that has read them already.
        """
        place = Path(os.path.realpath(path))
        about = self._records.find(FILE, str(place))
        return about is not None and _is_unchanged(place, content, about)

    def revoke(self, path: Path) -> bool:
        """Accept *path* no longer; return whether there was a record of it."""
        return self._records.drop(FILE, os.path.realpath(path))

    def acknowledge(self, plugin_id: str, version: str) -> None:
        """Accept that this version of a package has hooks that see everything."""
        self._records.put(PLUGIN, plugin_id, lambda versions: {**versions, version: ""})

    def acknowledged(self, plugin_id: str, version: str) -> bool:
        """Return whether exactly this version was accepted."""
        about = self._records.find(PLUGIN, plugin_id)
        return about is not None and version in about

    def accept_source(self, folder: str, plugin_id: str, version: str) -> None:
        """Accept that this version of a package runs from *folder*, which lies in a project."""
        self._without(LEFT_OUT, plugin_id, folder)
        self._records.put(SOURCE, folder, lambda plugins: {**plugins, f"{plugin_id} {version}": ""})

    def leave_out_source(self, folder: str, plugin_id: str, version: str) -> None:
        """Agree that this version of a package, in *folder* of a project, does not run."""
        self._records.put(LEFT_OUT, folder, lambda plugins: {**plugins, f"{plugin_id} {version}": ""})

    def covers_source(self, folder: str, plugin_id: str, version: str, *, left_out: bool) -> bool:
        """Return whether exactly this was accepted, or with *left_out*, whether it was agreed to be left out."""
        about = self._records.find(LEFT_OUT if left_out else SOURCE, folder)
        return about is not None and f"{plugin_id} {version}" in about

    def forget(self, plugin_id: str) -> bool:
        """Accept no version of the package any longer, wherever it lies; return whether there was a record of it."""
        sources = [self._without(SOURCE, plugin_id, each.name) for each in self._records.all() if each.kind == SOURCE]
        return self._records.drop(PLUGIN, plugin_id) or any(sources)

    def _without(self, kind: str, plugin_id: str, folder: str) -> bool:
        about = self._records.find(kind, folder) or {}
        left = {each: value for each, value in about.items() if each.partition(" ")[0] != plugin_id}
        if left == about:
            return False
        if left:
            self._records.put(kind, folder, lambda _: left)
        else:
            self._records.drop(kind, folder)
        return True

    def entries(self) -> tuple[Accepted, ...]:
        """Return every record with its state; damaged ones are among them."""
        return tuple(map(self._entry, self._records.all()))

    def problems(self) -> tuple[str, ...]:
        """Return a sentence for each record, or the whole store, that is damaged and so counts as no trust."""
        if self._records.is_damaged():
            return (f"{self.path} is damaged: nothing in it is trusted; accept again what you still trust",)
        bad = [entry for entry in self.entries() if entry.state == "damaged"]
        return tuple(
            f"{self.path}: the record of {entry.kind} '{entry.name}' is damaged or was not written by pluggent;"
            " it is not trusted; look at it, then accept it again or remove it"
            for entry in bad
        )

    def _entry(self, record: Record) -> Accepted:
        if not record.sealed:
            return Accepted(record.kind, record.name, (), "damaged")
        unchanged = record.kind != FILE or _is_unchanged(Path(record.name), None, record.about)
        return Accepted(record.kind, record.name, tuple(record.about), "accepted" if unchanged else "changed")


def _is_unchanged(place: Path, content: bytes | None, about: Mapping[str, str]) -> bool:
    """Compare now with then; a file that has been added to what is referred to is a change too."""
    try:
        return covered(place, content_of(place) if content is None else content, os.environ) == about
    except (OSError, ConfigError):
        return False
