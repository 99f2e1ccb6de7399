"""Divides Markdown that is still being written into blocks that are complete, and the rest. Pure.

A block is complete when nothing that may follow can change it. Lists are divided into their
items and fenced code into its lines, so that the rest stays short.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import TypeAlias

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token

_FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*(.*)")
_ENDED_BY_A_BLANK_LINE = frozenset({"paragraph_open", "blockquote_open", "table_open"})
_ALWAYS_ENDED = frozenset({"heading_open", "hr"})
_LISTS = frozenset({"bullet_list_open", "ordered_list_open"})


@attrs.frozen
class Prose:
    """A block of any kind that has no kind of its own below."""

    source: str


@attrs.frozen
class Item:
    """One item of a list. ``number`` is None in a list without numbers; ``first`` begins its list."""

    source: str
    number: int | None
    first: bool


@attrs.frozen
class CodeBegins:
    """A fenced block begins; ``info`` is what stands behind the fence, such as ``python``."""

    info: str


@attrs.frozen
class Code:
    """Lines of the fenced block that has begun."""

    lines: tuple[str, ...]


@attrs.frozen
class CodeEnds:
    """The fenced block is over."""


Piece: TypeAlias = Prose | Item | CodeBegins | Code | CodeEnds


@attrs.frozen
class Fence:
    """An open fence: how far it is indented, and what closes it."""

    indent: int
    mark: str

    def closed_by(self, line: str) -> bool:
        found = _FENCE.fullmatch(line)
        return found is not None and found[2].startswith(self.mark) and not found[3].strip()

    def content(self, line: str) -> str:
        return line[min(self.indent, len(line) - len(line.lstrip(" "))) :]


@attrs.frozen
class OpenList:
    """A list some items of which were taken: what marks them, and the number of the next."""

    mark: str
    number: int | None


@attrs.frozen
class Rest:
    """What is not complete yet, and what it is in the middle of."""

    source: str = ""
    fence: Fence | None = None
    open_list: OpenList | None = None

    def add(self, text: str) -> Rest:
        """Return the rest with *text* behind it."""
        return attrs.evolve(self, source=self.source + text)

    def divide(self) -> tuple[tuple[Piece, ...], Rest]:
        """Return the pieces that are complete, and what is left then."""
        at = self.source.rfind("\n") + 1  # the beginning of a line may become anything
        pieces, rest = _divided(attrs.evolve(self, source=self.source[:at]), last=False)
        return tuple(pieces), rest.add(self.source[at:])

    def end(self) -> tuple[Piece, ...]:
        """Return all pieces: nothing more will come."""
        pieces, rest = _divided(self, last=True)
        return (*pieces, CodeEnds()) if rest.fence is not None else tuple(pieces)


def _divided(rest: Rest, *, last: bool) -> tuple[list[Piece], Rest]:
    pieces: list[Piece] = []
    going_on = True
    while going_on and rest.source:
        more, after = _code(rest, last=last) if rest.fence is not None else _prose(rest, last=last)
        pieces += more
        going_on = after.source != rest.source
        rest = after
    return pieces, rest


# ---- fenced code ------------------------------------------------------------------------


def _code(rest: Rest, *, last: bool) -> tuple[list[Piece], Rest]:
    fence = rest.fence
    assert fence is not None
    *lines, partial = rest.source.split("\n")
    if last and partial:
        lines, partial = [*lines, partial], ""
    for number, line in enumerate(lines):
        if fence.closed_by(line):
            pieces = _lines_of(fence, lines[:number])
            return [*pieces, CodeEnds()], Rest("\n".join([*lines[number + 1 :], partial]))
    return _lines_of(fence, lines), attrs.evolve(rest, source=partial)


def _lines_of(fence: Fence, lines: Sequence[str]) -> list[Piece]:
    return [Code(tuple(fence.content(line) for line in lines))] if lines else []


# ---- everything else --------------------------------------------------------------------


def _prose(rest: Rest, *, last: bool) -> tuple[list[Piece], Rest]:
    """Take the blocks that are complete; stop in a fence that is still open."""
    lines = rest.source.split("\n")
    blocks = _blocks(lines)
    if not blocks:
        return (_literal(lines), Rest()) if last else ([], Rest(rest.source if rest.source.strip() else ""))
    pieces = _literal(lines[: blocks[0].start])
    open_list = rest.open_list
    for block, after in pairwise([*blocks, None]):
        assert block is not None
        if after is None and block.fence is not None:
            source = "\n".join(lines[block.start + 1 :])
            return [*pieces, CodeBegins(block.info)], Rest(source, block.fence)
        if after is None and block.items and not last:
            items = _items(block, open_list, lines)
            begun = OpenList(block.mark, items[-1].number) if not items[-1].first else None
            return [*pieces, *items[:-1]], Rest("\n".join(lines[block.items[-1] :]), None, begun)
        if after is None and not last and not block.ended:
            return pieces, Rest("\n".join(lines[block.start :]))
        pieces += _whole(block, open_list, lines)
        pieces += _literal(lines[block.end : len(lines) if after is None else after.start])
        open_list = None
    return pieces, Rest()


def _whole(block: _Block, open_list: OpenList | None, lines: Sequence[str]) -> Sequence[Piece]:
    if block.fence is not None:
        inside = lines[block.start + 1 : block.end]
        if inside and block.fence.closed_by(inside[-1]):
            inside = inside[:-1]
        return [CodeBegins(block.info), *_lines_of(block.fence, inside), CodeEnds()]
    if block.items:
        return _items(block, open_list, lines)
    return [Prose("\n".join(lines[block.start : block.end]))]


def _items(block: _Block, open_list: OpenList | None, lines: Sequence[str]) -> list[Item]:
    goes_on = open_list is not None and open_list.mark == block.mark
    number = open_list.number if goes_on and open_list is not None else block.number
    return [
        Item("\n".join(lines[start:stop]), None if number is None else number + index, not goes_on and index == 0)
        for index, (start, stop) in enumerate(pairwise([*block.items, block.end]))
    ]


def _literal(lines: Sequence[str]) -> list[Piece]:
    """Return lines that are no block, such as definitions of links, as they are: nothing is hidden."""
    said = [number for number, line in enumerate(lines) if line.strip()]
    return [Prose("\n".join(lines[said[0] : said[-1] + 1]))] if said else []


@attrs.frozen
class _Block:
    """A block as the parser found it; ``start`` and ``end`` are numbers of lines."""

    start: int
    end: int
    ended: bool
    mark: str = ""
    number: int | None = None
    items: tuple[int, ...] = ()
    fence: Fence | None = None
    info: str = ""


def _blocks(lines: Sequence[str]) -> list[_Block]:
    tokens = _PARSER.parse("\n".join(lines))
    return [
        _block(token, tokens[at + 1 :], lines)
        for at, token in enumerate(tokens)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]


def _block(token: Token, after: Sequence[Token], lines: Sequence[str]) -> _Block:
    assert token.map is not None
    start, end = token.map
    if token.type == "fence" and (found := _FENCE.match(lines[start])) is not None:
        return _Block(start, end, ended=False, fence=Fence(len(found[1]), found[2]), info=token.info.strip())
    if token.type in _LISTS:
        number = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else None
        return _Block(start, end, ended=False, mark=token.markup, number=number, items=_items_of(after))
    blank_follows = any(not line.strip() for line in lines[end:-1])
    ended = token.type in _ALWAYS_ENDED or (token.type in _ENDED_BY_A_BLANK_LINE and blank_follows)
    return _Block(start, end, ended)


def _items_of(tokens: Sequence[Token]) -> tuple[int, ...]:
    inside = takewhile(lambda token: token.level > 0, tokens)
    return tuple(
        one.map[0] for one in inside if one.level == 1 and one.type == "list_item_open" and one.map is not None
    )


_PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
