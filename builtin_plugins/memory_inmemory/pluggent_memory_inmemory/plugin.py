"""The plugin: its one hook, and the end of the store's life."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from pluggent_hookspecs import MemoryStore, PluginContext, ProvideEvent, hookimpl

from pluggent_memory_inmemory.settings import InMemorySettings
from pluggent_memory_inmemory.store import InMemoryStore


class InMemory:
    """The plugin behind the entry point ``inmemory``."""

    Settings = InMemorySettings

    def __init__(self, settings: InMemorySettings = InMemorySettings()) -> None:  # noqa: B008 (frozen)
        self._store = InMemoryStore(settings)

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None, None]:
        """Close the store at the end; everything in it is gone then."""
        try:
            yield
        finally:
            await self._store.aclose()

    @hookimpl
    def provide_memory(self, event: ProvideEvent) -> Iterable[MemoryStore]:
        """Offer the store ``inmemory``."""
        return [self._store]
