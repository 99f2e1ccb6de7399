"""The plugins of one host: loaded when they are needed, opened once, closed in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import attrs
from pluggent_hookspecs.errors import ConfigError, PluggentError, PluginLoadError
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.observations import Observation, PluginStateChanged
from pluggent_hookspecs.plugins import Opens

from pluggent_host.calling import said
from pluggent_host.catalog import APP, BUILT_IN, Catalog, PluginRecord
from pluggent_host.lifetime import Lifetime
from pluggent_host.loading import load, new_manager, register, registered_name
from pluggent_host.nearest import nearest
from pluggent_host.settings import HostSettings

log = logging.getLogger("pluggent.plugins")

ALL_KINDS = ("hooks", "provider", "tools", "memory", "parser", "command")
_PROVIDE = {
    "provider": "provide_providers",
    "tools": "provide_tools",
    "memory": "provide_memory",
    "parser": "provide_parsers",
    "command": "provide_commands",
}


@attrs.frozen
class Context:
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


@attrs.frozen(eq=False)
class Offer:
    """What one plugin provides of one kind; ``name`` is the entry's, or the class's in code."""

    plugin: str
    name: str
    things: tuple[Any, ...]


class PluginSet:
    """Loads, opens and closes. ``states`` maps a plugin's registered name to its state and reason."""

    def __init__(self, catalog: Catalog, settings: HostSettings, host_version: str) -> None:
        self.catalog = catalog
        self.manager = new_manager()
        self.states: dict[str, tuple[str, str]] = {}
        self._settings = settings
        self._host_version = host_version
        self._in_code: dict[str, object] = {}
        self._offers: dict[tuple[str, str], Offer | PluggentError] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._lifetimes: list[tuple[str, Lifetime]] = []
        self.tools_named: Callable[[str, str], Awaitable[tuple[str, ...]]] = _no_tools
        self.model_named: Callable[[str], Awaitable[object]] = _no_models
        self.tell: Callable[[Observation], None] = lambda _: None

    # ---- hooks ---------------------------------------------------------------------------

    def register_in_code(self, plugins: Iterable[object]) -> None:
        """Register objects that the application gave, as ``app:<class name>``."""
        for plugin in plugins:
            name = base = APP + type(plugin).__name__.lower()
            number = 2
            while name in self._in_code:
                name, number = f"{base}-{number}", number + 1
            register(self.manager, name, plugin, kinds=ALL_KINDS, host_code=True)
            self._in_code[name] = plugin
            self._become(name, "active")

    def load_hooks(self) -> None:
        """Load every hook plugin that may run.

        Raises PluginLoadError or ConfigError for the first that cannot be, unless the operator
        marked it optional: a policy must not vanish.
        """
        for record in self.catalog.by_kind("hooks"):
            if record.state in ("blocked", "shadowed"):
                continue
            if record.state == "disallowed" and self._settings.selection.mode == "safe":
                continue  # safe mode keeps what is required and nothing else of third parties
            if record.state == "disallowed" and record.id in BUILT_IN and record.id not in self._settings.required:
                continue  # came with the host, and the operator's list of what may run leaves it out
            try:
                if record.state != "available":
                    raise PluginLoadError(
                        record.id, f"{record.id} {record.version}", f"is {record.state}: {record.reason}. {record.mend}"
                    )
                load(record, self.manager, self._section(record))
                self._become(record.id, "active")
            except PluggentError as error:
                self._become(record.id, "failed", str(error))
                if record.id not in self._settings.grants.optional:
                    raise

    async def open_hooks(self) -> None:
        """Enter the lifetime of every hook plugin, in order of id."""
        for name, plugin in sorted(self.manager.list_name_plugin()):
            try:
                await self._open(name, plugin)
            except PluggentError as error:
                self._become(name, "failed", str(error))
                if name not in self._settings.grants.optional:
                    raise
                self.manager.unregister(plugin)

    def hooks_of(self, name: str) -> frozenset[str]:
        """Return the hooks that the plugin registered as *name* implements."""
        callers = self.manager.get_hookcallers(self.manager.get_plugin(name)) or ()
        return frozenset(caller.name for caller in callers)

    # ---- capabilities --------------------------------------------------------------------

    async def offers(self, kind: str, records: Iterable[PluginRecord] | None = None) -> tuple[Offer, ...]:
        """Return what *records* (default: all available of *kind*) and application code provide.

        A plugin that fails is left out; its state says why.
        """
        found = [self._from_code(kind, name, plugin) for name, plugin in self._in_code.items()]
        for record in self.catalog.available(kind) if records is None else records:
            try:
                found.append(await self.offer(record))
            except PluggentError as error:
                log.warning("%s", error)
        return tuple(offer for offer in found if offer.things)

    async def offer(self, record: PluginRecord) -> Offer:
        """Return what *record* provides; load and open it first if need be. Raises PluggentError."""
        key = (record.id, registered_name(record))
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._offers.get(key)
            if known is None:
                known = self._offers[key] = await self._loaded(record)
        if isinstance(known, PluggentError):
            raise known
        return known

    def ails(self, offer: Offer, problem: str) -> None:
        """Tell what is wrong with some of the tools in *offer*, or, with no *problem*, that nothing is any more."""
        name = offer.plugin if offer.plugin.startswith(APP) else f"{offer.plugin}:tools/{offer.name}"
        self._become(name, "active", problem)

    async def load_all(self) -> None:
        """Load and open every plugin that may run; ``states`` says what became of each."""
        for record in self.catalog.records:
            if record.state == "available" and record.kind != "hooks":
                with contextlib.suppress(PluggentError):  # its state says so
                    await self.offer(record)

    async def _loaded(self, record: PluginRecord) -> Offer | PluggentError:
        name = registered_name(record)
        try:
            loaded = load(record, self.manager, self._section(record))
            await self._open(name, loaded.plugin)
            things = self._provide(name, record.kind)
        except PluggentError as error:
            self._become(name, "failed", str(error))
            return error
        self._become(name, "active")
        return Offer(record.id, record.name, things)

    def _from_code(self, kind: str, name: str, plugin: object) -> Offer:
        key = (name, kind)
        known = self._offers.get(key)
        if isinstance(known, Offer):
            return known
        offer = Offer(name, name.removeprefix(APP), self._provide(name, kind))
        self._offers[key] = offer
        return offer

    def _provide(self, name: str, kind: str) -> tuple[Any, ...]:
        hook = _PROVIDE[kind]
        things: list[Any] = []
        for impl in getattr(self.manager.hook, hook).get_hookimpls():
            if impl.plugin_name != name:
                continue
            started = perf_counter()
            try:
                things += impl.function(ProvideEvent(self._host_version))
            except Exception as error:
                raise PluginLoadError(name, "", f"failed in {hook}: {said(error)}") from error
            if perf_counter() - started > self._settings.timeouts.provide_s:
                raise PluginLoadError(
                    name, "", f"took {perf_counter() - started:.1f} s in {hook}; it may take"
                    f" {self._settings.timeouts.provide_s:g} s and do no input or output"
                )  # fmt: skip
        return tuple(things)

    # ---- lifetimes -----------------------------------------------------------------------

    async def _open(self, name: str, plugin: object) -> None:
        if not isinstance(plugin, Opens):
            return
        id = name if name.startswith(APP) else name.partition(":")[0]
        lifetime = Lifetime(plugin, Context(id, self._host_version, self.tools_named, self.model_named))
        problem = await lifetime.enter(self._settings.timeouts.open_s)
        if isinstance(problem, PluggentError):
            raise problem
        if problem is not None:
            raise PluginLoadError(id, "", f"failed to open: {said(problem)}") from problem
        self._lifetimes.append((name, lifetime))

    async def aclose(self) -> None:
        """Leave every lifetime, the last one first."""
        while self._lifetimes:
            name, lifetime = self._lifetimes.pop()
            problem = await lifetime.leave(self._settings.timeouts.close_s)
            if problem is not None:
                log.warning("plugin %s failed to close: %s", name, said(problem))
            self._become(name, "closed", "" if problem is None else said(problem))

    # ---- settings and states -------------------------------------------------------------

    def _section(self, record: PluginRecord) -> Mapping[str, Any] | object | None:
        return self._settings.plugins.get(record.id)

    def _become(self, name: str, state: str, reason: str = "") -> None:
        self.states[name] = (state, reason)
        self.tell(PluginStateChanged(name, state, reason))


async def _no_models(name: str) -> None:
    raise ConfigError("model", [f"{name!r} cannot be resolved before the host is open"])


async def _no_tools(pattern: str, asking: str) -> tuple[str, ...]:  # noqa: ARG001 (as Toolbox.named)
    raise ConfigError("tools", [f"{pattern!r} cannot be resolved before the host is open"])


def named(pattern: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return the capability ids among *known* ({id: short name}) that *pattern* means.

    Raises ConfigError if nothing bears the name, or a short name without ``*`` means two.
    """
    if "*" in pattern:
        found = [id for id, short in known.items() if fnmatch.fnmatchcase(id if ":" in pattern else short, pattern)]
    else:
        found = [id for id, short in known.items() if pattern in (id, short)]
    if len(found) > 1 and "*" not in pattern:
        raise ConfigError("rules", [f"{pattern!r} means {' and '.join(sorted(found))}; write one of the two"])
    if not found:
        others = [*known, *known.values()]
        raise ConfigError("rules", [f"{pattern!r} matches no tool{nearest(pattern, others)}"])
    return tuple(sorted(found))
