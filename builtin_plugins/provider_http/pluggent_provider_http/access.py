"""What requests carry: the one place where the credentials of a server are chosen and its headers are made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import ModelParameters, ProviderError

from pluggent_provider_http.credentials import hidden, read_headers
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.identity import Identity, KeyIdentity
from pluggent_provider_http.server_errors import Faults

if TYPE_CHECKING:  # it imports the HTTP library, which takes long
    from pluggent_provider_http.client import Answer

_NOTHING: Mapping[str, str] = MappingProxyType({})
ACCEPT = "application/json, text/event-stream"


def identity_of(server: Endpoint, auth: str) -> Identity:
    """Return who asks *server*, by its setting *auth*.

    ``none`` sends nothing, ``bearer`` the key as Authorization, ``google`` a token of Google, ``sigv4`` signs with
    credentials of Amazon; any other word is the header that the key goes in. Without a key nothing is sent.
    """
    match auth:
        case "google":
            # Here and not above: only this kind of credentials needs it.
            from pluggent_provider_http.google.credentials import GoogleTokens

            return GoogleTokens(server.api_key, server)
        case "sigv4":
            # Here and not above, as for Google.
            from pluggent_provider_http.aws.identity import aws_identity

            return aws_identity(server)
        case _ if server.api_key is None or auth == "none":
            return Identity()
        case "bearer":
            return KeyIdentity(server.api_key)
        case _:
            return KeyIdentity(server.api_key, auth, "")


class Access:
    """What the requests to *server* carry beside their body; *name* and *target* are for errors.

    *accept* is the header of that name.
    """

    def __init__(self, name: str, server: Endpoint, target: str, identity: Identity, accept: str = ACCEPT) -> None:
        self._server = server
        self._faults = Faults(name, target)
        self.identity = identity
        self._usual = {"accept": accept, "content-type": "application/json"}

    async def prepare(self) -> None:
        """Get what the next request needs, such as a token that expires. Raises ProviderError."""
        await self.identity.prepare(self._faults)

    def headers(
        self,
        model: str,
        path: str,
        parameters: ModelParameters | None = None,
        usual: Mapping[str, str] = _NOTHING,
    ) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request with *parameters*, and its Faults, which know what is secret in them.

        The headers of the settings take the place of those in *usual*. ``prepare`` comes before. Raises ProviderError.
        """
        faults = attrs.evolve(self._faults, model=model, path=path.partition("?")[0])
        own = read_headers(self._server, faults, parameters)
        proof = self.identity.proof(faults)
        secrets = hidden(self._server, *proof.secrets, *own.values())
        known = attrs.evolve(faults, secrets=secrets, credentials=proof.credentials)
        return {**self._usual, **usual, **own, **proof.headers}, known

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return headers to add to a request that is about to be sent with *headers*, names in lower case."""
        return self.identity.sign(method, url, headers, body)

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is, if its status is not a success."""
        try:
            await answer.check()
        except ProviderError as error:
            meant = self.refused(error, answer.headers)
            if meant is error:
                raise
            raise meant from error

    def refused(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Return what *error*, made of an answer with *headers*, means for the next request."""
        return self.identity.refused(error, headers)

    async def close(self) -> None:
        """Stop what is under way in this event loop."""
        await self.identity.close()
