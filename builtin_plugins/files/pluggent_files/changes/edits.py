"""Exact replacements in a text, all or none, and what to do where the old text is not found. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from pluggent_hookspecs import ToolError

from pluggent_files.edit_type import Edit
from pluggent_files.text import amount, clean, has_crlf, line_end, numbered

_NUMBERED = re.compile(r"\s*\d+\t")
MOST_COMPARED = 4_000
"""Lines that are compared to find the most similar ones."""
LONGEST_MIXED = 20_000
"""Characters of an old text that is looked for with any line ends."""
SHOWN = 200
MOST_NAMED = 20
MOST_SPANS = 100
"""New places of one edit that are remembered, to be shown."""


class Edited(NamedTuple):
    """The new text, and where it is new: (start, end) of each replacement in it."""

    text: str
    spans: tuple[tuple[int, int], ...]


def edited(text: str, edits: Sequence[Edit], name: str) -> Edited:
    """Return *text*, of the file *name*, after all *edits*, each of which sees what the one before left.

    Raises ToolError, naming the edit, if one cannot be made: then none is.

    >>> edited("a b a", [{"old_text": "b", "new_text": "c"}], "x").text
    'a c a'
    """
    if not edits:
        raise ToolError("edits is empty: give at least one {old_text, new_text}")
    spans: list[tuple[int, int]] = []
    for number, edit in enumerate(edits, 1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        found = _places(text, edit, f"{which}{name}: ")
        text, spans = _replaced(text, found, edit["new_text"], spans)
    return Edited(text, tuple(sorted(spans)))


def _places(text: str, edit: Edit, where: str) -> list[tuple[int, int]]:
    """Return where the old text stands. Raises ToolError if that is not as the edit says."""
    old = edit["old_text"]
    if not old:
        raise ToolError(f"{where}old_text is empty: give the text that stands where the new one belongs, or write_file")
    if old == edit["new_text"]:
        raise ToolError(f"{where}old_text and new_text are the same")
    found = _occurrences(old, text)
    if not found:
        raise ToolError(f"{where}{_not_found(old, text)}")
    if len(found) > 1 and not edit.get("replace_all", False):
        lines = [text.count("\n", 0, start) + 1 for start, _ in found]
        named = ", ".join(map(str, lines[:MOST_NAMED])) + (", …" if len(lines) > MOST_NAMED else "")
        raise ToolError(
            f"{where}old_text stands there {len(found)} times (lines {named}), so nothing was changed. Take more of the"
            " lines around into it so that it is the only one, or set replace_all"
        )
    return found


def _occurrences(old: str, text: str) -> list[tuple[int, int]]:
    """Return where *old* stands; where the text has CRLF, a line end in *old* is any line end."""
    if "\n" not in old or not has_crlf(text):
        return _exact(old, text)
    plain = old.replace("\r\n", "\n")
    if found := _exact(plain.replace("\n", "\r\n"), text):
        return found
    if len(old) > LONGEST_MIXED:
        return _exact(old, text)
    mixed = r"\r?\n".join(map(re.escape, plain.split("\n")))
    return [match.span() for match in re.finditer(mixed, text)]


def _exact(old: str, text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at = text.find(old)
    while at >= 0:
        found.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return found


def _replaced(
    text: str, found: list[tuple[int, int]], new: str, spans: list[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    pieces: list[str] = []
    made: list[tuple[int, int]] = []
    at = size = 0
    usual = line_end(text) if has_crlf(text) else ""
    for start, end in found:
        put = _with_line_ends(new, text[start:end], usual) if usual else new
        pieces += [text[at:start], put]
        size += start - at
        made.append((size, size + len(put)))
        size += len(put)
        at = end
    moved = [*_moved(spans, found, made), *made[:MOST_SPANS]]
    if len(found) == 1:  # with fewer copies
        return text.replace(text[found[0][0] : at], pieces[1], 1), moved
    pieces.append(text[at:])
    return "".join(pieces), moved


def _with_line_ends(new: str, there: str, usual: str) -> str:
    """Return *new* with the line ends of what is *there*, else with the *usual* ones."""
    ending = "\r\n" if "\r\n" in there else "\n" if "\n" in there else usual
    return new.replace("\r\n", "\n").replace("\n", ending)


def _moved(
    spans: list[tuple[int, int]], found: list[tuple[int, int]], made: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return where earlier *spans* are after what was *found* became what was *made*, roughly where they overlap."""
    if not spans:
        return []
    starts = [start for start, _ in found]
    shifts = [0, *accumulate((m[1] - m[0]) - (f[1] - f[0]) for f, m in zip(found, made, strict=True))]
    moved: list[tuple[int, int]] = []
    for start, end in spans:
        shift = shifts[bisect_left(starts, start)]
        moved.append((max(0, start + shift), max(0, end + shift)))
    return moved


# ---- what to do where it is not found --------------------------------------------------------


def _not_found(old: str, text: str) -> str:
    lines, wanted = text.split("\n"), old.replace("\r\n", "\n").strip("\n").split("\n")
    if all(_NUMBERED.match(line) for line in wanted if line):
        return "old_text was not found: it has the line numbers of read_file in it. Leave them and the tab out"
    if at := _same_but_for_blanks(lines, wanted):
        shown = clean(numbered(lines[at - 1 : at - 1 + len(wanted)], at, SHOWN))
        where = f"line {at}" if len(wanted) == 1 else f"lines {at} to {at + len(wanted) - 1}"
        return f"old_text was not found. It differs in white space from {where}:\n{shown}"
    if near := _nearest(lines, wanted):
        shown = clean(numbered(lines[near - 1 : near - 1 + len(wanted)][:MOST_NAMED], near, SHOWN))
        return f"old_text was not found. Most similar is what begins at line {near}:\n{shown}"
    return f"old_text was not found in its {amount(len(lines), 'line')}. Read the file again"


def _same_but_for_blanks(lines: list[str], wanted: list[str]) -> int:
    """Return the line, from 1, where *wanted* stands but for white space; 0 if nowhere."""
    bare, sought = ["".join(line.split()) for line in lines], ["".join(line.split()) for line in wanted]
    if not any(sought):
        return 0
    whole = "\n{}\n".format("\n".join(bare))  # as text it is found in linear time
    at = whole.find("\n{}\n".format("\n".join(sought)))
    return 0 if at < 0 else whole.count("\n", 0, at) + 1


def _nearest(lines: list[str], wanted: list[str]) -> int:
    """Return the line, from 1, where something similar to *wanted* begins; 0 if nothing is similar."""
    import difflib  # when something is not found

    index, longest = max(enumerate(wanted), key=lambda each: len(each[1].strip()))
    sought = longest.strip()[:SHOWN]
    if not sought:
        return 0
    words = set(re.findall(r"\w+", sought))
    scored = sorted(
        ((len(words & set(re.findall(r"\w+", line[:SHOWN]))), -number) for number, line in enumerate(lines)),
        reverse=True,
    )[: MOST_COMPARED // 20]
    matcher = difflib.SequenceMatcher(b=sought, autojunk=False)
    best, ratio = 0, 0.6
    for _, number in scored:
        matcher.set_seq1(lines[-number].strip()[:SHOWN])
        if matcher.quick_ratio() > ratio and (now := matcher.ratio()) > ratio:
            best, ratio = max(1, 1 - number - index), now
    return best
