"""A call of a tool that does not exist: what stands in for it, and what the model is told."""

from __future__ import annotations

from collections.abc import Iterable

from pluggent_function_tools.arguments import Checker
from pluggent_hookspecs.errors import ToolError, ToolErrorKind
from pluggent_hookspecs.tools import ToolOutput, ToolSpec
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_host.tools.toolset import BoundTool, by_effect


def unknown_tool(name: str) -> BoundTool:
    """Return a stand-in for a tool that does not exist, so that its failure takes the usual way."""
    spec = ToolSpec(name)
    return BoundTool(f"unknown:tool/{name}", "", spec, _Nothing(spec), "", None, by_effect(None), Checker({}))


class _Nothing:
    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def call(self, arguments: object, context: object) -> ToolOutput:
        raise ToolError(f"there is no tool {self.spec.name!r}", kind=ToolErrorKind.UNKNOWN)


def missing(name: str, offered: Iterable[str]) -> str:
    """Return what a model that called *name* is told where there is no tool of that name among those *offered*."""
    known = tuple(offered)
    others = f"Offered are: {', '.join(known)}." if known else "No tools are offered."
    return f"there is no tool {name!r}{did_you_mean(name, known) or '.'} {others}"
