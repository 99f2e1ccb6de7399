"""Regular expressions of searches: RE2's, in a form that ripgrep understands in the same way. Pure but for the library.

Lines are searched one by one: nothing matches a line end, and ``$`` stands before CRLF too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pluggent_hookspecs import ToolError

from pluggent_files.search.expressions import Expression, compiled

LONGEST = 1_000

_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_REPEAT = re.compile(r"\{\d+(?:,\d*)?\}")
_GROUP = re.compile(r"\((?:\?(?:P<\w+>|[iU]*(?:-[iU]+)?(?P<end>[:)])))?")
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_SAME = frozenset("tfrv")
_LINE_END = r"(?:\r?$)"


class Pattern(NamedTuple):
    """What is searched for. ``literal`` are the bytes of a plain text, None for an expression."""

    expression: Expression
    literal: bytes | None
    for_ripgrep: str | None
    """None where it cannot be said in ripgrep's syntax for sure."""


class _UnsureError(Exception):
    """Something in a pattern may mean another thing to ripgrep."""


def pattern(text: str, *, ignore_case: bool = False, is_literal: bool = False) -> Pattern:
    """Return what searches for *text*, a regular expression unless *is_literal*. Raises ToolError."""
    if not text or len(text) > LONGEST:
        raise ToolError(f"a pattern has 1 to {LONGEST:,} characters")
    if "\n" in text or "\r" in text:
        raise ToolError("files are searched line by line: search for one line of the text, and read the file there")
    plain = is_literal or _SPECIAL.search(text) is None
    if plain:
        ripgrep: str | None = _hex(text)
        text = re.escape(text) if text.isascii() else "".join(map(_escaped, text))
    else:
        _compiled(text, ignore_case=ignore_case)  # before it is taken apart: what is wrong with it is said as it is
        if re.search(r"(?<!\\)(?:\\\\)*\\(?:n|A|z)", text):
            raise ToolError("files are searched line by line: \\n, \\A and \\z have no meaning here; use ^ and $")
        text, ripgrep = _translated(text)
    literal = None if not plain or ignore_case else _unescaped(text)
    prefix = "(?i)" if ignore_case else ""
    return Pattern(_compiled(text, ignore_case=ignore_case), literal, None if ripgrep is None else f"{prefix}{ripgrep}")


def _escaped(character: str) -> str:
    return re.escape(character) if character.isascii() else character


def _unescaped(text: str) -> bytes:
    return re.sub(r"\\(.)", r"\1", text).encode("utf-8", "surrogateescape")


def _hex(text: str) -> str:
    """Return *text* as an expression that means just this in any dialect."""
    return "".join(map(_as_itself, text))


def _as_itself(character: str) -> str:
    plain = character.isalnum() or character == " " or not character.isascii()
    return character if plain else f"\\x{ord(character):02x}"


def _compiled(text: str, *, ignore_case: bool) -> Expression:
    try:
        whole = f"(?m){text}".encode("utf-8", "surrogatepass")
        return compiled(whole, never_nl=True, case_sensitive=not ignore_case)
    except ValueError as error:
        raise ToolError(
            f"the regular expression cannot be used: {str(error).replace('(?m)', '')}. It is RE2's syntax (no"
            " look-around, no back-references); with literal=true the text is searched for as it is"
        ) from error


def _translated(text: str) -> tuple[str, str | None]:
    """Return the expression as it is searched for here, and for ripgrep."""
    ours: list[str] = []
    theirs: list[str] = []
    sure = True
    at = 0
    while at < len(text):
        size, mine = _own(text, at)
        if sure:
            try:
                size, their = _token(text, at)
                theirs.append(their)
            except _UnsureError:
                sure = False
        ours.append(mine or text[at : at + size])
        at += size
    return "".join(ours), "".join(theirs) if sure else None


def _own(text: str, at: int) -> tuple[int, str]:
    """Return the length of the token at *at*, and what stands for it here if not itself."""
    match text[at]:
        case "\\":
            if text.startswith("\\Q", at):
                end = text.find("\\E", at)
                return (len(text) - at if end < 0 else end + 2 - at), ""
            return min(2, len(text) - at), ""
        case "[":
            return _class_end(text, at) - at, ""
        case "$":
            return 1, _LINE_END
        case _:
            return 1, ""


def _class_end(text: str, at: int) -> int:
    """Return where the class that begins at *at* ends. The expression is a valid one."""
    end = at + 1 + text.startswith("^", at + 1)
    end += text.startswith("]", end)
    while end < len(text) and text[end] != "]":
        if text.startswith("[:", end) and (close := text.find(":]", end + 2)) > 0:
            end = close + 2
        else:
            end += 2 if text[end] == "\\" else 1
    return end + 1


def _token(text: str, at: int) -> tuple[int, str]:
    """Return length and meaning, in ripgrep's syntax, of the token at *at*. Raises _UnsureError."""
    character = text[at]
    if character == "\\":
        return _escape(text[at + 1 : at + 2])
    if character == "[":
        end = _class_end(text, at)
        return end - at, _class(text[at:end])
    if character == "(":
        found = _GROUP.match(text, at)
        if found is None or (found.end() == at + 1 and text.startswith("?", at + 1)):
            raise _UnsureError
        return found.end() - at, found[0]
    if character == "{":
        found = _REPEAT.match(text, at)
        return (found.end() - at, found[0]) if found else (1, r"\{")
    if character == "$":
        return 1, _LINE_END
    if character in ".*+?|)^":
        return 1, character
    return 1, _hex(character)


def _escape(character: str) -> tuple[int, str]:
    if character in _CLASSES:
        return 2, f"[{_CLASSES[character]}]"
    if character.lower() in _CLASSES:
        return 2, f"[^{_CLASSES[character.lower()]}]"
    if character in {"b", "B"}:
        return 2, f"(?-u:\\{character})"
    if character in _SAME:
        return 2, f"\\{character}"
    if character and character.isascii() and not character.isalnum():
        return 2, _hex(character)
    raise _UnsureError


def _class(group: str) -> str:
    negated = group.startswith("[^")
    inner = group[2:-1] if negated else group[1:-1]
    made: list[str] = []
    at = 0
    while at < len(inner):
        size, text = _member(inner, at)
        made.append(text)
        at += size
    return f"[{'^' if negated else ''}{''.join(made)}]"


def _member(inner: str, at: int) -> tuple[int, str]:
    """Return length and meaning of what stands at *at* in a class."""
    if inner.startswith("[:", at):
        found = re.compile(r"\[:[a-z]+:\]").match(inner, at)
        if found is None:
            raise _UnsureError
        return found.end() - at, found[0]
    if inner[at] == "\\":
        character = inner[at + 1 : at + 2]
        if character in _CLASSES:
            return 2, _CLASSES[character]
        return (2, f"\\{character}") if character in _SAME else (2, _member_of(character))
    if inner[at] == "-" and 0 < at < len(inner) - 1:
        return 1, "-"
    return 1, _hex(inner[at])


def _member_of(character: str) -> str:
    if not character or not character.isascii() or character.isalnum():
        raise _UnsureError
    return _hex(character)
