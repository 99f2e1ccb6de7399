"""One server that speaks generateContent as a Provider of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import Delta, HostedTool, ModelInfo, ModelRequest
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count
from pluggent_provider_http.unsendable import UNSENDABLE

from pluggent_gemini.access import MODELS, Access
from pluggent_gemini.caches import Caches
from pluggent_gemini.model_list import PAGE, Pages
from pluggent_gemini.request import Body, encode_count, encode_request
from pluggent_gemini.settings import Server, declared
from pluggent_gemini.stream import Events

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2


@attrs.frozen(kw_only=True)
class _Asked(Asked):
    """A request, and what the next one is made of if its reply comes in several answers."""

    request: ModelRequest
    content: Body
    cached: str
    events: Events


class GenerateContent(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false: a stream shows that it is
    alive, and one answer of it may be longer. A reply that the vendor cuts into several answers is one reply here.
    It lists models and counts tokens, too.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._access = Access(name, server, target_of(server.base_url))
        super().__init__(name, server, client, transport, base_url=self._access.base_url, access=self._access)
        self._caches = Caches(self._access, server)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        await self.prepare()
        path = f"{self._access.publisher}{MODELS}"
        headers, faults = self._access.headers("", path)
        pages = Pages(faults)
        while (token := pages.next) is not None:
            query = {"pageSize": str(PAGE), **({"pageToken": token} if token else {})}
            async with self.http().get(path, headers, faults, query) as answer:
                await self.check(answer)
                pages.take(await answer.read())
        return pages.models

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of *request*, as the vendor counts them. Raises ProviderError."""
        await self.prepare()
        try:
            body = encode_count(request, self.server, self.target, self._access.resource(request.model))
            path = self._access.path(request.model, "countTokens")
        except UNSENDABLE as error:
            raise Faults(self.name, self.target).unsendable(error) from error
        headers, faults = self._access.headers(request.model, path, request.parameters)
        async with self.http().post(path, body, headers, faults, request.parameters.timeouts) as answer:
            await self.check(answer)
            return read_count(await answer.read(), faults, "totalTokens")

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply as it comes, one batch for each read that brought something."""
        return self._with_cache(request) if self._caches.may_keep(request) else self.streamed(request)

    async def _with_cache(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        await self.prepare()
        await self._caches.fill(request, self.target, self.http())
        with self._caches.checked(request, self.target):
            async with aclosing(self.streamed(request)) as batches:
                async for batch in batches:
                    yield batch

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools of the setting ``server_tools``."""
        return offered(self.name, declared(self.server))

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a reply to *request*."""
        content = encode_request(request, self.server, self.target)
        path = self._access.path(request.model, "generateContent")
        if self.server.stream:
            path = self._access.path(request.model, "streamGenerateContent") + "?alt=sse"
        headers, faults = self._access.headers(request.model, path, request.parameters)
        cache = self._caches.of(request, content)
        events = Events(request, self.target, faults, (*content.notes, *cache.notes), cache.paid)
        body = content.whole(cached=cache.name)
        return _Asked(
            path, body, headers, faults, events, request=request, content=content, cached=cache.name, events=events
        )

    async def following(self, asked: Asked) -> Asked | None:
        """Return what asks for the next answer of a long reply."""
        assert isinstance(asked, _Asked)
        token = asked.events.continuation
        if not token:
            return None
        asked.events.begin_again()
        await self.prepare()
        headers, faults = self._access.headers(asked.request.model, asked.path, asked.request.parameters)
        asked.events.faults = faults
        body = asked.content.whole(cached=asked.cached, continuation=token)
        return attrs.evolve(asked, body=body, headers=headers, faults=faults)
