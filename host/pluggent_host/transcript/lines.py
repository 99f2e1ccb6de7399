"""Entries of a session as lines of its log and back: which are sealed, and what one that is not genuine means.

How lines and seals are kept is the store's (see pluggent_hookspecs.sessions).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import attrs
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.sessions import Line

from pluggent_host.approvals.pending import Paused, Resolved
from pluggent_host.approvals.standing import Standing
from pluggent_host.transcript.codec import from_plain, line_of
from pluggent_host.transcript.entries import Entry
from pluggent_host.transcript.fast_encoder import Lines as Encoder, plain_entry

SEALED = (Paused, Resolved, Standing)
"""What must have been written here, by us: requests that wait, and what a person has said about them."""

log = logging.getLogger("pluggent.transcript")
_ENTRIES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Entry)}


def encode(entry: Entry, encoder: Encoder) -> Line:
    """Return the line of *entry*; *encoder* is that of the whole log."""
    kind = type(entry)
    if kind in SEALED:
        return Line(kind.__name__, line_of(plain_entry(entry)), sealed=True)
    return Line(kind.__name__, encoder.of(entry))


def decode(lines: Iterable[Line], place: str) -> Iterator[Entry]:
    """Yield the entries that *lines* of the log at *place* are.

    A line that must be sealed and is not genuine, because another hand wrote it or it was copied
    from another session: of an approval it is left out and named in the log, a pause says that it
    does not count (``void``). Raises SessionError, naming the line, for anything that is not an entry.
    """
    for number, line in enumerate(lines, 1):
        entry = _entry(line.data, place, number)
        if not isinstance(entry, SEALED) or (line.sealed and line.genuine):
            yield entry
        elif isinstance(entry, Paused):
            yield attrs.evolve(entry, void=_void_pause(place, number, sealed=line.sealed))
        else:
            log.warning("%s, line %d: pluggent did not write this approval here; it is left out", place, number)


def decode_unsealed(lines: Iterable[Line], place: str) -> Iterator[Entry]:
    """Yield entries as ``decode`` does, looking at no seal: to show what happened, not to act on it."""
    for number, line in enumerate(lines, 1):
        yield _entry(line.data, place, number)


def _entry(data: bytes, place: str, number: int) -> Entry:
    try:
        plain: dict[str, Any] = json.loads(data)
        fields = {name: value for name, value in plain.items() if name != "t"}
        entry: Entry = from_plain(fields, _ENTRIES[plain["t"]])
    except Exception as error:
        raise SessionError(
            f"{place}, line {number} is damaged ({type(error).__name__}); "
            "mend or remove that line, or start a new session"
        ) from error
    return entry


def _void_pause(place: str, line: int, *, sealed: bool) -> str:
    """Return why the pause in that *line* of a session does not count, and what is to be done about it."""
    why = (
        "the seal of the pause does not fit: it was changed, or copied from another session, folder or computer,"
        " or the key that seals was made anew"
        if sealed
        else "the pause has no seal: an older pluggent wrote it, or somebody else"
    )
    return f"{place}, line {line}: {why}. Nothing of it runs; say again what is still wanted"
