"""The key of a server, read when it is needed, and what must never be shown."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from pluggent_hookspecs import ConfigError, ProviderErrorKind, Secret

from pluggent_provider_http.endpoint import Endpoint, is_sendable
from pluggent_provider_http.server_errors import Faults

_SECRET_CHARS = 8  # what is shorter is a word such as EMPTY, and taking it out would garble messages


def read_key(secret: Secret, faults: Faults, setting: str = "api_key") -> str:
    """Return the key that *secret* refers to. Read it for each request: a renewed one is used at once.

    Raises ProviderError ``authentication``, naming *setting*, if there is none or no header can carry it.
    """
    try:
        key = secret.reveal().strip()
    except ConfigError as error:
        problem = f"there is no API key: {error} (setting {setting})"
        raise faults.error(ProviderErrorKind.AUTHENTICATION, problem) from error
    if not key or not is_sendable(key):
        problem = f"{secret!r} holds no API key: it is empty or has characters that no header can carry"
        raise faults.error(ProviderErrorKind.AUTHENTICATION, problem)
    return key


def hidden(endpoint: Endpoint, *keys: str) -> tuple[str, ...]:
    """Return the secrets, for ``Faults.secrets``, the longest first.

    These are *keys*, the values of the settings' headers and their words, and the query of the URL.
    """
    words = [word for value in endpoint.headers.values() for word in (value, *value.split())]
    query = urlsplit(endpoint.base_url).query
    asked = (*(value for _, value in parse_qsl(query)), *(part.partition("=")[2] for part in query.split("&")))
    found = {word for word in (*keys, *words, *asked) if len(word) >= _SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))
