"""The settings of an Ollama server. Values only: nothing is opened or read here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
from pluggent_provider_http.endpoint import Endpoint, check_count, check_names, check_url

DEFAULT_BASE_URL = "http://127.0.0.1:11434"
_DURATION = re.compile(r"-?(\d+(\.\d+)?(ns|us|ms|s|m|h))+|-?\d+")
_PORT = 11434


def _check_server(instance: object, attribute: attrs.Attribute[Any], url: str) -> None:
    check_url(instance, attribute, url)
    path = url.rstrip("/").rpartition("/")[2]
    if path in ("v1", "api"):
        raise ValueError(f"{attribute.name}: leave out /{path}: what is asked here is the API below /api")


def _check_duration(_: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if value and not _DURATION.fullmatch(value):
        raise ValueError(f"{attribute.name}: expected a duration such as 10m or 24h, 0, or -1 for ever; got {value!r}")


def _check_window(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not int or value < 0:
        raise ValueError(f"{attribute.name}: expected a whole number from 0, got {value!r}")


def url_of(host: str) -> str:
    """Return the base URL that OLLAMA_HOST means, as Ollama reads it: scheme and port may be missing.

    >>> url_of("0.0.0.0"), url_of("gpu.example:8080"), url_of("https://ollama.com"), url_of("")
    ('http://127.0.0.1:11434', 'http://gpu.example:8080', 'https://ollama.com', 'http://127.0.0.1:11434')
    """
    scheme, separator, rest = host.strip().strip("\"'").rpartition("://")
    place, slash, path = rest.partition("/")
    name, colon, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "")
    name = "127.0.0.1" if name in ("", "0.0.0.0", "[::]") else name  # noqa: S104 (where a server listens)
    if not colon and not separator:
        port = str(_PORT)
    return f"{scheme or 'http'}://{name}{':' if port else ''}{port}{slash}{path}".rstrip("/")


@attrs.frozen(kw_only=True)
class Server(Endpoint):
    """One Ollama server, a provider of its own. Requests go to ``/api/chat`` below ``base_url``.

    ``num_ctx`` 0 and ``keep_alive`` empty leave the server's own. ``truncate`` lets the server forget the
    beginning of a conversation that is longer than the window, which is an error otherwise.

    >>> Server(base_url="http://gpu.example:11434", num_ctx=32_768).keep_alive
    ''
    """

    base_url: str = attrs.field(validator=_check_server)
    """Where the server is, without /v1 and /api."""
    num_ctx: int = attrs.field(default=0, validator=_check_window)
    """The window in tokens, as far as the model has it and memory allows; 0: the server's own, which is often 4,096."""
    keep_alive: str = attrs.field(default="", validator=_check_duration)
    """How long a model stays in memory after a request: 10m, 24h, 0, -1 for ever; empty: as the server does."""
    truncate: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    """Whether the server may drop the beginning of a conversation that is too long, in place of an error."""
    embed_texts: int = attrs.field(default=256, validator=check_count)
    """Texts in one request for vectors, at most."""


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The server that is called ``ollama``, and more of them under names of their own.

    ``base_url`` empty means the environment variable OLLAMA_HOST and, without it, this machine.
    """

    base_url: str = attrs.field(default="", validator=_check_server)
    """Where the server is; empty: OLLAMA_HOST, else http://127.0.0.1:11434."""
    servers: Mapping[str, Server] = attrs.field(
        factory=dict[str, Server], converter=_servers, validator=check_names("ollama")
    )
    """More servers, each a provider under a name of its own: the settings above."""
