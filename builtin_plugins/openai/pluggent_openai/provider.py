"""One server as a Provider of the contract, whichever of its APIs a request is sent to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import attrs
from pluggent_hookspecs import (
    BatchResult,
    BatchState,
    BatchTicket,
    ConfigError,
    Delta,
    HostedTool,
    ModelInfo,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ProviderErrorKind,
    Ticket,
    deltas,
)
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.provider import Asked, HttpProvider, with_answer
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count

from pluggent_openai.addressing import access_to, around_model, path_for, request_headers
from pluggent_openai.apis import Api, Apis
from pluggent_openai.dialects import dialect_for
from pluggent_openai.model_list import read_models
from pluggent_openai.server_tools import declared
from pluggent_openai.settings import Server
from pluggent_openai.wire import Body, Wire

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2
    from pluggent_provider_http.client import Client

    # and so does what is not asked for mostly
    from pluggent_openai.batches import OpenAIBatches
    from pluggent_openai.responses.background import Background
    from pluggent_openai.responses.wire import ResponsesWire

_BAD_REQUEST = 400
_MODELS = "/models"
_COUNT = "/responses/input_tokens"


class OpenAIProvider(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    It can list the models too (ListsModels), and count tokens and make replies in the background where it is asked
    through Responses (CountsTokens, RunsLater), and send batches (Batches). ``dialect`` is how the server speaks.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        before, self._after = around_model(server.base_url)
        super().__init__(name, server, client, transport, base_url=before, access=access_to(name, server))
        self.dialect = dialect_for(server.base_url, server.compat)
        self._apis = Apis(server.base_url, server.api, server.apis)
        self._wires: dict[Api, Wire] = {}
        self._background: Background | None = None
        self._batches: OpenAIBatches | None = None
        self._patient: Client | None = None
        self._wire_of(self._apis.usual)  # it takes long to import, which is no part of a request's time

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply, asked for whole."""
        wire = self._wire(request)
        await self.prepare()
        path, body = self._written(request, wire, stream=False)
        headers, faults = self._headers(request.model, wire.path, request.parameters)
        async with self.http().post(path, body.data, headers, faults, request.parameters.timeouts) as answer:
            if answer.status == _BAD_REQUEST:
                data = await answer.read_some()
                reply = wire.read_refusal(data, request, faults, body.notes)
                if reply is None:
                    error = faults.from_status(answer.status, answer.headers, data)
                    raise self.access.refused(error, answer.headers)
            else:
                await self.check(answer)
                reply = wire.read(await answer.read(), request, faults, body.notes)
            return attrs.evolve(reply, meta=with_answer(reply.meta, answer.meta(), faults))

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply as it comes, one batch for each read that brought something."""
        return self.streamed(request) if self._wire(request).streams(request) else self._at_once(request)

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of *request*, as the server counts them for Responses. Raises ProviderError."""
        if "responses" not in (self._apis.usual, self._api(request)):
            faults = Faults(self.name, self.target, request.model)
            why = "tokens are counted through Responses, and this model is asked through chat completions"
            raise faults.error(ProviderErrorKind.BAD_REQUEST, f"{why}; see the setting api")
        await self.prepare()
        wire = cast("ResponsesWire", self._wire_of("responses"))
        headers, faults = self._headers(request.model, _COUNT, request.parameters)
        path = path_for(self._after, request.model, faults) + _COUNT
        body = wire.encode_count(request, faults)
        async with self.http().post(path, body.data, headers, faults, request.parameters.timeouts) as answer:
            await self.check(answer)
            return read_count(await answer.read(), faults)

    async def submit(self, request: ModelRequest) -> Ticket:
        """Begin a reply in the background; see the contract's RunsLater."""
        return await self._runs(request).submit(request)

    def attach(self, ticket: Ticket, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply of *ticket*; see the contract's RunsLater."""
        return self._runs(request).attach(ticket, request)

    async def cancel(self, ticket: Ticket) -> None:
        """End the run of *ticket*; see the contract's RunsLater."""
        await self._runs().cancel(ticket)

    async def submit_batch(self, requests: Mapping[str, ModelRequest], key: str) -> BatchTicket:
        """Send a batch; see the contract's Batches."""
        return await self._desk().submit(requests, key)

    async def find_batch(self, key: str, requests: Mapping[str, ModelRequest], since_s: float) -> BatchTicket | None:
        """Return the batch of *key*; see the contract's Batches."""
        return await self._desk().find(key, since_s)

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
        if self._background is not None:
            await self._background.close()
        if self._patient is not None:
            await self._patient.close()
        await super().close()

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that the server lists, in its order. Raises ProviderError.

        Where the base URL names ``deployments/{model}`` (Azure), these are the models that
        deployments can be made of.
        """
        await self.prepare()
        headers, faults = self._headers("", _MODELS)
        async with self.http().get(_MODELS, headers, faults) as answer:
            await self.check(answer)
            return read_models(await answer.read(), faults)

    def _runs(self, request: ModelRequest | None = None) -> Background:
        if request is not None and self._api(request) != "responses":
            faults = Faults(self.name, self.target, request.model)
            why = (
                "replies are made in the background through Responses, and this model is asked through chat completions"
            )
            raise faults.error(ProviderErrorKind.BAD_REQUEST, f"{why}; see the setting api")
        if self._background is None:
            # Here and not above: most replies are waited for.
            from pluggent_openai.responses.background import Background

            wire = cast("ResponsesWire", self._wire_of("responses"))
            self._background = Background(
                self.access, self.name, self.target, self.server, wire, self.http(), self._below, self._headers
            )
        return self._background

    def _desk(self) -> OpenAIBatches:
        if self._batches is None:
            # Here and not above: most requests are sent one by one.
            from pluggent_openai.batches import MOST_RESULT_BYTES, OpenAIBatches

            self._patient = self.http_for(max_response_bytes=MOST_RESULT_BYTES)
            self._batches = OpenAIBatches(self.access, self.name, self.target, self._wire, self._patient, self._headers)
        return self._batches

    def _below(self, model: str, path: str, faults: Faults) -> str:
        return path_for(self._after, model, faults) + path

    async def _at_once(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        yield deltas(await self.complete(request))

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools of the setting ``server_tools``, for a model that is asked through Responses."""
        if not self.server.server_tools or self._apis.chosen(ModelRequest(model, ())) != "responses":
            return ()
        return offered(self.name, declared(self.server.server_tools))

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        wire = self._wire(request)
        path, body = self._written(request, wire, stream=True)
        headers, faults = self._headers(request.model, wire.path, request.parameters)
        return Asked(path, body.data, headers, faults, wire.events(request, faults, body.notes))

    def _wire(self, request: ModelRequest) -> Wire:
        return self._wire_of(self._api(request))

    def _api(self, request: ModelRequest) -> Api:
        try:
            return self._apis.chosen(request)
        except ConfigError as error:
            problem = f'the request cannot be sent: {error}. Or set api = "chat" or "responses" for this server'
            raise Faults(self.name, self.target).error(ProviderErrorKind.BAD_REQUEST, problem) from error

    def _wire_of(self, api: Api) -> Wire:
        wire = self._wires.get(api)
        if wire is None:
            wire = self._wires[api] = self._chat() if api == "chat" else self._responses()
        return wire

    def _chat(self) -> Wire:
        # Here and not above: a server is mostly asked through one API.
        from pluggent_openai.chat.wire import ChatWire

        return ChatWire(self.dialect)

    def _responses(self) -> Wire:
        # Here and not above, as for chat completions.
        from pluggent_openai.responses.wire import ResponsesWire

        return ResponsesWire(self.dialect, self.target, self.server)

    def _written(self, request: ModelRequest, wire: Wire, *, stream: bool) -> tuple[str, Body]:
        """Return where a request goes below the base URL, and its body."""
        faults = Faults(self.name, self.target)
        if request.parameters.background:
            problem = "parameters.background: such a request is submitted, and its reply attached to"
            raise faults.error(ProviderErrorKind.BAD_REQUEST, f"the request cannot be sent: {problem}")
        return path_for(self._after, request.model, faults) + wire.path, wire.encode(request, faults, stream=stream)

    def _headers(
        self, model: str, path: str, parameters: ModelParameters | None = None
    ) -> tuple[dict[str, str], Faults]:
        return request_headers(self.access, self.server, model, path, parameters)
