"""What every composition of a host has to do on every way into an operation, as tests to be inherited.

    class TestPaths(PathMatrix):
        def composition(self):
            return {"plugins": [MyPolicy()], "config": HostSettings(strict=True)}

Paths of your own, such as those that a plugin adds, are values beside ours:

    class TestMyPaths(PathMatrix):
        paths = (EntryPath("shout", ("Session.say",), {"api": (TURN, *ROUND, OUTPUT)}, way=shouting),)

The tests need pytest and no plugin of it. Our paths stand in paths/table.py, what operations they can
contain in paths/operations.py, what a plugin can do wrong in paths/probes.py, and what has to hold then
in paths/checks.py. ``print(path_matrix())`` shows which hook fires on which path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from itertools import product
from pathlib import Path
from secrets import token_hex
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import pytest
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind
from pluggent_host.host import Host
from pluggent_host.inspection import build
from pluggent_host.sync import SyncHost
from pluggent_host.turns.result import TurnResult

from pluggent_testing.paths import checks
from pluggent_testing.paths.entries import missing_entries, missing_hooks
from pluggent_testing.paths.operations import EVERYWHERE, EntryPath
from pluggent_testing.paths.playing import Plugins, Reach, play
from pluggent_testing.paths.probes import (
    FAULTS,
    FIRED,
    NOT_REFUSING,
    Act,
    Probe,
    changed,
    decides_on,
    slowly,
    without_approvers,
    witness,
)
from pluggent_testing.paths.stage import Log, Stage
from pluggent_testing.paths.table import PATHS

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


# ---- the cells --------------------------------------------------------------------------

EVERY_PATH = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
LATE_S = (0.005, 0.1)
"""How long a late hook is waited for: briefly, longer where a busy machine was late before it, then as usual."""
RESULT_HOOKS = frozenset(
    name for name in HOOKS if name.endswith(("_result", "_response", "_output", "_delta", "_input"))
)
"""Hooks after which what was withheld or replaced is looked for in files too."""

Witnessed = Callable[[EntryPath], Stage]


def path_matrix(hooks: Iterable[str] = FIRED, paths: Iterable[EntryPath] = tuple(PATHS.values())) -> str:
    """Return the table of *paths* and *hooks*, in Markdown: how often each hook fires on each path.

    >>> print(path_matrix(["decide_input", "decide_tool_call"]).splitlines()[2])
    | say | 1 | 1 |
    """
    columns = tuple(hooks)
    rows = [["path", *columns], ["---"] * (len(columns) + 1)]
    rows += [[path.name, *(_cell(path, hook) for hook in columns)] for path in paths]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(path: EntryPath, hook: str) -> str:
    return "all" if hook in EVERYWHERE else str(path.times(hook) or "")


# ---- the suite --------------------------------------------------------------------------


class PathMatrix:
    """No path around a policy, with your plugins and settings. Inherit, and say what your hosts are made of.

    The suite opens hosts with that and with parts of its own: plugins that watch, refuse, fail and
    change in every hook, tools called ``probe_…``, the models ``paths/m`` and ``paths-other/m``,
    the memory store ``paths``. It goes every path of ``paths`` and fails on one where

    - a hook is not fired exactly once for each operation, where it belongs (yours: not at all);
    - what a hook refuses, in whatever way, has an effect all the same or is seen by anybody;
    - what a transform returns is not what is executed or seen, or what it replaced is seen;
    - an attempt is made without its reservation, or anything before a sink has recorded it.

    Plugins of yours that refuse what they do not know have to let these parts pass. ``left_out``
    maps paths that your composition does not have to the reason.

    ``paths`` are ours, every one in ``PATHS``; set it to go others, or others too: ``(*PATHS.values(),
    *MINE)``. See EntryPath for what one is made of. What it executes notes that in the log that its
    ``plugins`` are given: ``log.note("ran", "mark-one")`` where something is done, by the mark that its
    arguments carry; ``log.note("told", text)`` where another plugin is handed what came of it. What it
    makes begins with one of the words in ``paths.probes.SECRET``, so that it can be looked for.

    >>> class TestPaths(PathMatrix):
    ...     def composition(self):
    ...         return {"plugins": [], "installed": False}
    ...     left_out = {"batch-serial": "nothing writes to the network here"}
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     TestPaths().play(PATHS["call_tool"], Path(folder)).log.of("ran")[0].value
    'mark-one'
    """

    left_out: Mapping[str, str] = MappingProxyType({})
    paths: Sequence[EntryPath] = tuple(PATHS.values())

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make the cells of each test."""
        cells = cells_of(metafunc.function.__name__, self.paths)
        if cells is not None:
            metafunc.parametrize(*cells)

    def composition(self) -> Mapping[str, Any]:
        """Return what you give to Host.open, plugins made anew. Your ``model`` and ``approver`` do not count."""
        return {}

    def open_host(self, **options: Any) -> AbstractAsyncContextManager[Host]:
        """Open a host, for an application that does it in a way of its own."""
        return Host.open(**options)

    def open_sync_host(self, **options: Any) -> SyncHost:
        """Open a host for code without a loop, likewise."""
        return SyncHost.open(**options)

    def run_sync(self, prompt: str, **options: Any) -> TurnResult[Any]:
        """Run one turn of a script, likewise."""
        return Host.run_sync(prompt, **options)

    def play(self, path: EntryPath, folder: Path, plugins: Plugins = lambda _: (), **more: Any) -> Stage:
        """Go *path* once, in a folder of its own below *folder*; skip one that is left out."""
        if path.name in self.left_out:
            pytest.skip(self.left_out[path.name])
        # Not made before something is put there: most runs keep nothing.
        return play(path, self, self.composition(), folder / token_hex(8), plugins, **more)

    def probed(
        self, path: EntryPath, folder: Path, hook: str, act: Act, at: int,
        *, matters: Callable[[Any], bool] | None = None, **more: Any,
    ) -> tuple[Probe, Stage]:  # fmt: skip
        """Go *path* with a probe that acts in *hook* the *at*-th time (0: each time) that its event *matters*."""
        probes: list[Probe] = []

        def plugins(log: Log) -> tuple[object]:
            probes.append(Probe(log, hook, act, at, matters=matters))
            return (probes[0].as_plugin(),)

        stage = self.play(path, folder, plugins, durable=hook in RESULT_HOOKS, **more)
        return probes[0], stage

    def waited(self, path: EntryPath, folder: Path, hook: str, act: Act, at: int, *, late: bool) -> tuple[Probe, Stage]:
        """As ``probed``; a probe that is to be *late* is waited for no longer than it takes to get there."""
        for hook_s in LATE_S if late else ():
            probe, stage = self.probed(path, folder, hook, act, at, hook_s=hook_s)
            if probe.hit is not None:
                return probe, stage
        return self.probed(path, folder, hook, act, at)

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """Return the folder in which every path has one of its own."""
        return tmp_path_factory.mktemp("paths")

    @pytest.fixture(scope="class")
    @classmethod
    def witnessed(cls, folder: Path) -> Callable[[EntryPath], Stage]:
        """Return what gives the run of a path that was watched in every hook; each path is gone once."""

        def watched(path: EntryPath) -> Stage:
            return cls().play(path, folder, lambda log: (witness(log),))

        return cache(watched)

    # ---- the registry --------------------------------------------------------------------

    def _known(self) -> Mapping[str, EntryPath]:
        return {**PATHS, **{path.name: path for path in self.paths}}

    def test_every_public_method_is_on_a_path_or_has_a_reason_not_to_be(self) -> None:
        assert missing_entries(self._known().values()) == []

    def test_every_hook_of_the_contract_is_on_a_path(self) -> None:
        assert missing_hooks(self._known().values()) == []

    def test_every_path_that_is_left_out_is_one(self) -> None:
        assert sorted(self.left_out.keys() - self._known().keys()) == []

    # ---- everything fires ----------------------------------------------------------------

    def test_every_hook_fires_once_for_each_operation(self, path: EntryPath, witnessed: Witnessed) -> None:
        checks.fired_as_often(witnessed(path))

    def test_every_decision_is_recorded_before_it_has_an_effect(self, path: EntryPath, witnessed: Witnessed) -> None:
        checks.recorded_before(witnessed(path))

    def test_every_attempt_is_reserved_and_settled(self, path: EntryPath, witnessed: Witnessed) -> None:
        checks.reserved_and_settled(witnessed(path))

    def test_every_hook_of_the_application_is_reached(
        self, path: EntryPath, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reach = Reach()
        monkeypatch.setattr("pluggent_host.assembly.build", reach.watching(build))

        stage = self.play(path, folder, durable=False)

        assert reach.missed(path, stage.ours) == []

    def test_an_observer_that_fails_changes_nothing(self, path: EntryPath, folder: Path, witnessed: Witnessed) -> None:
        _, stage = self.probed(path, folder, "observe", FAULTS[HookKind.SINK]["fails"][0], 0)

        assert checks.kinds_executed(stage) == checks.kinds_executed(witnessed(path))

    # ---- what is refused, and what is changed --------------------------------------------

    def test_what_a_hook_refuses_has_no_effect(self, path: EntryPath, hook: str, fault: str, folder: Path) -> None:
        acts, last = FAULTS[HOOKS[hook].kind][fault], path.times(hook)
        # Each firing of it in turn is denied; of all else that goes wrong the last one is enough.
        before = [(at, acts[0]) for at in range(1, last)] if fault == "deny" else []
        for at, act in (*before, *((last, act) for act in acts)):
            probe, stage = self.waited(path, folder, hook, act, at, late=fault == "late")
            assert probe.hit is not None, f"{path.name}: {hook} was not fired {at} times"
            checks.stopped(stage, probe.hit)

    def test_what_a_sink_cannot_record_has_no_effect(self, path: EntryPath, fault: str, folder: Path) -> None:
        for operation, act in product(path.decided(), FAULTS[HookKind.SINK][fault]):
            probe, stage = self.probed(path, folder, "write_record", act, 1, matters=decides_on(operation))
            assert probe.hit is not None, f"{path.name}: no sink was told of a decision on a {operation}"
            checks.stopped(stage, probe.hit)

    def test_an_approver_that_fails_has_agreed_to_nothing(self, path: EntryPath, fault: str, folder: Path) -> None:
        def unapproved(log: Log) -> tuple[object, ...]:
            return tuple(without_approvers(path.plugins(log)))

        alone = attrs.evolve(path, plugins=unapproved)

        for act in FAULTS[HookKind.SINK][fault]:
            probe, stage = self.probed(alone, folder, "resolve_approval", act, 1)
            assert probe.hit is not None, f"{path.name}: no approver was asked"
            checks.stopped(stage, probe.hit)

    def test_what_a_hook_changes_is_what_counts(self, path: EntryPath, hook: str, way: str, folder: Path) -> None:
        def change(event: Any) -> Any:
            return changed(hook, event)

        changes = (change,) if hook in SYNCHRONOUS else (change, slowly(change))
        for act in changes if way == "changes" else FAULTS[HookKind.TRANSFORM][way]:
            probe, stage = self.probed(path, folder, hook, act, 0)

            if hook in SYNCHRONOUS and stage.held:
                pytest.skip("a plugin of the application holds every stream")
            assert probe.hit is not None, f"{path.name}: {hook} was not fired"
            checks.changed_counts(stage, hook, probe.hit)
