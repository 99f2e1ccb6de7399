"""Finds words in what was said, across the sessions of a folder. One line in memory at a time.

Standard library only, no lock taken; see transcript/listing.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pluggent_state_files.listing import (
    fields_of,
    kind_of,
    lines,
    list_of,
    object_of,
    open_session,
    places,
    text_of,
)

AROUND = 60
"""Characters given on either side of what was found, where there are as many."""
_KINDS = frozenset({"Said", "Settled", "Given"})


class Found(NamedTuple):
    """One place. ``who`` is a role, ``host``, or ``tool`` with its name.

    ``turn`` is empty for what the session was given. ``before`` and ``after`` are what stands
    around ``match``, all three as they were said.
    """

    session: str
    turn: str
    who: str
    before: str
    match: str
    after: str


class Unreadable(NamedTuple):
    """A session that could not be searched, or not to its end."""

    session: str
    problem: str


def search(folder: Path, text: str) -> Iterator[Found | Unreadable]:
    """Yield where *text* was said, in the session last written to first; the first place in each message.

    Upper and lower case are one, and so is all white space. Searched are messages of persons and
    models, tool calls with their arguments, and whole results. Nothing is found of an empty
    *text*. Raises SessionError if the folder cannot be read.
    """
    words = text.casefold().split()
    if not words:
        return
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    for place in places(folder):
        try:
            with open_session(folder, place.id) as file:
                for line in lines(file):
                    if kind_of(line) in _KINDS:
                        yield from _in_entry(place.id, fields_of(line), pattern)
        except FileNotFoundError:
            continue  # deleted meanwhile
        except OSError as error:
            yield Unreadable(place.id, f"it cannot be read: {error.strerror}")
        except ValueError:
            yield Unreadable(place.id, "it is damaged")


def _in_entry(session: str, plain: dict[str, Any], pattern: re.Pattern[str]) -> Iterator[Found]:
    turn = plain.get("turn_id")
    for who, text in _said(plain):
        folded = text.casefold()
        if found := pattern.search(folded):
            start, end = (_unfolded(text, folded, at) for at in found.span())
            before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
            yield Found(session, turn if isinstance(turn, str) else "", who, before, text[start:end], after)


def _said(plain: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield who said what in one entry."""
    for given in list_of(plain.get("messages")) or [plain.get("message")]:
        message = object_of(given)
        whole = plain.get("whole")
        yield _who(plain, message), whole if isinstance(whole, str) else text_of(message)
        for one in list_of(message.get("tool_calls")):
            call = object_of(one)
            yield _who(plain, message), f"{call.get('name', '')} {call.get('arguments', '')}"


def _who(plain: dict[str, Any], message: dict[str, Any]) -> str:
    if plain.get("by"):
        return str(plain["by"])
    role = str(message.get("role", ""))
    return f"{role} {message.get('name', '')}".strip() if role == "tool" else role


def _unfolded(text: str, folded: str, at: int) -> int:
    """Return where in *text* the character stands that begins at *at* in *folded*, its casefolded form."""
    if len(text) == len(folded):  # no character became two
        return at
    far = 0
    for place, character in enumerate(text):
        if far >= at:
            return place
        far += len(character.casefold())
    return len(text)
