"""Reads the words after a command's name: an action, a name, and what belongs to it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pluggent_hookspecs.errors import ConfigError

from pluggent_host.nearest import nearest


def action(command: str, words: Sequence[str], known: Collection[str]) -> tuple[str, list[str]]:
    """Return the action among *known*, ``""`` if no word was typed, and the words behind it.

    Raises ConfigError naming the nearest one.

    >>> action("tools", ["schema", "weather"], ["schema", "call"])
    ('schema', ['weather'])
    """
    if not words:
        return "", []
    first, *rest = words
    if first not in known:
        choices = " or ".join(known)
        raise ConfigError(f"pluggent {command}", [f"expected {choices}, got {first!r}{nearest(first, known)}"])
    return first, rest


def one_name(command: str, words: Sequence[str]) -> str:
    """Return the one name that *command* wants. Raises ConfigError."""
    if len(words) != 1:
        problem = "needs a NAME" if not words else f"takes one NAME, got {len(words)}"
        raise ConfigError(f"pluggent {command}", [f"{problem}. See pluggent {command.partition(' ')[0]} --help"])
    return words[0]
