"""Simple commands of a shell line: while they are read, as they are announced, and as parts of an approval. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple

RESERVED = frozenset({
    "!", "{", "}", "[[", "]]", "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until",
    "for", "function", "select", "time", "coproc",
})  # fmt: skip
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Step(NamedTuple):
    """A simple command of a line.

    ``text`` is the command in one way of quoting, "" for redirections alone. ``joined`` is what stands between it
    and the one before. ``redirections`` are those of files, ``< `` and the text for a here-document;
    ``copies`` only join streams, or lead to /dev/null. ``known``: nothing of it depends on variables, patterns or
    the output of other commands. ``depth``: how many brackets or substitutions it is in.
    """

    text: str
    joined: str
    redirections: tuple[str, ...]
    copies: tuple[str, ...]
    known: bool
    depth: int


def parts_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return what an approval of *steps* has to cover; nothing covers an empty one.

    >>> parts_of([Step("make", "", ("> log",), (), True, 0), Step("make", ";", (), (), True, 0)])
    ('make', '> log')
    >>> parts_of([Step("rm $x", "", (), (), False, 0)])
    ()
    """
    if not all(step.known for step in steps):
        return ()
    return tuple(dict.fromkeys(part for step in steps for part in (step.text, *step.redirections) if part))


def command_text(words: Sequence[str]) -> str:
    """Return *words*, a program and its arguments, in one way of quoting.

    >>> command_text(["git", "commit", "-m", "it works"]), command_text(["A=b"]), command_text(["if"])
    ("git commit -m 'it works'", "'A=b'", "'if'")
    """
    if not words:
        return ""
    # Unquoted these would be an assignment and the beginning of a compound command.
    first = f"'{words[0]}'" if ASSIGNMENT.match(words[0]) or words[0] in RESERVED else ""
    first = first if first and quote(words[0]) == words[0] else quote(words[0])
    return " ".join((first, *map(quote, words[1:])))


class Word(NamedTuple):
    """A word: its text, whether that is known, whether any of it was quoted, its spelling, whether it has a [."""

    text: str
    known: bool
    quoted: bool
    raw: str
    bracket: bool


class Here(NamedTuple):
    """A here-document whose text has not come yet."""

    delimiter: str
    quoted: bool
    tabs: bool
    prefix: str
    command: Command


class Command:
    """A simple command while it is read."""

    def __init__(self, joined: str, depth: int) -> None:
        self.joined = joined
        self.depth = depth
        self.assignments: list[Word] = []
        self.words: list[Word] = []
        self.redirections: list[str] = []
        self.copies: list[str] = []
        self.known = True

    def is_empty(self) -> bool:
        """Return whether nothing was read yet."""
        return not (self.assignments or self.words or self.redirections or self.copies)

    def step(self) -> Step:
        """Return it as it is announced."""
        known = self.known and all(word.known for word in (*self.assignments, *self.words))
        if known:
            set_first = [_assignment(word.text) for word in self.assignments]
            command = command_text([word.text for word in self.words])
            text = " ".join(filter(None, (*set_first, command)))
        else:
            text = " ".join(word.raw for word in (*self.assignments, *self.words))
        return Step(text, self.joined, tuple(self.redirections), tuple(self.copies), known, self.depth)


def _assignment(text: str) -> str:
    name, _, value = text.partition("=")
    return f"{name}={quote(value) if value else ''}"
