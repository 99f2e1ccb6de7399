"""What can be set for a chat completions server. Values only: nothing is opened or read here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs
from pluggent_hookspecs import Secret

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_MAX_RESPONSE_BYTES: int = 33_554_432


def _check_url(_: object, __: object, url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable:
        # The text is not repeated: it may hold a password.
        raise ValueError("base_url: expected http://HOST/PATH or https://HOST/PATH, such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc:
        raise ValueError("base_url: a user name or password has no place in it; give the key as api_key")


def _positive(_: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name}: expected more than 0, got {value!r}")


def _check_header(_: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and not _is_sendable(value):
        raise ValueError(f"{attribute.name}: only printable ASCII characters can be sent in a header")


def _check_headers(_: object, __: object, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not name or not all(_is_sendable(text) for text in (name, value)):
            # The value is not shown: it may be a secret.
            raise ValueError(f"headers: {name!r} or its value cannot be sent; both are printable ASCII characters")


def _is_sendable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _read_only(headers: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(headers))


@attrs.frozen(kw_only=True)
class Server:
    """One chat completions server, a provider of its own. Times are seconds.

    ``api_key`` None sends no Authorization header. ``first_byte_s`` counts from the start of
    a call to the first byte of its answer's body, ``silence_s`` between two pieces of it.
    ``max_tokens_field`` is what the server calls the limit of the reply. ``reasoning_field``
    is the message field in which it wants earlier thinking back (DeepSeek: reasoning_content);
    empty sends none. ``stream_usage`` false is for servers that refuse ``stream_options``.
    """

    base_url: str = attrs.field(validator=_check_url)
    api_key: Secret | None = None
    organization: str | None = attrs.field(default=None, validator=_check_header)
    project: str | None = attrs.field(default=None, validator=_check_header)
    headers: Mapping[str, str] = attrs.field(
        factory=dict[str, str], converter=_read_only, validator=_check_headers, repr=False
    )
    connect_s: float = attrs.field(default=10.0, validator=_positive)
    first_byte_s: float = attrs.field(default=120.0, validator=_positive)
    silence_s: float = attrs.field(default=60.0, validator=_positive)
    max_response_bytes: int = attrs.field(default=_MAX_RESPONSE_BYTES, validator=_positive)
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    reasoning_field: str = ""
    stream_usage: bool = True


def _check_names(_: object, __: object, servers: Mapping[str, Server]) -> None:
    for name in servers:
        if not name or "/" in name or name == "openai":
            raise ValueError(f"servers: {name!r} cannot name a provider; take a word without '/', other than openai")


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The server that is called ``openai``, and more of them under names of their own.

    ``base_url`` empty means the environment variable OPENAI_BASE_URL and, without it,
    OpenAI itself.
    """

    base_url: str = attrs.field(default="", validator=_check_url)
    api_key: Secret | None = attrs.field(factory=lambda: Secret("env:OPENAI_API_KEY"))
    servers: Mapping[str, Server] = attrs.field(factory=dict[str, Server], converter=_servers, validator=_check_names)


def target_of(base_url: str) -> str:
    """Return where requests go, without user, query and fragment, which may be secret.

    >>> target_of("https://u:p@example.org/v1/?key=1#x")
    'https://example.org/v1'
    """
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def endpoint_of(base_url: str) -> str:
    """Return the URL of chat completions below *base_url*, whose query is kept.

    >>> endpoint_of("http://127.0.0.1:8000/v1/?api-version=1")
    'http://127.0.0.1:8000/v1/chat/completions?api-version=1'
    """
    parts = urlsplit(base_url)
    return parts._replace(path=parts.path.rstrip("/") + "/chat/completions", fragment="").geturl()
