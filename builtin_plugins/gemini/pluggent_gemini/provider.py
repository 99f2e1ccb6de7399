"""One server of Google's models: what its APIs share beside the asking, as the base of their providers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
from pluggent_hookspecs import HostedTool, ModelInfo, ModelRequest
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.model_pages import ModelPages
from pluggent_provider_http.provider import HttpProvider
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count
from pluggent_provider_http.unsendable import UNSENDABLE

from pluggent_gemini.access import MODELS, Access
from pluggent_gemini.generate.request import encode_count
from pluggent_gemini.model_list import PAGE, read_page
from pluggent_gemini.settings import Server, declared

if TYPE_CHECKING:  # httpx2 takes long to import, so it is imported with the first request
    import httpx2


class GeminiProvider(HttpProvider[Server], ABC):
    """A server that lists models and counts tokens (ListsModels, CountsTokens).

    Tokens are counted of the conversation as generateContent is sent it: the Interactions API has no count of its own,
    and tools of the vendor that the other may not know.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.place = Access(name, server, target_of(server.base_url))
        super().__init__(name, server, client, transport, base_url=self.place.base_url, access=self.place)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models that can be asked for now. Raises ProviderError."""
        await self.prepare()
        path = f"{self.place.publisher}{MODELS}"
        headers, faults = self.place.headers("", path)
        pages = ModelPages(faults, read_page)
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
            counted = self.server if self.server.api == "generate" else attrs.evolve(self.server, server_tools=())
            body = encode_count(request, counted, self.target, self.place.resource(request.model))
            path = self.place.path(request.model, "countTokens")
        except UNSENDABLE as error:
            raise Faults(self.name, self.target).unsendable(error) from error
        headers, faults = self.place.headers(request.model, path, request.parameters)
        async with self.http().post(path, body, headers, faults, request.parameters.timeouts) as answer:
            await self.check(answer)
            return read_count(await answer.read(), faults, "totalTokens")

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools of the setting ``server_tools``."""
        return offered(self.name, declared(self.server))
