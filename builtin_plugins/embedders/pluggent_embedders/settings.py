"""The settings of the vendors' servers. Values only: nothing is opened or read here."""

from __future__ import annotations

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.endpoint import Endpoint, check_count, check_url

COHERE_URL = "https://api.cohere.com/v2"
VOYAGE_URL = "https://api.voyageai.com/v1"


@attrs.frozen(kw_only=True)
class Cohere(Endpoint):
    """Cohere's ``/embed``, the embedder called ``cohere``."""

    base_url: str = attrs.field(default=COHERE_URL, validator=check_url)
    """Where requests go."""
    api_key: Secret | None = attrs.field(factory=lambda: Secret("env:CO_API_KEY"))
    """Keys are made at https://dashboard.cohere.com/api-keys."""
    embed_texts: int = attrs.field(default=96, validator=check_count)
    """Texts in one request, at most."""


@attrs.frozen(kw_only=True)
class Voyage(Endpoint):
    """Voyage's ``/embeddings``, the embedder called ``voyage``."""

    base_url: str = attrs.field(default=VOYAGE_URL, validator=check_url)
    """Where requests go."""
    api_key: Secret | None = attrs.field(factory=lambda: Secret("env:VOYAGE_API_KEY"))
    """Keys are made at https://dashboard.voyageai.com."""
    embed_texts: int = attrs.field(default=1_000, validator=check_count)
    """Texts in one request, at most."""
    embed_tokens: int = attrs.field(default=120_000, validator=check_count)
    """Tokens in one request, at most; one is taken for 2 bytes. Smaller models take up to 1,000,000."""


@attrs.frozen(kw_only=True)
class Settings:
    """The servers of both vendors."""

    cohere: Cohere = attrs.field(factory=Cohere)
    """The server that is called cohere."""
    voyage: Voyage = attrs.field(factory=Voyage)
    """The server that is called voyage."""
