"""The plugin: its settings, the providers they make, and the lifetime of their connections.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import PluginContext, Provider, hookimpl
from pluggent_provider_http.endpoint import target_of

from pluggent_openai.settings import DEFAULT_BASE_URL, Server, Settings as OpenAISettings

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2
    from pluggent_hookspecs import ProvideEvent

    # a provider brings the encoder along
    from pluggent_openai.provider import ChatCompletions


class OpenAI:
    """Providers for OpenAI and every server that speaks its chat completions.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the
    application's own, which this plugin never closes, and *transport* what its own clients
    are to send with; both serve all servers.

    >>> plugin = OpenAI(OpenAI.Settings(servers={"local": Server(base_url="http://127.0.0.1:8000/v1")}))
    >>> [provider.name for provider in plugin.provide_providers(None)]
    ['openai', 'local']
    """

    Settings = OpenAISettings

    def __init__(
        self,
        settings: OpenAISettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        settings = OpenAISettings() if settings is None else settings
        url = settings.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
        self._servers: dict[str, Server] = {"openai": attrs.evolve(settings, base_url=url), **settings.servers}
        self._client = client
        self._transport = transport
        self._providers: tuple[ChatCompletions, ...] = ()

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Return one provider for each server."""
        # Here and not above: only who asks a model needs the encoder.
        from pluggent_openai.provider import ChatCompletions

        if not self._providers:
            self._providers = tuple(
                ChatCompletions(name, server, client=self._client, transport=self._transport)
                for name, server in self._servers.items()
            )
        return self._providers

    def __repr__(self) -> str:
        return f"<OpenAI {', '.join(f'{name} at {target_of(at.base_url)}' for name, at in self._servers.items())}>"

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Close every connection at the end."""
        try:
            yield
        finally:
            for provider in self._providers:
                await provider.close()
