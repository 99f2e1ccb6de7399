"""How requests to one region are authorized: an API key, or a signature with credentials."""

from __future__ import annotations

from collections.abc import Mapping

from pluggent_hookspecs import ConfigError, ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.access import Access
from pluggent_provider_http.aws.identity import aws_identity
from pluggent_provider_http.identity import Identity, KeyIdentity, Proof
from pluggent_provider_http.server_errors import Faults

from pluggent_bedrock.regions import NO_REGION
from pluggent_bedrock.settings import Server

_KEYLESS = "the AWS credentials (or set an API key: AWS_BEARER_TOKEN_BEDROCK)"
_ACCEPT = "application/vnd.amazon.eventstream, application/json"


def access_to(name: str, server: Server, target: str) -> Access:
    """Return what requests to *server* carry; *name* and *target* are for errors."""
    return Access(name, server, target, KeyOrSignature(server), _ACCEPT)


class KeyOrSignature(Identity):
    """An API key where there is one, else the credentials that sign; looked at for each request."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._signature = aws_identity(server, _KEYLESS)
        self._chosen: Identity = self._signature

    async def prepare(self, faults: Faults) -> None:
        """Read the key, or get the credentials that sign. Raises ProviderError."""
        if self._server.base_url == NO_REGION:
            problem = "no region is set: set region, AWS_REGION, or region of the profile in ~/.aws/config"
            raise faults.error(Kind.AUTHENTICATION, problem)  # as without a key: it is not set up
        self._chosen = self._choice(faults)
        await self._chosen.prepare(faults)

    def proof(self, faults: Faults) -> Proof:
        """Return what the request carries; ``prepare`` comes before."""
        return self._chosen.proof(faults)

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return the signature, where there is no key."""
        return self._chosen.sign(method, url, headers, body)

    def refused(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Return what a refusal means for the next request."""
        return self._chosen.refused(error, headers)

    def _choice(self, faults: Faults) -> Identity:
        auth, key = self._server.auth, self._server.api_key
        if auth == "sigv4" or (auth == "auto" and key is None):
            return self._signature
        if key is None:
            raise faults.error(Kind.AUTHENTICATION, "auth is bearer, and there is no api_key")
        if auth == "auto":
            try:
                key.reveal()
            except ConfigError:
                return self._signature
        return KeyIdentity(key)
