"""What one stored session is about: model, turns, tokens, first words. Standard library only."""

from __future__ import annotations

from typing import Any, NamedTuple

from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.sessions import Line, ListedSession
from pluggent_state_files.listing import fields_of, number_of, object_of, plain_text, text_of

from pluggent_cli.sessions.store import Sessions

_FIRST_WORDS = 200
_SUMMED = frozenset({"SessionBegan", "ModelChosen", "Said", "Spending", "Undone"})


class Summary(NamedTuple):
    """What one session is about. Times are seconds since 1970, ``size`` is in bytes; None is unknown.

    ``turns`` counts those that began. ``in_use``: a writer has it open. ``problem`` says what is
    wrong with what is stored, empty if it is whole; the other fields then say what could be read.
    """

    id: str
    modified_s: float
    size: int
    created_s: float | None = None
    model: str = ""
    turns: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_words: str = ""
    in_use: bool = False
    problem: str = ""


def summarise(sessions: Sessions, one: ListedSession) -> Summary:
    """Return what the session *one* is about; a damaged or unreadable one says so."""
    reader = _Reader()
    problem = ""
    try:
        for line in sessions.lines(one.id):
            reader.read(line)
    except (SessionError, ConfigError) as error:
        problem = without_name(error, one.id)
    return Summary(
        one.id, one.modified_s, reader.size, *reader.facts(), one.in_use, problem or reader.problem or reader.missing()
    )


def without_name(error: Exception, id: str) -> str:
    """Return what *error* says of session *id*, to follow its name.

    >>> without_name(SessionError("session 'trip' cannot be read: Permission denied"), "trip")
    'cannot be read: Permission denied'
    >>> without_name(SessionError("trip.jsonl, line 1 is damaged"), "trip")
    'cannot be read: trip.jsonl, line 1 is damaged'
    """
    name, text = f"session '{id}' ", str(error)
    return text.removeprefix(name) if text.startswith(name) else f"cannot be read: {text}"


class _Reader:
    """Reads the lines of one session in order, and of most no more than which they are."""

    def __init__(self) -> None:
        self.problem = ""
        self.size = 0
        self._number = 0
        self._began: dict[str, Any] = {}
        self._model = ""
        self._turns = 0
        self._tokens: dict[str, int | None] = {"input": None, "output": None}
        self._first = self._first_turn = ""

    def read(self, line: Line) -> None:
        self._number += 1
        self.size += len(line.data)
        if not line.kind:
            self._damaged("is not an entry")
        elif line.kind == "TurnBegan":
            self._turns += 1
        elif line.kind in _SUMMED and not (line.kind == "Said" and self._first):
            try:
                self._sum(line.kind, fields_of(line.data))
            except ValueError:
                self._damaged("is not JSON")

    def _sum(self, kind: str, plain: dict[str, Any]) -> None:
        match kind:
            case "SessionBegan":
                self._began, self._model = plain, plain_text(plain.get("model"))
            case "ModelChosen":
                self._model = plain_text(plain.get("model"))
            case "Said":
                message = object_of(plain.get("message"))
                if message.get("role") == "user" and not plain.get("by"):
                    self._first, self._first_turn = text_of(message)[:_FIRST_WORDS], plain_text(plain.get("turn_id"))
            case "Undone":
                if plain.get("turn_id") == self._first_turn:
                    self._first = ""
            case _:
                usage = object_of(plain.get("usage"))
                for name, known in self._tokens.items():
                    used = number_of(usage.get(name))
                    self._tokens[name] = known if used is None else (known or 0) + int(used)

    def _damaged(self, how: str) -> None:
        self.problem = self.problem or f"line {self._number} {how}"

    def missing(self) -> str:
        """Return what is wrong with a session each of whose lines is whole."""
        if not self._number:
            return "it is empty"
        return "" if self._began else "its beginning is missing"

    def facts(self) -> tuple[float | None, str, int, int | None, int | None, str]:
        created_s = number_of(self._began.get("created_s"))
        return created_s, self._model, self._turns, self._tokens["input"], self._tokens["output"], self._first
