"""Sees which implementations of hooks are called, whoever's they are, by standing in front of each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import attrs
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind
from pluggent_host.inspection import Chains, Impl
from pluggent_host.plugins.validation import HOLDING

from pluggent_testing.paths_operations import EntryPath

_CONDITIONAL = ("settle", "transform_delta", "resolve_approval", "observe")
"""Hooks that not every implementation of is called on: who reserved nothing settles nothing, an approver
may have answered before, a stream may be held, an observer may want other events.
"""


class Reach:
    """Which implementations were called of the chains that hosts were opened with meanwhile."""

    def __init__(self) -> None:
        self._chains: list[Chains] = []
        self._called = Counter[tuple[str, str]]()

    def watching(self, build: Callable[..., Chains]) -> Callable[..., Chains]:
        """Return *build*, which makes chains, so that every implementation in them is watched."""

        def watched(*arguments: Any) -> Chains:
            chains = build(*arguments)
            self._chains.append(chains)
            by_hook = {
                hook: tuple(attrs.evolve(impl, function=self._watched(hook, impl)) for impl in chain)
                for hook, chain in chains.by_hook.items()
            }
            return attrs.evolve(chains, by_hook=by_hook)

        return watched

    def _watched(self, hook: str, impl: Impl) -> Callable[..., Any]:
        function = impl.function

        def called(*arguments: Any) -> Any:
            self._called[hook, impl.plugin] += 1
            return function(*arguments)

        return called

    def missed(self, path: EntryPath, ours: Collection[object]) -> list[str]:
        """Return the hooks of plugins, except *ours*, that were not called as often as *path* has to."""
        return sorted(
            f"{path.name}: {impl.plugin} was asked in {hook} {called} times of {due}"
            for hook, impl in self._expected(path)
            if (called := self._called[hook, impl.plugin]) < (due := _due(path, hook))
            and not any(_belongs(impl, each) for each in ours)
        )

    def _expected(self, path: EntryPath) -> Iterator[tuple[str, Impl]]:
        for chains in self._chains:
            for hook in path.hooks():
                if hook not in _CONDITIONAL or (hook == "transform_delta" and not _held(chains, path)):
                    yield from ((hook, impl) for impl in chains[hook])


def _due(path: EntryPath, hook: str) -> int:
    # A layer that lies around one that calls again is called once for all of that.
    counts = HOOKS[hook].kind in (HookKind.TRANSFORM, HookKind.DECIDE) and hook != "transform_delta"
    return path.times(hook) if counts else 1


def _held(chains: Chains, path: EntryPath) -> bool:
    provisional = path.settings.get("stream") == "provisional"
    return not provisional and any(impl.incremental is None for hook in HOLDING for impl in chains[hook])


def _belongs(impl: Impl, plugin: object) -> bool:
    return getattr(impl.function, "__self__", None) is plugin
