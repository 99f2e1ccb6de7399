"""The settings of a server that speaks the Messages API. Values only: nothing is opened or read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.aws.endpoint import AwsEndpoint, check_auth
from pluggent_provider_http.endpoint import (
    check_header,
    check_headers,
    check_names,
    check_url,
    target_of,
)
from pluggent_provider_http.google.vertex import check_place, vertex_url
from pluggent_provider_http.hosted_tools import Declared

from pluggent_anthropic.model_traits import Model

DEFAULT_BASE_URL = "https://api.anthropic.com"
DEFAULT_KEY = Secret("env:ANTHROPIC_API_KEY")
PUBLISHER = "/publishers/anthropic"
"""What base URLs at Vertex AI end with."""


def _check_betas(instance: object, attribute: attrs.Attribute[Any], betas: tuple[str, ...]) -> None:
    check_headers(instance, attribute, dict.fromkeys(betas, ""))


def _names(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _models(models: Mapping[str, Model]) -> Mapping[str, Model]:
    return MappingProxyType(dict(models))


def _tools(tools: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(MappingProxyType(dict(tool)) for tool in tools)


def _check_tools(_: object, attribute: attrs.Attribute[Any], tools: tuple[Mapping[str, Any], ...]) -> None:
    for tool in tools:
        if not all(isinstance(tool.get(key), str) and tool[key] for key in ("type", "name")):
            raise ValueError(f"{attribute.name}: each has a type and a name, such as web_search_20250305, web_search")
        if tool["type"].startswith("mcp"):
            problem = "the vendor would call the tools of a server unseen; connect to it with pluggent-mcp"
            raise ValueError(f"{attribute.name}: {problem}")


@attrs.frozen(kw_only=True)
class Server(AwsEndpoint):
    """One server that speaks the Messages API, a provider of its own.

    Requests go to ``/v1/messages`` below ``base_url``, to ``/messages`` if it ends in ``/v1``.
    ``api_key`` None sends no key; ``auth`` says in which header it goes, that it holds credentials of Google (None: the
    default ones), or that requests are signed with credentials of AWS. Without a ``base_url`` that of ``project`` and
    ``location`` at Vertex AI counts, where the model is a part of the path. ``betas`` are sent as
    ``anthropic-beta``. ``max_tokens`` 0 means what ``models`` (patterns of names) and the
    table in ``models.py`` say of a model. ``cache`` is how long the vendor keeps what
    conversations begin with; ``off`` marks nothing. ``stream`` false asks for every
    reply whole. ``thinking_display`` empty leaves to the model how much of its thinking is shown.
    ``drop_stale_thinking`` lets models that bind their thinking to the history forget it after
    a change instead of refusing the request. ``server_tools`` run at the vendor and are offered
    in the turns of a session, under its policies: ``anthropic:hosted/web_search``.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: by project and location at Vertex AI."""
    auth: Literal["x-api-key", "bearer", "google", "sigv4"] = attrs.field(
        default="x-api-key", validator=check_auth("x-api-key", "bearer", "google", "sigv4", default_key=DEFAULT_KEY)
    )
    """Who asks: x-api-key or bearer (where the key goes), google (api_key: credentials, or none) or sigv4 (AWS)."""
    project: str = attrs.field(default="", validator=check_place)
    """The project at Vertex AI; empty: not there."""
    location: str = attrs.field(default="global", validator=check_place)
    """The location at Vertex AI, such as europe-west1."""
    version: str = attrs.field(default="2023-06-01", validator=check_header)
    """The header anthropic-version."""
    betas: tuple[str, ...] = attrs.field(default=(), converter=_names, validator=_check_betas)
    """Values of the header anthropic-beta."""
    max_tokens: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """The most tokens of a reply; 0: what is known of the model."""
    models: Mapping[str, Model] = attrs.field(factory=dict[str, Model], converter=_models)
    """What single models can, by patterns of their names; see the README of pluggent-anthropic."""
    cache: Literal["5m", "1h", "off"] = "5m"
    """How long the vendor keeps what conversations begin with: 5m, 1h or off."""
    stream: bool = True
    """Whether replies come as a stream; else each is asked for whole."""
    thinking_display: Literal["", "summarized", "omitted"] = ""
    """How much of its thinking is shown: summarized or omitted; empty: as the model does by itself."""
    drop_stale_thinking: bool = True
    """Whether thinking that does not fit a changed history is forgotten, in place of an error."""
    server_tools: tuple[Mapping[str, Any], ...] = attrs.field(default=(), converter=_tools, validator=_check_tools)
    """Tools that run at the vendor, offered to its models as policies on model requests let them."""

    @property
    def at_vertex(self) -> bool:
        """Whether this is Vertex AI, where the model is a part of the path."""
        return target_of(self.base_url).endswith(PUBLISHER)


def declared(server: Server) -> tuple[Declared, ...]:
    """Return the tools that run at the vendor, as ``server_tools`` has them."""
    return tuple(Declared(tool["name"], tool["type"], tool) for tool in server.server_tools)


def url_of(server: Server) -> str:
    """Return where the requests to *server* go; empty if its settings do not say it.

    >>> url_of(Server(project="acme-7"))
    'https://aiplatform.googleapis.com/v1/projects/acme-7/locations/global/publishers/anthropic'
    """
    if server.base_url or not server.project:
        return server.base_url
    return vertex_url(server.project, server.location, "anthropic")


def _check_servers(instance: object, attribute: attrs.Attribute[Any], servers: Mapping[str, Server]) -> None:
    check_names("anthropic")(instance, attribute, servers)
    for name, server in servers.items():
        if not url_of(server):
            raise ValueError(f"{attribute.name}: {name!r} has neither a base_url nor a project")


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The server that is called ``anthropic``, and more of them under names of their own.

    ``base_url`` empty means the project at Vertex AI, the environment variable ANTHROPIC_BASE_URL or,
    without these, Anthropic itself.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: ANTHROPIC_BASE_URL, else Anthropic itself."""
    api_key: Secret | None = attrs.field(factory=lambda: DEFAULT_KEY)
    """Keys are made at https://console.anthropic.com/settings/keys."""
    servers: Mapping[str, Server] = attrs.field(factory=dict[str, Server], converter=_servers, validator=_check_servers)
    """More servers, each a provider under a name of its own: the settings above."""
