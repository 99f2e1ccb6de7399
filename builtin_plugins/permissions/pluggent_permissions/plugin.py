"""The plugin: five hooks that decide, one that leaves out tools at a vendor, and a lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import (
    ConfigError,
    Decision,
    EmbeddingRequestEvent,
    HookError,
    MemoryReadEvent,
    MemoryWriteEvent,
    ModelRequest,
    ModelRequestEvent,
    PluginContext,
    ToolCallEvent,
    hookimpl,
)

from pluggent_permissions.settings import NO_SETTINGS, PermissionSettings, Ruling

if TYPE_CHECKING:  # 11 ms that a host without rules saves
    from pluggent_permissions.policy import Answer, Policy


_STRICTEST = (Ruling.DENY, Ruling.ASK, None, Ruling.ALLOW)
"""Of several answers about one request: it is allowed only if all of it is."""
LONG = 1 << 16
"""Bytes of arguments that are looked into on the event loop at most."""


class Permissions:
    """The plugin behind the entry point ``permissions``: it answers what its rules and defaults say.

    Rules are compiled here and their tools resolved when the host opens the plugin; one that
    names no tool refuses to open. Asked before that, everything is denied.
    """

    Settings = PermissionSettings

    def __init__(self, settings: PermissionSettings = NO_SETTINGS) -> None:
        self._settings = settings
        self._compiled = None if settings == NO_SETTINGS else _compiled(settings)
        self._policy: Policy | None = None
        self._is_open = False

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        """Find the tools that the rules name. Raises ConfigError naming every rule without one."""
        if self._compiled is not None:
            self._policy = self._compiled.with_names(await self._names(self._compiled, context))
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    async def _names(self, policy: Policy, context: PluginContext) -> dict[str, frozenset[str]]:
        names: dict[str, frozenset[str]] = {}
        problems: list[str] = []
        for rule, pattern in policy.named_tools():
            try:
                names[pattern] = frozenset(await context.tools_named(pattern))
            except ConfigError as error:
                if not rule.tools_may_be_missing:
                    problems += [f"rule '{rule.id}': {problem}" for problem in error.problems]
        if problems:
            raise ConfigError(f"[plugins.{context.plugin}]", problems)
        return names

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Decision | Awaitable[Decision | None] | None:
        """Answer what holds for this call; long arguments are looked into beside the event loop."""

        def decided() -> Decision | None:
            return self._decided("decide_tool_call", lambda policy: (policy.of_tool_call(event), event.capability))

        is_long = self._policy is not None and len(event.arguments_json) > LONG
        return asyncio.to_thread(decided) if is_long else decided()

    @hookimpl
    def transform_model_request(self, event: ModelRequestEvent) -> ModelRequest | None:
        """Leave out the tools at the vendor that are denied; the request goes without them."""
        policy = self._policy
        if policy is None or not event.request.hosted:
            return None
        kept = [tool for tool in event.request.hosted if policy.of_hosted(tool, event).ruling is not Ruling.DENY]
        return None if len(kept) == len(event.request.hosted) else attrs.evolve(event.request, hosted=kept)

    @hookimpl
    def decide_model_request(self, event: ModelRequestEvent) -> Decision | None:
        """Answer the strictest of what holds for asking this model, and for the tools that run there meanwhile."""

        def asked(policy: Policy) -> tuple[Answer, str]:
            answers = [(policy.of_model_request(event), f"asking {event.request.model} of {event.provider}")]
            answers += [(policy.of_hosted(tool, event), f"running {tool.capability}") for tool in event.request.hosted]
            return min(answers, key=lambda each: _STRICTEST.index(each[0].ruling))

        return self._decided("decide_model_request", asked)

    @hookimpl
    def decide_embedding_request(self, event: EmbeddingRequestEvent) -> Decision | None:
        """Answer what holds for sending these texts to this embedder."""
        what = f"embedding by {event.request.model} of {event.embedder}"
        return self._decided("decide_embedding_request", lambda policy: (policy.of_embedding(event), what))

    @hookimpl
    def decide_memory_read(self, event: MemoryReadEvent) -> Decision | None:
        """Answer what holds for reading this."""
        what = f"reading memory of {event.namespace}"
        return self._decided("decide_memory_read", lambda policy: (policy.of_memory_read(event), what))

    @hookimpl
    def decide_memory_write(self, event: MemoryWriteEvent) -> Decision | None:
        """Answer what holds for saving or forgetting this."""
        return self._decided("decide_memory_write", lambda policy: (policy.of_memory_write(event), "writing memory"))

    def _decided(self, hook: str, ask: Callable[[Policy], tuple[Answer, str]]) -> Decision | None:
        if not self._is_open:
            # Raising is a denial: rules that were never resolved must not wave anything through.
            raise HookError("pluggent-permissions", hook, "asked while it is not open, so its rules name no tools yet")
        if self._policy is None:
            return None
        answer, what = ask(self._policy)
        return answer.decision(what)


def _compiled(settings: PermissionSettings) -> Policy:
    # Here and not above: see the TYPE_CHECKING block.
    from pluggent_permissions.policy import Policy

    return Policy(settings)
