"""One server that speaks the Messages API as a Provider of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from pluggent_hookspecs import Delta, ModelInfo, ModelRequest, ModelResponse, collect
from pluggent_provider_http.credentials import hidden, read_key
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.events import MAX_EVENT_BYTES
from pluggent_provider_http.faults import Faults

from pluggent_anthropic.listing import PAGE, Pages
from pluggent_anthropic.settings import Server
from pluggent_anthropic.stream import StreamReader
from pluggent_anthropic.wire import encode_request

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2

    # and so is what imports it
    from pluggent_provider_http.client import Client


class Messages:
    """Asks the models of one server; see the contract's Provider for what its methods promise."""

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._name = name
        self._server = server
        self._target = target_of(server.base_url)
        self._version = "" if self._target.endswith("/v1") else "/v1"
        self._given = (client, transport)
        self._client: Client | None = None

    @property
    def name(self) -> str:
        """The short name: ``anthropic``, or the one under ``servers``."""
        return self._name

    @property
    def target(self) -> str:
        """The base URL, without user and query."""
        return self._target

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply.

        It is asked for as a stream too, unless the setting ``stream`` is false: the API gives
        up replies that take longer than ten minutes, and a stream shows that it is alive.
        """
        async with aclosing(self.stream(request)) as batches:
            return await collect(batches)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply as it comes, one batch for each read that brought something."""
        path = f"{self._version}/messages"
        body = encode_request(request, self._server, Faults(self._name, self._target), stream=self._server.stream)
        headers, faults = self._headers(request.model, path, body.betas)
        reader = StreamReader(request, faults, min(MAX_EVENT_BYTES, self._server.max_response_bytes))
        async with self._http().post(path, body.data, headers, faults) as answer:
            await answer.check()
            async for data in answer:
                if batch := reader.feed(data):
                    yield batch
                if reader.failure is not None:
                    raise reader.failure
                if reader.done:
                    await answer.drain()
                    return
            if batch := reader.end():
                yield batch
            if reader.failure is not None:
                raise reader.failure

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        path = f"{self._version}/models"
        headers, faults = self._headers("", path, ())
        pages = Pages(faults)
        while (after := pages.next) is not None:
            query = {"limit": str(PAGE), **({"after_id": after} if after else {})}
            async with self._http().get(path, headers, faults, query) as answer:
                await answer.check()
                pages.take(await answer.read())
        return pages.models

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        if self._client is not None:
            await self._client.close()

    def __repr__(self) -> str:
        return f"<Messages {self._name!r} at {self._target}>"

    def _http(self) -> Client:
        if self._client is None:
            # Here and not above: the HTTP library takes 0.1 s to import, and only requests need it.
            from pluggent_provider_http.client import Client

            self._client = Client(self._server, *self._given)
        return self._client

    def _headers(self, model: str, path: str, betas: Sequence[str]) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        server = self._server
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        headers["anthropic-version"] = server.version
        headers |= {name.lower(): value for name, value in server.headers.items()}
        wanted = dict.fromkeys((*filter(None, (headers.get("anthropic-beta"),)), *server.betas, *betas))
        if wanted:
            headers["anthropic-beta"] = ",".join(wanted)
        key = ""
        if server.api_key is not None:
            key = read_key(server.api_key, Faults(self._name, self._target))
            headers |= {"x-api-key": key} if server.auth == "x-api-key" else {"authorization": f"Bearer {key}"}
        return headers, Faults(self._name, self._target, model, hidden(server, key), path)
