"""The sessions of a folder as pages of a list: whose each is, and whether it waits."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.sessions import ListedSession, SessionPage, SessionQuery

from pluggent_state_files.listing import (
    Place,
    fields_of,
    holders,
    kind_of,
    lines,
    number_of,
    open_session,
    places,
    plain_text,
)


def page(folder: Path, query: SessionQuery) -> SessionPage:
    """Return one page of the sessions in *folder*; reads those of the page alone, and of most lines their kind.

    For a brief query it reads none.
    """
    after = _after(query.cursor)
    named = [place for place in places(folder) if place.id.startswith(query.prefix)]
    found = [place for place in named if _rank(place) > after]
    is_held = holders()
    listed: list[ListedSession] = []
    for place in found[: query.limit]:
        with suppress(FileNotFoundError):  # deleted meanwhile
            listed.append(_listed(folder, place, is_held, brief=query.brief))
    last = found[query.limit - 1] if len(found) > query.limit > 0 else None
    return SessionPage(tuple(listed), None if last is None else f"{last.modified_s!r} {last.id}", len(named))


def _rank(place: Place) -> tuple[float, str]:
    return -place.modified_s, place.id


def _after(cursor: str | None) -> tuple[float, str]:
    if cursor is None:
        return float("-inf"), ""
    modified_s, _, id = cursor.partition(" ")
    try:
        return -float(modified_s), id
    except ValueError as error:
        raise SessionError(f"{cursor!r} is not a cursor of this store") from error


def _listed(folder: Path, place: Place, is_held: Callable[[int], bool], *, brief: bool) -> ListedSession:
    reader = _Listing()
    held, problem = False, ""
    try:
        with open_session(folder, place.id) as file:
            held = is_held(file.fileno())
            for line in () if brief else lines(file):
                reader.read(line)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = "it is a symbolic link" if error.errno == errno.ELOOP else f"it cannot be read: {error.strerror}"
    except ValueError as error:
        problem = f"it {error}"
    return ListedSession(
        place.id, place.modified_s, reader.created_s, reader.principal, reader.waits, held, problem or reader.problem
    )


class _Listing:
    """Reads the lines of one session in order: whose it is, and whether its last turn has paused."""

    def __init__(self) -> None:
        self.created_s: float | None = None
        self.principal = self.problem = ""
        self.waits = False
        self._number = 0

    def read(self, line: bytes) -> None:
        self._number += 1
        kind = kind_of(line)
        if not kind:
            self.problem = self.problem or f"line {self._number} is not an entry"
        elif kind in ("TurnBegan", "TurnOver", "Undone"):
            self.waits = False
        elif kind == "Paused":
            self.waits = True
        elif kind in ("SessionBegan", "SessionAdopted"):
            try:
                plain = fields_of(line)
            except ValueError:
                self.problem = self.problem or f"line {self._number} is not JSON"
                return
            self.created_s = self.created_s or number_of(plain.get("created_s"))
            self.principal = self.principal or plain_text(plain.get("principal"))
