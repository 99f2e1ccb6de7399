"""The tools of one plugin: its own, and those that its sources list after connecting."""

from __future__ import annotations

import asyncio
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import attrs
from pluggent_hookspecs import Json
from pluggent_hookspecs.errors import PluginLoadError
from pluggent_hookspecs.tools import Tool, ToolSource

from pluggent_host.common.running import being_cancelled, said
from pluggent_host.hooks.caller import Caller, Late
from pluggent_host.tools.arguments import ArgumentProblems, Checker
from pluggent_host.tools.function_tool import FunctionTool, definition_digest, function_tool

T = TypeVar("T")

STOPPING_S = 1.0
"""How long a late source may take to clean up."""
_GLOB = re.compile(r"[*?\[]")


@attrs.frozen(eq=False)
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
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and being_cancelled():
                raise
            problem = f"could not list its tools{self.label}: {said(error)}"
        self.found, self.problem, self.asked, self._seen = found, problem, True, seen

    def _read(self, given: Iterable[object]) -> tuple[Found, ...]:
        found = tuple(found_in(self.plugin, each, self) for each in given)
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
        if opening:
            self._check(wanted)
        return self.found

    def may_gain(self, name: str) -> bool:
        """Say whether a source without an answer may still bring a tool called *name*."""
        return any(source.may_bear(name) and not source.answered for source in self.sources)

    async def still_has(self, capability: str, definition: str) -> bool:
        """Say whether a listed tool is unchanged; sources that are due are listed first."""
        found = await self.tools(capability.partition(":tool/")[2], opening=False)
        return any(item.capability == capability and definition_digest(item.tool.spec) == definition for item in found)

    def _check(self, wanted: Iterable[Source]) -> None:
        for source in wanted:
            fatal = source.required or (source.required is None and not self.found)
            if source.problem and fatal:
                raise PluginLoadError(self.plugin, "", source.problem)

    def _arrange(self) -> None:
        """Collect the tools of all sources. A name in use stays with its source."""
        taken = {item.capability: item for item in self._plain}
        before = {item.capability: item.source for item in self.found}
        problems = [source.problem for source in self.sources if source.problem]
        for source in self.sources:
            for item in source.found:
                holder = before.get(item.capability)
                held = holder is not None and holder is not source and _lists(holder, item.capability)
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
        tool = thing if isinstance(thing, Tool) else function_tool(cast("Callable[..., Any]", thing))
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


def _lists(source: Source, capability: str) -> bool:
    return any(item.capability == capability for item in source.found)


def _is_source(thing: object) -> bool:
    return isinstance(thing, ToolSource) and not isinstance(thing, Tool)


def _attribute(thing: object, name: str, kind: type[T]) -> T | None:
    """Return the attribute of a plugin's object if it is exactly a *kind*, None otherwise."""
    try:
        value = getattr(thing, name, None)
    except Exception:  # noqa: BLE001 (a plugin's own property; what it cannot say it does not say)
        return None
    # True is not a revision.
    return value if type(value) is kind else None
