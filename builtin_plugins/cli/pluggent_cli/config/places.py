"""Where a setting that an error of the host is about was set: the file and line, or the variable. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pluggent_cli.config.keys import KEYS, SECTIONS
from pluggent_cli.config.origins import Origin

_SETTINGS_OF = re.compile(r"settings for '([^']+)'")
_IN_BRACKETS = re.compile(r"\[([a-z_.A-Z0-9-]+)\](?: (\w+))?")
_AT_LINE = re.compile(r"(?P<place>line \d+(, column \d+)?): (?P<problem>.*)", re.DOTALL)
_NUMBER = re.compile(r"[\w.-]+\[(?P<number>\d+)\]")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")
_TABLES = tuple(path for path, key in KEYS.items() if key.kind.entry)


def place_of(origins: Mapping[str, Origin], path: str, problem: str) -> tuple[str, str]:
    """Return where *problem* of an error with *path* was set, and the sentence on it.

    That is *path*, and *problem* as it is, for what no source has set.

    >>> origins = {"grants.optional": Origin("file", "a.toml", 3)}
    >>> place_of(origins, "plugins", "[grants] optional names 'acme', which is not installed")
    ('a.toml, line 3', "[grants] optional names 'acme', which is not installed")

    Of the entries of a list only the first has a line.

    >>> origins = {"plugins.acme.rules": Origin("file", "a.toml", 7)}
    >>> place_of(origins, "settings", "plugins.acme.rules[1].id: is required")
    ('a.toml', 'plugins.acme.rules[1].id: is required')
    """
    if (at_line := _AT_LINE.fullmatch(problem)) is not None:
        return f"{path}, {at_line['place']}", at_line["problem"]
    for name in _names(path, problem):
        if (origin := _origin(origins, name)) is not None:
            about = path if path in ("plugins", "selection", "settings") or problem.startswith(path) else f"{path}: "
            if (number := _NUMBER.match(problem)) is not None and number["number"] != "0":
                origin = origin._replace(line=None)  # it is that of the first entry
            return str(origin), problem if about == path else f"{about}{problem}"
    return path, problem


def _names(path: str, problem: str) -> Iterator[str]:
    """Yield the dotted keys that an error may be about, as the host names them, the surest first."""
    yield from (f"plugins.{plugin}" for plugin in _SETTINGS_OF.findall(problem))
    for text in (problem, path):
        for section, key in _IN_BRACKETS.findall(text):
            yield from (f"{section}.{key}", section) if key else (section,)
    head, _, rest = problem.partition(":")
    word = rest.strip().partition("'")[2].partition("'")[0] or problem.partition("'")[2].partition("'")[0]
    first = problem.partition(" ")[0].rstrip(":")
    for name in (head, head.partition("[")[0], first, path):
        if _KEY.fullmatch(name):
            yield from (f"{path}.{name}", *((f"{name}.{word}",) if name in _TABLES else ()), name)
    # What a host says of a name is about the setting that gives it.
    yield from {"provider": ("model",), "session": ("sessions",)}.get(path.partition(" ")[0], ())


def _origin(origins: Mapping[str, Origin], name: str) -> Origin | None:
    around = [key for key in origins if key and name.startswith(f"{key}.") and key not in SECTIONS]
    inside = [key for key in origins if key.startswith(f"{name}.") and name not in (*SECTIONS, "plugins")]
    found = name if name in origins else max(around, key=len, default="") or min(inside, default="")
    return origins.get(found)
