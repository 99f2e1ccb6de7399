"""The plugin: its settings, and the tools that they make.

Light on purpose. What speaks HTTP is imported when a tool is called.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
from pluggent_hookspecs import PluginContext, ProvideEvent, hookimpl
from pluggent_provider_http.servers_plugin import without_key

from pluggent_openai_media.settings import DEFAULT_BASE_URL, DEFAULT_KEY, MediaSettings
from pluggent_openai_media.tools import media_tools

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # it brings the HTTP library along
    from pluggent_openai_media.calls import Calls


class OpenAIMedia:
    """The plugin behind the entry point ``openai-media``.

    In code, *client* is an httpx2 client of the application's own, which this plugin never closes, and *transport*
    what its own client is to send with.
    """

    Settings = MediaSettings

    def __init__(
        self,
        settings: MediaSettings = MediaSettings(),  # noqa: B008 (frozen)
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        url = settings.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        self._settings = attrs.evolve(without_key(settings, DEFAULT_KEY), base_url=url)
        self._given = (client, transport)
        self._calls: Calls | None = None

    @hookimpl
    def provide_tools(self, event: ProvideEvent) -> Iterable[Callable[..., Any]]:
        """Offer all tools; a session's own choice decides which of them a model sees."""
        return media_tools(self._settings, self._made)

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Close every connection at the end."""
        try:
            yield
        finally:
            if self._calls is not None:
                await self._calls.close()

    def _made(self) -> Calls:
        if self._calls is None:
            # Here and not above: only calls need the HTTP library.
            from pluggent_openai_media.calls import Calls

            self._calls = Calls(self._settings, *self._given)
        return self._calls
