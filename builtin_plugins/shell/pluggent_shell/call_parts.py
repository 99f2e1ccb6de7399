"""The parts of a call of ``run_command`` that an approval for later calls has to cover one by one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

from pluggent_shell.shell_commands import command_text, parts_of
from pluggent_shell.shell_line import CannotSplitError, split

NETWORK = "<network>"
"""The part of a call that asks for the network; no command has this text, its quotes would differ."""


def call_parts(
    command: str | Sequence[str], cwd: str | PathLike[str] | None = None, *, network: bool = False
) -> tuple[str, ...]:
    """Return the parts; none, which nothing covers, where the commands are not known in advance.

    >>> call_parts("git add . && git status > log", "sub folder", network=True)
    ("cd 'sub folder'", 'git add .', 'git status', '> log', '<network>')
    >>> call_parts(["git", "commit", "-m", "a; b"]), call_parts("git show $REF"), call_parts("for a in b; do c; done")
    (("git commit -m 'a; b'",), (), ())
    """
    own = _own_parts(command)
    if not own:
        return ()
    folder = () if cwd is None else (command_text(["cd", fspath(cwd)]),)
    return (*folder, *own, *((NETWORK,) if network else ()))


def _own_parts(command: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(command, str):
        return (command_text(command),) if command and command[0] else ()
    try:
        return parts_of(split(command))
    except CannotSplitError:
        return ()
