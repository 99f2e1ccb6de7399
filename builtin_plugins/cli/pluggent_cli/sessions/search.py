"""Finds words in what was said, across the sessions of a store. Takes no lease. Standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_state_files.listing import fields_of, list_of, object_of, text_of

from pluggent_cli.sessions.store import Sessions
from pluggent_cli.sessions.summary import without_name

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
    """A session that could not be searched, or not to its end: ``problem`` completes "session … "."""

    session: str
    problem: str


def search_sessions(sessions: Sessions, text: str) -> Iterator[Found | Unreadable]:
    """Yield where *text* was said, in the session last written to first; the first place in each message.

    Upper and lower case are one, and so is all white space. Searched are messages of persons and
    models, tool calls with their arguments, and whole results. Nothing is found of an empty
    *text*. Raises SessionError if the sessions cannot be listed.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from pluggent_host import SyncHost
    >>> with TemporaryDirectory() as state:
    ...     with SyncHost.open(model="offline/demo", state_dir=state) as host, host.session("trip") as session:
    ...         _ = session.say("weather city=Paris")
    ...     found = list(search_sessions(Sessions.in_files(Path(state, "sessions")), "CITY=paris"))
    >>> [(one.session, one.turn, one.who, one.match) for one in found if isinstance(one, Found)]
    [('trip', 't1', 'user', 'city=Paris')]
    """
    words = text.casefold().split()
    if not words:
        return
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    for one in sessions.all(brief=True):
        try:
            for line in sessions.lines(one.id):
                if line.kind in _KINDS:
                    yield from _in_entry(one.id, fields_of(line.data), pattern)
        except (SessionError, ConfigError) as error:
            if one.id in sessions.matching(one.id):  # else it was deleted meanwhile
                yield Unreadable(one.id, without_name(error, one.id))
        except ValueError:
            yield Unreadable(one.id, "is damaged")


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
