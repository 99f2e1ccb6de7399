"""One server that speaks generateContent as a Provider of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import attrs
from pluggent_hookspecs import ModelInfo, ModelRequest, ProviderError
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.model_list import PAGE, Pages
from pluggent_gemini.request import Body, encode_request
from pluggent_gemini.settings import PUBLISHER, Server
from pluggent_gemini.stream import Events

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2

    # and so is what imports it
    from pluggent_provider_http.client import Answer
    from pluggent_provider_http.google_credentials import GoogleTokens

_MODELS = "/models"
_REFUSED = 401


@attrs.frozen(kw_only=True)
class _Asked(Asked):
    """A request, and what the next one is made of if its reply comes in several answers."""

    content: Body
    events: Events


class GenerateContent(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false: a stream shows that it is
    alive, and one answer of it may be longer. A reply that the vendor cuts into several answers is one reply here.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        before, self._publisher = _around_publisher(server.base_url)
        super().__init__(name, server, client, transport, base_url=before)
        self._tokens = self._new_tokens() if server.auth == "google" else None

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        await self.prepare()
        path = f"{self._publisher}{_MODELS}"
        headers, faults = self._headers("", path)
        pages = Pages(faults)
        while (token := pages.next) is not None:
            query = {"pageSize": str(PAGE), **({"pageToken": token} if token else {})}
            async with self.http().get(path, headers, faults, query) as answer:
                await self.check(answer)
                pages.take(await answer.read())
        return pages.models

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        await super().close()
        if self._tokens is not None:
            await self._tokens.close()

    async def prepare(self) -> None:
        """Renew the access token, where there is one."""
        if self._tokens is not None:
            await self._tokens.renew(Faults(self.name, self.target))

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is; a token that it refuses is not used again."""
        try:
            await answer.check()
        except ProviderError as error:
            if error.status == _REFUSED and self._tokens is not None:
                error.retryable = self._tokens.refused()
            raise

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a reply to *request*."""
        content = encode_request(request, self.server, self.target)
        verb = ":streamGenerateContent?alt=sse" if self.server.stream else ":generateContent"
        path = f"{self._publisher}{_MODELS}/{_name_of(request.model)}{verb}"
        headers, faults = self._headers(request.model, path)
        events = Events(request, self.target, faults, content.notes)
        return _Asked(path, content.whole(), headers, faults, events, content=content, events=events)

    async def following(self, asked: Asked) -> Asked | None:
        """Return what asks for the next answer of a long reply."""
        assert isinstance(asked, _Asked)
        token = asked.events.continuation
        if not token:
            return None
        asked.events.begin_again()
        await self.prepare()
        headers, faults = self._headers(asked.faults.model, asked.path)
        asked.events.faults = faults
        return attrs.evolve(asked, body=asked.content.whole(token), headers=headers, faults=faults)

    def _headers(self, model: str, path: str) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        server = self.server
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        headers |= (own := read_headers(server, Faults(self.name, self.target)))
        key = ""
        if self._tokens is not None:
            assert self._tokens.token is not None
            headers |= self._tokens.token.headers
            key = self._tokens.token.value
        elif server.api_key is not None:
            key = read_key(server.api_key, Faults(self.name, self.target))
            headers |= {"x-goog-api-key": key} if server.auth == "key" else {"authorization": f"Bearer {key}"}
        return headers, Faults(
            self.name, self.target, model, hidden(server, key, *own.values()), path.partition("?")[0]
        )

    def _new_tokens(self) -> GoogleTokens:
        # Here and not above: only this kind of credentials needs it.
        from pluggent_provider_http.google_credentials import GoogleTokens

        return GoogleTokens(self.server.api_key, self.server)


def _name_of(model: str) -> str:
    """Return the name of a model as it stands in a path. Raises UnsendableError."""
    name = model.removeprefix("models/")
    if name in ("", ".", ".."):
        raise UnsendableError(f"a model {model!r} cannot stand in the path of a URL")
    return quote(name, safe="")


def _around_publisher(base_url: str) -> tuple[str, str]:
    """Part the base URL of Vertex AI at the publisher: what all requests go below, and what follows for models.

    >>> _around_publisher("https://x.test/v1/projects/p/locations/l/publishers/google")
    ('https://x.test/v1/projects/p/locations/l', '/publishers/google')
    >>> _around_publisher("https://x.test/v1beta")
    ('https://x.test/v1beta', '')
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if not path.endswith(PUBLISHER):
        return base_url, ""
    return parts._replace(path=path.removesuffix(PUBLISHER)).geturl(), PUBLISHER
