"""The built-in commands: what they are called, where they are, and what they are for. Data only."""

from __future__ import annotations

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """One command. ``module`` is imported when the command is typed, and not before."""

    name: str
    module: str
    help: str


COMMANDS = (
    BuiltIn("run", "pluggent_host.cli.run", "run one turn: a prompt in, the answer out"),
    BuiltIn("plugins", "pluggent_host.cli.plugins", "what is installed, in which state, and how to mend it"),
    BuiltIn("tools", "pluggent_host.cli.tools", "list tools, show a schema, call one under the policies"),
    BuiltIn("hooks", "pluggent_host.cli.hooks", "every hook chain, in its order, and why"),
    BuiltIn("trust", "pluggent_host.cli.trust", "accept a file of this folder, or a plugin with hooks"),
)
"""A plugin's command cannot take the name of one of these."""

NAMES = frozenset(command.name for command in COMMANDS)
