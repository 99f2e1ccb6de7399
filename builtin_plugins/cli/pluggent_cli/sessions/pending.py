"""Which stored sessions wait for a person, and with what. Reads only, takes no lock.

Standard library only, so that looking through thousands is cheap. What waits, and what was answered,
counts only with its seal. Answering is answering.py's, and what really happens on resume is decided anew
from the transcript itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pluggent_hookspecs.errors import SessionError

from pluggent_host.quoting import quoted
from pluggent_host.sealed import SealedRecords, is_sealed, void_pause
from pluggent_host.stored import (
    APPROVALS,
    SUFFIX,
    fields_of,
    kind_of,
    lines,
    list_of,
    object_of,
    open_session,
    places,
)

SHORT = 16
"""Characters of a digest that are enough to name a request by."""


class Call(NamedTuple):
    """One request that waits: a call, or what is said or asked of the model; then the ids are those of the operation.

    ``arguments`` is the JSON text of exactly what will run, ``asks`` (plugin, its words).

    ``answer`` is "" while it is open, else "approved" or "denied", ``by`` whom and with what ``reason``.
    A call without asks waits for nothing but one before it. ``workspace`` is the folder of the turn,
    ``reach`` the most that an approval is good for, ``approvers`` are those to whom asks are limited.
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
        head = f"{_HEADS.get(self.kind, self.kind)} {quoted(self.tool)}  ({quoted(self.capability)})"
        return "\n".join((head, *(quoted(line) for line in shown.split("\n"))))


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
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            yield Waiting(place.id, problem=f"cannot be read: {what}")
            continue
        if found is not None:
            yield found


def waiting_in(folder: Path, id: str) -> Waiting | None:
    """Return what session *id* waits with, None if it does not wait. Raises OSError, ValueError and ConfigError."""
    book = _Book(folder, id)
    with open_session(folder, id) as file:
        for line in lines(file):
            book.read(line)
    return book.waiting()


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


class _Book:
    """Reads the lines of one session in order, those alone that belong to a pause."""

    def __init__(self, folder: Path, id: str) -> None:
        self._id = id
        self._path = folder / f"{id}{SUFFIX}"
        self._seals = SealedRecords(folder / APPROVALS)
        self._number = 0
        self._paused: dict[str, Any] | None = None
        self._line = 0
        """Which one the pause is."""
        self._resolved: dict[str, dict[str, Any]] = {}
        self._results: set[str] = set()

    def read(self, line: bytes) -> None:
        self._number += 1
        kind = kind_of(line)
        if not kind:
            raise ValueError(f"line {self._number} is no entry")
        if kind in _ENDS:
            self._paused = None
        elif kind == "Paused" or (self._paused is not None and kind in _LATER):
            self._note(kind, line)

    def _note(self, kind: str, line: bytes) -> None:
        if kind == "Decided" and b'"verdict":"approved"' not in line:
            return
        try:
            plain = fields_of(line)
        except ValueError as error:
            raise ValueError(f"line {self._number} is no JSON") from error
        match kind:
            case "Decided":
                self._decided(object_of(plain.get("decision")))
            case "Paused":
                self._pause(plain)
            case "Resolved":
                if self._counts(plain):
                    self._resolved[_text(plain.get("digest"))] = plain
            case "Dispatched":
                self._use_up({_text(list_of(call)[0]) for call in list_of(plain.get("calls")) if list_of(call)})
            case "Settled":
                self._results.add(_text(plain.get("call_id")))
            case _:
                self._said(plain)

    def _said(self, plain: dict[str, Any]) -> None:
        message = object_of(plain.get("message"))
        if plain.get("by") != _WARNING:
            self._results.add(_text(message.get("tool_call_id")))
            if message.get("role") != "tool":
                self._paused = None  # the turn has gone on

    def _decided(self, decision: dict[str, Any]) -> None:
        if (decision.get("operation"), decision.get("verdict")) == ("model_call", "approved"):
            self._resolved.pop(_text(decision.get("digest")), None)  # from here on it may have been sent

    def _pause(self, plain: dict[str, Any]) -> None:
        if self._paused is None or plain.get("at_s") != self._paused.get("at_s"):
            self._resolved = {}
            self._results.clear()
        self._paused, self._line = plain, self._number

    def _counts(self, plain: dict[str, Any]) -> bool:
        """Say whether pluggent wrote this entry, into this session."""
        rest = {name: value for name, value in plain.items() if name != "seal"}
        return is_sealed(self._seals.key(), plain.get("seal"), self._id, rest)

    def _use_up(self, calls: set[str]) -> None:
        """An approval is good for one run of its call."""
        for pending in map(object_of, list_of((self._paused or {}).get("pending"))):
            if _text(pending.get("call_id")) in calls:
                self._resolved.pop(_text(pending.get("digest")), None)

    def waiting(self) -> Waiting | None:
        """Return what was read."""
        paused = self._paused
        if paused is None:
            return None
        at_s = paused.get("at_s")
        since = float(at_s) if isinstance(at_s, int | float) else 0.0
        if not self._counts(paused):
            void = void_pause(self._path, self._line, paused.get("seal"))
            problem = f"cannot go on where it stopped: {void}: pluggent run --session {self._id}"
            return Waiting(self._id, _text(paused.get("turn_id")), since, (), problem)
        calls = tuple(
            self._call(object_of(pending))
            for pending in list_of(paused.get("pending"))
            if _kind(pending) != "tool_call" or _text(object_of(pending).get("call_id")) not in self._results
        )
        return Waiting(self._id, _text(paused.get("turn_id")), since, calls)

    def _call(self, plain: dict[str, Any]) -> Call:
        digest = _text(plain.get("digest"))
        answer = self._resolved.get(digest, {})
        said = "" if not answer else "approved" if answer.get("agreed") is True else "denied"
        asks = tuple(
            (_text(ask[0]), _text(ask[1]))
            for ask in map(list_of, list_of(plain.get("asks")))
            if len(ask) == len(("plugin", "words"))
        )
        return Call(
            _text(plain.get("call_id")), _text(plain.get("name")), _text(plain.get("capability")),
            _text(plain.get("arguments_json")), digest, asks, said, _text(answer.get("by")),
            _text(answer.get("reason")), _text(plain.get("workspace")), _text(plain.get("reach")),
            tuple(tuple(map(_text, list_of(names))) for names in list_of(plain.get("approvers"))), _kind(plain),
        )  # fmt: skip


_LATER = frozenset({"Decided", "Resolved", "Dispatched", "Settled", "Said"})
_WARNING = "host's warning"
"""Who said what joined no conversation; see transcript.py."""
_LONG = 200
_HEADS = {"tool_call": "call", "input": "what is said:", "model_call": "what is asked of the model"}


def _kind(plain: object) -> str:
    """Return what waits: what is written without a kind is a call."""
    return _text(object_of(plain).get("kind")) or "tool_call"


def _without_data(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the bytes of a picture, sound or document, which nobody can read: size and digest do."""
    data = value.get("data")
    if not isinstance(data, str) or len(data) <= _LONG:
        return value
    return {**value, "data": f"{len(data)} characters, sha256 {hashlib.sha256(data.encode()).hexdigest()}"}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
