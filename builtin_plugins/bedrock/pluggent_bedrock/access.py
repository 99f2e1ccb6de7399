"""How requests to one region are authorized: an API key, or a signature with credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import ConfigError, ModelParameters, ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.aws.signer import Signer
from pluggent_provider_http.aws.sigv4 import Scope
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.endpoint import url_below
from pluggent_provider_http.server_errors import Faults

from pluggent_bedrock.regions import NO_REGION
from pluggent_bedrock.settings import Server

if TYPE_CHECKING:  # it imports the HTTP library, which takes long
    from pluggent_provider_http.client import Answer

_SERVICE = "bedrock"
_KEYLESS = "the AWS credentials (or set an API key: AWS_BEARER_TOKEN_BEDROCK)"


class Access:
    """Authorizes the requests of the provider, or embedder, of one server."""

    def __init__(self, name: str, server: Server, target: str) -> None:
        self._server = server
        self._faults = Faults(name, target)
        self._signer = Signer(Scope(server.region, _SERVICE), server.profile)
        self._key: str | None = None

    async def prepare(self) -> None:
        """Read the key, or get the credentials that sign. Raises ProviderError."""
        if self._server.base_url == NO_REGION:
            problem = "no region is set: set region, AWS_REGION, or region of the profile in ~/.aws/config"
            raise self._faults.error(Kind.AUTHENTICATION, problem)  # as without a key: it is not set up
        self._key = self._read_key()
        if self._key is None:
            if not self._server.region:
                raise self._faults.error(Kind.BAD_REQUEST, "a signature names the region: set region, or AWS_REGION")
            await self._signer.ready(self._faults)

    def headers(
        self, model: str, path: str, body: bytes, parameters: ModelParameters | None = None
    ) -> tuple[Mapping[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them.

        ``prepare`` comes before.
        """
        url = url_below(self._server.base_url, path)
        return self._authorized("POST", url, body, attrs.evolve(self._faults, model=model, path=path), parameters)

    def list_headers(self, url: str, path: str) -> tuple[Mapping[str, str], Faults]:
        """Return the headers that ask for a list at *url*, and its Faults; ``prepare`` comes before."""
        return self._authorized("GET", url, b"", attrs.evolve(self._faults, path=path), None)

    def _authorized(
        self, method: str, url: str, body: bytes, faults: Faults, parameters: ModelParameters | None
    ) -> tuple[Mapping[str, str], Faults]:
        headers = {"accept": "application/vnd.amazon.eventstream, application/json", "content-type": "application/json"}
        headers |= (own := read_headers(self._server, self._faults, parameters))
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
            return headers, attrs.evolve(faults, secrets=hidden(self._server, self._key, *own.values()))
        headers |= self._signer.headers(method, url, headers, body)
        secrets = hidden(self._server, *self._signer.secrets, *own.values())
        return headers, attrs.evolve(faults, secrets=secrets, credentials=_KEYLESS)

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is; what it says of clock and credentials serves the next request."""
        try:
            await answer.check()
        except ProviderError as error:
            if self._key is not None:
                raise
            raise self._signer.explained(error, answer.headers) from error

    def _read_key(self) -> str | None:
        """Return the key to send, None where requests are signed. Raises ProviderError ``authentication``."""
        auth, key = self._server.auth, self._server.api_key
        if auth == "sigv4" or (auth == "auto" and key is None):
            return None
        if key is None:
            raise self._faults.error(Kind.AUTHENTICATION, "auth is bearer, and there is no api_key")
        if auth == "auto":
            try:
                key.reveal()
            except ConfigError:
                return None
        return read_key(key, self._faults)
