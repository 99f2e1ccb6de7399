"""One server that speaks the Messages API as a Provider of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from pluggent_hookspecs import (
    BatchResult,
    BatchState,
    BatchTicket,
    HostedTool,
    ModelInfo,
    ModelParameters,
    ModelRequest,
    ProviderErrorKind,
)
from pluggent_provider_http.access import Access, identity_of
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.model_pages import ModelPages
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_anthropic.model_list import PAGE, read_page
from pluggent_anthropic.request import encode_count, encode_request
from pluggent_anthropic.settings import Server, declared
from pluggent_anthropic.stream import Events

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2
    from pluggent_provider_http.client import Client

    # and so does what few requests are
    from pluggent_anthropic.batches import MessageBatches

_COUNTER = "count-tokens"
"""What counts tokens at Vertex AI stands in the place of a model."""


class Messages(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false: the API
    gives up replies that take longer than ten minutes, and a stream shows that it is alive.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        access = Access(name, server, target_of(server.base_url), identity_of(server, server.auth))
        super().__init__(name, server, client, transport, access=access)
        self._batches: MessageBatches | None = None
        self._patient: Client | None = None

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError; Vertex AI lists none."""
        if self.server.at_vertex:
            problem = "Vertex AI has no list of Anthropic's models for programs; name one as its page does"
            raise Faults(self.name, self.target).error(ProviderErrorKind.BAD_REQUEST, problem)
        await self.prepare()
        path = f"{self._version()}/models"
        headers, faults = self._headers("", path, ())
        pages = ModelPages(faults, read_page)
        while (after := pages.next) is not None:
            query = {"limit": str(PAGE), **({"after_id": after} if after else {})}
            async with self.http().get(path, headers, faults, query) as answer:
                await self.check(answer)
                pages.take(await answer.read())
        return pages.models

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of *request*, as the vendor counts them. Raises ProviderError."""
        await self.prepare()
        path = (
            self._path(_COUNTER, "rawPredict") if self.server.at_vertex else f"{self._version()}/messages/count_tokens"
        )
        body = encode_count(request, self.server, Faults(self.name, self.target))
        headers, faults = self._headers(request.model, path, body.betas, request.parameters)
        async with self.http().post(path, body.data, headers, faults, request.parameters.timeouts) as answer:
            await self.check(answer)
            return read_count(await answer.read(), faults)

    async def submit_batch(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Send a batch; see the contract's Batches. Vertex AI takes none."""
        return await self._desk().submit(requests, key)

    async def find_batch(self, key: str, requests: Mapping[str, ModelRequest], since_s: float) -> BatchTicket | None:
        """Return the batch of *requests*; see the contract's Batches. One that runs cannot be told from others."""
        return await self._desk().find(key, requests, since_s)

    async def batch_state(self, ticket: BatchTicket) -> BatchState:
        """Return how far a batch is; see the contract's Batches."""
        return await self._desk().state(ticket)

    def batch_results(
        self, ticket: BatchTicket, requests: Mapping[str, ModelRequest]
    ) -> AsyncGenerator[Sequence[BatchResult]]:
        """Yield the results of a batch; see the contract's Batches."""
        return self._desk().results(ticket, requests)

    async def cancel_batch(self, ticket: BatchTicket) -> None:
        """End a batch; see the contract's Batches."""
        await self._desk().cancel(ticket)

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        if self._patient is not None:
            await self._patient.close()
        await super().close()

    def _desk(self) -> MessageBatches:
        if self.server.at_vertex:
            problem = "Vertex AI takes batches of Anthropic's models from its storage alone; ask one by one"
            raise Faults(self.name, self.target).error(ProviderErrorKind.BAD_REQUEST, problem)
        if self._batches is None:
            # Here and not above: most requests are sent one by one.
            from pluggent_anthropic.batches import MOST_RESULT_BYTES, MessageBatches

            self._patient = self.http_for(max_response_bytes=MOST_RESULT_BYTES)
            path = f"{self._version()}/messages/batches"
            self._batches = MessageBatches(
                self.name, self.target, self.server, path, self.access, self._patient, self._headers
            )
        return self._batches

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools of the setting ``server_tools``."""
        return offered(self.name, declared(self.server))

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        path = f"{self._version()}/messages"
        if self.server.at_vertex:
            path = self._path(request.model, "streamRawPredict" if self.server.stream else "rawPredict")
        body = encode_request(request, self.server, Faults(self.name, self.target), stream=self.server.stream)
        headers, faults = self._headers(request.model, path, body.betas, request.parameters)
        return Asked(path, body.data, headers, faults, Events(request, faults, body.notes))

    def _path(self, model: str, verb: str) -> str:
        """Return the path at Vertex AI that does *verb* with *model*. Raises UnsendableError."""
        if model in ("", ".", ".."):
            raise UnsendableError(f"a model {model!r} cannot stand in the path of a URL")
        return f"/models/{quote(model, safe='@')}:{verb}"

    def _version(self) -> str:
        return "" if self.target.endswith("/v1") else "/v1"

    def _headers(
        self, model: str, path: str, betas: Sequence[str], parameters: ModelParameters | None = None
    ) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        headers, faults = self.access.headers(model, path, parameters, {"anthropic-version": self.server.version})
        wanted = dict.fromkeys((*filter(None, (headers.get("anthropic-beta"),)), *self.server.betas, *betas))
        if wanted:
            headers["anthropic-beta"] = ",".join(wanted)
        return headers, faults
