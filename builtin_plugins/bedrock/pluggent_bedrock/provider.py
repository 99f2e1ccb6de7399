"""One region of Amazon Bedrock as a Provider of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs
from pluggent_hookspecs import HostedTool, ModelInfo, ModelRequest
from pluggent_provider_http.aws.event_stream import FrameFeed
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.hosted_tools import offered
from pluggent_provider_http.provider import Asked, HttpProvider, HttpServer
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.token_counts import read_count
from pluggent_provider_http.unsendable import UNSENDABLE

from pluggent_bedrock.access import access_to
from pluggent_bedrock.model_list import MAX_PAGES, MODELS, PROFILES, read_models, read_profiles
from pluggent_bedrock.regions import control_url, without_area
from pluggent_bedrock.request import encode_count, encode_request
from pluggent_bedrock.settings import Server, declared
from pluggent_bedrock.stream import Events

if TYPE_CHECKING:  # it takes long to import, and only requests need it
    import httpx2


class Converse(HttpProvider[Server]):
    """Asks the models of one region; see the contract's Provider for what its methods promise.

    A whole reply is asked for as a stream too, unless the setting ``stream`` is false.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        client: httpx2.AsyncClient | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        access = access_to(name, server, target_of(server.base_url))
        super().__init__(name, server, client, transport, access=access)
        control = attrs.evolve(server, base_url=control_url(server.base_url))
        self._control = HttpServer(name, control, client, transport, access=access)

    def hosted_tools(self, model: str) -> Sequence[HostedTool]:
        """Return the tools of the setting ``server_tools``."""
        return offered(self.name, declared(self.server))

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a stream of *request*."""
        path = path_of(request.model, "converse-stream" if self.server.stream else "converse")
        body = encode_request(request, self.server)
        headers, faults = self.access.headers(request.model, path, request.parameters)
        return Asked(path, body.data, headers, faults, Events(request, faults, body.notes), FrameFeed)

    async def count(self, request: ModelRequest) -> int:
        """Return the tokens of the prompt, as Bedrock counts them. Raises ProviderError."""
        await self.prepare()
        path = path_of(without_area(request.model), "count-tokens")
        try:
            body = encode_count(request, self.server)
        except UNSENDABLE as error:
            raise Faults(self.name, self.target).unsendable(error) from error
        headers, faults = self.access.headers(request.model, path, request.parameters)
        async with self.http().post(path, body, headers, faults, request.parameters.timeouts) as answer:
            await self.check(answer)
            return read_count(await answer.read(), faults, "inputTokens")

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the models and inference profiles that can be asked in the region. Raises ProviderError."""
        await self.prepare()
        data, faults = await self._listed(MODELS, {})
        found = [*read_models(data, faults)]
        token = ""
        for _ in range(MAX_PAGES):
            data, faults = await self._listed(
                PROFILES, {"maxResults": "1000", **({"nextToken": token} if token else {})}
            )
            page, token = read_profiles(data, faults)
            found += page
            if not token:
                break
        return found

    async def close(self) -> None:
        """Close the connections that were opened in this event loop."""
        await super().close()
        await self._control.close()

    async def _listed(self, path: str, query: Mapping[str, str]) -> tuple[bytes, Faults]:
        headers, faults = self.access.headers("", path)
        async with self._control.http().get(path, headers, faults, query) as answer:
            await self.check(answer)
            return await answer.read(), faults


def path_of(model: str, operation: str) -> str:
    """Return the path for *model*, whose id may hold colons and slashes.

    >>> path_of("us.amazon.nova-micro-v1:0", "converse")
    '/model/us.amazon.nova-micro-v1%3A0/converse'
    """
    return f"/model/{quote(model, safe='')}/{operation}"
