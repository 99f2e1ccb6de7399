"""Completions of a slash command. Pure but for a look at a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

MOST = 200
"""How many candidates are offered at once."""


@attrs.frozen
class Candidate:
    """A completion: ``text`` takes the place of the last ``length`` characters; ``about`` explains it."""

    text: str
    length: int
    about: str = ""


@attrs.frozen
class Completion:
    """The commands by name with what they are for, and what may follow some of them, from what is typed of it."""

    commands: Mapping[str, str]
    arguments: Mapping[str, Callable[[str], Iterable[str]]]

    def candidates(self, text: str) -> list[Candidate]:
        """Return the completions of the line *text*; none unless it is a command.

        >>> Completion({"/help": "this list", "/quit": ""}, {}).candidates("/h")
        [Candidate(text='/help', length=2, about='this list')]
        """
        if not text.startswith("/") or "\n" in text:
            return []
        name, space, typed = text.partition(" ")
        if not space:
            known = self.commands.items()
            return [Candidate(other, len(name), about) for other, about in known if other.startswith(name)]
        offer = self.arguments.get(name)
        words = offer(typed) if offer is not None else ()
        return [Candidate(word, len(typed)) for word in words if word.startswith(typed)][:MOST]


def paths(typed: str) -> list[str]:
    """Return the paths that begin with *typed*, folders with a slash behind them; hidden ones if that is meant."""
    folder, slash, name = typed.rpartition("/")
    try:
        place = Path(f"{folder}{slash}" or ".").expanduser()
        with os.scandir(place) as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in found if entry.name.startswith(name))
    except (OSError, RuntimeError, ValueError):
        return []
    return [
        f"{folder}{slash}{entry}{'/' if is_folder else ''}"
        for entry, is_folder in entries
        if entry.isprintable() and (name.startswith(".") or not entry.startswith("."))
    ]
