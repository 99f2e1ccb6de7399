"""How one server is reached: names in paths, and the key or token in the headers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from pluggent_hookspecs import ModelParameters
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UnsendableError

from pluggent_gemini.settings import PUBLISHER, Server

if TYPE_CHECKING:  # it brings httpx2 along, which takes long to import
    from pluggent_provider_http.client import Answer
    from pluggent_provider_http.google_credentials import GoogleTokens

MODELS = "/models"


class Access:
    """What requests to *server* carry; *name* and *target* are for errors.

    ``base_url`` is what all paths follow, ``publisher`` what comes before models at Vertex AI.
    """

    def __init__(self, name: str, server: Server, target: str) -> None:
        self.base_url, self.publisher = around_publisher(server.base_url)
        self._name = name
        self._server = server
        self._target = target
        self._tokens = self._new_tokens() if server.auth == "google" else None

    async def prepare(self) -> None:
        """Renew the access token, where there is one. Raises ProviderError."""
        if self._tokens is not None:
            await self._tokens.renew(Faults(self._name, self._target))

    async def check(self, answer: Answer) -> None:
        """Raise the ProviderError that *answer* is, if its status is not a success."""
        if self._tokens is None:
            await answer.check()
        else:
            await self._tokens.check(answer)

    async def close(self) -> None:
        """Stop waiting for a token in this event loop."""
        if self._tokens is not None:
            await self._tokens.close()

    def path(self, model: str, verb: str) -> str:
        """Return the path that does *verb* with *model*. Raises UnsendableError for what cannot stand in it."""
        name = model.removeprefix("models/")
        if name in ("", ".", ".."):
            raise UnsendableError(f"a model {model!r} cannot stand in the path of a URL")
        return f"{self.publisher}{MODELS}/{quote(name, safe='')}:{verb}"

    def resource(self, model: str) -> str:
        """Return the name by which bodies refer to *model*."""
        name = f"models/{model.removeprefix('models/')}"
        if not self.publisher:
            return name
        place = urlsplit(self.base_url).path.strip("/").partition("/")[2]
        return f"{place}{self.publisher}/{name}"

    def headers(
        self, model: str, path: str, parameters: ModelParameters | None = None
    ) -> tuple[dict[str, str], Faults]:
        """Return the headers of a request with *parameters*, and its Faults, which know what is secret in them."""
        server = self._server
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        headers |= (own := read_headers(server, Faults(self._name, self._target), parameters))
        key = ""
        if self._tokens is not None:
            token = self._tokens.current(Faults(self._name, self._target))
            headers |= token.headers
            key = token.value
        elif server.api_key is not None:
            key = read_key(server.api_key, Faults(self._name, self._target))
            headers |= {"x-goog-api-key": key} if server.auth == "key" else {"authorization": f"Bearer {key}"}
        secrets = hidden(server, key, *own.values())
        return headers, Faults(self._name, self._target, model, secrets, path.partition("?")[0])

    def _new_tokens(self) -> GoogleTokens:
        # Here and not above: only this kind of credentials needs it.
        from pluggent_provider_http.google_credentials import GoogleTokens

        return GoogleTokens(self._server.api_key, self._server)


def around_publisher(base_url: str) -> tuple[str, str]:
    """Part the base URL of Vertex AI at the publisher: what all requests go below, and what follows for models.

    >>> around_publisher("https://x.test/v1/projects/p/locations/l/publishers/google")
    ('https://x.test/v1/projects/p/locations/l', '/publishers/google')
    >>> around_publisher("https://x.test/v1beta")
    ('https://x.test/v1beta', '')
    """
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if not path.endswith(PUBLISHER):
        return base_url, ""
    return parts._replace(path=path.removesuffix(PUBLISHER)).geturl(), PUBLISHER
