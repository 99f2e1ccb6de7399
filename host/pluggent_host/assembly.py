"""Puts a host together, refusing everything that would let a policy vanish, and takes it apart."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs
import pluggent_hookspecs
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.events import ApprovalEvent, QuestionEvent
from pluggent_hookspecs.markers import MaybeAsync, hookimpl
from pluggent_hookspecs.observations import PluginStateChanged
from pluggent_hookspecs.questions import Elicited
from pluggent_hookspecs.tools import Effect
from pluggent_plugin_loader.catalog import Catalog, PluginRecord, catalog
from pluggent_plugin_loader.discovery import Discovery, discover, normalised
from pluggent_plugin_loader.names import APP, plugin_of
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_host import __version__
from pluggent_host.common.running import Threads
from pluggent_host.hooks.caller import Caller
from pluggent_host.hooks.event_bus import EventBus
from pluggent_host.hooks.order import build
from pluggent_host.operations.memory import Cursors, Memory
from pluggent_host.operations.pipeline import Operations
from pluggent_host.plugins.lookup import Capabilities
from pluggent_host.plugins.registry import PluginSet
from pluggent_host.settings import Grants, HostSettings
from pluggent_host.tools.hosted import HOSTED
from pluggent_host.tools.selection import Toolbox
from pluggent_host.turns.record import Services

log = logging.getLogger("pluggent.plugins")

Approver: TypeAlias = Callable[[ApprovalEvent], MaybeAsync[bool | Approval | None]]
Answerer: TypeAlias = Callable[[QuestionEvent], MaybeAsync[Elicited | None]]


def people(approver: Approver | None, answerer: Answerer | None, *, in_threads: bool = False) -> tuple[object, ...]:
    """Return these functions of the application as plugins; *in_threads*: one that is not async may block."""
    given = (("_Approver", "resolve_approval", approver), ("_Answerer", "answer_question", answerer))
    return tuple(_person(name, hook, ask, in_threads=in_threads) for name, hook, ask in given if ask is not None)


def _person(name: str, hook: str, ask: Callable[[Any], Any], *, in_threads: bool) -> object:
    """Return a plugin with one hook; records call it by *name*, that of its class."""

    def answer(event: Any) -> Any:
        return ask(event)

    blocking = in_threads and not inspect.iscoroutinefunction(ask)
    return type(name, (), {hook: staticmethod(hookimpl(blocking=blocking)(answer))})()


@attrs.frozen(eq=False, repr=False)
class Parts:
    """The parts of a host."""

    plugins: PluginSet
    services: Services
    events: EventBus
    toolbox: Toolbox
    capabilities: Capabilities


async def assemble(settings: HostSettings, found: Catalog, in_code: Iterable[object]) -> Parts:
    """Load hook plugins, freeze the chains, open lifetimes. Raises ConfigError and PluginError."""
    plugins = PluginSet(found, settings, __version__)
    plugins.register_in_code(in_code)
    plugins.load_hooks()
    threads = Threads()
    caller = Caller(threads)
    toolbox = Toolbox(plugins, settings, caller)
    capabilities = Capabilities(plugins, settings)
    plugins.tools_named, plugins.model_named = toolbox.named, capabilities.model
    try:
        await plugins.open_hooks()
        _check_required(settings, plugins)
        versions = {record.id: record.version for record in found.records if record.is_first}
        chains = build(plugins.manager, settings, versions)
        events = EventBus(chains, caller, settings)
        operations = Operations(chains, caller, settings, events.emit, events.sinks)
        cursors = Cursors()
        services = Services(
            operations,
            caller,
            threads,
            chains,
            settings,
            events.emit,
            lambda store, journal, scope, numbers, settle: Memory(
                lambda: capabilities.store(store), operations, journal, scope, numbers, settle, cursors
            ),
            events.streams,
            capabilities.model,
            capabilities.embedder,
        )
        parts = Parts(plugins, services, events, toolbox, capabilities)
        plugins.emit = events.emit
        for name, (state, reason) in plugins.states.items():
            events.emit(PluginStateChanged(name, state, reason))
        return parts
    except BaseException:
        await plugins.aclose()
        await caller.close(settings.timeouts.close_s)
        threads.close()
        raise


async def take_apart(parts: Parts) -> None:
    """Let observers finish, close plugins in reverse order, stop threads and abandoned calls."""
    close_s = parts.services.settings.timeouts.close_s
    await parts.events.observers.close(close_s)
    await parts.plugins.aclose()
    parts.events.streams.close()
    await parts.services.caller.close(close_s)
    parts.services.threads.close()


def look_around(
    settings: HostSettings, *, installed: bool | Discovery, acknowledged: Callable[[PluginRecord], bool] | None
) -> Catalog:
    """Return the installed plugins that may run. Raises ConfigError naming every problem."""
    found = Discovery(()) if installed is False else discover() if installed is True else installed
    known = catalog(
        found, settings.selection, pluggent_hookspecs.__version__, aliases=settings.aliases, required=settings.required
    )
    problems = [str(problem) for problem in known.problems if problem.fatal]
    for problem in known.problems:
        if problem.unknown and not problem.fatal:
            log.warning("not loaded: %s", problem)
    problems += _skipped(settings, known)
    ids = {record.id for record in known.records}
    problems += [
        f"there are settings for '{id}', which is not installed{did_you_mean(id, ids)}"
        for id in sorted(settings.plugins.keys() - ids)
    ]
    problems += [*_unknown_ids(settings, ids, known.first_party), *_unknown_effects(settings)]
    for record in known.available("hooks"):
        if acknowledged is not None and not acknowledged(record):
            problems.append(
                f"plugin '{record.id}' {record.version} has hooks that see everything and was not accepted yet; "
                f"accept it: pluggent trust --plugin {record.id}, or leave it out: --without {record.id}"
            )
    if problems:
        raise ConfigError("plugins", problems)
    return known


def _skipped(settings: HostSettings, known: Catalog) -> Iterator[str]:
    """Name every plugin in the project that has hooks, or settings: it must not vanish in silence."""
    named = {plugin_of(name) for names in _lists(settings).values() for name in names}
    named = (named | settings.plugins.keys()) - {record.id for record in known.records if record.is_first}
    said: set[str] = set()
    for record in known.records:
        item = record.distribution
        is_meant = record.id not in settings.grants.optional if item.has_hooks else record.id in named
        if record.state == "skipped" and is_meant and item.location not in said:
            said.add(item.location)
            why = (
                "has hooks and is skipped, so a policy may be missing"
                if item.has_hooks
                else "has settings and is skipped"
            )
            yield (
                f"plugin '{record.id}' {record.version} {why}: {record.reason}; {record.mend}. In code:"
                f" Host.open(installed=discover(trusted=True)) runs it, Selection(block=({record.id!r},)) leaves it out"
            )


def _lists(settings: HostSettings) -> dict[str, tuple[str, ...]]:
    """Return the operator's lists of plugins and capabilities by their names in settings."""
    lists = {f"[grants] {name}": names for name, names in settings.grants.of_plugins.items()}
    # Tools at a vendor belong to a provider, which is known when it is asked.
    tools = tuple(name for name in settings.effects if HOSTED not in name)
    return lists | {"order": settings.order, "[effects]": tools}


def _unknown_ids(settings: HostSettings, installed: Collection[str], first_party: Mapping[str, str]) -> Iterator[str]:
    """Name every unknown plugin id in the operator's lists: a rule must not be lost in silence."""
    usual = {name for names in Grants().filled_in(first_party) for name in names}  # wherever they are installed
    for place, names in _lists(settings).items():
        for name in names:
            if name in usual:
                continue
            if name.startswith("!"):
                meant = did_you_mean(name[1:], usual | {*names})
                yield f"{place} takes '{name[1:]}' away, which it does not have{meant}"
                continue
            id = plugin_of(name)
            if not id.startswith(APP) and id not in installed:
                yield f"{place} names '{name}', which is not installed{did_you_mean(id, installed)}"


def _unknown_effects(settings: HostSettings) -> Iterator[str]:
    for tool, effects in settings.effects.items():
        for effect in effects:
            if effect not in tuple(Effect) and not effect.startswith("x:"):
                yield f"[effects] {tool}: there is no effect '{effect}'{did_you_mean(effect, tuple(Effect))}"


def _check_required(settings: HostSettings, plugins: PluginSet) -> None:
    problems: list[str] = []
    for name, hooks in settings.required.items():
        id = normalised(name)
        if not (plugins.is_active(id) or (not hooks and plugins.catalog.is_ready(id))):
            records = [record for record in plugins.catalog.records if record.id == id]
            why = f" (it is {records[0].state}: {records[0].reason})" if records and records[0].reason else ""
            mend = f"{records[0].mend if why else 'install it'}, or take it out of [required] or [plugins]"
            problems.append(f"plugin '{name}' is required and does not run{why}: {mend}")
            continue
        have = plugins.hooks_of(id) if hooks else ()
        problems += [
            f"plugin '{id}' is required to implement {hook}, and does not" for hook in hooks if hook not in have
        ]
    if problems:
        raise ConfigError("required", problems)
