"""What is to be run, and what came of it: values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from signal import Signals
from typing import Any, Literal, TypeAlias

import attrs

How: TypeAlias = Literal["bubblewrap", "landlock", "none"]
Network: TypeAlias = Literal["host", "none", "no tcp"]
Why: TypeAlias = Literal["exited", "time limit", "output limit", "process limit", "ended"]


class Open(Enum):
    """The stdin of a program that is written while it runs."""

    OPEN = "open"


OPEN = Open.OPEN
LOADER_VARIABLES = re.compile(
    r"LD_.*|DYLD_.*|_RLD.*|LIBPATH|SHLIB_PATH|GCONV_PATH|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|IFS|PS4"
)
"""Environment variables that load code into a program or change how a shell reads its commands."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ProcessError(Exception):
    """A program was not run.

    - StartError            it could not be started
    - ConfinementError      it cannot be confined as required
    """


class StartError(ProcessError):
    """The program could not be started."""


class ConfinementError(ProcessError):
    """No mechanism of this machine confines the program as required."""


def check_variables(env: Mapping[str, str]) -> None:
    """Raise ValueError for names that are no variables, for loader variables, and for NUL in a value.

    >>> check_variables({"LD_PRELOAD": "evil.so"})
    Traceback (most recent call last):
    ValueError: LD_PRELOAD loads code into programs or changes how a shell reads; leave it out
    """
    for name, value in env.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of an environment variable")
        if LOADER_VARIABLES.fullmatch(name):
            raise ValueError(f"{name} loads code into programs or changes how a shell reads; leave it out")
        if "\0" in value:
            raise ValueError(f"the value of {name} has a NUL character")


def _variables(_: object, __: attrs.Attribute[Any], value: Mapping[str, str]) -> None:
    check_variables(value)


def _words(value: Sequence[str]) -> tuple[str, ...]:
    return tuple(value)


def _paths(value: Sequence[Path | str]) -> tuple[Path, ...]:
    return tuple(map(Path, value))


@attrs.frozen(kw_only=True)
class Limits:
    """The limits of a program; None is no limit.

    ``wall_s`` counts from the start; afterwards all processes are ended. ``output_bytes``, of stdout and stderr
    together, and ``processes``, at a time, end it too; the latter is looked at ten times a second. ``cpu_s``,
    ``file_bytes`` (the size of one file) and ``open_files`` hold for each process, by rlimits.
    """

    wall_s: float | None = None
    output_bytes: int = 256 << 20
    processes: int | None = 1_000
    cpu_s: int | None = None
    file_bytes: int | None = None
    open_files: int | None = None


@attrs.frozen(kw_only=True)
class Confinement:
    """What a program may reach: it reads what its user may, and writes below ``writable`` and to a private /tmp.

    ``hidden`` files and folders cannot be read; ``read_only`` ones are not written although they are below a
    writable folder. The deepest of these wins; of two for the same path, hidden wins, then read_only.
    ``private_tmp`` is the folder that the program sees as /tmp. ``network``: whether it may use the network.
    ``required``: it is not run where this cannot be had. What each mechanism cannot do is in the README.
    """

    writable: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    read_only: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    hidden: tuple[Path, ...] = attrs.field(default=(), converter=_paths)
    private_tmp: Path | None = None
    network: bool = False
    required: bool = False


@attrs.frozen
class Confined:
    """How a program is confined, and ``why`` not better: in words, "" if nothing is missing."""

    how: How = "none"
    network: Network = "host"
    why: str = ""

    def __str__(self) -> str:
        """Return it in words.

        >>> str(Confined("landlock", "no tcp", "bubblewrap is not installed"))
        'confined by landlock, no TCP (bubblewrap is not installed)'
        """
        network = {"host": "with network", "none": "no network", "no tcp": "no TCP"}[self.network]
        text = "not confined" if self.how == "none" else f"confined by {self.how}, {network}"
        return f"{text} ({self.why})" if self.why else text


@attrs.frozen
class Program:
    """A program to run. ``argv`` is its name or path and its arguments; no shell reads them.

    ``env`` is added to the few variables that a program inherits (``environment.INHERITED``). ``stdin`` is what it
    reads: None is an empty one, OPEN is what ``Process.write`` writes later. ``merged``: stdout and stderr are one
    stream, in the order of writing. ``grace_s`` is the time between SIGTERM and SIGKILL. ``linger_s`` is how long
    processes that it leaves behind may run on.
    """

    argv: tuple[str, ...] = attrs.field(converter=_words)
    cwd: Path = attrs.field(kw_only=True, converter=Path)
    env: Mapping[str, str] = attrs.field(factory=dict, kw_only=True, validator=_variables)
    stdin: bytes | Open | None = attrs.field(default=None, kw_only=True)
    merged: bool = attrs.field(default=True, kw_only=True)
    limits: Limits = attrs.field(default=Limits(), kw_only=True)
    confinement: Confinement | None = attrs.field(default=None, kw_only=True)
    grace_s: float = attrs.field(default=2.0, kw_only=True)
    linger_s: float = attrs.field(default=0.25, kw_only=True)


@attrs.frozen(kw_only=True)
class Outcome:
    """How a program ended: with ``exit_code``, or by ``signal``, the other is None.

    ``why`` says what ended it: itself ("exited"), a limit, or its caller ("ended"). ``left_behind`` is the number
    of its processes that still ran then, and were ended. Below bubblewrap an end by a signal has the exit code
    128 + signal.
    """

    exit_code: int | None
    signal: int | None
    why: Why
    duration_s: float
    left_behind: int
    confined: Confined

    @property
    def words(self) -> str:
        """The end in words.

        >>> confined = Confined()
        >>> Outcome(exit_code=None, signal=9, why="exited", duration_s=1, left_behind=0, confined=confined).words
        'killed by SIGKILL'
        """
        if self.why == "exited":
            return f"exit status {self.exit_code}" if self.signal is None else f"killed by {signal_name(self.signal)}"
        return "ended by the caller" if self.why == "ended" else f"ended by its {self.why}"


def signal_name(number: int) -> str:
    """Return the name of a signal; a real-time one has none of its own."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
