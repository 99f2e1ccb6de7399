"""What the patterns of an approval mean: who is among ``approvers``, which arguments fit ``where``."""

# Paths are any text here: pathlib would change it.
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from unicodedata import normalize
from urllib.parse import unquote

from pluggent_hookspecs import Json, thaw

_LONGEST = 4_096


def may_approve(approvers: Iterable[Iterable[str]], who: str) -> bool:
    """Say whether *who* is among each of *approvers*, which are names with ``*``."""
    # Only * is special: a ? or [ may be in a name.
    return all(any(fnmatchcase(who, re.sub(r"[?[]", r"[\g<0>]", name)) for name in names) for names in approvers)


def fits(where: Mapping[str, str], arguments: Mapping[str, Json], folder: str = "") -> bool:
    """Say whether *arguments* have every name of *where*, with a value that fits its pattern.

    A value that is not text is compared as JSON and fits no pattern with stars: one could stand for more entries of
    a list. A text has to fit such a pattern as it is, and as any reader decodes or normalises it.

    A pattern with ``://`` is one over URLs: scheme, host, port and the rest of the parsed URL have to fit their
    parts of it. ``*`` in the host stands for one label or several; a user name, a fragment and a port that the
    pattern does not name fit nothing. Any other value may be a path: what it leads to in *folder*, the workspace (the
    working directory, if that is empty), symbolic links and ``~`` followed, has to fit as well.

    >>> where = {"url": "https://*.acme.example/**"}
    >>> fits(where, {"url": "https://www.acme.example/a?b=c"}), fits(where, {"url": "https://evil.example#.acme.example/"})
    (True, False)
    """
    return all(name in arguments and _fits(pattern, arguments[name], folder) for name, pattern in where.items())


def part_fits(pattern: str, part: str) -> bool:
    """Say whether *part* of an argument fits *pattern*: as it is, and as any reader decodes or normalises it.

    >>> part_fits("git log *", "git log -3"), part_fits("git log *", "git push"), part_fits("git *", "git ../x")
    (True, False, False)
    """
    if "*" not in pattern or part == pattern:
        return part == pattern
    return len(part) <= _LONGEST and all(_matches(pattern, reading) for reading in _readings(part))


def _fits(pattern: str, value: Json, folder: str) -> bool:
    text = value if isinstance(value, str) else json.dumps(thaw(value), ensure_ascii=False, sort_keys=True)
    if "*" not in pattern or text == pattern:
        return text == pattern
    if not isinstance(value, str) or len(text) > _LONGEST:
        return False
    if "://" in pattern:
        return _url_fits(pattern, text)
    return all(_matches(pattern, reading) for reading in _readings(text)) and _leads_inside(pattern, text, folder)


def _leads_inside(pattern: str, text: str, folder: str) -> bool:
    """Say whether what *text* leads to, read as a path in *folder*, fits *pattern* too; True if it leads to itself.

    Without a folder it is read in the working directory, as tools do.
    """
    try:
        base = os.path.realpath(folder)
        wanted = [os.path.join(base, pattern), os.path.join(base, os.path.expanduser(pattern))]
        wanted += [pattern] if pattern.startswith("**") else []
        own = "" if "/" in pattern else os.path.normpath(os.path.join(base, text))
        return all(
            real == own or any(_matches(each, real) for each in wanted)
            for real in {os.path.realpath(os.path.join(base, path)) for path in (text, os.path.expanduser(text))}
        )
    except (OSError, ValueError):
        return False


# ---- URLs -------------------------------------------------------------------------------

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?([/?].*|)")
"""Scheme, host, port, the rest. No user name, no backslash or fragment, and no letter that a reader may fold."""
_URL_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([A-Za-z0-9._*-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}|\*))?(/.*|)")
_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}


def _url_fits(pattern: str, text: str) -> bool:
    wanted, url = _URL_PATTERN.fullmatch(pattern), _URL.fullmatch(text)
    if wanted is None or url is None or "#" in text or "\\" in text:
        return False
    scheme, host, port, rest = url.groups()
    scheme, rest = scheme.lower(), rest if rest.startswith("/") else f"/{rest}"
    usual = _PORTS.get(scheme, "")
    return (
        scheme == wanted[1].lower()
        and _host_expression(wanted[2].lower()).fullmatch(host.lower().removesuffix(".")) is not None
        and (wanted[3] == "*" or (port or usual) == (wanted[3] or usual))
        and all(_matches(wanted[4] or "/", reading) for reading in _readings(rest))
    )


@lru_cache(256)
def _host_expression(pattern: str) -> re.Pattern[str]:
    label = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*"
    return re.compile(label.join(map(re.escape, re.split(r"\*+", pattern))))


def _readings(text: str) -> set[str]:
    """Return *text*, and its forms for readers that decode ``%2F`` or normalise a wide slash."""
    readings = {text}
    while (again := normalize("NFKC", decoded := unquote(text))) != text:
        readings |= {decoded, again}
        text = again
    return readings


_OTHER_CODE = re.compile(r"\ufffd|%u[0-9a-f]{4}", re.IGNORECASE)


def _matches(pattern: str, text: str) -> bool:
    # A name ends at a semicolon for some servers; others decode what is no UTF-8, or %u002e.
    up = any(part.partition(";")[0] == ".." for part in re.split(r"[/\\]", text)) or not text.isprintable()
    return not up and _OTHER_CODE.search(text) is None and _expression(pattern).fullmatch(text) is not None


@lru_cache(256)
def _expression(pattern: str) -> re.Pattern[str]:
    stars = {"*": "[^/]*"}
    parts = re.split(r"(\*+)", pattern)
    return re.compile("".join(stars.get(part, ".*") if part.startswith("*") else re.escape(part) for part in parts))
