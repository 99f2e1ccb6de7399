"""The cells of the path matrix: which test is run with which paths, hooks and faults.

A cell has a name that says all of it: ``say-decide_input-deny``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind

from pluggent_testing.paths_operations import EntryPath
from pluggent_testing.paths_probes import FAULTS, NOT_REFUSING

SYNCHRONOUS = ("transform_delta",)
"""Transforms that cannot be awaited, and whose failure only holds a stream back."""

Names: TypeAlias = Callable[[str], Iterable[str]]
Cells: TypeAlias = tuple[str, Sequence[Any]]
"""The arguments of a test, and their values: what pytest parametrizes with."""


def _of_hooks(argument: str, names: Names) -> Callable[[Iterable[EntryPath]], Cells]:
    def cells(paths: Iterable[EntryPath]) -> Cells:
        rows = [
            pytest.param(path, hook, name, id=f"{path.name}-{hook}-{name}")
            for path in paths
            for hook in path.about()
            for name in names(hook)
        ]
        return f"path,hook,{argument}", rows

    return cells


def _of_one(hook: str, wanted: Callable[[EntryPath], bool] = lambda _: True) -> Callable[[Iterable[EntryPath]], Cells]:
    def cells(paths: Iterable[EntryPath]) -> Cells:
        rows = [
            pytest.param(path, fault, id=f"{path.name}-{hook}-{fault}")
            for path in paths
            if wanted(path)
            for fault in FAULTS[HookKind.SINK]
        ]
        return "path,fault", rows

    return cells


def _of_paths(paths: Iterable[EntryPath]) -> Cells:
    return "path", [pytest.param(path, id=path.name) for path in paths]


def _faults(hook: str) -> Iterable[str]:
    return () if hook in NOT_REFUSING else FAULTS[HOOKS[hook].kind]


def _changes(hook: str) -> Iterable[str]:
    if HOOKS[hook].kind is not HookKind.TRANSFORM:
        return ()
    return ("changes", "fails") if hook in SYNCHRONOUS else ("changes",)


def _is_approved_at_once(path: EntryPath) -> bool:
    return bool(path.times("resolve_approval")) and path.settings.get("on_ask") != "pause"


_MADE: Mapping[str, Callable[[Iterable[EntryPath]], Cells]] = MappingProxyType({
    "test_every_hook_fires_once_for_each_operation": _of_paths,
    "test_every_decision_is_recorded_before_it_has_an_effect": _of_paths,
    "test_every_attempt_is_reserved_and_settled": _of_paths,
    "test_every_hook_of_the_application_is_reached": _of_paths,
    "test_an_observer_that_fails_changes_nothing": _of_paths,
    "test_what_a_hook_refuses_has_no_effect": _of_hooks("fault", _faults),
    "test_what_a_sink_cannot_record_has_no_effect": _of_one("write_record"),
    "test_an_approver_that_fails_has_agreed_to_nothing": _of_one("resolve_approval", _is_approved_at_once),
    "test_what_a_hook_changes_is_what_counts": _of_hooks("way", _changes),
})  # fmt: skip


def cells_of(test: str, paths: Iterable[EntryPath]) -> Cells | None:
    """Return the cells of the matrix's *test* on *paths*; None if it is none of those that go paths.

    >>> cells_of("test_every_attempt_is_reserved_and_settled", ())
    ('path', [])
    """
    made = _MADE.get(test)
    return None if made is None else made(paths)
