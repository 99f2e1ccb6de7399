"""The settings under ``[plugins.pluggent-files]``, checked when they are read."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs
from pluggent_hookspecs import Value
from pluggent_workspace_files.folders import Folders

Trash: TypeAlias = Literal["auto", "always", "never"]
Ripgrep: TypeAlias = Literal["auto", "never"]


def _folders(value: Iterable[str | Path]) -> tuple[Path, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list of folders, got the text {value!r}; write [{value!r}]")
    return tuple(Path(each).expanduser() for each in value)


def _absolute(_: object, field: attrs.Attribute[Any], value: tuple[Path, ...]) -> None:
    if relative := [str(each) for each in value if not each.is_absolute()]:
        raise ValueError(f"{field.name}: {', '.join(relative)}: write the whole path, from / or ~/")


def _between(least: int, most: int) -> Any:
    def check(_: object, field: attrs.Attribute[Any], value: int) -> None:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{field.name}: expected a whole number from {least:,} to {most:,}, got {value!r}")

    return check


def _encoding(_: object, field: attrs.Attribute[Any], value: str) -> None:
    try:
        decoded = bytes(range(256)).decode(codecs.lookup(value).name)
    except (LookupError, UnicodeError) as error:
        raise ValueError(
            f"{field.name}: {value!r} is not an encoding in which every byte is a character; use latin-1"
        ) from error
    if decoded.encode(value) != bytes(range(256)):
        raise ValueError(f"{field.name}: {value!r} does not give back the bytes that it reads; use latin-1")


@attrs.frozen(kw_only=True, repr=False, eq=False)
class FilesSettings(Value):
    """Which files are reached, and how much of them; every field has a default.

    >>> FilesSettings().read_lines
    2000
    """

    read_folders: tuple[Path, ...] = attrs.field(default=(), converter=_folders, validator=_absolute)
    """Folders outside the workspace that may be read without a person's approval."""
    write_folders: tuple[Path, ...] = attrs.field(default=(), converter=_folders, validator=_absolute)
    """Folders outside the workspace in which an allowed call may also write; they may be read too."""
    read_lines: int = attrs.field(default=2_000, validator=_between(1, 100_000))
    """Lines of a file that one call returns."""
    read_characters: int = attrs.field(default=60_000, validator=_between(1_000, 10_000_000))
    """Characters that one call of any reading tool returns."""
    line_characters: int = attrs.field(default=2_000, validator=_between(80, 1_000_000))
    """Characters of a line that read_file shows."""
    image_bytes: int = attrs.field(default=5 << 20, validator=_between(0, 50 << 20))
    """The largest image that is shown to the model."""
    edit_bytes: int = attrs.field(default=16 << 20, validator=_between(1 << 10, 1 << 30))
    """The largest file that is read whole and edited; of a larger one read_file shows ranges."""
    undo_bytes: int = attrs.field(default=1 << 20, validator=_between(0, 64 << 20))
    """The largest content that is kept with the session, so that a change can be undone."""
    listed: int = attrs.field(default=500, validator=_between(1, 100_000))
    """Entries that list_files and find_files return."""
    matches: int = attrs.field(default=100, validator=_between(1, 10_000))
    """Matching lines that search_files returns."""
    search_s: float = attrs.field(default=30.0, validator=[attrs.validators.ge(0.1), attrs.validators.le(3_600)])
    """Seconds after which a search ends with what it has found."""
    fallback_encoding: str = attrs.field(default="latin-1", validator=_encoding)
    """How text is read that is not UTF-8 and has no byte order mark."""
    ripgrep: Ripgrep = attrs.field(default="auto", validator=attrs.validators.in_(("auto", "never")))
    """Whether search_files uses the program rg where it is installed."""
    trash: Trash = attrs.field(default="auto", validator=attrs.validators.in_(("auto", "always", "never")))
    """Whether delete_file moves to the system's trash; auto: where there is one already, or a desktop."""

    @property
    def folders(self) -> Folders:
        """The folders outside the workspace, for Reach."""
        return Folders(self.read_folders, self.write_folders, "plugins.pluggent-files")
