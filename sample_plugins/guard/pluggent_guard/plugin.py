"""The plugin: two hooks and a lifetime."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from pluggent_hookspecs import (
    ConfigError,
    Decision,
    HookError,
    Json,
    PluginContext,
    ToolCallEvent,
    hookimpl,
)

from pluggent_guard.rules import BoundRule, bind, decide, rewrite
from pluggent_guard.settings import GuardSettings


class Guard:
    """The plugin behind the entry point ``guard``: its rules deny, ask and rewrite.

    Rules name tools by id, short name or pattern. They are resolved when the host opens the
    plugin; one that names no tool refuses to open. Asked before that, every call is denied.
    """

    Settings = GuardSettings

    def __init__(self, settings: GuardSettings = GuardSettings()) -> None:  # noqa: B008 (frozen)
        self._settings = settings
        self._rules: tuple[BoundRule, ...] | None = None

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        """Find the tools that the rules name. Raises ConfigError naming every rule without one."""
        bound: list[BoundRule] = []
        problems: list[str] = []
        for index, rule in enumerate(self._settings.rules):
            try:
                tools = await context.tools_named(rule.tool)
            except ConfigError as error:
                problems += [f"rules[{index}].tool: {problem}" for problem in error.problems]
                continue
            if not tools:
                problems.append(f"rules[{index}].tool: no tool is called '{rule.tool}'")
            bound.append(bind(rule, index, tools))
        if problems:
            raise ConfigError(f"[plugins.{context.plugin}]", problems)
        self._rules = tuple(bound)
        try:
            yield
        finally:
            self._rules = None

    @hookimpl
    def transform_tool_call(self, event: ToolCallEvent) -> Mapping[str, Json] | None:
        """Return the arguments as the matching ``rewrite`` rules leave them, None if none matches."""
        return rewrite(self._open_rules("transform_tool_call"), event.capability, event.arguments)

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Decision | None:
        """Return what the matching rules say: deny before ask before allow."""
        return decide(self._open_rules("decide_tool_call"), event.capability, event.arguments)

    def _open_rules(self, hook: str) -> tuple[BoundRule, ...]:
        if self._rules is None:
            # Raising is a denial: rules that were never resolved must not wave a call through.
            raise HookError("pluggent-guard", hook, "asked while it is not open, so its rules name no tools yet")
        return self._rules
