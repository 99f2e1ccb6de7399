"""The plugins: their settings, and the providers and embedders that they make.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
from pluggent_provider_http.servers_plugin import EmbeddersPlugin, ServersPlugin, without_key

from pluggent_openai.settings import DEFAULT_BASE_URL, DEFAULT_KEY, Server, Settings as OpenAISettings

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # a provider brings the encoder along
    from pluggent_openai.embedder import OpenAIEmbedder
    from pluggent_openai.provider import OpenAIProvider


class OpenAI(ServersPlugin[Server]):
    """Providers for OpenAI and every server that speaks its chat completions or its Responses.

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

        def provider(name: str, server: Server) -> OpenAIProvider:
            # Imported here: only model calls need the encoder.
            from pluggent_openai.provider import OpenAIProvider

            return OpenAIProvider(name, server, client=client, transport=transport)

        super().__init__(_servers(settings), provider)


class OpenAIEmbedders(EmbeddersPlugin[Server]):
    """Embedders for the same servers; see OpenAI for the arguments.

    >>> [embedder.name for embedder in OpenAIEmbedders().provide_embedders(None)]
    ['openai']
    """

    Settings = OpenAISettings

    def __init__(
        self,
        settings: OpenAISettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Server) -> OpenAIEmbedder:
            # Imported here, as above.
            from pluggent_openai.embedder import OpenAIEmbedder

            return OpenAIEmbedder(name, server, client=client, transport=transport)

        super().__init__(_servers(settings), embedder)


def _servers(settings: OpenAISettings | None) -> dict[str, Server]:
    settings = OpenAISettings() if settings is None else settings
    url = settings.base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    return {"openai": attrs.evolve(without_key(settings, DEFAULT_KEY), base_url=url), **settings.servers}
