"""The plugin: two tools. Light on purpose: what runs a command is imported when one runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from pluggent_hookspecs import PluginContext, ProvideEvent, hookimpl

from pluggent_shell.settings import ShellSettings
from pluggent_shell.tools import Runner, tools_of


class Shell:
    """The plugin behind the entry point ``shell``."""

    Settings = ShellSettings

    def __init__(self, settings: ShellSettings | None = None) -> None:
        self._settings = ShellSettings() if settings is None else settings
        self._runner = Runner(self._settings)

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        """Offer ``run_command`` and ``read_output``."""
        return tools_of(self._settings, self._runner)

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Remove the kept outputs at the end."""
        try:
            yield
        finally:
            await self._runner.aclose()
