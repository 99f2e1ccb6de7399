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

from pluggent_anthropic.settings import DEFAULT_BASE_URL, Server, Settings as AnthropicSettings

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2
    from pluggent_hookspecs import ProvideEvent

    # a provider brings the encoder along
    from pluggent_anthropic.provider import Messages


class Anthropic:
    """Providers for Anthropic and every server that speaks its Messages API.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the
    application's own, which this plugin never closes, and *transport* what its own clients
    are to send with; both serve all servers.

    >>> plugin = Anthropic(Anthropic.Settings(servers={"local": Server(base_url="http://127.0.0.1:8000")}))
    >>> [provider.name for provider in plugin.provide_providers(None)]
    ['anthropic', 'local']
    """

    Settings = AnthropicSettings

    def __init__(
        self,
        settings: AnthropicSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        settings = AnthropicSettings() if settings is None else settings
        url = settings.base_url or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        self._servers: dict[str, Server] = {"anthropic": attrs.evolve(settings, base_url=url), **settings.servers}
        self._client = client
        self._transport = transport
        self._providers: tuple[Messages, ...] = ()

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Return one provider for each server."""
        # Here and not above: only who asks a model needs the encoder.
        from pluggent_anthropic.provider import Messages

        if not self._providers:
            self._providers = tuple(
                Messages(name, server, client=self._client, transport=self._transport)
                for name, server in self._servers.items()
            )
        return self._providers

    def __repr__(self) -> str:
        return f"<Anthropic {', '.join(f'{name} at {target_of(at.base_url)}' for name, at in self._servers.items())}>"

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Close every connection at the end."""
        try:
            yield
        finally:
            for provider in self._providers:
                await provider.close()
