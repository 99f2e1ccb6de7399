"""What the patterns of an approval mean: who is among ``approvers``, which arguments fit ``where``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from unicodedata import normalize
from urllib.parse import unquote

from pluggent_hookspecs._frozen import Json, thaw

__all__ = ["fits", "may_approve"]

_LONGEST = 4_096


def may_approve(approvers: Iterable[Iterable[str]], who: str) -> bool:
    """Say whether *who* is among each of *approvers*, which are names with ``*``."""
    # Only * is special: a ? or [ may be in a name.
    return all(any(fnmatchcase(who, re.sub(r"[?[]", r"[\g<0>]", name)) for name in names) for names in approvers)


def fits(where: Mapping[str, str], arguments: Mapping[str, Json]) -> bool:
    """Say whether *arguments* have every name of *where*, with a value that fits its pattern.

    A value that is not text is compared as JSON and fits no pattern with stars: one could stand for more entries of
    a list. A text has to fit such a pattern as it is, and as any reader decodes or normalises it.
    """
    return all(name in arguments and _fits(pattern, arguments[name]) for name, pattern in where.items())


def _fits(pattern: str, value: Json) -> bool:
    text = value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False, sort_keys=True)
    if "*" not in pattern or text == pattern:
        return text == pattern
    if not isinstance(value, str) or len(text) > _LONGEST:
        return False
    return all(_matches(pattern, reading) for reading in _readings(text))


def _readings(text: str) -> set[str]:
    """Return *text*, and its forms for readers that decode ``%2F`` or normalise a wide slash."""
    readings = {text}
    while (again := normalize("NFKC", decoded := unquote(text))) != text:
        readings |= {decoded, again}
        text = again
    return readings


def _matches(pattern: str, text: str) -> bool:
    up = ".." in re.split(r"[/\\]", text) or not text.isprintable()
    return not up and _expression(pattern).fullmatch(text) is not None


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    stars = {"*": "[^/]*"}
    parts = re.split(r"(\*+)", pattern)
    return re.compile("".join(stars.get(part, ".*") if part.startswith("*") else re.escape(part) for part in parts))
