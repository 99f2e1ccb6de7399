"""Where requests to a server go, and the headers that they carry."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import attrs
from pluggent_hookspecs import ModelParameters, ProviderErrorKind
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.settings import MODEL, Server


def request_headers(
    server: Server, faults: Faults, parameters: ModelParameters | None = None
) -> tuple[dict[str, str], Faults]:
    """Return the headers of a request with *parameters*, and *faults* that know what is secret in them."""
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    headers |= (own := read_headers(server, faults, parameters))
    if server.organization is not None:
        headers["openai-organization"] = server.organization
    if server.project is not None:
        headers["openai-project"] = server.project
    key = ""
    if server.api_key is not None and server.auth != "none":
        key = read_key(server.api_key, faults)
        named, value = ("api-key", key) if server.auth == "api-key" else ("authorization", f"Bearer {key}")
        headers[named] = value
    return headers, attrs.evolve(faults, secrets=hidden(server, key, *own.values()))


def path_for(after: str, model: str, faults: Faults) -> str:
    """Return *after*, what follows the base URL, for *model*. Raises ProviderError if it cannot stand there."""
    if MODEL in after and model in ("", ".", ".."):
        problem = f"the request cannot be sent: a model {model!r} cannot stand in the path of base_url"
        raise faults.error(ProviderErrorKind.BAD_REQUEST, problem)
    return after.replace(MODEL, quote(model, safe=""))


def around_model(base_url: str) -> tuple[str, str]:
    """Part a base URL at the model in its path: what all requests go below, and what follows for completions.

    >>> around_model("https://r.openai.azure.com/openai/deployments/{model}?api-version=1")
    ('https://r.openai.azure.com/openai?api-version=1', '/deployments/{model}')
    >>> around_model("https://api.openai.com/v1")
    ('https://api.openai.com/v1', '')
    """
    parts = urlsplit(base_url)
    if MODEL not in parts.path:
        return base_url, ""
    before = parts.path.partition(MODEL)[0].rstrip("/").removesuffix("/deployments")
    return parts._replace(path=before).geturl(), parts.path.rstrip("/").removeprefix(before)
