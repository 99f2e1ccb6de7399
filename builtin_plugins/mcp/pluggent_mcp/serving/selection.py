"""Selects what is exported: tools, and by their tags the tools that list and read resources and prompts.

Any plugin may have such tools. Two with the tags ``mcp:resources/list`` and ``mcp:resources/read``
(or ``mcp:prompts/list`` and ``mcp:prompts/get``) are one source if their names are a common stem
and then ``list_resources`` and ``read_resource`` (``list_prompts`` and ``get_prompt``). One with the tag
``mcp:completion/complete`` and the end ``complete_argument`` completes the arguments of that source, one with
``mcp:resources/wait`` and ``wait_for_resource`` says when its resources change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import attrs
from pluggent_hookspecs import ConfigError, HostOperations, HostTool

Patterns = tuple[str, ...]

SWITCH_ON = (
    "nothing that {} means has {}; for a server of MCP, switch them on:"
    " [plugins.pluggent-mcp.mcpServers.NAME] {} = true"
)


@attrs.frozen
class Wanted:
    """The patterns of the operator for tools, resources and prompts."""

    tools: Patterns = ()
    resources: Patterns = ()
    prompts: Patterns = ()

    def __bool__(self) -> bool:
        """Say whether it is anything at all."""
        return bool(self.tools or self.resources or self.prompts)


@attrs.frozen
class Source:
    """The names of the tools that list and read the resources or prompts of ``stem``, and of further ones it has."""

    plugin: str
    stem: str
    lists: str
    reads: str
    completes: str = ""
    waits: str = ""


@attrs.frozen
class Selection:
    """The current export: tools by name, and sources."""

    tools: Mapping[str, HostTool] = MappingProxyType({})
    resources: tuple[Source, ...] = ()
    prompts: tuple[Source, ...] = ()

    @property
    def completes(self) -> bool:
        """Whether any source completes arguments."""
        return any(source.completes for source in (*self.resources, *self.prompts))

    @property
    def waits(self) -> bool:
        """Whether any source says when its resources change."""
        return any(source.waits for source in self.resources)


@attrs.frozen
class _Kind:
    """Tags and ends of the names of one sort of source."""

    lists: tuple[str, str]
    reads: tuple[str, str]


RESOURCES = _Kind(("mcp:resources/list", "list_resources"), ("mcp:resources/read", "read_resource"))
PROMPTS = _Kind(("mcp:prompts/list", "list_prompts"), ("mcp:prompts/get", "get_prompt"))

CHANGES = ("mcp:resources/wait", "wait_for_resource")
COMPLETIONS = ("mcp:completion/complete", "complete_argument")


async def select(operations: HostOperations, wanted: Wanted) -> Selection:
    """Return the tools and sources that match *wanted* now.

    Raises ConfigError for a pattern that means nothing, or resources or prompts that nothing has;
    PluginError for a plugin that fails.
    """
    found = await _found(operations, wanted)
    return Selection(
        {tool.spec.name: tool for tool in found[wanted.tools]},
        _sources("resources", RESOURCES, wanted.resources, found),
        _sources("prompts", PROMPTS, wanted.prompts, found),
    )


async def _found(operations: HostOperations, wanted: Wanted) -> Mapping[Patterns, tuple[HostTool, ...]]:
    """Return the tools that each sort of patterns means, under the names that they have among all of them."""
    found: dict[Patterns, tuple[HostTool, ...]] = {(): ()}
    for sort, patterns in (("tools", wanted.tools), ("resources", wanted.resources), ("prompts", wanted.prompts)):
        if patterns not in found:
            try:
                found[patterns] = await operations.tools(*patterns)
            except ConfigError as error:
                raise ConfigError(f"--{sort}", [*error.problems, *_hint(sort, patterns)]) from error
    every = tuple(dict.fromkeys(pattern for patterns in found for pattern in patterns))
    if every in found:
        return found
    # Asked together, two of one name are told apart, and this is what the host then calls by these names.
    named = {tool.capability: tool for tool in await operations.tools(*every)}
    return {
        patterns: tuple(named[tool.capability] for tool in tools if tool.capability in named)
        for patterns, tools in found.items()
    }


def _sources(
    sort: str, kind: _Kind, patterns: Patterns, found: Mapping[Patterns, tuple[HostTool, ...]]
) -> tuple[Source, ...]:
    tools = found[patterns]
    lists, reads, completes, waits = (
        dict(_tagged(tools, *each)) for each in (kind.lists, kind.reads, COMPLETIONS, CHANGES)
    )
    sources = tuple(
        Source(*key, lists=name, reads=reads[key], completes=completes.get(key, ""), waits=waits.get(key, ""))
        for key, name in lists.items()
        if key in reads
    )
    if patterns and not sources:
        raise ConfigError(f"--{sort}", _hint(sort, patterns))
    return sources


def _hint(sort: str, patterns: Patterns) -> list[str]:
    """Return a hint for a pattern without resources or prompts."""
    return [] if sort == "tools" else [SWITCH_ON.format(" ".join(patterns), sort, sort)]


def _tagged(tools: Iterable[HostTool], tag: str, end: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield plugin and stem, and the name, of each tool with *tag*."""
    for tool in tools:
        # The name that the host made may be another, so that it is unique or short enough.
        own = tool.capability.rpartition("/")[2].rstrip("_")
        if tag in tool.spec.tags and own.endswith(end):
            yield (tool.plugin, own.removesuffix(end).rstrip("_")), tool.spec.name
