"""Where requests to a server go, and the headers that they carry."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from pluggent_hookspecs import ModelParameters, ProviderErrorKind
from pluggent_provider_http.access import Access, identity_of
from pluggent_provider_http.endpoint import target_of
from pluggent_provider_http.server_errors import Faults

from pluggent_openai.settings import MODEL, Server


def access_to(name: str, server: Server) -> Access:
    """Return what requests to *server*, called *name*, carry."""
    return Access(name, server, target_of(server.base_url), identity_of(server, server.auth))


def request_headers(
    access: Access, server: Server, model: str, path: str, parameters: ModelParameters | None = None
) -> tuple[dict[str, str], Faults]:
    """Return the headers of a request with *parameters*, and its Faults, which know what is secret in them."""
    headers, faults = access.headers(model, path, parameters)
    if server.organization is not None:
        headers["openai-organization"] = server.organization
    if server.project is not None:
        headers["openai-project"] = server.project
    return headers, faults


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
