"""Turns the conditions of a rule into tests of events. Compiled once, when the plugin is made."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

import attrs
from pluggent_hookspecs import EmbeddingRequestEvent, MemoryReadEvent, MemoryWriteEvent, ModelRequestEvent, Scope

from pluggent_permissions.argument_settings import NO_URL
from pluggent_permissions.arguments import argument_test
from pluggent_permissions.settings import PURE, UNDECLARED, Conditions
from pluggent_permissions.text_patterns import Reading, TextTest, folded, glob
from pluggent_permissions.urls import url_test

Event: TypeAlias = Any
Asked: TypeAlias = ModelRequestEvent | EmbeddingRequestEvent
Test: TypeAlias = Callable[[Event], bool]
Effects: TypeAlias = "frozenset[str] | None"
Names: TypeAlias = "Mapping[str, frozenset[str]]"
"""What short names of tools mean, as capability ids."""

_IN_CODE = "app:"
TOOL_MARK = ":tool/"
HOSTED_MARK = ":hosted/"


@attrs.frozen(eq=False)
class Side:
    """``when`` or ``unless``: what is known of a tool for good, and what is looked at in each event."""

    tool: tuple[str, ...]
    effects: tuple[str, ...]
    tests: tuple[Test, ...]
    reading: Reading

    def may_hold(self, capability: str, effects: Effects, names: Names) -> bool:
        """Say whether it can hold for calls of this tool."""
        if self.tool and not any(names_tool(pattern, capability, names) for pattern in self.tool):
            return False
        return not self.effects or _effects_fit(self.effects, effects, self.reading)

    def holds(self, event: Event) -> bool:
        """Say whether every test holds. One that raises is in doubt."""
        for test in self.tests:
            try:
                fits = test(event)
            except Exception:  # noqa: BLE001 (whatever cannot be evaluated counts as the stricter outcome)
                fits = self.reading.in_doubt
            if not fits:
                return False
        return True


def side(conditions: Conditions, reading: Reading) -> Side:
    """Return *conditions* compiled for one *reading*."""
    tests = [
        _scope_test(field, getattr(conditions, name), reading)
        for name, field in _SCOPE.items()
        if getattr(conditions, name)
    ]
    tests += [argument_test(path, wanted, reading) for path, wanted in sorted(conditions.arguments.items())]
    tests += _model_tests(conditions, reading)
    tests += _memory_tests(conditions, reading)
    return Side(tuple(conditions.tool), tuple(conditions.effects), tuple(tests), reading)


def needs_name(pattern: str) -> bool:
    """Say whether the host has to be asked which tools *pattern* means, and that there are any.

    Tools given in application code come with sessions, and tools at a vendor with its model, so the host does not
    know them yet.
    """
    return pattern != "*" and not pattern.startswith(_IN_CODE) and HOSTED_MARK not in pattern


def names_tool(pattern: str, capability: str, names: Names) -> bool:
    """Say whether *pattern* means the tool; with ``*`` also one that came after the host was opened."""
    if "*" in pattern:
        return fnmatch.fnmatchcase(capability if ":" in pattern else _own_name(capability), pattern)
    return pattern == capability or capability in names.get(pattern, ())


def _own_name(capability: str) -> str:
    """Return the short name in *capability*; of a call of a remote server the tool's alone."""
    return capability.partition(TOOL_MARK)[2] or capability.partition(HOSTED_MARK)[2].rpartition("/")[2]


def _effects_fit(wanted: Iterable[str], effects: Effects, reading: Reading) -> bool:
    """WIDE: one effect is among *wanted*, and undeclared ones may be any. EXACT: all of them are."""
    if effects is None:
        return reading is Reading.WIDE or UNDECLARED in wanted
    found = effects or {PURE}
    fits = (any(_is_effect(each, pattern) for pattern in wanted) for each in found)
    return any(fits) if reading is Reading.WIDE else all(fits)


def _is_effect(effect: str, wanted: str) -> bool:
    return effect == wanted or ("*" in wanted and fnmatch.fnmatchcase(effect, wanted))


# ---- where it happens ------------------------------------------------------------------


_SCOPE = {
    "session": "session_id", "agent": "agent", "channel": "channel", "chat": "chat_id",
    "principal": "principal", "origin": "origin", "caller": "caller",
}  # fmt: skip
"""Conditions, and the fields of Scope that they are about."""


def _scope_test(name: str, patterns: tuple[str, ...], reading: Reading) -> Test:
    fits = glob(patterns, reading)
    if name != "principal":
        field = attrgetter(f"scope.{name}")
        return lambda event: fits(field(event))
    # Without a principal it is unknown, not an empty name.
    return lambda event: fits(event.scope.principal) if event.scope.principal else reading.in_doubt


# ---- models ----------------------------------------------------------------------------


def _model_tests(conditions: Conditions, reading: Reading) -> list[Test]:
    tests: list[Test] = []
    if conditions.provider:
        tests.append(_provider_test(conditions.provider, reading))
    if conditions.model:
        tests.append(_model_test(conditions.model, reading))
    if conditions.target != NO_URL:
        fits_target = url_test(conditions.target, reading)
        tests.append(lambda event: fits_target(event.target))
    return tests


def _provider_test(patterns: tuple[str, ...], reading: Reading) -> Test:
    fits = glob(patterns, reading)

    def test(event: Asked) -> bool:
        capability, plugin, name = _provider_of(event)
        if name == plugin:
            return fits(capability) or (reading.in_doubt and any(_of_plugin(each, plugin) for each in patterns))
        return fits(capability) or fits(name)

    return test


def _model_test(patterns: tuple[str, ...], reading: Reading) -> Test:
    fits = glob(patterns, reading)
    fits_own_name = glob([pattern.partition("/")[2] or pattern for pattern in patterns], reading)

    def test(event: Asked) -> bool:
        _, plugin, name = _provider_of(event)
        if name == plugin and reading.in_doubt:
            return fits_own_name(event.request.model)
        return fits(f"{name}/{event.request.model}")

    return test


def _provider_of(event: Asked) -> tuple[str, str, str]:
    """Return capability id, plugin and provider; the last two are the same where the plugin's id named the model."""
    if isinstance(event, EmbeddingRequestEvent):
        plugin, _, name = event.embedder.partition(":embedder/")
        return event.embedder, plugin, name
    plugin, _, name = event.provider.partition(":provider/")
    return event.provider, plugin, name


def _of_plugin(pattern: str, plugin: str) -> bool:
    return ":" not in pattern or fnmatch.fnmatchcase(plugin, folded(pattern.partition(":")[0]))


# ---- memory ----------------------------------------------------------------------------


def _memory_tests(conditions: Conditions, reading: Reading) -> list[Test]:
    tests: list[Test] = []
    if conditions.store:
        fits_store = glob(conditions.store, reading)
        tests.append(lambda event: fits_store(event.store) or fits_store(event.store.rpartition("/")[2]))
    if conditions.namespace:
        tests.append(_items_test(_owned_glob(conditions.namespace, reading), 0, reading))
    if conditions.key:
        tests.append(_items_test(_owned_glob(conditions.key, reading), 1, reading))
    return tests


def _items_test(fits: Callable[[str, Scope], bool], place: int, reading: Reading) -> Test:
    def test(event: MemoryReadEvent | MemoryWriteEvent) -> bool:
        answers = [
            reading.in_doubt if pair[place] is None else fits(str(pair[place]), event.scope) for pair in _pairs(event)
        ]
        return any(answers) if reading is Reading.WIDE else bool(answers) and all(answers)

    return test


def _pairs(event: MemoryReadEvent | MemoryWriteEvent) -> list[tuple[str, str | None]]:
    """Return (namespace, key) of everything that is touched; None for the keys of a list or a search."""
    if isinstance(event, MemoryReadEvent):
        return [(event.namespace, event.key)]
    return [*((item.namespace, item.key) for item in event.items), *event.delete]


_OWNER = re.compile(r"\{(principal|agent|session|channel)\}")


def _owned_glob(patterns: tuple[str, ...], reading: Reading) -> Callable[[str, Scope], bool]:
    plain = tuple(pattern for pattern in patterns if not _OWNER.search(pattern))
    fits_plain = glob(plain, reading) if plain else None
    owned = tuple(pattern for pattern in patterns if _OWNER.search(pattern))

    def test(text: str, scope: Scope) -> bool:
        if fits_plain is not None and fits_plain(text):
            return True
        if not owned:
            return False
        return any(_of_owner(pattern, scope, reading)(text) for pattern in owned)

    return test


def _of_owner(pattern: str, scope: Scope, reading: Reading) -> TextTest:
    """Return the test of a pattern with the names of *scope* in it, each taken literally."""
    names = {
        "principal": scope.principal, "agent": scope.agent, "session": scope.session_id, "channel": scope.channel,
    }  # fmt: skip
    if not all(names[each] for each in _OWNER.findall(pattern)):
        return lambda _: reading.in_doubt
    return glob([_OWNER.sub(lambda found: _literal(names[found[1]]), pattern)], reading)


def _literal(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
