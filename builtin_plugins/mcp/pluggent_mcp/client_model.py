"""The client that ``pluggent mcp serve`` serves, for what works on its calls; its model is the provider ``mcp-client``.

Light: the SDK is not imported here. How a client is asked is a matter of serving.client_requests.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextvars import ContextVar
from typing import Protocol

from pluggent_hookspecs import Delta, ModelRequest, ModelResponse, ProvideEvent, Provider, ProviderError, hookimpl
from pluggent_hookspecs.errors import ProviderErrorKind
from pluggent_hookspecs.models import deltas

from pluggent_mcp.settings import Settings as McpSettings

NAME = "mcp-client"
ANY = "any"
"""The model name that leaves the choice to the client; every other one is a hint for it."""
NOBODY = (
    "there is no client to ask. This model is that of the MCP client that made a call over 'pluggent mcp serve', if"
    " it offers sampling; this call was not made by such a client"
)


class ServedClient(Protocol):
    """The client that made a call."""

    @property
    def key(self) -> str:
        """What tells it, with the folders that it listed last, from others; as far as a client is known at all."""
        ...

    @property
    def samples(self) -> bool:
        """Whether it offers its model."""
        ...

    async def sample(self, request: ModelRequest) -> ModelResponse:
        """Ask its model. Raises ProviderError."""
        ...

    async def roots(self) -> tuple[str, ...] | None:
        """Return the folders in which it says it works; None if it does not say."""
        ...


CLIENT: ContextVar[ServedClient | None] = ContextVar("pluggent_mcp_client", default=None)
"""The client of the served call that this context works for; None below all other calls."""


class ClientModels:
    """The plugin behind the entry point ``mcp-client``; of the settings of pluggent-mcp it needs none."""

    Settings = McpSettings

    def __init__(self, settings: McpSettings | None = None) -> None:
        """Take the settings that all of pluggent-mcp share."""

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Offer the provider ``mcp-client``."""
        return [ClientModel()]


class ClientModel:
    """The provider. Implements Provider.

    >>> import asyncio
    >>> asyncio.run(ClientModel().complete(ModelRequest("any", ())))
    Traceback (most recent call last):
    pluggent_hookspecs.errors.ProviderError: mcp-client: there is no client to ask. This model is that of ...
    """

    name = NAME
    target = "the MCP client that made the call"

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the reply of the client's model. Raises ProviderError."""
        client = CLIENT.get()
        if client is None or not client.samples:
            raise ProviderError(ProviderErrorKind.BAD_REQUEST, NOBODY, provider=NAME)
        return await client.sample(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the whole reply at once: clients send no pieces."""
        yield deltas(await self.complete(request))
