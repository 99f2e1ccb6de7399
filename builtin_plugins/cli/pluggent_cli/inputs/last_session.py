"""Finds the last session of a folder and a principal. Reads of each no more than its beginning, and takes no lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_state_files.listing import (
    FOLDER,
    fields_of,
    kind_of,
    lines,
    object_of,
    open_session,
    places,
    plain_text,
)

from pluggent_cli.host_access import FOLDER_KEY, Setup, folder_record

Line = tuple[str, bytes]
"""The kind of an entry, and the entry."""


def last_session(setup: Setup, asked_by: str) -> str:
    """Return the id of the last session that this user began in this folder, and said something in.

    Raises ConfigError, which names what *asked_by* a person, if there is none.
    """
    folder = folder_record().get(FOLDER_KEY)
    for id, stored in _newest(setup):
        # A damaged one is for `pluggent sessions`.
        with suppress(SessionError, ConfigError, OSError, ValueError):
            if _is_of(stored, setup.settings.principal, folder):
                return id
    where = f"the store '{setup.settings.sessions}'" if setup.settings.sessions else str(setup.state_dir / FOLDER)
    problem = f"there is no session of this folder in {where}; those of all folders: pluggent sessions"
    raise ConfigError(asked_by, [problem])


def _newest(setup: Setup) -> Iterator[tuple[str, Iterable[Line]]]:
    """Yield all sessions, the one last written to first, each with its lines."""
    if not setup.settings.sessions:
        folder = setup.state_dir / FOLDER
        yield from ((place.id, _lines(folder, place.id)) for place in places(folder))
        return
    # Here and not above: files are read without the store.
    from pluggent_cli.sessions.store import open_sessions

    with open_sessions(setup) as sessions:
        for one in sessions.all(brief=True):
            yield one.id, ((line.kind, line.data) for line in sessions.lines(one.id))


def _lines(folder: Path, id: str) -> Iterator[Line]:
    with open_session(folder, id) as file:
        yield from ((kind_of(line), line) for line in lines(file))


def _is_of(stored: Iterable[Line], principal: str, folder: str | None) -> bool:
    for kind, line in stored:
        if kind == "SessionBegan":
            plain = fields_of(line)
            began_in = plain_text(object_of(plain.get("metadata")).get(FOLDER_KEY))
            own = plain_text(plain.get("principal")) == principal and not plain.get("claimed")
            if not own or began_in != folder:
                return False
        elif kind == "TurnBegan":
            return True
    return False
