"""The headers of requests to a server, and what errors of one on this machine mean for its user."""

from __future__ import annotations

import attrs
from pluggent_hookspecs import EmbeddingIncomplete, ModelParameters, ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.server_errors import Faults

from pluggent_ollama.settings import Server

_NOT_FOUND = 404


def request_headers(
    server: Server, faults: Faults, parameters: ModelParameters | None = None
) -> tuple[dict[str, str], Faults]:
    """Return the headers of a request with *parameters*, and *faults* that know what is secret in them."""
    headers = {"accept": "application/x-ndjson, application/json", "content-type": "application/json"}
    headers |= (own := read_headers(server, faults, parameters))
    key = ""
    if server.api_key is not None:
        key = read_key(server.api_key, faults)
        headers["authorization"] = f"Bearer {key}"
    return headers, attrs.evolve(faults, secrets=hidden(server, key, *own.values()))


def with_advice(error: ProviderError, model: str = "") -> ProviderError:
    """Return *error* with what to do about it, where that is known."""
    advice = ""
    if isinstance(error, EmbeddingIncomplete):
        return error
    if error.kind is Kind.UNAVAILABLE and error.status is None and "cannot be reached" in error.message:
        advice = "Is Ollama running there? To start it: ollama serve; if it is elsewhere, set base_url or OLLAMA_HOST"
    elif error.status == _NOT_FOUND and model and "not found" in error.message:
        advice = f"To get the model: pluggent ollama pull {model}"
    elif error.kind is Kind.CONTEXT_LENGTH:
        advice = "A larger window: num_ctx in the settings of the server"
    if not advice:
        return error
    return ProviderError(
        error.kind, f"{error.message}. {advice}", provider=error.provider, status=error.status,
        retry_after=error.retry_after, actual=error.actual, limit=error.limit, retryable=error.retryable,
        meta=error.meta,
    )  # fmt: skip
