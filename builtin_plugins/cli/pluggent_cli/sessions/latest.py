"""Finds the last session of a folder and a principal. Reads of each no more than its beginning."""

from __future__ import annotations

from collections.abc import Iterator

from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.sessions import ListedSession, SessionQuery
from pluggent_state_files.listing import fields_of, object_of, plain_text

from pluggent_cli.host_access import FOLDER_KEY, Setup, folder_record
from pluggent_cli.sessions.store import Sessions

_FIRST_PAGE, _PAGE = 8, 200


def latest_here(sessions: Sessions, setup: Setup, asked_by: str = "--continue") -> str:
    """Return the id of the last session that this user began in this folder, and said something in.

    Raises ConfigError, which names what *asked_by* a person, if there is none.
    """
    folder = folder_record().get(FOLDER_KEY)
    for one in _listed(sessions):
        if _is_of(sessions, one.id, setup.settings.principal, folder):
            return one.id
    mend = "those of all folders: pluggent sessions"
    raise ConfigError(asked_by, [f"there is no session of this folder in {sessions.where}; {mend}"])


def _listed(sessions: Sessions) -> Iterator[ListedSession]:
    """Yield all sessions, the one last written to first; at first a few, because it is usually one of them."""
    query = SessionQuery(limit=_FIRST_PAGE, brief=True)
    while True:
        page = sessions.page(query)
        yield from page.sessions
        if page.cursor is None:
            return
        query = query._replace(cursor=page.cursor, limit=_PAGE)


def _is_of(sessions: Sessions, id: str, principal: str, folder: str | None) -> bool:
    try:
        for line in sessions.lines(id):
            if line.kind == "SessionBegan":
                plain = fields_of(line.data)
                began_in = plain_text(object_of(plain.get("metadata")).get(FOLDER_KEY))
                own = plain_text(plain.get("principal")) == principal and not plain.get("claimed")
                if not own or began_in != folder:
                    return False
            elif line.kind == "TurnBegan":
                return True
    except (SessionError, ConfigError, ValueError):
        pass  # a damaged one is for `pluggent sessions`
    return False
