"""The plugins: their settings, and the providers and embedders that they make.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
from pluggent_provider_http.servers_plugin import EmbeddersPlugin, ServersPlugin

from pluggent_ollama.settings import Server, Settings as OllamaSettings, url_of

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # a provider brings the encoder along
    from pluggent_ollama.embedder import OllamaEmbedder
    from pluggent_ollama.provider import OllamaProvider


def servers_of(settings: OllamaSettings) -> Mapping[str, Server]:
    """Return the servers of *settings* by the names of their providers."""
    url = settings.base_url or url_of(os.environ.get("OLLAMA_HOST", ""))
    return {"ollama": attrs.evolve(settings, base_url=url), **settings.servers}


class Ollama(ServersPlugin[Server]):
    """Providers for Ollama servers, by their own API.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the
    application's own, which this plugin never closes, and *transport* what its own clients
    are to send with; both serve all servers.

    >>> plugin = Ollama(Ollama.Settings(servers={"gpu": Server(base_url="http://gpu.example:11434")}))
    >>> [provider.name for provider in plugin.provide_providers(None)]
    ['ollama', 'gpu']
    """

    Settings = OllamaSettings

    def __init__(
        self,
        settings: OllamaSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def provider(name: str, server: Server) -> OllamaProvider:
            # Imported here: only model calls need the encoder.
            from pluggent_ollama.provider import OllamaProvider

            return OllamaProvider(name, server, client=client, transport=transport)

        super().__init__(servers_of(OllamaSettings() if settings is None else settings), provider)


class OllamaEmbedders(EmbeddersPlugin[Server]):
    """Embedders for the same servers; see Ollama for the arguments.

    >>> [embedder.name for embedder in OllamaEmbedders().provide_embedders(None)]
    ['ollama']
    """

    Settings = OllamaSettings

    def __init__(
        self,
        settings: OllamaSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Server) -> OllamaEmbedder:
            # Imported here, as above.
            from pluggent_ollama.embedder import OllamaEmbedder

            return OllamaEmbedder(name, server, client, transport)

        super().__init__(servers_of(OllamaSettings() if settings is None else settings), embedder)
