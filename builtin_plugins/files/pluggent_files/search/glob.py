"""Name patterns of files as regular expressions that match in linear time. Pure."""

from __future__ import annotations

import re

from pluggent_hookspecs import ToolError

from pluggent_files.search.expressions import Expression, compiled

LONGEST = 500
MOST_CHOICES = 50


def glob_expression(pattern: str) -> str:
    r"""Return the regular expression of *pattern*, for paths with ``/`` that begin below the folder.

    ``*`` and ``?`` match within a name, ``**`` across folders, ``[a-z]`` one of, ``{a,b}`` either. A pattern
    without ``/`` is for names in any folder.

    >>> glob_expression("*.py"), glob_expression("src/**/*.{js,ts}")
    ('(?:.*/)?[^/]*\\.py', 'src/(?:.*/)?[^/]*\\.(?:js|ts)')
    """
    pattern = pattern.removeprefix("./")
    if not pattern or len(pattern) > LONGEST or pattern.count("{") > MOST_CHOICES:
        raise ToolError(f"a name pattern has 1 to {LONGEST} characters, such as *.py or src/**/*.ts")
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    made = _Translation(pattern.removeprefix("/"))
    return anywhere + made.expression()


class _Translation:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._open = 0

    def expression(self) -> str:
        made: list[str] = []
        while self._at < len(self._pattern):
            made.append(self._next())
        if self._open:
            raise ToolError(f"the name pattern {self._pattern!r} has a {{ without its }}")
        return "".join(made)

    def _next(self) -> str:
        rest = self._pattern[self._at :]
        if stars := re.match(r"\*\*+/?", rest):
            self._at += stars.end()
            return "(?:.*/)?" if stars[0].endswith("/") else ".*"
        if rest[0] == "[" and (group := re.match(r"\[[!^]?\]?[^]/]*\]", rest)):
            self._at += group.end()
            return _choice(group[0])
        self._at += 1
        match rest[0]:
            case "*":
                return "[^/]*"
            case "?":
                return "[^/]"
            case "\\" if len(rest) > 1:
                self._at += 1
                return re.escape(rest[1])
            case "{" if "}" in rest:
                self._open += 1
                return "(?:"
            case "}" if self._open:
                self._open -= 1
                return ")"
            case "," if self._open:
                return "|"
            case character:
                return re.escape(character)


def _choice(group: str) -> str:
    inner = group[1:-1]
    if not inner:
        return re.escape(group)
    negated = inner[0] in "!^" and len(inner) > 1
    inner = inner[1:] if negated else inner
    # A range stays one; everything else is itself.
    safe = "".join(each if each == "-" or each.isalnum() else f"\\x{{{ord(each):x}}}" for each in inner)
    return f"[^/{safe}]" if negated else f"[{safe}]"


def matcher(pattern: str) -> Expression:
    """Return what says whether a path fits the glob *pattern*, by ``fullmatch``. Raises ToolError."""
    try:
        return compiled(glob_expression(pattern).encode("utf-8", "surrogatepass"), dot_nl=True)
    except ValueError as error:
        raise ToolError(f"the name pattern {pattern!r} cannot be used: {error}") from error
