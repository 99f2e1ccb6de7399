"""One chat completions server as a Provider of the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from pluggent_hookspecs import ConfigError, Delta, ModelRequest, ModelResponse, ProviderErrorKind, Secret

from pluggent_openai.errors import Faults
from pluggent_openai.reply import read_reply
from pluggent_openai.settings import Server, target_of
from pluggent_openai.stream import MAX_EVENT_BYTES, StreamReader
from pluggent_openai.wire import Dialect

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2

    # and so is what imports it
    from pluggent_openai.client import Answer, Client

_OK = range(200, 300)
_SECRET_CHARS = 8  # what is shorter is a word such as EMPTY, and taking it out would garble messages


class ChatCompletions:
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
        self._dialect = Dialect(server.max_tokens_field, server.reasoning_field, server.stream_usage)
        self._given = (client, transport)
        self._client: Client | None = None

    @property
    def name(self) -> str:
        """The short name: ``openai``, or the one under ``servers``."""
        return self._name

    @property
    def target(self) -> str:
        """The base URL, without user and query."""
        return self._target

    async def complete(self, request: ModelRequest) -> ModelResponse:
        """Return the whole reply, asked for whole."""
        body = self._dialect.encode(request, Faults(self._name, self._target), stream=False)
        headers, faults = self._headers(request)
        async with self._post(body, headers, faults) as answer:
            await _check(answer, faults)
            data = await answer.read()
        return read_reply(data, request, faults)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply as it comes, one batch for each read that brought something."""
        body = self._dialect.encode(request, Faults(self._name, self._target), stream=True)
        headers, faults = self._headers(request)
        reader = StreamReader(request, faults, min(MAX_EVENT_BYTES, self._server.max_response_bytes))
        async with self._post(body, headers, faults) as answer:
            await _check(answer, faults)
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

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        if self._client is not None:
            await self._client.close()

    def __repr__(self) -> str:
        return f"<ChatCompletions {self._name!r} at {self._target}>"

    def _post(self, body: bytes, headers: dict[str, str], faults: Faults) -> AbstractAsyncContextManager[Answer]:
        if self._client is None:
            # Here and not above: the HTTP library takes 0.1 s to import, and only requests need it.
            from pluggent_openai.client import Client

            self._client = Client(self._server, *self._given)
        return self._client.post(body, headers, faults)

    def _headers(self, request: ModelRequest) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        server = self._server
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        headers |= {name.lower(): value for name, value in server.headers.items()}
        if server.organization is not None:
            headers["openai-organization"] = server.organization
        if server.project is not None:
            headers["openai-project"] = server.project
        secrets = _secret_in(server)
        if server.api_key is not None:
            key = self._key(server.api_key)
            headers["authorization"] = f"Bearer {key}"
            secrets = (key, *secrets)
        secrets = tuple(sorted({s for s in secrets if len(s) >= _SECRET_CHARS}, key=len, reverse=True))
        return headers, Faults(self._name, self._target, request.model, secrets)

    def _key(self, secret: Secret) -> str:
        """Return the key, read each time, so that a renewed one is used at once."""
        faults = Faults(self._name, self._target)
        try:
            key = secret.reveal().strip()
        except ConfigError as error:
            problem = f"there is no API key: {error} (setting api_key)"
            raise faults.error(ProviderErrorKind.AUTHENTICATION, problem) from error
        if not key or not key.isascii() or not key.isprintable():
            problem = f"{secret!r} holds no API key: it is empty or has characters that no header can carry"
            raise faults.error(ProviderErrorKind.AUTHENTICATION, problem)
        return key


def _secret_in(server: Server) -> tuple[str, ...]:
    """Return what nobody is to read of a server's settings: header values, their words, the query."""
    words = [word for value in server.headers.values() for word in (value, *value.split())]
    query = urlsplit(server.base_url or "").query
    return (*words, *(value for _, value in parse_qsl(query)), *(p.partition("=")[2] for p in query.split("&")))


async def _check(answer: Answer, faults: Faults) -> None:
    if answer.status not in _OK:
        raise faults.from_status(answer.status, answer.headers, await answer.read_some())
