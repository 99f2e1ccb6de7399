"""One region of Amazon Bedrock as a Provider of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from pluggent_hookspecs import ConfigError, ModelRequest, ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.aws.event_stream import FrameFeed
from pluggent_provider_http.aws.signer import Signer
from pluggent_provider_http.aws.sigv4 import Scope
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.endpoint import url_below
from pluggent_provider_http.payload import MalformedError, as_count, as_object, decode_whole
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE

from pluggent_bedrock.regions import NO_REGION
from pluggent_bedrock.request import encode_count, encode_request
from pluggent_bedrock.settings import Server
from pluggent_bedrock.stream import Events

if TYPE_CHECKING:  # both take long to import, and only requests need them
    import httpx2

    # and so does what imports it
    from pluggent_provider_http.client import Answer

_SERVICE = "bedrock"
_KEYLESS = "the AWS credentials (or set an API key: AWS_BEARER_TOKEN_BEDROCK)"


class Converse(HttpProvider[Server]):
    """Asks the models of one region; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(name, server, client, transport)
        self._signer = Signer(Scope(server.region, _SERVICE), server.profile)
        self._key: str | None = None

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        path = _path(request.model, "converse-stream" if self.server.stream else "converse")
        body = encode_request(request, self.server)
        headers, faults = self._headers(request.model, path, body)
        return Asked(path, body, headers, faults, Events(request, faults), FrameFeed)

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of the prompt, as Bedrock counts them. Raises ProviderError."""
        await self.prepare()
        path = _path(request.model, "count-tokens")
        try:
            body = encode_count(request, self.server)
        except UNSENDABLE as error:
            raise self._faults().unsendable(error) from error
        headers, faults = self._headers(request.model, path, body)
        async with self.http().post(path, body, headers, faults) as answer:
            await self.check(answer)
            data = await answer.read()
        try:
            tokens = as_count(as_object(decode_whole(data), "the answer").get("inputTokens"))
        except MalformedError:
            tokens = None
        if tokens is None or tokens < 0:
            raise faults.protocol(f"answered with what is not a count of tokens: {faults.shown(data)}")
        return tokens

    async def prepare(self) -> None:
        """Read the key, or get the credentials that sign."""
        faults = self._faults()
        if self.server.base_url == NO_REGION:
            problem = "no region is set: set region, AWS_REGION, or region of the profile in ~/.aws/config"
            raise faults.error(Kind.BAD_REQUEST, problem)
        self._key = self._read_key(faults)
        if self._key is None:
            if not self.server.region:
                problem = "a signature names the region: set region, or AWS_REGION"
                raise faults.error(Kind.BAD_REQUEST, problem)
            await self._signer.ready(faults)

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is; what it says of clock and credentials counts for the next one."""
        try:
            await answer.check()
        except ProviderError as error:
            if self._key is not None:
                raise
            raise self._signer.explained(error, answer.headers) from error

    def _read_key(self, faults: Faults) -> str | None:
        """Return the key to send, None where requests are signed. Raises ProviderError ``authentication``."""
        server = self.server
        if server.auth == "sigv4" or (server.auth == "auto" and server.api_key is None):
            return None
        if server.api_key is None:
            raise faults.error(Kind.AUTHENTICATION, "auth is bearer, and there is no api_key")
        if server.auth == "auto":
            try:
                server.api_key.reveal()
            except ConfigError:
                return None
        return read_key(server.api_key, faults)

    def _faults(self) -> Faults:
        return Faults(self.name, self.target)

    def _headers(self, model: str, path: str, body: bytes) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        headers = {"accept": "application/vnd.amazon.eventstream, application/json", "content-type": "application/json"}
        headers |= (own := read_headers(self.server, self._faults()))
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
            secrets = hidden(self.server, self._key, *own.values())
            return headers, Faults(self.name, self.target, model, secrets, path)
        url = url_below(self.server.base_url, path)
        headers |= self._signer.headers("POST", url, headers, body)
        secrets = hidden(self.server, *self._signer.secrets, *own.values())
        return headers, Faults(self.name, self.target, model, secrets, path, _KEYLESS)


def _path(model: str, operation: str) -> str:
    """Return the path for *model*, whose id may hold colons and slashes."""
    return f"/model/{quote(model, safe='')}/{operation}"
