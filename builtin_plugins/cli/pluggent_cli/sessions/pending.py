"""Which stored sessions wait for a person, and with what. Reads only, takes no lock.

A session of which the kinds of its lines say that it may wait is rebuilt as it is when it is opened, so that
what is listed is what counts. Most do not wait, and looking through thousands of those is cheap. Answering is
answer.py's, and what really happens on resume is decided anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pluggent_hookspecs.errors import SessionError
from pluggent_host.common.escape import escape_all
from pluggent_state_files.listing import SUFFIX, fields_of, kind_of, lines, open_session, places

if TYPE_CHECKING:  # looking through sessions of which none waits needs no host
    from pluggent_host.approvals.pending import Pending, Resolved

SHORT = 16
"""Characters of a digest that are enough to name a request by."""


class Call(NamedTuple):
    """One request that waits: a call, or what is said or asked of the model; then the ids are those of the operation.

    ``arguments`` is the JSON text of exactly what will run, ``asks`` (plugin, its words).

    ``answer`` is "" while it is open, else "approved" or "denied", ``by`` whom and with what ``reason``.
    A call without asks waits for nothing but one before it. ``workspace`` is the folder of the turn,
    ``principal`` who asks, ``reach`` the most that an approval is good for, ``approvers`` are those to whom asks
    are limited.
    """

    call_id: str
    tool: str
    capability: str
    arguments: str
    digest: str
    asks: tuple[tuple[str, str], ...]
    answer: str = ""
    by: str = ""
    reason: str = ""
    workspace: str = ""
    reach: str = "always"
    approvers: tuple[tuple[str, ...], ...] = ()
    kind: str = "tool_call"
    principal: str = ""

    @property
    def is_open(self) -> bool:
        """Whether an answer is wanted."""
        return bool(self.asks) and not self.answer

    @property
    def rendered(self) -> str:
        """The request for a person's eyes: made of the frozen arguments, everything invisible escaped."""
        hook = None if self.kind == "tool_call" else _without_data
        try:
            shown = json.dumps(json.loads(self.arguments, object_hook=hook), ensure_ascii=False, indent=2)
        except (ValueError, RecursionError):
            shown = self.arguments
        head = f"{_HEADS.get(self.kind, self.kind)} {escape_all(self.tool)}  ({escape_all(self.capability)})"
        return "\n".join((head, *(escape_all(line) for line in shown.split("\n"))))


class Waiting(NamedTuple):
    """A session whose last turn is paused. ``at_s``: since when, in seconds since 1970.

    ``problem`` says why the session could not be read, or why its pause does not count; then nothing is
    known of its calls.
    """

    session: str
    turn: str = ""
    at_s: float = 0.0
    calls: tuple[Call, ...] = ()
    problem: str = ""

    @property
    def open(self) -> tuple[Call, ...]:
        """The calls that want an answer."""
        return tuple(call for call in self.calls if call.is_open)


def all_waiting(folder: Path) -> Iterator[Waiting]:
    """Yield every session of *folder* that waits, or cannot be read; the one last written to first.

    Raises SessionError if the folder cannot be read, ConfigError if the key that seals cannot be relied on.
    """
    for place in places(folder):
        try:
            found = waiting_in(folder, place.id)
        except FileNotFoundError:
            continue  # deleted meanwhile
        except (OSError, ValueError, SessionError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            yield Waiting(place.id, problem=f"cannot be read: {what}")
            continue
        if found is not None:
            yield found


def waiting_in(folder: Path, id: str) -> Waiting | None:
    """Return what session *id* waits with, None if it does not wait.

    Raises OSError, ValueError, SessionError and ConfigError.
    """
    return _rebuilt(folder, id) if _may_wait(folder, id) else None


def _may_wait(folder: Path, id: str) -> bool:
    """Say whether the kinds of its lines let session *id* wait: most do not, and are read no further."""
    waits = False
    with open_session(folder, id) as file:
        for number, line in enumerate(lines(file), 1):
            kind = kind_of(line)
            if not kind:
                raise ValueError(f"line {number} is no entry")
            if kind in _ENDS:
                waits = False
            elif kind == "Paused":
                waits = _is_json(line, number)
    return waits


def _is_json(line: bytes, number: int) -> bool:
    try:
        fields_of(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON") from error
    return True


def _rebuilt(folder: Path, id: str) -> Waiting | None:
    """Return what session *id* waits with, as it says itself when it is opened."""
    # Here and not above: where nothing waits none of it is needed.
    from pluggent_host.approvals.pending import Paused
    from pluggent_host.transcript.lines import decode
    from pluggent_host.transcript.rebuild import rebuild
    from pluggent_state_files.session_log import read_lines

    entries = tuple(decode(read_lines(folder, id), str(folder / f"{id}{SUFFIX}")))
    past = rebuild(entries)
    if past.waiting is not None:
        paused = past.waiting.paused
        calls = [
            _call(each, past.waiting.resolved.get(each.digest))
            for each in paused.pending
            if each.kind != "tool_call" or each.call_id not in past.waiting.results
        ]
        return Waiting(id, paused.turn_id, paused.at_s, tuple(calls))
    if past.void:
        last = next(entry for entry in reversed(entries) if isinstance(entry, Paused))
        problem = f"cannot go on where it stopped: {past.void}: pluggent run --session {id}"
        return Waiting(id, last.turn_id, last.at_s, (), problem)
    return None


def _call(each: Pending, answer: Resolved | None) -> Call:
    said, by, reason = ("", "", "") if answer is None else (_said(answer), answer.by, answer.reason)
    return Call(
        each.call_id, each.name, each.capability, each.arguments_json.decode("utf-8", "surrogatepass"), each.digest,
        each.asks, said, by, reason, each.workspace, each.reach, each.approvers, each.kind, each.principal,
    )  # fmt: skip


def _said(answer: Resolved) -> str:
    return "approved" if answer.agreed else "denied"


def named(calls: Iterable[Call], word: str) -> tuple[Call, ...]:
    """Return those of *calls* that *word* means: a call id, or at least the first SHORT characters of a digest."""
    listed = tuple(calls)
    by_digest = tuple(call for call in listed if len(word) >= SHORT and call.digest.startswith(word))
    return by_digest or tuple(call for call in listed if call.call_id == word)


def problem_of(folder: Path, id: str, error: Exception) -> SessionError:
    """Return *error*, raised by ``waiting_in``, as one that says which session it is about."""
    what = error.strerror if isinstance(error, OSError) else str(error)
    return SessionError(f"session '{id}' cannot be read: {folder / id}.jsonl: {what}")


_ENDS = frozenset({"TurnBegan", "TurnOver", "Undone"})


_LONG = 200
_HEADS = {"tool_call": "call", "input": "what is said:", "model_call": "what is asked of the model"}


def _without_data(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the bytes of a picture, sound or document, which is unreadable: size and digest do."""
    data = value.get("data")
    if not isinstance(data, str) or len(data) <= _LONG:
        return value
    return {**value, "data": f"{len(data)} characters, sha256 {hashlib.sha256(data.encode()).hexdigest()}"}
