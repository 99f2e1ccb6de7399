"""A request with its key as ``Authorization: Bearer``, as both vendors want it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import msgspec
from pluggent_provider_http.credentials import hidden, read_headers, read_key
from pluggent_provider_http.embedding.embedder import EmbeddingAsked
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.server_errors import Faults

_encode = msgspec.json.Encoder().encode


def asked_at(server: Endpoint, faults: Faults, body: Mapping[str, Any]) -> EmbeddingAsked:
    """Return the request that sends *body* to ``faults.path`` of *server*."""
    headers = {"accept": "application/json", "content-type": "application/json"}
    headers |= (own := read_headers(server, faults))
    key = ""
    if server.api_key is not None:
        key = read_key(server.api_key, faults)
        headers["authorization"] = f"Bearer {key}"
    known = attrs.evolve(faults, secrets=hidden(server, key, *own.values()))
    return EmbeddingAsked(faults.path, _encode(body), headers, known)
