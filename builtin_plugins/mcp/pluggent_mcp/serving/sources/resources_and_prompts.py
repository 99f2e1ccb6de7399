"""Resources of the tools that list and read them, under their own URIs, and prompts, under stem and name."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from pluggent_mcp.serving.calls import Calls
from pluggent_mcp.serving.exchanges import Context, client_of
from pluggent_mcp.serving.selection import Source
from pluggent_mcp.serving.sources.tool_results import (
    Entry,
    Sources,
    contents,
    failure,
    listed,
    messages,
    not_found,
    page,
    prompts,
    resources,
    templates,
)
from pluggent_mcp.tool_names import SEPARATOR

T = TypeVar("T")
MOST_WARNINGS = 20
_LOG = logging.getLogger("pluggent.mcp.serve")


class Resources:
    """Handlers of resource requests."""

    def __init__(self, calls: Calls, sources: Sources) -> None:
        self._calls = calls
        self._sources = sources
        self._readers: Mapping[str, str] = {}
        """The tool that reads each URI that is listed, and each that begins as a template does."""
        self._warned: set[tuple[str, str]] = set()

    def handlers(self) -> Mapping[str, Any]:
        """Return what answers, by the SDK's names."""
        return {
            "on_list_resources": self._list,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": self._read,
        }

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        found = await self._listed(context, await self._sources())
        shown, more = page(_first(found, resources, lambda one: one.uri), params)
        return ListResourcesResult(resources=shown, next_cursor=more)

    async def _list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        found = await self._listed(context, await self._sources())
        shown, more = page(_first(found, templates, lambda one: one.uri_template), params)
        return ListResourceTemplatesResult(resource_templates=shown, next_cursor=more)

    async def _read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        reader = await self._reader(context, uri)
        if reader is None:
            raise not_found("Resource not found", context.protocol_version, uri)
        output = await self._calls.run(context, reader, {"uri": uri})
        if output.is_error:
            raise failure(output, context.protocol_version, uri)
        return ReadResourceResult(contents=contents(output, reader, uri))

    async def source(self, context: Context, template: str) -> Source | None:
        """Return the source that reads what *template* makes."""
        reader = await self._reader(context, template)
        return next((source for source in await self._sources() if source.reads == reader), None)

    # ---- readers of URIs -----------------------------------------------------------------

    async def _reader(self, context: Context, uri: str) -> str | None:
        """Return the tool that reads *uri*: that of the source that lists it, or the only one there is."""
        sources = await self._sources()
        if len(sources) == 1:
            return sources[0].reads
        reader = self._known(uri, sources)
        if reader is None:
            await self._listed(context, sources)
            reader = self._known(uri, sources)
        return reader

    def _known(self, uri: str, sources: Sequence[Source]) -> str | None:
        if uri in self._readers:
            fitting = [uri]
        else:
            beginnings = (each for each in self._readers if each.endswith("{") and uri.startswith(each[:-1]))
            fitting = sorted(beginnings, key=len)
        reader = self._readers[fitting[-1]] if fitting else None
        return reader if any(source.reads == reader for source in sources) else None

    async def _listed(self, context: Context, sources: Sequence[Source]) -> list[tuple[Source, list[Entry]]]:
        found = await listed(self._calls, context, sources)
        readers: dict[str, str] = {}
        for source, entries in found:
            for each in entries:
                # An opening brace stands in no URI: it ends what all that a template makes begin with.
                key = str(each["template"]).partition("{")[0] + "{" if "template" in each else str(each.get("uri"))
                self._check(key, source, readers)
                readers.setdefault(key, source.reads)
        self._readers = readers
        return found

    def _check(self, key: str, source: Source, readers: Mapping[str, str]) -> None:
        """Warn once if a template of another source covers *key*."""
        others = [each for each, reader in readers.items() if reader != source.reads and each.endswith("{")]
        over = next((each for each in others if len(each) > 1 and key.startswith(each[:-1]) and each != key), None)
        if over is not None and (over, key) not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add((over, key))
            _LOG.warning("'%s' lists %.200r, which a template of another source covers too", source.lists, key)


def _first(
    found: Sequence[tuple[Source, list[Entry]]], make: Callable[[list[Entry]], list[T]], key: Callable[[T], str]
) -> list[T]:
    """Return what *make* makes of all entries; of several that are called the same, the first."""
    kept: dict[str, T] = {}
    for source, entries in found:
        for one in make(entries):
            if kept.setdefault(key(one), one) is not one:
                _LOG.warning("'%s' lists %.200r too, which is served from another source", source.lists, key(one))
    return list(kept.values())


# ---- prompts -----------------------------------------------------------------------------


MOST_CLIENTS = 64
"""Clients whose lists are cached."""


class Prompts:
    """Handlers of prompt requests."""

    def __init__(self, calls: Calls, sources: Sources) -> None:
        self._calls = calls
        self._sources = sources
        self._known: OrderedDict[str, Mapping[str, tuple[Source, Prompt]]] = OrderedDict()
        """The last list, by client: it may differ between clients."""

    def handlers(self) -> Mapping[str, Any]:
        """Return what answers, by the SDK's names."""
        return {"on_list_prompts": self._list, "on_get_prompt": self._get}

    async def _list(self, context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        found = await self._listed(context)
        offered = [prompt.model_copy(update={"name": name}) for name, (_, prompt) in found.items()]
        shown, more = page(offered, params)
        return ListPromptsResult(prompts=shown, next_cursor=more)

    async def find(self, context: Context, name: str) -> tuple[Source, Prompt]:
        """Return the prompt that is called *name* here. Raises MCPError."""
        known = self._known.get(client_of(context), {})
        if name not in known or known[name][0] not in await self._sources():
            known = await self._listed(context)
        if name not in known:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {name[:100]}")
        return known[name]

    async def _get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        source, prompt = await self.find(context, params.name)
        given = params.arguments or {}
        missing = [each.name for each in prompt.arguments or () if each.required and each.name not in given]
        if missing:
            raise MCPError(INVALID_PARAMS, f"the prompt {params.name} needs {', '.join(missing)}")
        output = await self._calls.run(context, source.reads, {"name": prompt.name, "arguments": given})
        if output.is_error:
            raise failure(output, context.protocol_version)
        return GetPromptResult(description=prompt.description, messages=messages(output, source.reads))

    async def _listed(self, context: Context) -> Mapping[str, tuple[Source, Prompt]]:
        """Return the prompts of all sources by the names that they have here."""
        found: dict[str, tuple[Source, Prompt]] = {}
        for source, entries in await listed(self._calls, context, await self._sources()):
            for prompt in prompts(entries):
                name = f"{source.stem}{SEPARATOR}{prompt.name}" if source.stem else prompt.name
                if found.setdefault(name, (source, prompt))[1] is not prompt:
                    _LOG.warning("'%s' lists %.200r too, which is served from another source", source.lists, name)
        self._known[client_of(context)] = found
        self._known.move_to_end(client_of(context))
        if len(self._known) > MOST_CLIENTS:
            self._known.popitem(last=False)
        return found
