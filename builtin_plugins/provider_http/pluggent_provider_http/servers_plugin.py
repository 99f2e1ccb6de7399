"""A plugin whose settings name servers: a provider for each of them, and the lifetime of their connections.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from pluggent_hookspecs import PluginContext, Provider, hookimpl

from pluggent_provider_http.endpoint import Endpoint, target_of

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    from pluggent_hookspecs import ProvideEvent

    # a provider brings the encoder along
    from pluggent_provider_http.provider import HttpProvider

ServerT = TypeVar("ServerT", bound=Endpoint)


class ServersPlugin(Generic[ServerT]):
    """The base of a plugin for a vendor and every server that speaks like the vendor's.

    *servers* are settings by the name of the provider; *make* makes a provider, and imports
    what that needs: it is called once for each server, when the host first asks.
    """

    def __init__(self, servers: Mapping[str, ServerT], make: Callable[[str, ServerT], HttpProvider[ServerT]]) -> None:
        self._servers = servers
        self._make = make
        self._providers: tuple[HttpProvider[ServerT], ...] = ()

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Return one provider for each server."""
        if not self._providers:
            self._providers = tuple(self._make(name, server) for name, server in self._servers.items())
        return self._providers

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Close every connection at the end."""
        try:
            yield
        finally:
            for provider in self._providers:
                await provider.close()

    def __repr__(self) -> str:
        shown = (f"{name} at {target_of(server.base_url)}" for name, server in self._servers.items())
        return f"<{type(self).__name__} {', '.join(shown)}>"
