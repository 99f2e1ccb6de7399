r"""The small language that the offline provider understands. Pure; knows no tools.

    message = round { ";" round }             rounds run one after the other
    round   = call { "&" call }               the calls of a round run side by side
    call    = name { name "=" value }
    value   = "text" | {JSON} | [JSON] | word

``"text"`` has the escapes of JSON. A word is what stands between white space: a number,
``true``, ``false`` and ``null`` in JSON's spelling mean themselves, everything else is
text (``zip="10115"`` for digits that are text). Inside a word ``&`` and ``;`` separate only
before white space or the end, so that ``url=http://a/?b=1&c=2`` needs no quotes.

>>> parse('weather city=Beijing & weather city="New York" ; forecast city=Paris days=2')[1]
(Call(name='forecast', arguments=mappingproxy({'city': 'Paris', 'days': 2})),)
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias, cast

import attrs
from pluggent_hookspecs import EMPTY, Json, freeze_object, thaw

MAX_DEPTH = 64
MAX_DIGITS = 400

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r'[^\s=&;"\[\]{}]+')
_WORD = re.compile(r'[^\s&;"\[\]{}](?:[^\s&;]|[&;](?!\s|\Z))*')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# \Z: a string that is never closed is taken to the end at once, or each quote in it is tried
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[\]{}]', re.DOTALL)
_CONSTANTS: Mapping[str, Json] = {"true": True, "false": False, "null": None}


@attrs.frozen
class Call:
    """One call as typed; ``position`` is where it begins in the text, in characters from 0."""

    name: str
    arguments: Mapping[str, Json] = attrs.field(default=EMPTY, converter=freeze_object)
    position: int = attrs.field(default=0, eq=False, repr=False, kw_only=True)


Rounds: TypeAlias = tuple[tuple[Call, ...], ...]


class GrammarError(ValueError):
    """A text is not in this language; ``position`` counts characters from 0."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        self.problem = problem
        self.text = text
        self.position = position
        super().__init__(f"{problem} (character {position + 1})")


def parse(text: str) -> Rounds:
    """Return the rounds of calls in *text*, at least one. Raises GrammarError."""
    reader = _Reader(text)
    rounds = [[reader.call()]]
    while separator := reader.separator():
        if separator == ";":
            rounds.append([])
        rounds[-1].append(reader.call())
    return tuple(tuple(calls) for calls in rounds)


def first_word(text: str) -> str:
    """Return what would be the first tool's name, empty if the text cannot begin a call."""
    match = _NAME.match(text, _after_space(text, 0))
    return match.group() if match else ""


def render(rounds: Sequence[Sequence[Call]]) -> str:
    """Return a text that parses to *rounds*; the names in it must be names of this language."""
    return " ; ".join(" & ".join(_render_call(call) for call in calls) for calls in rounds)


def render_value(value: Json) -> str:
    """Return *value* as it would be typed after ``=``.

    >>> render_value("New York"), render_value("Paris"), render_value("7"), render_value(7)
    ('"New York"', 'Paris', '"7"', '7')
    """
    if isinstance(value, str) and _WORD.fullmatch(value) and not (value in _CONSTANTS or _NUMBER.fullmatch(value)):
        return value
    return json.dumps(thaw(value), ensure_ascii=False)


def _render_call(call: Call) -> str:
    return " ".join((call.name, *(f"{name}={render_value(value)}" for name, value in call.arguments.items())))


class _Reader:
    """Goes through a text once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def call(self) -> Call:
        self._at = start = _after_space(self._text, self._at)
        name = self._name("expected the name of a tool")
        arguments: dict[str, Json] = {}
        while not self._at_end_of_call():
            key_at = self._at
            key = self._name("expected an argument, key=value")
            if not self._text.startswith("=", self._at):
                raise self._error(f"expected an argument, key=value, found '{key}'", key_at)
            if key in arguments:
                raise self._error(f"'{key}' is given twice", key_at)
            self._at += 1
            arguments[key] = self._value(key)
        return Call(name, arguments, position=start)

    def separator(self) -> str:
        """Pass ``&`` or ``;`` and return it; empty at the end of the text."""
        found = self._text[self._at : self._at + 1]
        self._at += len(found)
        return found

    def _at_end_of_call(self) -> bool:
        self._at = _after_space(self._text, self._at)
        return self._text[self._at : self._at + 1] in ("", "&", ";")

    def _name(self, problem: str) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._error(problem, self._at)
        self._at = match.end()
        return match.group()

    def _value(self, key: str) -> Json:
        start = self._at
        opening = self._text[start : start + 1]
        if opening and opening in '"{[':
            self._at = end = self._end_of_string(start) if opening == '"' else self._end_of_nesting(start)
            if self._text[end : end + 1].strip() not in ("", "&", ";"):
                raise self._error(f"expected white space after the value of '{key}'", end)
            return self._json(start, end)
        match = _WORD.match(self._text, start)
        if match is None:
            raise self._error(f"expected a value after '{key}='; empty text is {key}=\"\"", start)
        self._at = match.end()
        return self._word(match.group(), start)

    def _word(self, word: str, start: int) -> Json:
        if word in _CONSTANTS or _NUMBER.fullmatch(word):
            return self._json(start, start + len(word))
        self._check_characters(word, start)
        return word

    def _end_of_string(self, start: int) -> int:
        match = _STRING.match(self._text, start)
        if match is None:
            raise self._error("this quote is never closed", start)
        return match.end()

    def _end_of_nesting(self, start: int) -> int:
        depth = 0
        for match in _NESTING.finditer(self._text, start):
            depth += (match.group() in "[{") - (match.group() in "]}")
            if depth > MAX_DEPTH:
                raise self._error(f"nested deeper than {MAX_DEPTH}", match.start())
            if depth == 0:
                return match.end()
        raise self._error("this bracket is never closed", start)

    def _json(self, start: int, end: int) -> Json:
        text = self._text[start:end]
        self._check_characters(text, start)
        try:
            value = _DECODER.decode(text)
            json.dumps(value, ensure_ascii=False).encode()  # "\ud800" is a lone surrogate
        except json.JSONDecodeError as error:
            raise self._error(f"not JSON: {error.msg}", start + error.pos) from error
        except ValueError as error:
            raise self._error(_reason(error), start) from error
        return cast("Json", value)

    def _check_characters(self, text: str, start: int) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self._error(_reason(error), start + error.start) from error

    def _error(self, problem: str, position: int) -> GrammarError:
        return GrammarError(problem, self._text, position)


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _reason(error: ValueError) -> str:
    return "a lone surrogate" if isinstance(error, UnicodeEncodeError) else str(error)


def _number(raw: str) -> int | float:
    value = 0 if len(raw) > MAX_DIGITS else float(raw) if any(sign in raw for sign in ".eE") else int(raw)
    if len(raw) > MAX_DIGITS or math.isinf(value):
        raise ValueError(f"the number {raw[:12]}… is too large")
    return value


def _constant(raw: str) -> NoReturn:
    raise ValueError(f"{raw} is not JSON")


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"'{twice}' is given twice")
    return members


_DECODER = json.JSONDecoder(
    strict=False, parse_int=_number, parse_float=_number, parse_constant=_constant, object_pairs_hook=_members
)
