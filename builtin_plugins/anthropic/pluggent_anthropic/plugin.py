"""The plugin: its settings, and the providers that they make.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
from pluggent_provider_http.servers_plugin import ServersPlugin, without_key

from pluggent_anthropic.settings import DEFAULT_BASE_URL, DEFAULT_KEY, Server, Settings as AnthropicSettings, url_of

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # a provider brings the encoder along
    from pluggent_anthropic.provider import Messages


class Anthropic(ServersPlugin[Server]):
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
        url = url_of(settings) or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE_URL
        own = attrs.evolve(without_key(settings, DEFAULT_KEY), base_url=url)
        others = {name: attrs.evolve(server, base_url=url_of(server)) for name, server in settings.servers.items()}

        def provider(name: str, server: Server) -> Messages:
            # Imported here: only model calls need the encoder.
            from pluggent_anthropic.provider import Messages

            return Messages(name, server, client=client, transport=transport)

        super().__init__({"anthropic": own, **others}, provider)
