"""Reads the Markdown files of this checkout as data: their blocks of code, links and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from workspace import ROOT, files

FENCE = re.compile(r"^```(?P<language>[^\s`]*)\s*$")
TITLE = re.compile(r"`(?P<path>[\w./-]+\.(?:toml|py|md|json|txt))`[^`]*:$")
"""The end of a paragraph that names the file which the next block shows."""
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)|(?:src|srcset|href)=\"(?P<quoted>[^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(?P<text>.+?) *$")


class Block(NamedTuple):
    """One fenced block of code. ``path`` is the file that it shows, ``""`` if the text before it names none."""

    file: Path
    line: int
    language: str
    text: str
    path: str

    @property
    def place(self) -> str:
        """What a test calls it."""
        return f"{self.file}:{self.line}"


@cache
def pages() -> tuple[Path, ...]:
    """Return every Markdown file that is or would be committed, relative to the checkout."""
    return tuple(file for file in files() if file.suffix == ".md")


def text_of(page: Path) -> str:
    """Return the text of *page*."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    """Return the blocks of *page*, in their order. Raises ValueError for one that does not end."""
    return tuple(_blocks(page, text_of(page).splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    at = 0
    before = ""
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence is None:
            before = lines[at] or before
            at += 1
            continue
        end = next((number for number in range(at + 1, len(lines)) if lines[number] == "```"), None)
        if end is None:
            raise ValueError(f"{page}:{at + 1}: this block does not end")
        title = TITLE.search(before)
        text = "".join(f"{line}\n" for line in lines[at + 1 : end])
        yield Block(page, at + 1, fence["language"], text, title["path"] if title else "")
        before = ""
        at = end + 1


def prose(page: Path) -> str:
    """Return *page* without its blocks of code and without HTML comments."""
    text = re.sub(r"^```[^\n]*\n.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def links(page: Path) -> tuple[str, ...]:
    """Return the targets of the links and pictures of *page*."""
    found = _LINK.finditer(re.sub(r"`[^`\n]*`", "", prose(page)))
    return tuple(match["target"] or match["quoted"] for match in found)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that the headings of *page* have where Markdown is shown as HTML."""
    taken: dict[str, int] = {}
    found: set[str] = set()
    for line in prose(page).splitlines():
        heading = _HEADING.match(line)
        if heading:
            anchor = anchor_of(heading["text"])
            number = taken.get(anchor, 0)
            taken[anchor] = number + 1
            found.add(f"{anchor}-{number}" if number else anchor)
    return frozenset(found)


def anchor_of(heading: str) -> str:
    """Return the anchor of a *heading*, as code hosts make it.

    >>> anchor_of("What `run` does, in short")
    'what-run-does-in-short'
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def commands(block: Block) -> tuple[str, ...]:
    """Return the lines of a shell that *block* shows; a line that ends with a backslash continues in the next."""
    joined = re.sub(r" *\\\n\s*", " ", block.text)
    lines = joined.splitlines()
    if block.language == "sh":
        return tuple(line for line in lines if line and not line.startswith("#"))
    return tuple(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
