"""The code blocks of an answer in Markdown."""

from __future__ import annotations

import re

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>.*)")


def last_code_block(text: str) -> str | None:
    r"""Return what is in the last fenced code block of *text*, None if it has none; an open one ends with it.

    >>> last_code_block("First:\n```\na\n```\nthen:\n~~~sh\nb\n~~~\n")
    'b\n'
    """
    last: str | None = None
    inside: list[str] = []
    indent = fence = ""
    # Not splitlines(): what a terminal and a shell take for a part of a line stays one.
    for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        found = _FENCE.fullmatch(line)
        if not fence:
            if found and not (found["fence"][0] == "`" and "`" in found["info"]):
                indent, fence, inside = found["indent"], found["fence"], []
        elif found and found["fence"].startswith(fence) and not found["info"].strip():
            last, fence = _joined(inside), ""
        else:
            inside.append(line.removeprefix(indent))
    return _joined(inside) if fence else last


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
