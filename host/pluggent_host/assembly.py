"""Puts a host together, refusing everything that would let a policy vanish, and takes it apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import attrs
import pluggent_hookspecs
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.observations import Observation, PluginStateChanged
from pluggent_hookspecs.tools import Effect

from pluggent_host.calling import Caller
from pluggent_host.capabilities import Capabilities
from pluggent_host.catalog import APP, Catalog, PluginRecord, catalog, plugin_of
from pluggent_host.chains import build
from pluggent_host.conversation import Services
from pluggent_host.discovery import Discovery, discover
from pluggent_host.memories import Memory
from pluggent_host.nearest import nearest
from pluggent_host.observers import Observers
from pluggent_host.operations import Operations
from pluggent_host.pluginset import PluginSet
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.sinks import Sinks
from pluggent_host.threads import Threads
from pluggent_host.toolbox import Toolbox
from pluggent_host.version import VERSION
from pluggent_host.watchers import Watchers


@attrs.frozen(eq=False)
class Parts:
    """What a host is made of."""

    plugins: PluginSet
    services: Services
    observers: Observers
    toolbox: Toolbox
    capabilities: Capabilities
    watchers: Watchers


async def assemble(settings: HostSettings, found: Catalog, in_code: Iterable[object]) -> Parts:
    """Load hook plugins, freeze the chains, open lifetimes. Raises ConfigError and PluginError."""
    plugins = PluginSet(found, settings, VERSION)
    plugins.register_in_code(in_code)
    plugins.load_hooks()
    threads = Threads()
    caller = Caller(threads)
    toolbox = Toolbox(plugins, settings, caller)
    capabilities = Capabilities(plugins, settings)
    plugins.tools_named, plugins.model_named = toolbox.named, capabilities.model
    try:
        await plugins.open_hooks()
        return _put_together(settings, found, plugins, toolbox, capabilities, caller, threads)
    except BaseException:
        await plugins.aclose()
        await caller.close(settings.timeouts.close_s)
        threads.close()
        raise


def _put_together(
    settings: HostSettings, found: Catalog, plugins: PluginSet, toolbox: Toolbox, capabilities: Capabilities,
    caller: Caller, threads: Threads,
) -> Parts:  # fmt: skip
    _check_required(settings, plugins)
    chains = build(plugins.manager, settings, {record.id: record.version for record in found.records})
    observers = Observers(chains["observe"], caller, settings.timeouts.observe_s)
    watchers = Watchers()

    def beside(event: Observation) -> None:
        observers.tell(event)
        watchers.tell(event)

    optional = frozenset(settings.grants.optional)
    sinks = Sinks(chains["write_record"], optional, caller, settings.timeouts.hook_s, beside)

    def tell(event: Observation) -> None:
        sinks.tell(event)
        beside(event)

    operations = Operations(chains, caller, settings, tell, sinks)
    services = Services(
        operations,
        caller,
        threads,
        chains,
        settings,
        tell,
        lambda store, journal, scope, numbers, ask: Memory(
            lambda: capabilities.store(store), operations, journal, scope, numbers, ask
        ),
        watchers,
        capabilities.model,
    )
    parts = Parts(plugins, services, observers, toolbox, capabilities, watchers)
    plugins.tell = tell
    for name, (state, reason) in plugins.states.items():
        tell(PluginStateChanged(name, state, reason))
    return parts


async def take_apart(parts: Parts) -> None:
    """Let observers finish, close plugins in reverse order, stop threads and what was left behind."""
    close_s = parts.services.settings.timeouts.close_s
    await parts.observers.close(close_s)
    await parts.plugins.aclose()
    parts.watchers.close()
    await parts.services.caller.close(close_s)
    parts.services.threads.close()


def look_around(
    settings: HostSettings, *, installed: bool | Discovery, acknowledged: Callable[[PluginRecord], bool] | None
) -> Catalog:
    """Return what is installed and may run. Raises ConfigError naming everything that is in doubt."""
    found = Discovery(()) if installed is False else discover() if installed is True else installed
    known = catalog(
        found, settings.selection, pluggent_hookspecs.__version__, aliases=settings.aliases, required=settings.required
    )
    problems = [str(problem) for problem in known.problems if problem.fatal]
    ids = {record.id for record in known.records}
    problems += [
        f"there are settings for '{id}', which is not installed{nearest(id, ids)}"
        for id in sorted(settings.plugins.keys() - ids)
    ]
    problems += [*_unknown_ids(settings, ids), *_unknown_effects(settings)]
    for record in known.available("hooks"):
        if acknowledged is not None and not acknowledged(record):
            problems.append(
                f"plugin '{record.id}' {record.version} has hooks that see everything and was not accepted yet; "
                f"accept it: pluggent trust --plugin {record.id}, or leave it out: --without {record.id}"
            )
    if problems:
        raise ConfigError("plugins", problems)
    return known


def _unknown_ids(settings: HostSettings, installed: Collection[str]) -> Iterator[str]:
    """Name every plugin id in the operator's lists that nothing bears: a rule must not miss in silence."""
    lists = {f"[grants] {name}": getattr(settings.grants, name) for name in Grants._fields}
    lists |= {"order": settings.order, "[effects]": tuple(settings.effects)}
    usual = {name for names in Grants() for name in names}  # granted wherever they are installed
    for place, names in lists.items():
        for name in names:
            if name in usual:
                continue
            id = plugin_of(name)
            if not id.startswith(APP) and id not in installed:
                yield f"{place} names '{name}', which is not installed{nearest(id, installed)}"


def _unknown_effects(settings: HostSettings) -> Iterator[str]:
    for tool, effects in settings.effects.items():
        for effect in effects:
            if effect not in tuple(Effect) and not effect.startswith("x:"):
                yield f"[effects] {tool}: there is no effect '{effect}'{nearest(effect, tuple(Effect))}"


def _check_required(settings: HostSettings, plugins: PluginSet) -> None:
    problems: list[str] = []
    for id, hooks in settings.required.items():
        if id.startswith(APP) or plugins.states.get(id, ("", ""))[0] != "active":
            problems.append(f"plugin '{id}' is required and does not run: install it, or take it out of [required]")
            continue
        have = plugins.hooks_of(id)
        problems += [
            f"plugin '{id}' is required to implement {hook}, and does not" for hook in hooks if hook not in have
        ]
    if problems:
        raise ConfigError("required", problems)
