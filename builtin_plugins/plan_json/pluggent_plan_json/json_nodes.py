"""JSON that knows where each of its values stood, so that a problem can name its line. Pure."""

from __future__ import annotations

import json
import re
from typing import TypeAlias

import attrs

MAX_DEPTH = 32


@attrs.frozen
class ObjectNode:
    """An object; its names are unique."""

    position: int
    members: dict[str, Node]


@attrs.frozen
class ListNode:
    """An array."""

    position: int
    items: list[Node]


@attrs.frozen
class TextNode:
    """A string, with its escapes resolved."""

    position: int
    text: str


@attrs.frozen
class NumberNode:
    """A number as it was written."""

    position: int
    raw: str


@attrs.frozen
class ConstantNode:
    """``true``, ``false`` or ``null``."""

    position: int
    name: str


Node: TypeAlias = ObjectNode | ListNode | TextNode | NumberNode | ConstantNode


def kind_of(node: Node) -> str:
    """Return what *node* is, in words with their article."""
    match node:
        case ObjectNode():
            return "an object"
        case ListNode():
            return "a list"
        case TextNode():
            return "text"
        case NumberNode():
            return "a number"
        case ConstantNode(name=name):
            return name


class NotJsonError(Exception):
    """What stands at ``position`` is not JSON; ``path`` says how far it was."""

    def __init__(self, problem: str, position: int, path: str) -> None:
        self.problem = problem
        self.position = position
        self.path = path
        super().__init__(problem)


_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.])")
_CONSTANT = re.compile(r"(?:true|false|null)\b")
_WORD = re.compile(r"\w+|.?", re.DOTALL)


def read_json(text: str, position: int) -> tuple[Node, int]:
    """Return the JSON value that begins at *position*, and where it ends.

    Strict: names are unique, NaN and lone surrogates are refused, and nesting ends at
    MAX_DEPTH. Raises NotJsonError. Takes time in proportion to what it reads.
    """
    reader = _Reader(text, position)
    return reader.value("", 0), reader.position


class _Reader:
    def __init__(self, text: str, position: int) -> None:
        self._text = text
        self.position = position

    def value(self, path: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH}", path)
        start = self.position
        match self._text[start : start + 1]:
            case "{":
                return ObjectNode(start, self._members(path, depth))
            case "[":
                return ListNode(start, self._items(path, depth))
            case '"':
                return TextNode(start, self._string(path))
            case _:
                return self._plain(path)

    def _members(self, path: str, depth: int) -> dict[str, Node]:
        members: dict[str, Node] = {}
        self.position += 1
        if self._passes("}"):
            return members
        while True:
            self._expect_name(path)
            at = self.position
            name = self._string(path)
            if name in members:
                raise self._error(f"the name '{name}' is there twice", path, at)
            if not self._passes(":"):
                raise self._error(f"expected ':' after '{name}', found {self._found()}", path)
            self._skip_space()
            members[name] = self.value(f"{path}.{name}" if path else name, depth + 1)
            if self._passes("}"):
                return members
            self._expect_comma("}", path)

    def _items(self, path: str, depth: int) -> list[Node]:
        items: list[Node] = []
        self.position += 1
        if self._passes("]"):
            return items
        while True:
            self._skip_space()
            items.append(self.value(f"{path}[{len(items)}]", depth + 1))
            if self._passes("]"):
                return items
            self._expect_comma("]", path)

    def _string(self, path: str) -> str:
        match = _STRING.match(self._text, self.position)
        if match is None:
            raise self._error("this text is not closed on its line", path)
        try:
            text = json.loads(match.group())
            text.encode()
        except UnicodeEncodeError:
            raise self._error("a lone surrogate", path) from None
        except ValueError as error:
            raise self._error("an escape that JSON does not know", path) from error
        self.position = match.end()
        return str(text)

    def _plain(self, path: str) -> Node:
        start = self.position
        if match := _NUMBER.match(self._text, start):
            self.position = match.end()
            return NumberNode(start, match.group())
        if match := _CONSTANT.match(self._text, start):
            self.position = match.end()
            return ConstantNode(start, match.group())
        raise self._error(f"expected a value, found {self._found()}", path)

    def _expect_name(self, path: str) -> None:
        self._skip_space()
        if not self._text.startswith('"', self.position):
            raise self._error(f"expected a name in double quotes, found {self._found()}", path)

    def _expect_comma(self, closing: str, path: str) -> None:
        if not self._passes(","):
            raise self._error(f"expected ',' or '{closing}', found {self._found()}", path)

    def _passes(self, mark: str) -> bool:
        self._skip_space()
        there = self._text.startswith(mark, self.position)
        self.position += there
        return there

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self.position)
        assert match is not None
        self.position = match.end()

    def _found(self) -> str:
        match = _WORD.match(self._text, self.position)
        word = match.group()[:20] if match else ""
        return repr(word) if word else "the end of the text"

    def _error(self, problem: str, path: str, position: int | None = None) -> NotJsonError:
        return NotJsonError(problem, self.position if position is None else position, path)
