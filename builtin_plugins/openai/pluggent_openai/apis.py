"""Which API of a server a request is sent to: chat completions or Responses.

Pure, but for the catalog of models, which is read with the first request to a host that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import attrs
from pluggent_hookspecs import Audio, ModelParameters, ModelRequest
from pluggent_models.hosts import server_at

Wire: TypeAlias = Literal["chat", "responses"]
Api: TypeAlias = Literal["auto", "chat", "responses"]
APIS: tuple[Api, ...] = ("auto", "chat", "responses")

# https://developers.openai.com/docs/guides/migrate-to-responses (November 2026): recommended for all new work;
# its current models take tools with thinking there alone.
_HOSTS = frozenset({"api.openai.com"})
# Models of that host which Responses does not have, also where the catalog does not know them yet.
_CHAT_MODELS = ("*-audio*", "*-search-preview*", "gpt-3.5-turbo-instruct*")
_CHAT_PARAMETERS = ("stop", "seed", "presence_penalty", "frequency_penalty")
_CHAT_FIELDS = frozenset({
    "audio", "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "modalities", "n", "prediction",
    "presence_penalty", "response_format", "seed", "stop", "verbosity", "web_search_options",
})  # fmt: skip
"""Names of ModelParameters.extra that chat completions alone have a field for."""


@attrs.frozen
class Apis:
    """Chooses the API for each request to one server, by its settings ``api`` and ``apis``."""

    base_url: str
    default: Api
    by_model: Mapping[str, Api]

    @property
    def usual(self) -> Wire:
        """The API for most requests."""
        if self.default != "auto":
            return self.default
        return "responses" if urlsplit(self.base_url).hostname in _HOSTS else "chat"

    def chosen(self, request: ModelRequest) -> Wire:
        """Return the API for *request*.

        ``auto`` is what the catalog of models says; for a model that it does not know, Responses at OpenAI and chat
        completions everywhere else. What is asked may be for chat completions alone. Raises ConfigError if the
        catalog cannot be read.

        >>> Apis("http://127.0.0.1:8000/v1", "auto", {"qwen*": "responses"}).chosen(ModelRequest("qwen3", ()))
        'responses'
        """
        api = self._said_of(request.model)
        if api != "auto":
            return api
        if (self._known_of(request.model) or self._guessed_of(request.model)) == "chat" or _needs_chat(request):
            return "chat"
        return "responses"

    def _known_of(self, model: str) -> Wire | None:
        server = server_at(urlsplit(self.base_url).hostname or "")
        if not server:
            return None
        # Here and not above: most servers are in no catalog, and settings are made of this module.
        from pluggent_models.catalog import shipped

        known = shipped().find(f"{server}/{model}")
        return known.wire if known is not None else None

    def _guessed_of(self, model: str) -> Wire:
        if any(fnmatchcase(model, pattern) for pattern in _CHAT_MODELS):
            return "chat"
        return self.usual

    def _said_of(self, model: str) -> Api:
        for pattern, api in self.by_model.items():
            if fnmatchcase(model, pattern):
                return self.default if api == "auto" else api
        return self.default


def _needs_chat(request: ModelRequest) -> bool:
    """Whether *request* holds what chat completions alone have a word for."""
    if request.hosted:  # they are run by Responses alone, which then says what it has no word for
        return False
    given, usual = request.parameters, ModelParameters()
    if any(getattr(given, name) != getattr(usual, name) for name in _CHAT_PARAMETERS):
        return True
    if given.extra and not _CHAT_FIELDS.isdisjoint(given.extra):
        return True
    return any(type(part) is Audio for message in request.messages for part in message.content)
