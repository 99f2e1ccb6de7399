"""Plugins whose settings name servers: a provider or embedder for each of them, and the lifetime of connections.

Light on purpose. What speaks HTTP and JSON is imported when a provider is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import attrs
from pluggent_hookspecs import Embedder, PluginContext, Provider, Secret, hookimpl

from pluggent_provider_http.endpoint import Endpoint, target_of

if TYPE_CHECKING:  # both take long to import; see the module's first lines
    from pluggent_hookspecs import ProvideEvent

    # a provider brings the encoder along
    from pluggent_provider_http.embedding.embedder import HttpEmbedder
    from pluggent_provider_http.provider import HttpProvider, HttpServer

    AnyProvider: TypeAlias = HttpProvider[Any]
    AnyEmbedder: TypeAlias = HttpEmbedder[Any]

ServerT = TypeVar("ServerT", bound=Endpoint)
MadeT = TypeVar("MadeT", bound="HttpServer[Any]")


class _OfServers(Generic[ServerT, MadeT]):
    """What is made of *servers*, settings by name: each by *make*, called when the host first asks."""

    def __init__(self, servers: Mapping[str, ServerT], make: Callable[[str, ServerT], MadeT]) -> None:
        self._servers = servers
        self._make = make
        self._made: tuple[MadeT, ...] = ()

    def made(self) -> tuple[MadeT, ...]:
        """Return what is made of each server; made once."""
        if not self._made:
            self._made = tuple(self._make(name, server) for name, server in self._servers.items())
        return self._made

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Close every connection at the end."""
        try:
            yield
        finally:
            for one in self._made:
                await one.close()

    def __repr__(self) -> str:
        shown = (f"{name} at {target_of(server.base_url)}" for name, server in self._servers.items())
        return f"<{type(self).__name__} {', '.join(shown)}>"


class ServersPlugin(_OfServers[ServerT, "AnyProvider"]):
    """The base of a plugin for a vendor and every server that speaks like the vendor's.

    *servers* are settings by the name of the provider; *make* makes a provider, and imports
    what that needs: it is called once for each server, when the host first asks.
    """

    @hookimpl
    def provide_providers(self, event: ProvideEvent) -> Iterable[Provider]:
        """Return one provider for each server."""
        return self.made()


class EmbeddersPlugin(_OfServers[ServerT, "AnyEmbedder"]):
    """The same for embedders: *servers* are settings by the name of the embedder."""

    @hookimpl
    def provide_embedders(self, event: ProvideEvent) -> Iterable[Embedder]:
        """Return one embedder for each server."""
        return self.made()


def without_key(server: ServerT, default: Secret) -> ServerT:
    """Return *server* without the *default* key if it is asked with credentials of Google's or Amazon's (``auth``)."""
    other = getattr(server, "auth", "") in ("google", "sigv4")
    return attrs.evolve(server, api_key=None) if other and server.api_key == default else server
