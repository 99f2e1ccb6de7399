"""Prompts of the tools that list and get them, each under the stem of its source and its own name."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
)

from pluggent_mcp.serving.calls import Calls
from pluggent_mcp.serving.exchanges import Context, client_of
from pluggent_mcp.serving.selection import Source
from pluggent_mcp.serving.tool_results import Sources, failure, listed, messages, page, prompts
from pluggent_mcp.tool_names import SEPARATOR

MOST_CLIENTS = 64
"""Clients whose lists are cached."""
_LOG = logging.getLogger("pluggent.mcp.serve")


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

    async def _get(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        known = self._known.get(client_of(context), {})
        if params.name not in known or known[params.name][0] not in await self._sources():
            known = await self._listed(context)
        if params.name not in known:
            raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name[:100]}")
        source, prompt = known[params.name]
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
