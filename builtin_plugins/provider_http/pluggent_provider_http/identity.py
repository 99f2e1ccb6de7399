"""Who asks a server: the kinds of credentials, put into requests and found refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs
from pluggent_hookspecs import ProviderError, Secret

from pluggent_provider_http.credentials import read_key
from pluggent_provider_http.server_errors import Faults

_NOTHING: Mapping[str, str] = MappingProxyType({})


@attrs.frozen
class Proof:
    """What says who asks: headers, the secrets in them, and what a person has to look at if they are refused."""

    headers: Mapping[str, str] = attrs.field(default=_NOTHING, repr=False)
    secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    credentials: str = "api_key"


class Identity:
    """Who asks. Requests of this one carry nothing; the others are subclasses."""

    async def prepare(self, faults: Faults) -> None:
        """Get what the next request needs, such as a token that expires. Raises ProviderError."""

    def proof(self, faults: Faults) -> Proof:
        """Return what a request carries; ``prepare`` comes before. Raises ProviderError ``authentication``."""
        return Proof()

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return headers to add to a request that is about to be sent with *headers*."""
        return _NOTHING

    def refused(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Return what *error*, made of an answer with *headers*, means; it serves the next request."""
        return error

    async def close(self) -> None:
        """Stop what is under way in this event loop."""


@attrs.frozen
class KeyIdentity(Identity):
    """A key in a header; it is read for each request, so that a renewed one is used at once."""

    key: Secret
    header: str = "authorization"
    prefix: str = "Bearer "

    def proof(self, faults: Faults) -> Proof:
        """Return the header with the key."""
        key = read_key(self.key, faults)
        return Proof({self.header: f"{self.prefix}{key}"}, (key,))
