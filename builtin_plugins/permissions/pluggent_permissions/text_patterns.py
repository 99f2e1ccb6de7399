"""Whether a text fits a pattern: globs, regular expressions, equality. Pure."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

TextTest: TypeAlias = Callable[[str], bool]

LONGEST_RUN = 30
"""Combining characters in a row; no language needs more (UAX #15, Stream-Safe Text Format)."""

_SHORT = 1000
_MANY = 512
_FEW = 16
_IGNORABLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""All of Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties): what is not assigned yet is part of it."""
_UNSEEN = re.compile(
    rf"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202f\u2800\ufff9-\ufffb\U00013430-\U0001343f\U00016fe4\U0001d159{_IGNORABLE}]"
)
"""With control characters, line ends, blanks and marks of layout: where they stand, texts are not what they seem."""
_BLANKS = frozenset("\x1c\x1d\x1e\x1f\u115f\u1160\u2800\u3164\uffa0")
"""A space to some, nothing to others: separators, and what is as wide as a letter without a mark."""


def has_unseen(text: str) -> bool:
    """Say whether there are invisible characters in *text*, line ends included."""
    if text.isascii():
        return not text.isprintable()
    return _UNSEEN.search(text) is not None


def folded(text: str) -> str:
    r"""Return *text* without differences of case, width and invisible characters.

    Raises ValueError for a long row of combining characters: sorting them takes quadratic time.

    >>> folded("\uff21tlan\u200btis")
    'atlantis'
    """
    return _folded(_UNSEEN.sub(_kept_white, text)) if has_unseen(text) else _folded(text)


def _folded(text: str) -> str:
    if text.isascii():
        return text.casefold()
    if len(text) > _SHORT:
        _refuse_long_runs(text)
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _forms(text: str) -> tuple[str, ...]:
    """Return the forms of *text* of which a pattern that forbids may fit any.

    As it is, folded, and folded with single spaces; the last two also with invisible blanks as spaces.
    """
    return _known_forms(text) if len(text) <= _SHORT else _known_long_forms(text)


@lru_cache(_MANY)
def _known_forms(text: str) -> tuple[str, ...]:
    return _made_forms(text)


@lru_cache(_FEW)
def _known_long_forms(text: str) -> tuple[str, ...]:
    # The rules of one decision look at the same few texts: folding one takes longer than matching it.
    return _made_forms(text)


def _made_forms(text: str) -> tuple[str, ...]:
    plain = folded(text)
    squeezed = _squeezed(plain)
    if squeezed == text:
        return (text,)
    if not has_unseen(text):
        return tuple(dict.fromkeys((text, plain, squeezed)))
    spaced = _folded(_UNSEEN.sub(_kept_blank, text))
    return tuple(dict.fromkeys((text, plain, squeezed, spaced, _squeezed(spaced))))


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def glob(patterns: Iterable[str], reading: Reading) -> TextTest:
    r"""Return a test for the whole of a text: ``*``, ``?`` and ``[abc]`` are wild.

    >>> glob(["good *"], Reading.EXACT)("good day"), glob(["good *"], Reading.EXACT)("good \nday")
    (True, False)
    """
    if reading is Reading.EXACT:
        exact = _any_of(patterns)
        return lambda text: exact(text) and not has_unseen(text)
    written = {form for pattern in patterns for form in _forms(pattern)}
    if not any(letter in pattern for pattern in written for letter in "*?["):
        return lambda text: not written.isdisjoint(_forms(text))
    wide = _any_of(sorted(written))
    return lambda text: any(map(wide, _forms(text)))


def regex(patterns: Iterable[str], reading: Reading) -> TextTest:
    """Return a test for the whole of a text, in time linear in its length. See ``check_regex``."""
    if reading is Reading.EXACT:
        exact = [_linear(f"^(?:{pattern})$") for pattern in patterns]
        return lambda text: not has_unseen(text) and any(fits(text) for fits in exact)
    wide = [_linear(f"^(?is:{pattern})$") for pattern in patterns]
    if len(wide) == 1:
        return lambda text: any(map(wide[0], _forms(text)))
    return lambda text: any(fits(form) for form in _forms(text) for fits in wide)


def equal(values: Iterable[str | float], reading: Reading) -> Callable[[object], bool]:
    """Return a test for a text, number or boolean that is one of *values*.

    Read WIDE, a number is also every text that a program may read as that number.
    """
    given = tuple(values)
    if reading is Reading.EXACT:
        pairs = frozenset((isinstance(value, bool), value) for value in given)
        return lambda value: (isinstance(value, bool), value) in pairs
    wide = frozenset(form for value in given for form in _forms(text_of(value)))
    numbers = frozenset(number for value in given if _is_number(value) for number in _numbers(value))
    every = frozenset(number for value in given for number in _numbers(value))

    def test(value: object) -> bool:
        if not wide.isdisjoint(_forms(text_of(value))):
            return True
        wanted = every if _is_number(value) else numbers
        return bool(wanted) and not wanted.isdisjoint(_numbers(value))

    return test


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: object) -> Iterator[Decimal | float | int]:
    """Yield the numbers that programs may take *value* for: as it is written, as a float, with a prefix as in 0x5."""
    if isinstance(value, bool):
        return
    text = value.strip() if isinstance(value, str) else repr(value)
    for read in (Decimal, float, _with_prefix):
        with contextlib.suppress(ArithmeticError, ValueError):
            number = read(text)
            if number == number:  # noqa: PLR0124 (NaN; one that signals raises)
                yield number


def _with_prefix(text: str) -> int:
    return int(text, 0)


def check_regex(pattern: str) -> None:
    """Raise ValueError unless *pattern* is a regular expression that takes linear time."""
    # Alone as well: "a)|(b" is a pattern only in the brackets that are put around it.
    for whole in (pattern, f"^(?:{pattern})$", f"^(?is:{pattern})$"):
        _linear(whole)


def text_of(value: object) -> str:
    """Return what patterns are held against: text as it is, numbers and booleans as JSON, 5.0 as 5.

    Raises TypeError for everything else.
    """
    match value:
        case str():
            return value
        case bool() | int():
            return json.dumps(value)
        case float():
            return json.dumps(int(value) if value.is_integer() else value)
        case _:
            raise TypeError(f"no pattern is held against a value of type {type(value).__name__}")


def texts_of(value: object, reading: Reading) -> tuple[str, ...]:
    """Return what a pattern is held against, in this *reading*: 5.0 may be written as it is, too.

    Raises as ``text_of``.
    """
    text = text_of(value)
    return (text, repr(value)) if isinstance(value, float) and reading is Reading.WIDE else (text,)


def _any_of(patterns: Iterable[str]) -> TextTest:
    tests = [_one(pattern) for pattern in patterns]
    return tests[0] if len(tests) == 1 else lambda text: any(fits(text) for fits in tests)


def _one(pattern: str) -> TextTest:
    """Return the test of one glob: what it spells out has to be there, before anything is matched letter by letter."""
    if not any(letter in pattern for letter in "?["):
        return _with_stars(pattern.split("*"))
    match = re.compile(fnmatch.translate(pattern)).match
    needed = tuple(part for part in _WILD.split(pattern) if part)
    return lambda text: all(part in text for part in needed) and match(text) is not None


_WILD = re.compile(r"\[!?\]?[^\]]*\]|[*?\[]", re.DOTALL)
"""What is wild in a glob; a [ that is not closed is not, and is no part of what is needed either."""


def _with_stars(parts: list[str]) -> TextTest:
    """Return the test of *parts* with anything between them."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return lambda text: text == first
    middle = [part for part in parts[1:-1] if part]
    least = len(first) + len(last)

    def test(text: str) -> bool:
        if len(text) < least or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return test


def _linear(pattern: str) -> TextTest:
    # Inside: importing it costs 25 ms, and few policies have a regular expression. It is the engine
    # behind JSON Schema's `pattern` in the host, told to use finite automata alone.
    import jsonschema_rs

    try:
        return jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        ).is_valid
    except ValueError:
        why = "is not a regular expression that can be matched in linear time (no look-around, no back-references)"
        raise ValueError(why) from None


def _kept_white(found: re.Match[str]) -> str:
    return " " if found[0].isspace() and found[0] not in _BLANKS else ""


def _kept_blank(found: re.Match[str]) -> str:
    return " " if found[0].isspace() or found[0] in _BLANKS else ""


def _refuse_long_runs(text: str) -> None:
    run = 0
    for letter in text:
        run = run + 1 if unicodedata.combining(letter) else 0
        if run > LONGEST_RUN:
            raise ValueError("too many combining characters in a row")


class Reading(Enum):
    """How a condition is read. ``in_doubt`` is what it answers where it cannot be evaluated."""

    WIDE = True
    EXACT = False

    @property
    def in_doubt(self) -> bool:
        """Whether what cannot be evaluated fits."""
        return self.value

    @property
    def other(self) -> Reading:
        """The reading of an exception to a rule with this one."""
        return Reading.EXACT if self is Reading.WIDE else Reading.WIDE
