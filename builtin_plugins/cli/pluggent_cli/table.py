"""The built-in commands: what they are called, where they are, and what they are for. Data only."""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """One command. ``module`` is imported when the command is typed, and not before."""

    name: str
    module: str
    help: str


COMMANDS = (
    BuiltIn("run", "pluggent_cli.commands.run", "run one turn: a prompt in, the answer out"),
    BuiltIn("chat", "pluggent_cli.commands.chat", "talk to a model: a conversation with a line editor"),
    BuiltIn("setup", "pluggent_cli.setup.command", "choose a provider and a model, store the key, try them"),
    BuiltIn("plugins", "pluggent_cli.commands.plugins", "what is installed, its state, and how to mend it"),
    BuiltIn("tools", "pluggent_cli.commands.tools", "list tools, show a schema, call one under the policies"),
    BuiltIn("models", "pluggent_cli.commands.models", "which models the providers have, and what is known of them"),
    BuiltIn("hooks", "pluggent_cli.commands.hooks", "every hook chain, in its order, and why"),
    BuiltIn("sessions", "pluggent_cli.commands.sessions", "list, show, search, export and delete saved conversations"),
    BuiltIn("last", "pluggent_cli.sessions.last", "print the last reply once more, or its last code block"),
    BuiltIn("approvals", "pluggent_cli.commands.approvals", "what waits for a person: list, show, approve, deny"),
    BuiltIn("resume", "pluggent_cli.commands.resume", "continue a turn that waited for an approval"),
    BuiltIn("batch", "pluggent_cli.batches.command", "many requests in a file, answered together, later and cheaper"),
    BuiltIn(
        "explain", "pluggent_cli.commands.explain", "why each operation of a turn was done or not, and who decided"
    ),
    BuiltIn(
        "config", "pluggent_cli.commands.config", "the settings in force, where each comes from, and what is wrong"
    ),
    BuiltIn("doctor", "pluggent_cli.commands.doctor", "check this installation, load every plugin, measure its cost"),
    BuiltIn(
        "completion", "pluggent_cli.commands.completion", "print a script that completes words in bash, zsh or fish"
    ),
    BuiltIn("trust", "pluggent_cli.commands.trust", "accept a file of this folder, or a plugin with hooks"),
)
"""A plugin's command cannot take the name of one of these."""

NAMES = frozenset(command.name for command in COMMANDS)

SHELLS = ("bash", "zsh", "fish")
"""Those that ``pluggent completion`` has a script for."""
