"""The plugins of one host: loaded on first use, opened once, closed in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any

import attrs
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import ConfigError, PluggentError, PluginLoadError
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.observations import Observation, PluginStateChanged
from pluggent_hookspecs.plugins import Opens, PluginContext
from pluggent_plugin_loader.catalog import Catalog, PluginRecord, is_left_out
from pluggent_plugin_loader.discovery import normalised
from pluggent_plugin_loader.loader import about, load, new_manager, register, registered_name, without
from pluggent_plugin_loader.names import APP
from pluggent_plugin_loader.plugin_errors import is_interrupt, raised_at
from pluggent_plugin_loader.settings import SystemList
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_plugin_loader.validation import PROVIDES, RefusalError, collected, near_misses

from pluggent_host.common.running import said
from pluggent_host.settings import HostSettings

log = logging.getLogger("pluggent.plugins")


@attrs.frozen(repr=False)
class Context(Value):
    """The PluginContext of one plugin."""

    plugin: str
    host_version: str
    _tools_named: Callable[[str, str], Awaitable[tuple[str, ...]]]
    _model_named: Callable[[str], Awaitable[object]]

    async def tools_named(self, pattern: str) -> tuple[str, ...]:
        return await self._tools_named(pattern, self.plugin)

    async def model_named(self, name: str) -> str:
        await self._model_named(name)
        return name


@attrs.frozen(eq=False, repr=False)
class Offer:
    """The capabilities of one kind that a plugin provides; ``name`` is the entry's, or the class's in code."""

    plugin: str
    name: str
    things: tuple[Any, ...]


class PluginSet:
    """Loads, opens and closes plugins.

    ``states`` maps a registered name to state and reason, ``errors`` that of a plugin that failed to its error.
    """

    def __init__(self, catalog: Catalog, settings: HostSettings, host_version: str) -> None:
        self.catalog = catalog
        self.manager = new_manager()
        self.tools_named: Callable[[str, str], Awaitable[tuple[str, ...]]] = _unresolved
        self.model_named: Callable[[str], Awaitable[object]] = _unresolved
        self.states: dict[str, tuple[str, str]] = {}
        self.errors: dict[str, PluggentError] = {}
        self._settings = settings
        self._host_version = host_version
        self._in_code: dict[str, object] = {}
        self._offers: dict[tuple[str, str], Offer | PluggentError] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._lifetimes: list[tuple[str, Lifetime]] = []
        self.emit: Callable[[Observation], None] = lambda _: None

    def register_in_code(self, plugins: Iterable[object]) -> None:
        """Register objects of the application as ``app:<class name>``."""
        for plugin in plugins:
            name = base = APP + type(plugin).__name__.lower()
            number = 2
            while name in self._in_code:
                name, number = f"{base}-{number}", number + 1
            register(self.manager, name, plugin, kinds=("hooks", *PROVIDES), host_code=True)
            self._in_code[name] = plugin
            self._activate(name, name, near_misses(plugin))

    def load_hooks(self) -> None:
        """Load every hook plugin that may run.

        Raises PluginLoadError or ConfigError for the first that fails, unless the operator marked it
        optional: a policy must not vanish. Plugins that the system's allow list leaves out are logged; one that is
        required, or that has settings and is left out by a list, is a failure.
        """
        wanted = self._wanted()
        left_out: list[str] = []
        for record in self.catalog.by_kind("hooks"):
            if record.state in ("blocked", "shadowed") or record.distribution.left_out:
                continue  # look_around() has refused what must not be left out
            if record.state == "disallowed" and record.id not in wanted:
                if record.is_built_in:
                    continue  # came with the host, and the operator's list of what may run leaves it out
                outside = is_left_out(self._settings.selection, record.distribution)
                left_out += [record.id] if outside else []
                if outside or self._settings.selection.mode == "safe":
                    continue  # safe mode keeps what is required and nothing else of third parties
            try:
                if record.state != "available":
                    raise PluginLoadError(
                        record.id, f"{record.id} {record.version}", f"is {record.state}: {record.reason}. {record.mend}"
                    )
                loaded = load(record, self.manager, self._section(record))
                self._activate(record.id, record.id, loaded.near_misses)
            except PluggentError as error:
                self._fail(record.id, error)
                if record.id not in self._settings.grants.optional:
                    raise

        if left_out:
            names = ", ".join(left_out)
            log.warning("not loaded, because selection.allow of the system's settings does not list them: %s", names)

    def _wanted(self) -> frozenset[str]:
        """Return the plugins that no list leaves out: those that are required, and those that have settings."""
        settings = self._settings
        required = frozenset(map(normalised, settings.required))
        listed = settings.selection.mode == "allow" or isinstance(settings.selection.allow, SystemList)
        return required | settings.plugins.keys() if listed else required

    async def open_hooks(self) -> None:
        """Open every hook plugin, in order of id."""
        for name, plugin in sorted(self.manager.list_name_plugin()):
            try:
                await self._open(name, plugin)
            except PluggentError as error:
                self._fail(name, error)
                if name not in self._settings.grants.optional:
                    raise
                self.manager.unregister(plugin)

    def is_active(self, id: str) -> bool:
        """Say whether the installed plugin *id* has hooks that run."""
        return not id.startswith(APP) and self.states.get(id, ("", ""))[0] == "active"

    def hooks_of(self, name: str) -> frozenset[str]:
        """Return the hooks that the plugin registered as *name* implements."""
        callers = self.manager.get_hookcallers(self.manager.get_plugin(name)) or ()
        return frozenset(caller.name for caller in callers)

    async def offers(self, kind: str, records: Iterable[PluginRecord] | None = None) -> tuple[Offer, ...]:
        """Return the capabilities of *records* (default: all available of *kind*) and of application code.

        A plugin that fails is left out; its state has the reason.
        """
        found = [self._from_code(kind, name, plugin) for name, plugin in self._in_code.items()]
        for record in self.catalog.available(kind) if records is None else records:
            try:
                found.append(await self.offer(record))
            except PluggentError as error:
                log.warning("%s", error)
        return tuple(offer for offer in found if offer.things)

    async def offer(self, record: PluginRecord) -> Offer:
        """Return the capabilities of *record*, loaded and opened on first use. Raises PluggentError."""
        key = (record.id, registered_name(record))
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._offers.get(key)
            if known is None:
                known = self._offers[key] = await self._loaded(record)
        if isinstance(known, PluggentError):
            raise known
        return known

    def ails(self, offer: Offer, problem: str) -> None:
        """Report *problem* with some tools of *offer*, or with "" that there is none any more."""
        name = offer.plugin if offer.plugin.startswith(APP) else f"{offer.plugin}:tools/{offer.name}"
        self._become(name, "active", problem)

    async def load_all(self) -> None:
        """Load and open every plugin that may run; ``states`` has the results."""
        for record in self.catalog.records:
            if record.state == "available" and record.kind != "hooks":
                with contextlib.suppress(PluggentError):  # its state says so
                    await self.offer(record)

    async def _loaded(self, record: PluginRecord) -> Offer | PluggentError:
        name = registered_name(record)
        try:
            loaded = load(record, self.manager, self._section(record))
            await self._open(name, loaded.plugin)
            things = self._provide(name, record.kind, record)
        except PluggentError as error:
            self._fail(name, error)
            return error
        self._activate(name, record.id, loaded.near_misses)
        return Offer(record.id, record.name, things)

    def _from_code(self, kind: str, name: str, plugin: object) -> Offer:
        known = self._offers.get((name, kind))
        if not isinstance(known, Offer):
            known = self._offers[name, kind] = Offer(name, name.removeprefix(APP), self._provide(name, kind))
        return known

    def _provide(self, name: str, kind: str, record: PluginRecord | None = None) -> tuple[Any, ...]:
        hook = PROVIDES[kind]

        def broken(problem: str) -> PluginLoadError:
            if record is None:
                return PluginLoadError(name, "", problem)
            return PluginLoadError(record.id, about(record), f"{problem}.", cure=f"Mend it, {without(record.id)}")

        things: list[Any] = []
        for impl in getattr(self.manager.hook, hook).get_hookimpls():
            if impl.plugin_name != name:
                continue
            started, limit_s = perf_counter(), self._settings.timeouts.provide_s
            try:
                things += collected(impl.function(ProvideEvent(self._host_version)), limit_s)
            except RefusalError as error:
                raise broken(f"is broken: its {hook} {error}") from None
            except BaseException as error:  # a plugin may raise anything, SystemExit too
                if is_interrupt(error):
                    raise
                raise broken(f"failed in {hook}: {said(error)}{raised_at(error)}") from error
            if perf_counter() - started > limit_s:
                limit = f"it may take {limit_s:g} s and do no input or output"
                raise broken(f"took {perf_counter() - started:.1f} s in {hook}; {limit}")
        return tuple(things)

    async def _open(self, name: str, plugin: object) -> None:
        if not isinstance(plugin, Opens):
            return
        id = name if name.startswith(APP) else name.partition(":")[0]
        lifetime = Lifetime(plugin, Context(id, self._host_version, self.tools_named, self.model_named))
        problem = await lifetime.enter(self._settings.timeouts.open_s)
        if isinstance(problem, PluggentError):
            raise problem
        if problem is not None:
            raise PluginLoadError(id, "", f"failed to open: {said(problem)}{raised_at(problem)}") from problem
        self._lifetimes.append((name, lifetime))

    async def aclose(self) -> None:
        """Close every plugin, the last one first."""
        while self._lifetimes:
            name, lifetime = self._lifetimes.pop()
            problem = await lifetime.leave(self._settings.timeouts.close_s)
            if problem is not None:
                log.warning("plugin %s failed to close: %s", name, said(problem))
            self._become(name, "closed", "" if problem is None else said(problem))

    def _section(self, record: PluginRecord) -> Mapping[str, Any] | object | None:
        return self._settings.plugins.get(record.id)

    def _activate(self, name: str, id: str, problems: tuple[str, ...]) -> None:
        for problem in problems:
            log.warning("plugin '%s': %s", id, problem)
        self._become(name, "active", "; ".join(problems))

    def _fail(self, name: str, error: PluggentError) -> None:
        self.errors[name] = error
        self._become(name, "failed", str(error))

    def _become(self, name: str, state: str, reason: str = "") -> None:
        if state == "active":
            self.errors.pop(name, None)
        self.states[name] = (state, reason)
        self.emit(PluginStateChanged(name, state, reason))


async def _unresolved(name: str, *_: str) -> tuple[str, ...]:
    raise ConfigError("names", [f"{name!r} cannot be resolved before the host is open"])


def named(pattern: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids among *known* ({capability id: short name}) that *pattern* means.

    Raises ConfigError for an unknown name, or a short name without ``*`` that two tools have.
    """
    found = [
        id
        for id, short in known.items()
        if pattern in (id, short) or ("*" in pattern and fnmatchcase(id if ":" in pattern else short, pattern))
    ]
    if len(found) > 1 and "*" not in pattern:
        raise ConfigError("rules", [f"{pattern!r} means {' and '.join(sorted(found))}; write one of the two"])
    if not found:
        others = [*known, *known.values()]
        raise ConfigError("rules", [f"{pattern!r} matches no tool{did_you_mean(pattern, others)}"])
    return tuple(sorted(found))


STOPPING_S = 0.5
"""How long a plugin that was given up may take to notice."""


class Lifetime:
    """Enters ``plugin.open(context)`` of one plugin and leaves it again, each under a deadline.

    In one task, because a cancel scope or task group has to be left where it was entered; in its own,
    because a plugin that ignores its cancellation must not block the host.
    """

    def __init__(self, plugin: Opens, context: PluginContext) -> None:
        self._plugin = plugin
        self._context = context
        self._entered = asyncio.Event()
        self._leave = asyncio.Event()
        self._task: asyncio.Task[BaseException | None] | None = None

    async def enter(self, limit_s: float) -> BaseException | None:
        """Return None once the plugin is open, else the error; it is closed then."""
        task = self._task = asyncio.create_task(self._live(), name=f"pluggent-plugin-{self._context.plugin}")
        entered = asyncio.create_task(self._entered.wait())
        try:
            await asyncio.wait((task, entered), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._give_up(task)
            raise
        finally:
            entered.cancel()
        if self._entered.is_set() and not task.done():
            return None
        return await self._ended(task, f"it did not open within {limit_s:g} s")

    async def leave(self, limit_s: float) -> BaseException | None:
        """Return None once the plugin is closed, else the error."""
        task = self._task
        if task is None:
            return None
        self._leave.set()
        await asyncio.wait((task,), timeout=limit_s)
        return await self._ended(task, f"it did not close within {limit_s:g} s")

    async def _live(self) -> BaseException | None:
        try:
            async with self._plugin.open(self._context):
                self._entered.set()
                await self._leave.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # a SystemExit of a plugin would end the program
            if is_interrupt(error):
                raise
            return error
        return None

    async def _ended(self, task: asyncio.Task[BaseException | None], late: str) -> BaseException | None:
        if not task.done():
            await self._give_up(task)
            return TimeoutError(late)
        if task.cancelled():
            return asyncio.CancelledError("it cancelled itself")
        return task.result()

    async def _give_up(self, task: asyncio.Task[BaseException | None]) -> None:
        self._leave.set()  # one that ignores the cancellation and opens too late leaves at once
        task.cancel()
        await asyncio.wait((task,), timeout=STOPPING_S)
