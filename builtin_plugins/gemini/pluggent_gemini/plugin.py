"""The plugins: their settings, and the providers and embedders that they make.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.servers_plugin import EmbeddersPlugin, ServersPlugin, without_key

from pluggent_gemini.settings import DEFAULT_KEY, Server, Settings as GeminiSettings, url_of

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # a provider brings the encoder along
    from pluggent_gemini.embedder import GeminiEmbedder
    from pluggent_gemini.provider import GeminiProvider


class Gemini(ServersPlugin[Server]):
    """Providers for the Gemini API, for Vertex AI, and for every server that speaks generateContent.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the
    application's own, which this plugin never closes, and *transport* what its own clients
    are to send with; both serve all servers.

    >>> plugin = Gemini(Gemini.Settings(servers={"vertex": Server(project="acme-7", auth="google")}))
    >>> [provider.name for provider in plugin.provide_providers(None)]
    ['gemini', 'vertex']
    """

    Settings = GeminiSettings

    def __init__(
        self,
        settings: GeminiSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def provider(name: str, server: Server) -> GeminiProvider:
            if server.api == "interactions":
                # Imported here: only model calls need the encoders, and a server is asked through one API.
                from pluggent_gemini.interactions.provider import Interactions

                return Interactions(name, server, client=client, transport=transport)
            # As above.
            from pluggent_gemini.generate.provider import GenerateContent

            return GenerateContent(name, server, client=client, transport=transport)

        super().__init__(_servers(settings), provider)


class GeminiEmbedders(EmbeddersPlugin[Server]):
    """Embedders for the same servers; see Gemini for the arguments.

    >>> [embedder.name for embedder in GeminiEmbedders().provide_embedders(None)]
    ['gemini']
    """

    Settings = GeminiSettings

    def __init__(
        self,
        settings: GeminiSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Server) -> GeminiEmbedder:
            # Imported here, as above.
            from pluggent_gemini.embedder import GeminiEmbedder

            return GeminiEmbedder(name, server, client=client, transport=transport)

        super().__init__(_servers(settings), embedder)


def _servers(settings: GeminiSettings | None) -> dict[str, Server]:
    settings = GeminiSettings() if settings is None else settings
    elsewhere = "" if settings.project else os.environ.get("GOOGLE_GEMINI_BASE_URL", "")
    own = attrs.evolve(settings, base_url=settings.base_url or elsewhere)
    servers = {"gemini": _with_key(own), **settings.servers}
    return {name: attrs.evolve(server, base_url=url_of(server)) for name, server in servers.items()}


def _with_key(server: Server) -> Server:
    """Return *server* with the key that the vendor's own programs would take, if its settings name none."""
    server = without_key(server, DEFAULT_KEY)
    other = server.api_key == DEFAULT_KEY and not os.environ.get("GEMINI_API_KEY") and os.environ.get("GOOGLE_API_KEY")
    return attrs.evolve(server, api_key=Secret("env:GOOGLE_API_KEY")) if other else server
