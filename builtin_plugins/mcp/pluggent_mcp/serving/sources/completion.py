"""Completion of the arguments of prompts and of templates of resources, by the tools of their sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
)

from pluggent_mcp.serving.calls import Calls
from pluggent_mcp.serving.exchanges import Context
from pluggent_mcp.serving.selection import Selection, Source
from pluggent_mcp.serving.sources.resources_and_prompts import Prompts, Resources
from pluggent_mcp.serving.sources.tool_results import completion, failure

LONGEST_VALUE = 2_000
"""Characters of a name or value in a request."""
_HANDSHAKES = frozenset({"initialize", "server/discover"})


class Completions:
    """The handler of completion/complete. Each completion is a call of a tool, like the read of a resource."""

    def __init__(self, calls: Calls, resources: Resources | None, prompts: Prompts | None) -> None:
        self._calls = calls
        self._resources = resources
        self._prompts = prompts

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        """Return values for an argument; none where its source completes nothing. Raises MCPError."""
        known = {} if params.context is None else params.context.arguments or {}
        argument = params.argument
        if any(len(text) > LONGEST_VALUE for text in (argument.name, argument.value, *known, *known.values())):
            raise MCPError(INVALID_PARAMS, f"a name or value is longer than {LONGEST_VALUE:,} characters")
        source, about = await self._found(context, params)
        if not source.completes:
            return CompleteResult(completion=Completion(values=[], has_more=False))
        given = {**about, "argument": argument.name, "value": argument.value, **({"known": known} if known else {})}
        output = await self._calls.run(context, source.completes, given)
        if output.is_error:
            raise failure(output, context.protocol_version)
        return CompleteResult(completion=completion(output, source.completes))

    async def _found(self, context: Context, params: CompleteRequestParams) -> tuple[Source, dict[str, str]]:
        """Return the source, and what its tool calls the prompt or template."""
        if isinstance(params.ref, PromptReference):
            if self._prompts is None:
                raise MCPError(INVALID_PARAMS, "no prompts are served")
            source, prompt = await self._prompts.find(context, params.ref.name)
            if params.argument.name not in {each.name for each in prompt.arguments or ()}:
                raise MCPError(INVALID_PARAMS, f"it has no argument {params.argument.name[:100]!r}")
            return source, {"prompt": prompt.name}
        found = None if self._resources is None else await self._resources.source(context, params.ref.uri)
        if found is None:
            raise MCPError(INVALID_PARAMS, f"Unknown template: {params.ref.uri[:100]}")
        return found, {"template": params.ref.uri}


class Announced:
    """Middleware: once it is listed what sources have, completion and subscriptions are announced if one has them.

    Before that they are: what no source has is answered with nothing, or an error, and no handshake waits.
    """

    def __init__(self, listed: asyncio.Event, selection: Callable[[], Selection]) -> None:
        self._listed = listed
        self._selection = selection

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a request."""
        if ctx.method not in _HANDSHAKES:
            return await call_next(ctx)
        answer = await call_next(ctx)
        can: object = answer.get("capabilities") if isinstance(answer, dict) else None
        if self._listed.is_set() and isinstance(can, dict):
            _correct(cast("dict[str, Any]", can), self._selection())
        return answer


def _correct(can: dict[str, Any], has: Selection) -> None:
    if not has.completes:
        can.pop("completions", None)
    if can.get("resources") is not None:
        can["resources"] = {**can["resources"], "subscribe": has.waits}
