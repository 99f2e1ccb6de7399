"""The entry points of one distribution: which groups are ours, and what may stand in them.

A distribution has one entry with hooks: grants, order and before/after name plugin ids, so an id has one set of hooks.
"""

# Every start pays for this file: a __future__ import would make NamedTuple compile each annotation.

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pluggent_plugin_loader.suggestions import did_you_mean

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "pluggent.providers": "provider",
        "pluggent.embedders": "embedder",
        "pluggent.tools": "tools",
        "pluggent.memory": "memory",
        "pluggent.sessions": "session",
        "pluggent.parsers": "parser",
        "pluggent.hooks": "hooks",
        "pluggent.commands": "command",
    }
)
"""Every entry-point group, and the kind of its entries in capability ids."""

MODEL_NAMES = "pluggent.model_names"
"""The group in which a package names words of its models' names, and their provider: ``gpt = "openai"``. No code."""

FIRST_PARTY = "pluggent.first_party"
"""The group in which the distribution ``pluggent`` gives plugins their roles."""
ROLES = ("builtin", "sample", "security", "retriers")
"""Roles of a first-party plugin; the last two are built in and have the grant of that name."""

HOOKS = "pluggent.hooks"
_POLICIES = ("hook", "polic", "guard")
"""Words in the name of a group that is none of ours, in which a policy may be hidden."""
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
"""What the name of a distribution or of an entry is made of."""


class EntryPoint(NamedTuple):
    """One line of a plugin's entry points, as written."""

    group: str
    name: str
    value: str


class Problem(NamedTuple):
    """Something that cannot be read or is ambiguous.

    ``fatal``: it may hide or double a policy. ``unknown``: it is a group that looks like one of ours and is none.
    """

    path: str
    text: str
    plugin: str = ""
    fatal: bool = False
    unknown: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def entry_points_of(path: str, text: str) -> tuple[tuple[EntryPoint, ...], tuple[Problem, ...]]:
    """Return the entry points in *text*, that of the file *path*, and what is wrong with others."""
    good: dict[tuple[str, str], EntryPoint] = {}
    problems: list[Problem] = []
    for group, line in _lines(text):
        if group == FIRST_PARTY:
            continue  # counts in one distribution alone: see roles_of()
        name, _, value = (part.strip() for part in line.partition("="))
        problem = _wrong(group, name, value)
        if not problem and (name, group) in good:
            problem = f"[{group}] names '{name}' twice"
        if not problem and group == HOOKS and any(other == HOOKS for _, other in good):
            problem = f"[{group}] has a second entry, '{name}': put all hooks into one object"
        if problem:
            hides = any(word in group.lower() for word in _POLICIES)
            problems.append(Problem(path, problem, fatal=hides, unknown=not _is_known(group)))
        else:
            good[name, group] = EntryPoint(group, name, value)
    return tuple(good[key] for key in sorted(good)), tuple(problems)


def roles_of(path: str, text: str) -> tuple[Mapping[str, str], tuple[Problem, ...]]:
    """Return {name of a plugin: role} from the first-party group in *text*, and what is wrong with others."""
    roles: dict[str, str] = {}
    problems: list[Problem] = []
    for group, line in _lines(text):
        name, _, role = (part.strip() for part in line.partition("="))
        if group == FIRST_PARTY and role in ROLES:
            roles[name] = role
        elif group == FIRST_PARTY:
            problems.append(Problem(path, f"[{group}] {name} = {role}: expected one of {', '.join(ROLES)}"))
    return roles, tuple(problems)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield (group, line) for each line of our groups."""
    group = ""
    for raw in text.split("\n"):
        line = raw.strip()
        if line.startswith("["):
            group = line.strip("[] \t")
        elif line and line[0] not in "#;" and _is_meant_for_us(group):
            yield group, line


def _is_meant_for_us(group: str) -> bool:
    """Say whether *group* is one of ours, or looks like one (``pluggent_hooks``, ``Pluggent.Tools``)."""
    return group.startswith("pluggent.") or group.lower().replace("_", ".").replace("-", ".").startswith("pluggent.")


def _is_known(group: str) -> bool:
    return group in GROUPS or group == MODEL_NAMES


def _wrong(group: str, name: str, value: str) -> str:
    if not _is_known(group):
        return f"[{group}] is not a group of this host{did_you_mean(group, (*GROUPS, MODEL_NAMES))}"
    if not name or not NAME_CHARACTERS.issuperset(name):
        return f"[{group}] '{name}' is not a name: use letters, digits, '.', '_' and '-'"
    if group == MODEL_NAMES:
        known = bool(value) and NAME_CHARACTERS.issuperset(value)
        return "" if known else f"[{group}] {name} = {value}: expected the name of a provider"
    if not all(part.isidentifier() for part in value.replace(":", ".", 1).split(".")):
        return f"[{group}] {name} = {value}: expected module:attribute"
    return ""
