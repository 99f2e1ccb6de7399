"""Which tools there are, and which of them a session gets under which names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import attrs
from pluggent_hookspecs.errors import ConfigError, PluginError, PluginLoadError
from pluggent_hookspecs.tools import Tool, ToolSource

from pluggent_host.arguments import ArgumentProblems
from pluggent_host.catalog import APP, PluginRecord, plugin_of, tool_names
from pluggent_host.functions import FunctionTool, function_tool
from pluggent_host.nearest import nearest
from pluggent_host.pluginset import Offer, PluginSet, named
from pluggent_host.settings import HostSettings
from pluggent_host.toolset import BoundTool, Toolset, bind

log = logging.getLogger("pluggent.tools")

ToolChoice: TypeAlias = str | Tool | Callable[..., Any]
"""A function, a Tool object, or the name of an installed tool or tool plugin (``*``: all)."""

IN_CODE = f"{APP}tools"


@attrs.frozen(eq=False)
class Found:
    """A tool and whose it is."""

    capability: str
    plugin: str
    tool: FunctionTool | Tool


class Toolbox:
    """The tools of one host, made when first asked for."""

    def __init__(self, plugins: PluginSet, settings: HostSettings) -> None:
        self._plugins = plugins
        self._settings = settings
        self._made: dict[int, tuple[Offer, tuple[Found, ...]]] = {}
        self._lock = asyncio.Lock()
        self._toolsets: dict[tuple[str | int, ...], tuple[tuple[ToolChoice, ...], Toolset]] = {}

    async def toolset(self, choices: tuple[ToolChoice, ...]) -> Toolset:
        """Return the tools that *choices* mean; made once for each choice. See ``_collected``."""
        key = tuple(choice if isinstance(choice, str) else id(choice) for choice in choices)
        if key not in self._toolsets:
            # The choices are kept beside it, so that their ids stay taken.
            self._toolsets[key] = (choices, await self._collected(choices))
        return self._toolsets[key][1]

    async def _collected(self, choices: Iterable[ToolChoice]) -> Toolset:
        """Return the tools that *choices* mean, with the names that the model will see.

        Raises ConfigError for a name that nothing bears, PluginError for a plugin that was named
        and does not work, TypeError for a function that cannot be a tool.
        """
        in_code = [_in_code(choice) for choice in choices if not isinstance(choice, str)]
        found = {item.capability: item for item in in_code}
        if len(found) != len(in_code):
            names = [item.tool.spec.name for item in in_code]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ConfigError("tools", [f"two tools given in code are called {name!r}" for name in twice])
        for offer in await self._plugins.offers("tools", ()):
            found |= {item.capability: item for item in await self._tools(offer)}
        for choice in choices:
            if isinstance(choice, str):
                found |= {item.capability: item for item in await self._chosen(choice)}
        return self._bound(found.values())

    async def named(self, pattern: str, asking: str = "") -> tuple[str, ...]:
        """Return the capability ids of the installed tools that *pattern* means. Raises ConfigError.

        Those of the plugin *asking* are not among them: it is being opened, and would wait for itself.
        """
        plugin = plugin_of(pattern) if ":" in pattern and "*" not in plugin_of(pattern) else ""
        records = [
            record
            for record in self._plugins.catalog.available("tools")
            if record.id != asking and plugin in ("", record.id)
        ]
        known: dict[str, str] = {}
        for offer in await self._plugins.offers("tools", records):
            known |= {item.capability: item.tool.spec.name for item in await self._tools(offer)}
        return named(pattern, known)

    async def _chosen(self, name: str) -> tuple[Found, ...]:
        catalog = self._plugins.catalog
        if name == "*":
            return await self._all(catalog.available("tools"))
        records = catalog.by_kind("tools")
        if ":tool/" not in name and any(name in (record.name, record.id) for record in records):
            return await self._tools(await self._plugins.offer(catalog.find("tools", name)))
        everything = await self._all(catalog.available("tools"))
        short = [item for item in everything if name in (item.capability, item.tool.spec.name)]
        if len(short) == 1:
            return (short[0],)
        if short:
            raise ConfigError("tools", [f"{name!r} means {' and '.join(sorted(i.capability for i in short))}"])
        known = [*(item.tool.spec.name for item in everything), *(record.name for record in records)]
        have = f"; installed: {', '.join(sorted(set(known)))}" if known else "; none is installed"
        raise ConfigError("tools", [f"there is no tool {name!r}{nearest(name, known) or have}"])

    async def _all(self, records: Iterable[PluginRecord]) -> tuple[Found, ...]:
        found: list[Found] = []
        for offer in await self._plugins.offers("tools", records):
            try:
                found += await self._tools(offer)
            except PluginError as error:
                log.warning("%s", error)
        return tuple(found)

    async def _tools(self, offer: Offer) -> tuple[Found, ...]:
        async with self._lock:  # two sessions at once must not ask a source twice
            known = self._made.get(id(offer))
            if known is None:
                # Kept with its offer, so that the id stays taken.
                known = self._made[id(offer)] = (offer, await self._listed(offer))
        return known[1]

    async def _listed(self, offer: Offer) -> tuple[Found, ...]:
        made: list[Found] = []
        for thing in offer.things:
            things = await self._from_source(offer, thing) if _is_source(thing) else (thing,)
            made += [_found(offer.plugin, each) for each in things]
        names = [item.tool.spec.name for item in made]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise PluginLoadError(offer.plugin, "", f"offers two tools called {', '.join(map(repr, twice))}")
        self._check_effects(offer.plugin, [item.capability for item in made])
        return tuple(made)

    def _check_effects(self, plugin: str, capabilities: list[str]) -> None:
        mine = [key for key in self._settings.effects if plugin_of(key) == plugin]
        if missed := [key for key in mine if key not in capabilities]:
            raise ConfigError("effects", [f"'{key}' is no tool of it{nearest(key, capabilities)}" for key in missed])

    async def _from_source(self, offer: Offer, source: ToolSource) -> tuple[Tool, ...]:
        limit = self._settings.timeouts.source_s
        try:
            async with asyncio.timeout(limit):
                return tuple(await source.tools())
        except TimeoutError as error:
            raise PluginLoadError(offer.plugin, "", f"did not list its tools within {limit:g} s") from error
        except Exception as error:
            raise PluginLoadError(
                offer.plugin, "", f"could not list its tools: {type(error).__name__}: {error}"
            ) from error

    def _bound(self, found: Iterable[Found]) -> Toolset:
        items = {item.capability: item for item in found}
        names = tool_names(((id, item.tool.spec.name) for id, item in items.items()), self._settings.aliases)
        bound: list[BoundTool] = []
        for name, capability in names.items():
            item = items[capability]
            try:
                bound.append(
                    bind(
                        item.tool, name=name, capability=capability, plugin=item.plugin,
                        operator_effects=self._settings.effects.get(capability),
                        trusted=item.plugin.startswith(APP) and not self._settings.strict,
                    )
                )  # fmt: skip
            except (ArgumentProblems, ValueError) as error:
                raise PluginLoadError(item.plugin, "", f"offers '{name}' with bad parameters: {error}") from error
        return Toolset(bound)


def _is_source(thing: object) -> bool:
    return isinstance(thing, ToolSource) and not isinstance(thing, Tool)


def _in_code(choice: Tool | Callable[..., Any]) -> Found:
    tool = choice if isinstance(choice, Tool) else function_tool(choice)
    return Found(f"{IN_CODE}:tool/{tool.spec.name}", IN_CODE, tool)


def _found(plugin: str, thing: Any) -> Found:
    try:
        tool = thing if isinstance(thing, Tool) else function_tool(cast("Callable[..., Any]", thing))
    except (TypeError, ValueError) as error:
        raise PluginLoadError(plugin, "", f"offers something that cannot be a tool: {error}") from error
    return Found(f"{plugin}:tool/{tool.spec.name}", plugin, tool)
