"""The settings under ``[plugins.pluggent-shell]``, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
from pluggent_hookspecs import Value

SHELLS = frozenset({"sh", "dash", "bash", "ash"})
"""Shells whose lines are split as ``shell_line`` does."""
LEAST_SHOWN = 1_000
MOST_TIMEOUT_S = 86_400.0


class Confine(StrEnum):
    """Whether commands are confined: where possible, always, or never."""

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


def _several(value: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _folders(value: Iterable[Any]) -> tuple[Path, ...]:
    return tuple(Path(each).expanduser() for each in _several(value))


def _absolute(_: object, field: attrs.Attribute[Any], value: tuple[Path, ...]) -> None:
    for path in value:
        if not path.is_absolute():
            raise ValueError(f"{field.name}: {str(path)!r} is not a whole path; begin it with / or ~")


def _shell(_: object, field: attrs.Attribute[Any], value: str) -> None:
    if not value.startswith("/") or value.rpartition("/")[2] not in SHELLS:
        names = ", ".join(sorted(SHELLS))
        raise ValueError(f"{field.name}: {value!r} is not the whole path of one of {names}")


def _names(_: object, field: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    for name in value:
        if type(name) is not str or not name.replace("_", "a").isalnum() or not name.isascii() or name[0].isdigit():
            raise ValueError(f"{field.name}: {name!r} is not the name of an environment variable")


def _variables(_: object, __: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    if value:
        from pluggent_process_engine.program import check_variables  # only where variables are set: it costs 4 ms

        check_variables(value)


def _positive(_: object, field: attrs.Attribute[Any], value: float) -> None:
    if type(value) not in (int, float) or not 0 < value <= MOST_TIMEOUT_S:
        raise ValueError(f"{field.name}: expected a number of seconds from 0 to {MOST_TIMEOUT_S:,.0f}, got {value!r}")


def _size(_: object, field: attrs.Attribute[Any], value: int) -> None:
    if type(value) is not int or value < LEAST_SHOWN:
        raise ValueError(f"{field.name}: expected at least {LEAST_SHOWN:,}, got {value!r}")


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ShellSettings(Value):
    """How commands run; every field has a default.

    >>> ShellSettings(confinement="required").confinement
    <Confine.REQUIRED: 'required'>
    """

    confinement: Confine = attrs.field(default=Confine.AUTO, converter=Confine)
    """``auto``: where possible; elsewhere only a person's approval of that very call runs a command."""
    network: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    """Whether confined commands may use the network without asking for it."""
    writable: tuple[Path, ...] = attrs.field(default=(), converter=_folders, validator=_absolute)
    """Folders that confined commands may write, besides the workspace."""
    hidden: tuple[Path, ...] = attrs.field(default=(), converter=_folders, validator=_absolute)
    """Files and folders that confined commands cannot read, besides the usual places of keys and passwords."""
    shell: str = attrs.field(default="/bin/sh", validator=_shell)
    """What reads shell lines."""
    inherit: tuple[str, ...] = attrs.field(default=(), converter=_several, validator=_names)
    """Environment variables that commands get, besides the usual few."""
    env: Mapping[str, str] = attrs.field(factory=dict, validator=_variables)
    """Environment variables that are set for commands."""
    timeout_s: float = attrs.field(default=120.0, validator=_positive)
    """The time limit of a command that names none."""
    max_timeout_s: float = attrs.field(default=3_600.0, validator=_positive)
    """The longest time limit that a command can name."""
    shown_bytes: int = attrs.field(default=24_000, validator=_size)
    """How much of an output the model reads: its beginning and, twice as long, its end."""
    kept_bytes: int = attrs.field(default=16 << 20, validator=_size)
    """How much of an output is kept for ``read_output``."""
    output_bytes: int = attrs.field(default=256 << 20, validator=_size)
    """A command that writes more is ended."""
    processes: int = attrs.field(default=1_000, validator=[attrs.validators.instance_of(int), attrs.validators.ge(8)])
    """A command with more processes at a time is ended."""
