"""The Interactions API as a Provider of the contract."""

from __future__ import annotations

from pluggent_hookspecs import ModelRequest
from pluggent_provider_http.provider import Asked

from pluggent_gemini.interactions.events import Events
from pluggent_gemini.interactions.request import encode_request
from pluggent_gemini.provider import GeminiProvider

_PATH = "/interactions"
_REVISION = {"api-revision": "2026-05-20"}
"""The form of the API that is read here. https://ai.google.dev/gemini-api/docs/interactions (November 2026)"""


class Interactions(GeminiProvider):
    """Asks the models of one server; see the contract's Provider for what its methods promise.

    Nothing is stored at the vendor: each request has the whole conversation. A whole reply is asked for as a stream
    too, unless the setting ``stream`` is false: a stream shows that it is alive.
    """

    def asked(self, request: ModelRequest) -> Asked:
        """Return what asks for a reply to *request*."""
        body = encode_request(request, self.server, self.target)
        headers, faults = self.place.headers(request.model, _PATH, request.parameters)
        reply = Events(request, self.target, faults, body.notes)
        return Asked(_PATH, body.data, {**headers, **_REVISION}, faults, reply)
