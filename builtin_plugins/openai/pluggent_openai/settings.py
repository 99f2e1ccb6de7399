"""The settings of a server. Values only: nothing is opened or read here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.aws.endpoint import AwsEndpoint, check_auth
from pluggent_provider_http.endpoint import check_count, check_header, check_names, check_positive, check_url

from pluggent_openai.apis import APIS, Api
from pluggent_openai.dialects import dialect_for
from pluggent_openai.server_tools import check_tools, tools_of

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_KEY = Secret("env:OPENAI_API_KEY")
LOCAL = MappingProxyType(
    {
        "ollama": {"base_url": "http://127.0.0.1:11434/v1"},
        "lmstudio": {"base_url": "http://127.0.0.1:1234/v1"},
        "llamacpp": {"base_url": "http://127.0.0.1:8080/v1", "compat": {"like": "llama.cpp"}},
    }
)
"""Servers on the same machine, at the ports that they use by default."""
MODEL = "{model}"
"""Stands in the path of a base URL for the model that is asked."""


def _read_only(compat: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(compat))


def _check_compat(server: Server, _: object, compat: Mapping[str, Any]) -> None:
    dialect_for(server.base_url, compat)


def _apis(apis: Mapping[str, Api]) -> Mapping[str, Api]:
    return MappingProxyType(dict(apis))


def _check_apis(_: object, attribute: attrs.Attribute[Any], apis: Mapping[str, object]) -> None:
    for pattern, api in apis.items():
        if api not in APIS:
            raise ValueError(
                f"{attribute.name}: {pattern!r}: expected one of {', '.join(map(repr, APIS))}, got {api!r}"
            )


_LEAST_COMPACTION = 1_000
"""Tokens: the least that the API takes."""


def _check_compaction(_: object, attribute: attrs.Attribute[Any], tokens: object) -> None:
    if type(tokens) is not int or (tokens and tokens < _LEAST_COMPACTION):
        raise ValueError(f"{attribute.name}: expected 0 or a number of tokens from {_LEAST_COMPACTION}, got {tokens!r}")


@attrs.frozen(kw_only=True)
class Server(AwsEndpoint):
    """One server that speaks an API of OpenAI's, a provider of its own.

    ``api`` says which: ``chat`` is chat completions, ``auto`` is what the catalog of pluggent-models says of
    the model, else Responses at OpenAI and chat completions elsewhere; ``apis`` says it of models, by patterns of
    their names, the first that fits. ``replay_thinking`` false sends no thinking back to Responses.

    ``server_tools`` run at the vendor, and are offered through Responses in the turns of a session, under its
    policies: ``openai:hosted/web_search``. ``store`` lets the vendor keep replies; ``compaction`` has it sum up a
    conversation that is longer.

    ``{model}`` in the path of ``base_url`` is replaced by the name of the model. ``auth`` says
    how the key is sent: as ``Authorization: Bearer``, in a header ``api-key`` (Azure), or not at
    all; ``api_key`` None sends none either. ``google``: it holds credentials of Google, None the default ones;
    ``sigv4``: requests are signed with credentials of AWS. ``compat`` says what the server lacks or wants, where
    the table in compat.py does not know it or is wrong: names and values of Dialect's fields,
    and ``like``, the name of an entry of that table.

    >>> Server(base_url="http://127.0.0.1:8000/v1", compat={"like": "vllm"}).auth
    'bearer'
    """

    organization: str | None = attrs.field(default=None, validator=check_header)
    """The header OpenAI-Organization."""
    project: str | None = attrs.field(default=None, validator=check_header)
    """The header OpenAI-Project."""
    api: Api = attrs.field(default="auto", validator=attrs.validators.in_(APIS))
    """chat (chat completions), responses, or auto: what the catalog says; else Responses at OpenAI, chat elsewhere."""
    apis: Mapping[str, Api] = attrs.field(factory=dict[str, "Api"], converter=_apis, validator=_check_apis)
    """The same by patterns of models' names, the first that fits: { "gpt-4*" = "chat" }."""
    replay_thinking: bool = attrs.field(default=True, validator=attrs.validators.instance_of(bool))
    """false sends no thinking back to Responses."""
    server_tools: tuple[Mapping[str, Any], ...] = attrs.field(
        default=(), converter=tools_of, validator=check_tools, repr=False
    )
    """Tools that run at the vendor, offered to its models as policies on model requests let them."""
    store: bool = attrs.field(default=False, validator=attrs.validators.instance_of(bool))
    """Whether the vendor keeps the replies of Responses."""
    compaction: int = attrs.field(default=0, validator=_check_compaction)
    """Tokens from which on the vendor sums up what was said (Responses); 0: never."""
    auth: Literal["bearer", "api-key", "none", "google", "sigv4"] = attrs.field(
        default="bearer", validator=check_auth("bearer", "api-key", "none", "google", "sigv4", default_key=DEFAULT_KEY)
    )
    """Who asks: bearer, api-key (where the key goes), none, google (api_key: credentials, or none) or sigv4 (AWS)."""
    embed_texts: int = attrs.field(default=2_048, validator=check_count)
    """Texts in one request for embeddings, at most."""
    embed_tokens: int = attrs.field(default=300_000, validator=check_count)
    """Tokens in one request for embeddings, at most; one is taken for 2 bytes, so that no request has more."""
    queued_s: float = attrs.field(default=600.0, validator=check_positive)
    """Seconds that a reply in the background may wait at the server before it is begun."""
    compat: Mapping[str, Any] = attrs.field(factory=dict[str, Any], converter=_read_only, validator=_check_compat)
    """What the server lacks or wants where its address does not tell; see the README of pluggent-openai."""


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The server that is called ``openai``, and more of them under names of their own.

    ``base_url`` empty means the environment variable OPENAI_BASE_URL and, without it,
    OpenAI itself.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: OPENAI_BASE_URL, else OpenAI itself."""
    api_key: Secret | None = attrs.field(factory=lambda: DEFAULT_KEY)
    """Keys are made at https://platform.openai.com/api-keys."""
    servers: Mapping[str, Server] = attrs.field(
        factory=dict[str, Server],
        converter=_servers,
        validator=check_names("openai"),
        metadata={"examples": LOCAL},
    )
    """More servers, each a provider under a name of its own: the settings above."""
