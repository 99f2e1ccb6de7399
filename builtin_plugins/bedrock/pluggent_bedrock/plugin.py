"""The plugin: its settings, and the providers that they make.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from pluggent_provider_http.aws.place import scope_of
from pluggent_provider_http.servers_plugin import EmbeddersPlugin, ServersPlugin

from pluggent_bedrock.regions import runtime_url
from pluggent_bedrock.settings import Server, Settings as BedrockSettings

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    import httpx2

    # a provider brings the encoder along
    from pluggent_bedrock.embedder import BedrockEmbedder
    from pluggent_bedrock.provider import Converse


class Bedrock(ServersPlugin[Server]):
    """Providers for Amazon Bedrock, one for each region or account.

    As a plugin it is made from settings. In code, *client* is an httpx2 client of the
    application's own, which this plugin never closes, and *transport* what its own clients
    are to send with; both serve all servers.

    >>> plugin = Bedrock(Bedrock.Settings(region="eu-west-1", servers={"us": Server(region="us-east-1")}))
    >>> [provider.target for provider in plugin.provide_providers(None)]
    ['https://bedrock-runtime.eu-west-1.amazonaws.com', 'https://bedrock-runtime.us-east-1.amazonaws.com']
    """

    Settings = BedrockSettings

    def __init__(
        self,
        settings: BedrockSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:

        def provider(name: str, server: Server) -> Converse:
            # Imported here: only model calls need the encoder.
            from pluggent_bedrock.provider import Converse

            return Converse(name, server, client=client, transport=transport)

        super().__init__(_placed_servers(settings), provider)


class BedrockEmbedders(EmbeddersPlugin[Server]):
    """Embedders for Amazon Bedrock, one for each region or account; see Bedrock for the arguments.

    >>> [embedder.name for embedder in BedrockEmbedders().provide_embedders(None)]
    ['bedrock']
    """

    Settings = BedrockSettings

    def __init__(
        self,
        settings: BedrockSettings | None = None,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        def embedder(name: str, server: Server) -> BedrockEmbedder:
            # Imported here: only requests need the encoder.
            from pluggent_bedrock.embedder import BedrockEmbedder

            return BedrockEmbedder(name, server, client, transport)

        super().__init__(_placed_servers(settings), embedder)


def _placed_servers(settings: BedrockSettings | None) -> dict[str, Server]:
    settings = BedrockSettings() if settings is None else settings
    return {name: _placed(server) for name, server in {"bedrock": settings, **settings.servers}.items()}


def _placed(server: Server) -> Server:
    """Return *server* with its region and its address, as far as settings, environment and profile say them."""
    region = scope_of(server.base_url, server.region, profile_given=server.profile).region
    return attrs.evolve(server, region=region, base_url=server.base_url or runtime_url(region))
