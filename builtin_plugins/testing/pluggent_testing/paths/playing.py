"""Plays one entry path: composes what its host is opened with, opens it, goes the way, keeps what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pluggent_hookspecs
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import HookKind
from pluggent_host.inspection import Chains, Impl
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.discovery import Discovery, Distribution, discover
from pluggent_plugin_loader.entry_points import EntryPoint
from pluggent_plugin_loader.validation import HOLDING

from pluggent_testing.paths.operations import EntryPath
from pluggent_testing.paths.probes import listener
from pluggent_testing.paths.stage import Capabilities, Log, Model, Opener, PathEmbedder, Stage, Store, Tools

PATIENCE_S = 30.0
"""How long one run may take before it counts as hanging."""

Plugins = Callable[[Log], Iterable[object]]
_KINDS = (("provide_providers", "providers"), ("provide_memory", "memory"), ("provide_tools", "tools"),
          ("provide_embedders", "embedders"))  # fmt: skip


def play(
    path: EntryPath, opener: Opener, composition: Mapping[str, Any], folder: Path, plugins: Plugins = lambda _: (),
    *, hook_s: float | None = None, durable: bool = True,
) -> Stage:  # fmt: skip
    """Go *path* with a host of *composition* and *plugins*, in the new *folder*; return what came of it."""
    log = Log()
    stage = Stage(path, opener, folder, log, _composed(composition, path, hook_s))
    if durable or path.durable:
        stage.options["state_dir"] = stage.state_dir
    stage.ours = (listener(log), *plugins(log), *path.plugins(log))
    names = ("paths", "paths-other") if path.other else ("paths",)
    models, store, tools = [Model(log, name, path) for name in names], Store(log), Tools(stage)
    embedder = PathEmbedder(log, path)
    if path.installed == "everything":
        _install(stage.options, [*models, store, embedder, tools, *stage.ours])
    else:
        stage.options["plugins"] = [*stage.options["plugins"], Capabilities(models, store, embedder), *stage.ours]
    if path.installed == "tools":
        _install(stage.options, [tools])
    given = tools.all() if path.installed == "nothing" else ["paths-tools"]
    stage.options["tools"] = [*stage.options["tools"], *given]
    going = path.way(stage) if path.opens else _opened(stage)
    if going is not None:
        asyncio.run(asyncio.wait_for(going, PATIENCE_S))
    return stage


async def _opened(stage: Stage) -> None:
    async with stage.opener.open_host(**stage.options) as host:
        stage.chains = host.chains
        await stage.path.way(stage, host)


def _composed(composition: Mapping[str, Any], path: EntryPath, hook_s: float | None) -> dict[str, Any]:
    options = {"plugins": (), "tools": (), **composition}
    config: HostSettings = options.get("config") or HostSettings()
    timeouts = config.timeouts if hook_s is None else config.timeouts._replace(hook_s=hook_s)
    options["config"] = config._replace(timeouts=timeouts, **{"on_ask": "deny", **path.settings})
    options["model"] = "paths/m"
    options.pop("approver", None)  # a path says itself who answers
    if options.get("installed", True) is True:
        options["installed"] = _discovered()
    return options


@cache
def _discovered() -> Discovery:
    """Return what is installed; looked for once, because hundreds of hosts are opened."""
    return discover()


# ---- by entry point ---------------------------------------------------------------------


@attrs.frozen
class Given:
    """The settings of a plugin that is there already."""

    plugin: Any = None


class Factory:
    """What the entry points of the suite name: it returns the plugin that its settings bring."""

    Settings: ClassVar[type] = Given

    def __call__(self, given: Given) -> object:
        """Return the plugin."""
        plugin: object = given.plugin
        return plugin


make = Factory()


def _install(options: dict[str, Any], plugins: Iterable[object]) -> None:
    """Let *plugins* be found as installed distributions, instead of being given in code."""
    found = options["installed"] or Discovery(())
    config: HostSettings = options["config"]
    made = {f"paths-{_name(each)}": each for each in plugins}
    new = [_distribution(name, each) for name, each in made.items()]
    options["installed"] = found._replace(distributions=tuple(sorted((*found.distributions, *new))))
    options["settings"] = {**(options.get("settings") or {}), **{name: Given(each) for name, each in made.items()}}
    selection = config.selection
    if selection.mode == "allow":
        selection = selection._replace(allow=(*selection.allow, *made))
    options["config"] = config._replace(selection=selection)
    accepted = options.get("acknowledged")
    if accepted is not None:

        def acknowledged(record: PluginRecord) -> bool:
            return record.id in made or bool(accepted(record))

        options["acknowledged"] = acknowledged


def _name(plugin: object) -> str:
    name = type(plugin).__name__.lower()
    return f"{name}-{plugin.name}" if isinstance(plugin, Model) else name


def _distribution(name: str, plugin: object) -> Distribution:
    group = next((group for hook, group in _KINDS if hasattr(plugin, hook)), "hooks")
    entry = EntryPoint(f"pluggent.{group}", name.removeprefix("paths-"), f"{__name__}:make")
    contract = f"=={pluggent_hookspecs.__version__}"
    here = Path(__file__).parents[2]  # whence this module is imported: elsewhere it would be one of the project's
    return Distribution(name, name, "1.0", f"{here}/{name}-1.0.dist-info", (entry,), contract)


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
