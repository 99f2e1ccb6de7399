"""All tools of a host, those that sources list after connecting included, and the ones that a session gets."""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import attrs
from pluggent_function_tools.arguments import ArgumentProblems, Checker
from pluggent_function_tools.function_tool import FunctionTool, definition_digest, function_tool
from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import ConfigError, PluginError, PluginLoadError
from pluggent_hookspecs.tools import Tool, ToolSource
from pluggent_plugin_loader.catalog import PluginRecord, tool_names
from pluggent_plugin_loader.names import APP, plugin_of
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_plugin_loader.validation import RefusalError, collected

from pluggent_host.common.running import comes_from_outside, said
from pluggent_host.hooks.caller import Caller, Late
from pluggent_host.plugins.registry import Offer, PluginSet, named
from pluggent_host.settings import HostSettings
from pluggent_host.tools.toolset import BoundTool, Toolset, bind, kept_names

T = TypeVar("T")

STOPPING_S = 1.0
"""How long a late source may take to clean up."""
_GLOB = re.compile(r"[*?\[]")
_FUNCTIONS = (FunctionType, MethodType)


@attrs.frozen(eq=False, repr=False)
class Found:
    """A tool and its plugin. ``source`` is the one that listed it, None for a tool of the plugin itself."""

    capability: str
    plugin: str
    tool: FunctionTool | Tool
    source: Source | None = None


class Source:
    """One source of a plugin, and its last answer."""

    def __init__(self, plugin: str, given: ToolSource) -> None:
        self.plugin = plugin
        self.asked = False
        self.found: tuple[Found, ...] = ()
        self.problem = ""  # why its last listing failed
        self._given = given
        self._seen: int | None = None

    @property
    def label(self) -> str:
        """Its name as the end of a clause; empty if it has none."""
        name = _attribute(self._given, "name", str)
        return f" in its source '{name}'" if name else ""

    @property
    def required(self) -> bool | None:
        """Whether its failure is the plugin's; None if it does not say."""
        return _attribute(self._given, "required", bool)

    @property
    def _prefix(self) -> str:
        return _attribute(self._given, "prefix", str) or ""

    @property
    def answered(self) -> bool:
        """Whether its last listing succeeded."""
        return self.asked and not self.problem

    def may_bear(self, pattern: str) -> bool:
        """Say whether it can have a tool with a name that fits *pattern*."""
        if not _GLOB.search(pattern):
            return pattern.startswith(self._prefix)
        head = _GLOB.split(pattern)[0]
        return head.startswith(self._prefix) or self._prefix.startswith(head)

    def is_due(self, *, opening: bool) -> bool:
        """Say whether to list it: the first time (*opening* alone), after a change, or after a failure."""
        if not self.asked:
            return opening
        revision = _attribute(self._given, "revision", int)
        return opening and bool(self.problem) if revision is None else revision != self._seen

    async def ask(self, caller: Caller, limit_s: float) -> None:
        """List its tools into ``found``, or the reason why not into ``problem``."""
        # Before asking: what changes meanwhile is a change to be asked about again.
        seen = _attribute(self._given, "revision", int)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        found: tuple[Found, ...] = ()
        try:
            given = await caller.bounded(self._given.tools(), lambda: deadline - loop.time(), stopping_s=STOPPING_S)
            found, problem = self._read(given), ""
        except Late:
            problem = f"did not list its tools{self.label} within {limit_s:g} s"
        except PluginLoadError as error:
            problem = error.problem
        except BaseException as error:
            if comes_from_outside(error):
                raise
            problem = f"could not list its tools{self.label}: {said(error)}"
        self.found, self.problem, self.asked, self._seen = found, problem, True, seen

    def _read(self, given: Iterable[object]) -> tuple[Found, ...]:
        try:
            found = tuple(found_in(self.plugin, each, self) for each in collected(given))
        except RefusalError as error:
            raise PluginLoadError(self.plugin, "", f"tools(){self.label} {error}") from None
        names = [item.tool.spec.name for item in found]
        if twice := doubled(names):
            raise PluginLoadError(self.plugin, "", f"offers{self.label} two tools called {twice}")
        if strange := [name for name in names if not name.startswith(self._prefix)]:
            problem = f"offers{self.label} {', '.join(map(repr, strange))} although its prefix is {self._prefix!r}"
            raise PluginLoadError(self.plugin, "", problem)
        return found


class Shelf:
    """The tools of one plugin. ``told`` gets their problem, or "" once there is none any more."""

    def __init__(
        self, plugin: str, things: Sequence[object], caller: Caller, limit_s: float, told: Callable[[str], None]
    ) -> None:
        self.plugin = plugin
        self.changes = 0  # how often ``found`` has changed
        self.sources = tuple(Source(plugin, cast("ToolSource", thing)) for thing in things if _is_source(thing))
        self.found: tuple[Found, ...] = ()
        self._plain = tuple(found_in(plugin, thing) for thing in things if not _is_source(thing))
        if twice := doubled([item.tool.spec.name for item in self._plain]):
            raise PluginLoadError(plugin, "", f"offers two tools called {twice}")
        self._caller = caller
        self._limit_s = limit_s
        self._told = told
        self._problem = ""
        self._lock = asyncio.Lock()
        self._arrange()

    async def tools(self, pattern: str = "*", *, opening: bool = True) -> tuple[Found, ...]:
        """Return its tools; sources that are due and can have names that fit *pattern* are listed side by side.

        Raises PluginLoadError, while *opening*, if a required source fails.
        """
        wanted = [source for source in self.sources if source.may_bear(pattern)]
        if any(source.is_due(opening=opening) for source in wanted):
            async with self._lock:  # two sessions at once must not ask a source twice
                due = [source for source in wanted if source.is_due(opening=opening)]
                await asyncio.gather(*(source.ask(self._caller, self._limit_s) for source in due))
                if due:
                    self._arrange()
        for source in wanted if opening else ():
            fatal = source.required or (source.required is None and not self.found)
            if source.problem and fatal:
                raise PluginLoadError(self.plugin, "", source.problem)
        return self.found

    def may_gain(self, name: str) -> bool:
        """Say whether a source without an answer may still bring a tool called *name*."""
        return any(source.may_bear(name) and not source.answered for source in self.sources)

    async def still_has(self, capability: str, definition: str) -> bool:
        """Say whether a listed tool is unchanged; sources that are due are listed first."""
        found = await self.tools(capability.partition(":tool/")[2], opening=False)
        return any(item.capability == capability and definition_digest(item.tool.spec) == definition for item in found)

    def check_schemas(self) -> None:
        """Report the tools whose own schema is invalid, which no call can be checked against."""
        problems: list[str] = []
        for item in self.found:
            try:
                Checker(item.tool.spec.parameters or {"type": "object"}).check()
                Checker(item.tool.spec.result_schema or {}).check()
            except ArgumentProblems as error:
                problems.append(f"offers the tool '{item.tool.spec.name}', which cannot be called: {error}")
        if problems:
            self._told("; ".join([*filter(None, [self._problem]), *problems]))

    def _arrange(self) -> None:
        """Collect the tools of all sources. A name in use stays with its source."""
        taken = {item.capability: item for item in self._plain}
        before = {item.capability: item.source for item in self.found}
        problems = [source.problem for source in self.sources if source.problem]
        for source in self.sources:
            for item in source.found:
                holder = before.get(item.capability)
                others = () if holder is None or holder is source else holder.found
                held = any(each.capability == item.capability for each in others)
                if item.capability in taken or held:
                    problems.append(
                        f"offers{source.label} a second tool called {item.tool.spec.name!r}; it is left out"
                    )
                else:
                    taken[item.capability] = item
        self.found = tuple(taken.values())
        self.changes += 1
        problem = "; ".join(problems)
        if problem != self._problem:
            self._problem = problem
            self._told(problem)


def found_in(plugin: str, thing: Any, source: Source | None = None) -> Found:
    """Return *thing*, offered by *plugin*, as a tool. Raises PluginLoadError if it cannot be one."""
    try:
        tool = thing if _is_tool(thing) else function_tool(cast("Callable[..., Any]", thing))
    except (TypeError, ValueError) as error:
        raise PluginLoadError(plugin, "", f"offers something that cannot be a tool: {error}") from error
    name = tool.spec.name
    if source is not None:
        try:
            definition_digest(tool.spec)
            Checker(cast("dict[str, Json]", tool.spec.parameters))
            Checker(tool.spec.result_schema)
        except (ArgumentProblems, ValueError) as error:
            raise PluginLoadError(plugin, "", f"offers{source.label} {name!r} with bad parameters: {error}") from error
    return Found(f"{plugin}:tool/{name}", plugin, tool, source)


def doubled(names: Sequence[str]) -> str:
    """Return the names that occur more than once in *names*, for a sentence."""
    return ", ".join(repr(name) for name in sorted({name for name in names if names.count(name) > 1}))


def fits(pattern: str, item: Found) -> bool:
    """Say whether *pattern* means *item*: by its id if there is a colon in it, else by its name."""
    name = item.capability if ":" in pattern else item.tool.spec.name
    return fnmatch.fnmatchcase(name, pattern) if _GLOB.search(pattern) else pattern in (item.capability, name)


def _is_tool(thing: object) -> TypeGuard[Tool]:
    # Asked of a function, isinstance() with a protocol takes longer than most other steps of reading it.
    return type(thing) not in _FUNCTIONS and isinstance(thing, Tool)


def _is_source(thing: object) -> bool:
    return type(thing) not in _FUNCTIONS and isinstance(thing, ToolSource) and not isinstance(thing, Tool)


def _attribute(thing: object, name: str, kind: type[T]) -> T | None:
    """Return the attribute of a plugin's object if it is exactly a *kind*, None otherwise."""
    try:
        value = getattr(thing, name, None)
    except Exception:  # noqa: BLE001 (a plugin's own property; what it cannot say it does not say)
        return None
    # True is not a revision.
    return value if type(value) is kind else None


log = logging.getLogger("pluggent.tools")

ToolChoice: TypeAlias = str | Tool | Callable[..., Any]
"""A function, a Tool object, or the name of an installed tool (with ``*``: of several) or tool plugin (``*``: all).

A name that a tool has in common with its plugin means the tool; the plugin's id means all its tools.
"""

IN_CODE = f"{APP}tools"
_NONE = Toolset()


@attrs.frozen(eq=False, repr=False)
class _Collected:
    """Tools, the sources that may change them, and the number of changes so far."""

    tools: Toolset
    sources: tuple[Source, ...]
    changes: int


class Toolbox:
    """The tools of one host, made on first use."""

    def __init__(self, plugins: PluginSet, settings: HostSettings, caller: Caller) -> None:
        self._plugins = plugins
        self._settings = settings
        self._caller = caller
        self._versions = {record.id: record.version for record in plugins.catalog.records}
        self._shelves: dict[int, tuple[Offer, Shelf]] = {}
        self._known: dict[tuple[str | int, ...], tuple[tuple[ToolChoice, ...], _Collected]] = {}

    async def tools(self, choices: tuple[ToolChoice, ...]) -> SessionTools:
        """Return the tools of *choices* for one session; looked up once for each choice.

        Raises ConfigError for an unknown name, PluginError for a named plugin that fails, TypeError for a
        function that cannot be a tool.
        """
        key = _key(choices)
        known = self._known.get(key)
        if known is None or self.has_changed(known[1], opening=True):
            # The choices are kept with it, so that no other object gets their ids.
            known = self._known[key] = (choices, await self.collected(choices, _NONE, opening=True))
        return SessionTools(self, choices, known[1])

    def check_schemas(self) -> None:
        """Report every listed tool that cannot be called because its own schema is invalid."""
        for _, shelf in self._shelves.values():
            shelf.check_schemas()

    def changed(self, choices: tuple[ToolChoice, ...]) -> bool:
        """Say whether the tools have changed since ``tools(choices)`` was called last; False if it never was."""
        known = self._known.get(_key(choices))
        return known is not None and self.has_changed(known[1], opening=False)

    async def named(self, pattern: str, asking: str = "") -> tuple[str, ...]:
        """Return the capability ids of the installed tools that *pattern* means. Raises ConfigError.

        Without those of the plugin *asking*: it is being opened, and would wait for itself.
        """
        records = [record for record in self._records(pattern) if record.id != asking]
        known: dict[str, str] = {}
        for offer in await self._plugins.offers("tools", records):
            found = await self._shelf(offer).tools(_short(pattern))
            known |= {item.capability: item.tool.spec.name for item in found}
        return named(pattern, known)

    def has_changed(self, known: _Collected, *, opening: bool) -> bool:
        """Say whether tools have changed since *known*, or a source has to be listed again."""
        return known.changes != self._changes or any(
            source.asked and source.is_due(opening=opening) for source in known.sources
        )

    async def collected(self, choices: Iterable[ToolChoice], before: Toolset, *, opening: bool) -> _Collected:
        """Return the tools of *choices*. Those in *before* keep their names."""
        in_code = [_in_code(choice) for choice in choices if not isinstance(choice, str)]
        if twice := doubled([item.tool.spec.name for item in in_code]):
            raise ConfigError("tools", [f"two tools given in code are called {twice}"])
        found = {item.capability: item for item in in_code}
        for offer in await self._plugins.offers("tools", ()):
            found |= {item.capability: item for item in await self._shelf(offer).tools(opening=opening)}
        for choice in choices:
            if isinstance(choice, str):
                chosen = await self._chosen(choice, {tool.capability for tool in before.values()}, opening=opening)
                found |= {item.capability: item for item in chosen}
        if opening:
            self._check_effects()
        names = [choice for choice in choices if isinstance(choice, str)]
        sources = tuple(
            source
            for offer, shelf in self._shelves.values()
            for source in shelf.sources
            if any(_may_mean(name, offer, source) for name in names) or offer.plugin.startswith(APP)
        )
        return _Collected(self._bound(found.values(), before), sources, self._changes)

    @property
    def _changes(self) -> int:
        return sum(shelf.changes for _, shelf in self._shelves.values())

    async def _chosen(self, name: str, held: set[str], *, opening: bool) -> tuple[Found, ...]:
        catalog = self._plugins.catalog
        if name == "*":
            return await self._all(catalog.available("tools"), "*", opening=opening)
        records = catalog.by_kind("tools")
        if ":tool/" not in name and any(name in (record.name, record.id) for record in records if record.is_first):
            record = catalog.find("tools", name)
            offered = await self._shelf(await self._plugins.offer(record)).tools(opening=opening)
            # Who names a tool does not get the rest of a plugin of the same name; by its id all of it.
            own = tuple(item for item in offered if item.tool.spec.name == name and name != record.id)
            return own or offered
        everything = await self._all(self._records(name), _short(name), opening=opening)
        found = tuple(item for item in everything if fits(name, item))
        if "*" in name or len(found) == 1:
            if found or not opening:
                return found
        elif not opening:
            return tuple(item for item in found if item.capability in held)
        elif found:
            raise ConfigError("tools", [f"{name!r} means {' and '.join(sorted(i.capability for i in found))}"])
        known = [item.capability if ":" in name else item.tool.spec.name for item in everything]
        known += [record.name for record in records]
        have = f"; installed: {', '.join(sorted(set(known)))}" if known else "; none is installed"
        raise ConfigError("tools", [f"there is no tool {name!r}{did_you_mean(name, known) or have}"])

    def _records(self, pattern: str) -> tuple[PluginRecord, ...]:
        """Return the installed plugins that may have a tool of that name."""
        plugin = plugin_of(pattern) if ":" in pattern and "*" not in plugin_of(pattern) else ""
        return tuple(record for record in self._plugins.catalog.available("tools") if plugin in ("", record.id))

    async def _all(self, records: Iterable[PluginRecord], pattern: str, *, opening: bool) -> tuple[Found, ...]:
        offers = await self._plugins.offers("tools", records)
        listed = await asyncio.gather(*(self._listed(offer, pattern, opening=opening) for offer in offers))
        return tuple(item for found in listed for item in found)

    async def _listed(self, offer: Offer, pattern: str, *, opening: bool) -> tuple[Found, ...]:
        try:
            return await self._shelf(offer).tools(pattern, opening=opening)
        except PluginError as error:
            log.warning("%s", error)
            self._plugins.ails(offer, error.problem)
            return ()

    def _shelf(self, offer: Offer) -> Shelf:
        known = self._shelves.get(id(offer))
        if known is None:

            def told(problem: str) -> None:
                if problem:
                    log.warning("plugin '%s' %s", offer.plugin, problem)
                self._plugins.ails(offer, problem)

            shelf = Shelf(offer.plugin, offer.things, self._caller, self._settings.timeouts.source_s, told)
            # Kept with its offer, so that no other object gets its id.
            known = self._shelves[id(offer)] = (offer, shelf)
        return known[1]

    def _check_effects(self) -> None:
        problems: list[str] = []
        for key in self._settings.effects:
            shelves = [shelf for _, shelf in self._shelves.values() if shelf.plugin == plugin_of(key)]
            known = [item.capability for shelf in shelves for item in shelf.found]
            if shelves and key not in known and not any(shelf.may_gain(_short(key)) for shelf in shelves):
                problems.append(f"'{key}' is not one of its tools{did_you_mean(key, known)}")
        if problems:
            raise ConfigError("effects", problems)

    def _bound(self, found: Iterable[Found], before: Toolset) -> Toolset:
        items = {item.capability: item for item in found}
        first_party = self._plugins.catalog.first_party
        names = tool_names(
            ((id, item.tool.spec.name) for id, item in items.items()), self._settings.aliases, first_party
        )
        bound: list[BoundTool] = []
        for name, capability in kept_names(names, before).items():
            item, old = items[capability], before.get(name)
            if old is not None and old.tool is item.tool:
                bound.append(old)
                continue
            try:
                bound.append(self._bind(item, name))
            except (ArgumentProblems, ValueError) as error:
                raise PluginLoadError(item.plugin, "", f"offers '{name}' with bad parameters: {error}") from error
        return Toolset(bound)

    def _bind(self, item: Found, name: str) -> BoundTool:
        return bind(
            item.tool, name=name, capability=item.capability, plugin=item.plugin,
            operator_effects=self._settings.effects.get(item.capability),
            version=self._versions.get(item.plugin, ""),
            # What a source brings was not written by the application, even where the application gave the source.
            trusted=item.plugin.startswith(APP) and item.source is None and not self._settings.strict,
            still=None if item.source is None else partial(self._still_has, item),
        )  # fmt: skip

    async def _still_has(self, item: Found) -> bool:
        """Say whether the source of *item* still has it, unchanged."""
        shelves = [shelf for _, shelf in self._shelves.values() if item.source in shelf.sources]
        return await shelves[0].still_has(item.capability, definition_digest(item.tool.spec))


@attrs.define(eq=False, repr=False)
class SessionTools:
    """The tools of one session, now and after changes. A tool keeps the name that the model has seen."""

    _box: Toolbox
    _choices: tuple[ToolChoice, ...]
    _found: _Collected

    @property
    def current(self) -> Toolset:
        """The tools of the last look."""
        return self._found.tools

    async def latest(self) -> Toolset:
        """Return the tools there are now; a source that fails has none."""
        if self._box.has_changed(self._found, opening=False):
            self._found = await self._box.collected(self._choices, self.current, opening=False)
        return self.current


def _key(choices: tuple[ToolChoice, ...]) -> tuple[str | int, ...]:
    return tuple(choice if isinstance(choice, str) else id(choice) for choice in choices)


def _short(pattern: str) -> str:
    """Return the part of *pattern* for the tool's own name."""
    return pattern.partition(":tool/")[2] or ("*" if ":" in pattern else pattern)


def _may_mean(name: str, offer: Offer, source: Source) -> bool:
    """Say whether *name*, a choice, can mean tools of *source*."""
    if ":tool/" not in name and name in (offer.plugin, offer.name):
        return True
    plugin = plugin_of(name) if ":" in name else ""
    return (plugin in ("", offer.plugin) or "*" in plugin) and source.may_bear(_short(name))


def _in_code(choice: Tool | Callable[..., Any]) -> Found:
    tool = choice if _is_tool(choice) else function_tool(cast("Callable[..., Any]", choice))
    return Found(f"{IN_CODE}:tool/{tool.spec.name}", IN_CODE, tool)
