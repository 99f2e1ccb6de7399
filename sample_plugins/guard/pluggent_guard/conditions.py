"""Whether the arguments of a call fit the conditions of a rule. Pure."""

from __future__ import annotations

import fnmatch
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from pluggent_hookspecs import Json

Condition: TypeAlias = Callable[[Mapping[str, Json]], bool]


def condition(path: str, patterns: tuple[str, ...], *, every: bool = False) -> Condition:
    """Return a test: does a value at *path* match one of *patterns*? With *every*: do all values there?

    ``*``, ``?`` and ``[abc]`` are wild. Upper and lower case are the same, and so are the
    forms of one character that Unicode calls compatible: a policy is not passed by
    writing ``ATLANTIS`` or in full-width letters.

    >>> condition("to.*", ("*@evil.example",))({"to": ("a@good.example", "B@Evil.Example")})
    True
    """
    tests = [re.compile(fnmatch.translate(_folded(pattern))) for pattern in patterns]

    def holds(arguments: Mapping[str, Json]) -> bool:
        texts = [_folded(text_of(value)) for value in values_at(arguments, path)]
        matched = [any(test.match(text) for test in tests) for text in texts]
        return bool(matched) and all(matched) if every else any(matched)

    return holds


def values_at(value: Json, path: str) -> Iterator[Json]:
    """Yield what *path* leads to: member names and indexes joined by dots, ``*`` for any.

    >>> list(values_at({"a": [{"b": 1}, {"b": 2}]}, "a.*.b"))
    [1, 2]
    """
    if not path:
        yield value
    elif isinstance(value, Mapping):
        for name, member in value.items():
            for head in dict.fromkeys((name, "*")):
                if path == head or path.startswith(head + "."):  # a name may have dots in it
                    yield from values_at(member, path[len(head) + 1 :])
    elif isinstance(value, list | tuple):
        head, _, rest = path.partition(".")
        for index, item in enumerate(value):
            if head in ("*", str(index)):
                yield from values_at(item, rest)


def text_of(value: Json) -> str:
    """Return what patterns are held against: text as it is, everything else as JSON, 5.0 as 5."""
    if isinstance(value, str):
        return value
    return json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _whole(value: Json) -> Json:
    """Return *value* with every whole number written without a point, however it was given."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(item) for item in value]
    return value


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()
