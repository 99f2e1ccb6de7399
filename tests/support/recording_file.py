"""Reads a file of recorded answers: YAML as PyYAML writes it, which is a small part of YAML.

Block mappings and lists, plain and quoted texts on one line or folded over several, literal
blocks, base64. No anchors, no flow collections but empty ones, no comments.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s'"\[{&*!|>%@#-][^:]*?|-[^\s:][^:]*?|):(?: +(.*))?$""")
_LITERAL = re.compile(r"(?:!!binary )?([|>])(\d?)([+-]?)$")
_WORDS: dict[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False, "{}": {}, "[]": []}
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?$")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "b": "\b", "a": "\a", "f": "\f", "v": "\v",
          "_": "\xa0", "N": "\x85", "L": "\u2028", "P": "\u2029"}  # fmt: skip


def read(file: Path) -> Any:
    """Return what *file* holds."""
    reader = _Reader(file.read_text(encoding="utf-8").split("\n"))
    return reader.node(0)


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def node(self, indent: int) -> Any:
        line = self._lines[self._at][indent:]
        if line == "-" or line.startswith("- "):
            return self._list(indent)
        if _KEY.match(line):
            return self._mapping(indent)
        self._at += 1
        return self._scalar(line, indent - 1)

    def _indent(self) -> int:
        """Return how far the next line is moved in; -1 for a blank one and at the end."""
        line = self._lines[self._at] if self._at < len(self._lines) else ""
        return len(line) - len(line.lstrip(" ")) if line.strip() else -1

    def _list(self, indent: int) -> list[Any]:
        found: list[Any] = []
        while self._indent() == indent and self._lines[self._at][indent : indent + 2] in ("- ", "-"):
            line = self._lines[self._at]
            self._lines[self._at] = f"{line[:indent]} {line[indent + 1 :]}"
            found.append(self.node(indent + 2))
        return found

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._indent() == indent and (key := _KEY.match(self._lines[self._at][indent:])):
            self._at += 1
            name = key[1] if key[1][:1] not in ("'", '"') else _quoted(key[1])
            found[name] = self._value(key[2] or "", indent)
        return found

    def _value(self, rest: str, indent: int) -> Any:
        if rest:
            return self._scalar(rest, indent)
        inner = self._indent()
        is_list = inner == indent and self._lines[self._at][indent:].startswith("-")
        return self.node(inner) if inner > indent or is_list else None

    def _scalar(self, text: str, indent: int) -> Any:
        """Return the value that begins with *text*, in a node that is moved in by *indent*."""
        if block := _LITERAL.match(text):
            literal = self._block(indent, block[2], block[3])
            return base64.b64decode(literal) if text.startswith("!!binary") else literal
        if text[:1] in ("'", '"'):
            while not _closed(text):
                text += "\n" + self._lines[self._at].strip(" ")
                self._at += 1
            return _quoted(text)
        while self._indent() > indent or (self._at < len(self._lines) - 1 and not self._lines[self._at].strip()):
            text += "\n" + self._lines[self._at].strip(" ")
            self._at += 1
        return _plain(_folded(text.rstrip("\n")))

    def _block(self, indent: int, deeper: str, chomp: str) -> str:
        inner = indent + int(deeper) if deeper else -1
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            depth = len(line) - len(line.lstrip(" "))
            if line.strip() and depth <= indent:
                break
            inner = depth if inner < 0 and line.strip() else inner
            taken.append(line[inner:] if inner >= 0 else "")
            self._at += 1
        text = "\n".join(taken)
        return text + "\n" if chomp == "+" else text.rstrip("\n") + ("" if chomp == "-" else "\n")


def _closed(text: str) -> bool:
    if text[0] == "'":
        return bool(re.fullmatch(r"'(?:[^']|'')*'", text))
    return bool(re.fullmatch(r'"(?:[^"\\]|\\.)*"', text, re.DOTALL))


def _quoted(text: str) -> str:
    if text[0] == "'":
        return _folded(text[1:-1]).replace("''", "'")
    joined = re.sub(r"\\\n *", "", text[1:-1])  # a line that ends in a backslash goes on without a space
    return _ESCAPE.sub(_unescaped, _folded(joined))


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _NAMED.get(found[4], found[4])


def _folded(text: str) -> str:
    """Return *text* with one line end as a space, and more of them as one less."""
    return re.sub(r"\n+", lambda ends: "\n" * (len(ends[0]) - 1) or " ", text)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.match(text):
        return json.loads(text.lstrip("+") + ("0" if text.endswith(".") else ""))
    return text
