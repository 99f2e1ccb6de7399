"""One server that speaks the Messages API as a Provider of the contract."""

from __future__ import annotations

from collections.abc import Sequence

from pluggent_hookspecs import ModelInfo, ModelParameters, ModelRequest
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.provider import Asked, HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count

from pluggent_anthropic.model_list import PAGE, Pages
from pluggent_anthropic.request import encode_count, encode_request
from pluggent_anthropic.settings import Server
from pluggent_anthropic.stream import Events


class Messages(HttpProvider[Server]):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false: the API
    gives up replies that take longer than ten minutes, and a stream shows that it is alive.
    """

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        path = f"{self._version()}/models"
        headers, faults = self._headers("", path, ())
        pages = Pages(faults)
        while (after := pages.next) is not None:
            query = {"limit": str(PAGE), **({"after_id": after} if after else {})}
            async with self.http().get(path, headers, faults, query) as answer:
                await answer.check()
                pages.take(await answer.read())
        return pages.models

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of *request*, as the vendor counts them. Raises ProviderError."""
        path = f"{self._version()}/messages/count_tokens"
        body = encode_count(request, self.server, Faults(self.name, self.target))
        headers, faults = self._headers(request.model, path, body.betas, request.parameters)
        async with self.http().post(path, body.data, headers, faults, request.parameters.timeouts) as answer:
            await answer.check()
            return read_count(await answer.read(), faults)

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        path = f"{self._version()}/messages"
        body = encode_request(request, self.server, Faults(self.name, self.target), stream=self.server.stream)
        headers, faults = self._headers(request.model, path, body.betas, request.parameters)
        return Asked(path, body.data, headers, faults, Events(request, faults))

    def _version(self) -> str:
        return "" if self.target.endswith("/v1") else "/v1"

    def _headers(
        self, model: str, path: str, betas: Sequence[str], parameters: ModelParameters | None = None
    ) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request, and its Faults, which know what is secret in them."""
        server = self.server
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        headers["anthropic-version"] = server.version
        headers |= (own := read_headers(server, Faults(self.name, self.target), parameters))
        wanted = dict.fromkeys((*filter(None, (headers.get("anthropic-beta"),)), *server.betas, *betas))
        if wanted:
            headers["anthropic-beta"] = ",".join(wanted)
        key = ""
        if server.api_key is not None:
            key = read_key(server.api_key, Faults(self.name, self.target))
            headers |= {"x-api-key": key} if server.auth == "x-api-key" else {"authorization": f"Bearer {key}"}
        return headers, Faults(self.name, self.target, model, hidden(server, key, *own.values()), path)
