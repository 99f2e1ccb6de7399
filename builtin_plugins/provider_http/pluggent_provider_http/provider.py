"""A server over HTTP: its name and connections; and a provider without its wire format: reading a reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs
from pluggent_hookspecs import Delta, Finished, ModelRequest, ModelResponse, ReplyMeta, collect

from pluggent_provider_http.access import Access
from pluggent_provider_http.endpoint import Endpoint, target_of
from pluggent_provider_http.framing.feed import Framing
from pluggent_provider_http.framing.sse import MAX_EVENT_BYTES, EventFeed
from pluggent_provider_http.identity import Identity
from pluggent_provider_http.reply_reader import ReplyEvents, ReplyReader
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UNSENDABLE

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2

    # and so is what imports it
    from pluggent_provider_http.client import Answer, Client

ServerT = TypeVar("ServerT", bound=Endpoint)


_NO_SECRETS = Faults("", "")
_TIER_CHARS = 100


def with_answer(said: ReplyMeta, answer: ReplyMeta, faults: Faults = _NO_SECRETS) -> ReplyMeta:
    """Return what the body of an answer *said*, with what its headers and the clock say.

    What the server calls its tier is cut, and what *faults* know to be secret is taken out of it.
    """
    tier = said.service_tier
    if tier and tier not in _TIERS:
        tier = faults.shown(tier, _TIER_CHARS)
    # Field by field: attrs.evolve() takes five times as long, for every answer.
    return ReplyMeta(answer.request_id, answer.limits, answer.first_byte_s, tier, said.notes)


_TIERS = frozenset({"default", "standard", "auto", "priority", "flex", "batch", "on_demand", "scale", "reserved"})
"""What vendors call theirs; others are looked at."""


@attrs.frozen
class Asked:
    """A request for a stream, ready to be sent, and what will make sense of the answer's events.

    ``framing`` is how the stream is cut into events.
    """

    path: str
    body: bytes
    headers: Mapping[str, str]
    faults: Faults
    reply: ReplyEvents
    framing: Framing = EventFeed


class HttpServer(Generic[ServerT]):
    """One server by its name, and the connections to it.

    *client* is an httpx2 client of the application's own, which is used and never closed;
    *transport* is what clients made here send with. Requests go below *base_url*, which is that
    of *server* if it is empty. *access* says who asks; without it requests carry no credentials.
    """

    def __init__(
        self,
        name: str,
        server: ServerT,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        base_url: str = "",
        access: Access | None = None,
    ) -> None:
        self._name = name
        self.server = server
        self._target = target_of(server.base_url)
        self.access = access or Access(name, server, self._target, Identity())
        self._endpoint = attrs.evolve(server, base_url=base_url) if base_url else server
        self._given = (client, transport)
        self._client: Client | None = None

    @property
    def name(self) -> str:
        """The short name: that of the plugin, or the one under ``servers``."""
        return self._name

    @property
    def target(self) -> str:
        """The base URL, without user and query."""
        return self._target

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        if self._client is not None:
            await self._client.close()
        await self.access.close()

    async def prepare(self) -> None:
        """Get what the next request needs beside the request, such as credentials that expire. Raises ProviderError."""
        await self.access.prepare()

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is, if its status is not a success."""
        await self.access.check(answer)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} at {self._target}>"

    def http_for(self, **settings: Any) -> Client:
        """Return what sends requests of another kind, for which some *settings* are others. The caller closes it."""
        # Here and not above, as in http().
        from pluggent_provider_http.client import Client

        return Client(attrs.evolve(self._endpoint, **settings), *self._given, self.access.sign)

    def http(self) -> Client:
        """Return what sends requests below the base URL; made when it is first wanted."""
        if self._client is None:
            # Here and not above: the HTTP library takes 0.1 s to import, and only requests need it.
            from pluggent_provider_http.client import Client

            self._client = Client(self._endpoint, *self._given, self.access.sign)
        return self._client


class HttpProvider(HttpServer[ServerT], ABC):
    """The base of a provider for one server; a subclass says in ``asked`` what is sent and what the answer means.

    See HttpServer for the arguments.
    """

    def __init__(
        self,
        name: str,
        server: ServerT,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        base_url: str = "",
        access: Access | None = None,
    ) -> None:
        super().__init__(name, server, client, transport, base_url=base_url, access=access)
        self._max_event_bytes = min(MAX_EVENT_BYTES, server.max_response_bytes)

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply. It is asked for as a stream too, which shows that it is alive."""
        async with aclosing(self.stream(request)) as batches:
            return await collect(batches)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply as it comes, one batch for each read that brought something."""
        return self.streamed(request)

    @abstractmethod
    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream. Raises ProviderError, or UnsendableError naming what cannot be sent."""

    async def following(self, asked: Asked) -> Asked | None:
        """Return what is asked next, once *asked* was answered to its end, if the reply goes on; else None."""
        return None

    async def streamed(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Ask for a stream and yield what it brings; what ``stream`` does."""
        await self.prepare()
        try:
            asked: Asked | None = self.asked(request)
        except UNSENDABLE as error:
            raise Faults(self._name, self._target).unsendable(error) from error
        while asked is not None:
            reader = ReplyReader(asked.reply, asked.faults, self._max_event_bytes, asked.framing)
            timeouts = request.parameters.timeouts
            async with self.http().post(asked.path, asked.body, asked.headers, asked.faults, timeouts) as answer:
                await self.check(answer)
                async for data in answer:
                    if batch := reader.feed(data):
                        yield _with_meta(batch, answer.meta, asked.faults)
                    if reader.failure is not None:
                        raise reader.failure
                    if reader.done:
                        await answer.drain()
                        break
                else:
                    if batch := reader.end():
                        yield _with_meta(batch, answer.meta, asked.faults)
                    if reader.failure is not None:
                        raise reader.failure
            asked = await self.following(asked)


def _with_meta(batch: list[Delta], answer: Callable[[], ReplyMeta], faults: Faults) -> list[Delta]:
    """Add what the *answer* says to the end of the reply, if *batch* has it."""
    last = batch[-1]
    if isinstance(last, Finished):
        batch[-1] = attrs.evolve(last, meta=with_answer(last.meta, answer(), faults))
    return batch
