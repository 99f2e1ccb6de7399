"""The plugins: their settings, and the embedders that they make.

Light on purpose. What speaks HTTP and JSON is imported when an embedder is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pluggent_provider_http.servers_plugin import EmbeddersPlugin

from pluggent_embedders.settings import Cohere, Settings as EmbedderSettings, Voyage

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # an embedder brings the encoder along
    from pluggent_embedders.cohere import CohereEmbedder
    from pluggent_embedders.voyage import VoyageEmbedder


class CohereEmbedders(EmbeddersPlugin[Cohere]):
    """The embedder of Cohere.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the application's own, which
    this plugin never closes, and *transport* what its own clients are to send with.

    >>> [embedder.name for embedder in CohereEmbedders().provide_embedders(None)]
    ['cohere']
    """

    Settings = EmbedderSettings

    def __init__(
        self,
        settings: EmbedderSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Cohere) -> CohereEmbedder:
            # Imported here: only requests need the encoder.
            from pluggent_embedders.cohere import CohereEmbedder

            return CohereEmbedder(name, server, client, transport)

        super().__init__({"cohere": (settings or EmbedderSettings()).cohere}, embedder)


class VoyageEmbedders(EmbeddersPlugin[Voyage]):
    """The embedder of Voyage; see CohereEmbedders for the arguments.

    >>> [embedder.name for embedder in VoyageEmbedders().provide_embedders(None)]
    ['voyage']
    """

    Settings = EmbedderSettings

    def __init__(
        self,
        settings: EmbedderSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Voyage) -> VoyageEmbedder:
            # Imported here, as above.
            from pluggent_embedders.voyage import VoyageEmbedder

            return VoyageEmbedder(name, server, client, transport)

        super().__init__({"voyage": (settings or EmbedderSettings()).voyage}, embedder)
