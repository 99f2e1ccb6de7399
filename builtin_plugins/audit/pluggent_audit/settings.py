"""The settings under ``[plugins.pluggent-audit]``, checked when they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
from pluggent_hookspecs.secrets import Secret

LEAST_BYTES = 4_096
MOST_BYTES = 1 << 40
LONGEST_GLOB = 200
MOST_STARS = 4


class Fsync(StrEnum):
    """After which records the file is forced to the disk; any record survives a killed process."""

    OFF = "off"
    DECISIONS = "decisions"
    ALL = "all"


class Fields(StrEnum):
    """Whether texts and arguments are kept, or their sizes and SHA-256 only."""

    ALL = "all"
    DIGESTS = "digests"


def _several(value: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _bytes(_: object, field: attrs.Attribute[Any], value: int) -> None:
    if type(value) is not int or not LEAST_BYTES <= value <= MOST_BYTES:
        raise ValueError(f"{field.name}: expected a number of bytes from {LEAST_BYTES:,} to {MOST_BYTES:,}")


def _name(_: object, field: attrs.Attribute[Any], value: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,31}", value):
        raise ValueError(f"{field.name}: {value!r} is not a name of a log: up to 32 of a-z, 0-9 and _, a letter first")


def _globs(_: object, field: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    for glob in value:
        if type(glob) is not str or not 0 < len(glob) <= LONGEST_GLOB or glob.count("*") > MOST_STARS:
            raise ValueError(
                f"{field.name}: {glob!r} is not a path: up to {LONGEST_GLOB} characters, up to {MOST_STARS} *"
            )


@attrs.frozen(kw_only=True)
class AuditSettings:
    """Where the record is kept, and what of it; every field has a default.

    >>> AuditSettings(fsync="all").fsync
    <Fsync.ALL: 'all'>
    """

    folder: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    """A folder of its own, mode 0700, made if it is not there; None: ``pluggent/audit`` below XDG_STATE_HOME."""
    name: str = attrs.field(default="audit", validator=_name)
    """How the files begin."""
    shared: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))
    """Whether a second process gets a log of its own (``audit-2``); otherwise it does not start."""
    fsync: Fsync = attrs.field(default=Fsync.OFF, converter=Fsync)
    """After which records the file is forced to the disk: off, decisions or all."""
    fields: Fields = attrs.field(default=Fields.DIGESTS, converter=Fields)
    """Whether texts and arguments are kept (all), or their sizes and SHA-256 only (digests)."""
    rotate_bytes: int = attrs.field(default=64 << 20, validator=_bytes)
    """A file that would grow beyond this is closed and the next one begun."""
    rotate_daily: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))
    """Whether each day (UTC) begins a file."""
    max_line_bytes: int = attrs.field(default=64 << 10, validator=_bytes)
    """A record that is longer is kept as who, when and what, with its size and SHA-256."""
    max_text: int = attrs.field(default=4_096, validator=[attrs.validators.instance_of(int), attrs.validators.ge(64)])
    """Characters of one text; of a longer one the beginning, its length and its SHA-256 are kept."""
    redact_arguments: tuple[str, ...] = attrs.field(
        default=("*password*", "*secret*", "*token*", "*api_key*", "*authorization*"),
        converter=_several, validator=_globs,
    )  # fmt: skip
    """Arguments of tools that are not kept: dotted paths, ``headers.cookie``, with ``*`` for anything."""
    secrets: tuple[Secret, ...] = attrs.field(default=(), converter=_several)
    """Their values are not kept anywhere; they are read when the log opens."""
    key: Secret | None = None
    """With it the chain is HMAC-SHA256: without the key no valid chain can be made."""
