"""generateContent as a Provider of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import Delta, ModelRequest
from pluggent_provider_http.provider import Asked

from pluggent_gemini.generate.caches import Caches
from pluggent_gemini.generate.request import Body, encode_request
from pluggent_gemini.generate.stream import Events
from pluggent_gemini.provider import GeminiProvider
from pluggent_gemini.settings import Server

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2


@attrs.frozen(kw_only=True)
class _Asked(Asked):
    """A request, and what the next one is made of if its reply comes in several answers."""

    request: ModelRequest
    content: Body
    cached: str
    events: Events


class GenerateContent(GeminiProvider):
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
        super().__init__(name, server, client=client, transport=transport)
        self._caches = Caches(self.place, server)

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

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a reply to *request*."""
        content = encode_request(request, self.server, self.target)
        path = self.place.path(request.model, "generateContent")
        if self.server.stream:
            path = self.place.path(request.model, "streamGenerateContent") + "?alt=sse"
        headers, faults = self.place.headers(request.model, path, request.parameters)
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
        headers, faults = self.place.headers(asked.request.model, asked.path, asked.request.parameters)
        asked.events.faults = faults
        body = asked.content.whole(cached=asked.cached, continuation=token)
        return attrs.evolve(asked, body=body, headers=headers, faults=faults)
