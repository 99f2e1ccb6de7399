"""What a turn waits for, in words: one line for each call that runs, or the model. Draws nothing itself.

Names, arguments and messages are texts of models and tools: each is escaped, and stays in its line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from time import monotonic
from typing import Any

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.observations import (
    DecisionMade,
    ModelCalled,
    Observation,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)

from pluggent_cli.terminal.console import cells

SAID_AFTER_S = 1.0
"""A shorter wait leaves no time to read."""
_LEAST_ARGUMENTS = 12
_EMPTY: tuple[Any, ...] = (None, False, "", [], {})
"""Arguments that are not shown if the model has not given them, 0 among them."""
_EXACT = 1e15


@attrs.define
class _Running:
    """A call that runs: its line up to the time, and what it has reported so far."""

    name: str
    arguments: str
    indent: str
    since: float
    far: str = ""
    message: str = ""


class Waiting:
    """Reads the events of one turn. Call it for the lines; there are none at first."""

    def __init__(self, model: str, clock: Callable[[], float] = monotonic) -> None:
        self._model = model
        self._clock = clock
        self._since = clock()
        self._running: dict[str, _Running] = {}

    def read(self, event: Observation) -> None:
        """Take in *event*."""
        match event:
            case ToolStarted(call_id=id, name=name, arguments_json=arguments):
                indent = "  " if event.scope.parent_id else ""
                self._running[id] = _Running(name, _arguments(arguments), indent, self._clock())
                return
            case ToolProgressed(call_id=id, done=done, total=total, message=message):
                if (call := self._running.get(id)) is not None:
                    call.far = _amount(done) if total is None else f"{_amount(done)} of {_amount(total)}"
                    call.message = message
                return
            case ToolFinished(call_id=id):
                self._running.pop(id, None)
            case ModelCalled() | DecisionMade(operation="model_call"):
                pass
            case _:
                return
        self._since = self._clock()

    def __call__(self, columns: int, rows: int) -> Sequence[str]:
        """Return such as ``→ weather(city="Oslo") · 3 s · 2 of 5 · asking``, *rows* lines at most of *columns*."""
        if not self._running:
            waited_s = self._clock() - self._since
            text = f"waiting for {escape_all(self._model)} · {shown_seconds(waited_s)}"
            return [clipped(text, columns)] if waited_s >= SAID_AFTER_S else []
        calls = list(self._running.values())
        if len(calls) > rows == 1:
            names = ", ".join(dict.fromkeys(call.name for call in calls))
            time = self._time(min(call.since for call in calls))
            return [clipped(f"→ {len(calls)} calls{time}: {escape_all(names)}", columns)]
        shown = calls if len(calls) <= rows else calls[: rows - 1]
        lines = [self._line(call, columns) for call in shown]
        return [*lines, f"  … and {len(calls) - len(shown)} more"] if len(shown) < len(calls) else lines

    def _line(self, call: _Running, columns: int) -> str:
        """Return the line of *call*: name, time and how far it is before all else, then arguments and message."""
        name, message = escape_all(call.name), escape_all(call.message)
        far = (f" · {call.far}" if call.far else "") + (" · " if message else "")
        head, behind = f"{call.indent}→ {clipped(name, columns // 2)}(", f"){self._time(call.since)}{far}"
        left = columns - cells(head) - cells(behind)
        for_message = min(cells(message), max(left // 2, left - cells(call.arguments)))
        arguments = clipped(call.arguments, max(left - for_message, min(left, _LEAST_ARGUMENTS)))
        line = f"{head}{arguments}{behind}"
        return line + clipped(message, columns - cells(line))

    def _time(self, since: float) -> str:
        elapsed_s = self._clock() - since
        return f" · {shown_seconds(elapsed_s)}" if elapsed_s >= SAID_AFTER_S else ""


def _arguments(text: bytes) -> str:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return escape_all(text.decode(errors="replace"))
    return shown_arguments(value) if isinstance(value, dict) else escape_all(json.dumps(value))  # pyright: ignore[reportUnknownArgumentType]


def shown_arguments(arguments: Mapping[str, Any], given: Collection[str] = ()) -> str:
    """Return *arguments* as they are read most easily: those *given* first, in that order, empty others left out.

    >>> shown_arguments({"city": "Beijing", "days": 3, "unit": None, "wind": False}, ["days"])
    'days=3, city="Beijing"'
    """
    names = [name for name in given if name in arguments]
    names += [name for name, value in arguments.items() if name not in names and value not in _EMPTY]
    return ", ".join(
        f"{escape_all(name)}={escape_all(json.dumps(arguments[name], ensure_ascii=False))}" for name in names
    )


def shown_seconds(seconds: float) -> str:
    """Return a length of time.

    >>> shown_seconds(3.9), shown_seconds(65)
    ('3 s', '1 min 05 s')
    """
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _amount(number: float) -> str:
    if abs(number) >= _EXACT:
        return f"{number:.3g}"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def clipped(text: str, columns: int) -> str:
    """Return *text* in *columns*; an ellipsis at its end says that there is more.

    >>> clipped("abcdef", 4), clipped("abcd", 4), clipped("abcd", 0)
    ('abc…', 'abcd', '')
    """
    if cells(text) <= columns:
        return text
    kept, left = "", columns - 1
    for character in text:
        left -= cells(character)
        if left < 0:
            break
        kept += character
    return f"{kept}…" if columns > 0 else ""
