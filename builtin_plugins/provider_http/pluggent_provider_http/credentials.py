"""The key of a server, read when it is needed, and what must never be shown."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl, urlsplit

from pluggent_hookspecs import ConfigError, ModelParameters, ProviderErrorKind, Secret

from pluggent_provider_http.endpoint import Endpoint, is_sendable
from pluggent_provider_http.request_options import headers_of
from pluggent_provider_http.server_errors import Faults
from pluggent_provider_http.unsendable import UnsendableError

_SECRET_CHARS = 8  # what is shorter is a word such as EMPTY, and taking it out would garble messages


def read_key(secret: Secret, faults: Faults, setting: str = "api_key") -> str:
    """Return the key that *secret* refers to. Read it for each request: a renewed one is used at once.

    Raises ProviderError ``authentication``, naming *setting*, if there is none or no header can carry it.
    """
    try:
        key = secret.reveal().strip()
    except ConfigError as error:
        problem = f"there is no {_what(setting)}: {error} (setting {setting})"
        raise faults.error(ProviderErrorKind.AUTHENTICATION, problem) from error
    if not key or not is_sendable(key):
        problem = f"{secret!r} holds no {_what(setting)}: it is empty or has characters that no header can carry"
        raise faults.error(ProviderErrorKind.AUTHENTICATION, problem)
    return key


def _what(setting: str) -> str:
    return "API key" if setting == "api_key" else f"value for {setting}"


def read_headers(endpoint: Endpoint, faults: Faults, parameters: ModelParameters | None = None) -> dict[str, str]:
    """Return the headers of the settings, names in lower case, with the secrets that they refer to.

    Those of *parameters*, if the settings allow them, go before. Raises ProviderError: ``authentication``, naming the
    header, for a secret that is not there or cannot be sent; ``bad_request`` for a header that is not allowed.
    """
    own = {
        name.lower(): read_key(value, faults, f"headers.{name}") if isinstance(value, Secret) else value
        for name, value in endpoint.headers.items()
    }
    if parameters is not None and parameters.headers:
        try:
            own |= headers_of(parameters, endpoint)
        except UnsendableError as error:
            raise faults.unsendable(error) from error
    return own


def hidden(endpoint: Endpoint, *keys: str) -> tuple[str, ...]:
    """Return the secrets, for ``Faults.secrets``, the longest first.

    These are *keys*, the values of the settings' headers and their words, and the query of the URL. Give what
    ``read_headers`` returned among the *keys*: a secret that was read twice may have changed between.
    """
    values = (*keys, *(shown for value in endpoint.headers.values() if (shown := _readable(value))))
    words = [word for value in values for word in (value, *value.split())]
    query = urlsplit(endpoint.base_url).query
    asked = (*(value for _, value in parse_qsl(query)), *(part.partition("=")[2] for part in query.split("&")))
    found = {word for word in (*words, *asked) if len(word) >= _SECRET_CHARS}
    return tuple(sorted(found, key=len, reverse=True))


def _readable(value: str | Secret) -> str:
    if not isinstance(value, Secret):
        return value
    with suppress(ConfigError):
        return value.reveal().strip()
    return ""
