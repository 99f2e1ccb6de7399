"""Finds the JSON that is meant as a plan among whatever a model writes around it. Pure.

Takes time in proportion to the text: what failed is not read again from its start.
"""

from __future__ import annotations

import re
from bisect import bisect_left

import attrs

from pluggent_plan_json.json_nodes import ListNode, Node, NotJsonError, ObjectNode, TextNode, read_json

_OPENING = re.compile(r"[\[{]")
_BRACKET = re.compile(r"[\[\]{}]")
_OF_A_PLAN = re.compile(r"\b(?:steps|description)\b")
_LIKE_A_NAME = re.compile(r"""\s*(?:'|"|//|/\*|\w+\s*:)""")


@attrs.frozen
class Found:
    """What stood in a text: the value taken for the plan, else the first of the others or a failure."""

    plan: Node | None
    other: Node | None = None
    failure: NotJsonError | None = None


def find_plan(text: str) -> Found:
    """Return the first object with steps, else the first list that could be steps.

    Something that was meant as JSON, speaks of steps and is broken ends the search: what is
    left of it is not taken for the plan. Raises NotJsonError for that.
    """
    search = _Search(text)
    lists: list[Node] = []
    other: Node | None = None
    position = 0
    while opening := _OPENING.search(text, position):
        value, position = search.read(opening.start())
        if isinstance(value, ObjectNode) and "steps" in value.members:
            return Found(value)
        if value is not None and _could_be_steps(value) and value.position >= search.broken_until:
            lists.append(value)
        other = other or value
    return Found(lists[0] if lists else None, other, search.failure)


class _Search:
    """Reads one value after the other and remembers what was broken."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._hints = [match.start() for match in _OF_A_PLAN.finditer(text)]
        self._closing: dict[int, int] | None = None
        self.broken_until = 0
        self.failure: NotJsonError | None = None

    def read(self, start: int) -> tuple[Node | None, int]:
        """Return the value at *start*, None if it is broken, and where to continue."""
        try:
            return read_json(self._text, start)
        except NotJsonError as error:
            if self._meant_as_json(start, error.position):
                self._note(start, error)
            return None, max(error.position, start + 1)

    def _meant_as_json(self, start: int, failed: int) -> bool:
        """Tell JSON with a mistake from a bracket in prose, which fails at its first word."""
        between = self._text[start + 1 : failed]
        return bool(between.strip()) or _LIKE_A_NAME.match(self._text, failed) is not None

    def _note(self, start: int, error: NotJsonError) -> None:
        self.failure = self.failure or error
        end = self._end_of(start)
        hint = bisect_left(self._hints, start)
        if hint < len(self._hints) and self._hints[hint] < end:
            raise error
        self.broken_until = max(self.broken_until, end)

    def _end_of(self, start: int) -> int:
        """Return where the bracket at *start* closes, the end of the text if it never does."""
        if self._closing is None:
            self._closing = _closings(self._text)
        return self._closing.get(start, len(self._text))


def _closings(text: str) -> dict[int, int]:
    closings: dict[int, int] = {}
    open_at: list[int] = []
    for match in _BRACKET.finditer(text):
        if match.group() in "[{":
            open_at.append(match.start())
        elif open_at:
            closings[open_at.pop()] = match.end()
    return closings


def _could_be_steps(value: Node) -> bool:
    """Return whether *value* is a list of texts, or of objects of which one has a description."""
    if not isinstance(value, ListNode) or not value.items:
        return False
    described = any(isinstance(item, ObjectNode) and "description" in item.members for item in value.items)
    return described or all(isinstance(item, TextNode) for item in value.items)
