"""The settings of a server of Google's models. Values only: nothing is opened or read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.endpoint import Endpoint, check_names, check_url
from pluggent_provider_http.google.vertex import check_place, is_vertex, vertex_url
from pluggent_provider_http.hosted_tools import Declared

from pluggent_gemini.model_traits import Model

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com/v1beta"
DEFAULT_KEY = Secret("env:GEMINI_API_KEY")
PUBLISHER = "/publishers/google"
"""Behind project and location, what the names of Google's own models follow at Vertex AI."""
LEAST_TTL_S = 60.0


def _check_ttl(server: Server, attribute: attrs.Attribute[Any], value: float) -> None:
    if value != 0 and server.api != "generate":
        raise ValueError(f'{attribute.name}: explicit caches are for api = "generate"; leave it out')
    if value != 0 and not value >= LEAST_TTL_S:
        raise ValueError(f"{attribute.name}: expected 0, or {LEAST_TTL_S:g} and more, got {value!r}")


def _models(models: Mapping[str, Model]) -> Mapping[str, Model]:
    return MappingProxyType(dict(models))


def _tools(tools: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(MappingProxyType(dict(tool)) for tool in tools)


def _check_tools(_: object, attribute: attrs.Attribute[Any], tools: tuple[Mapping[str, Any], ...]) -> None:
    for tool in tools:
        if not tool or "functionDeclarations" in tool:
            raise ValueError(
                f"{attribute.name}: each is a tool that runs at the vendor, such as {{google_search = {{}}}}"
            )
        if _is_mcp(tool):
            problem = "the vendor would call the tools of a server unseen; connect to it with pluggent-mcp"
            raise ValueError(f"{attribute.name}: {problem}")


def _is_mcp(tool: Mapping[str, Any]) -> bool:
    return any("mcp" in str(kind).lower() for kind in (tool.get("type", ""), *tool))


def _texts(given: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(given))


@attrs.frozen(kw_only=True)
class Server(Endpoint):
    """One server that speaks an API of Gemini's, a provider of its own.

    ``api`` says which API is asked: ``generate`` sends to ``/models/{model}:generateContent`` below ``base_url``,
    ``interactions`` to ``/interactions``. Empty, ``base_url`` is that of
    ``project`` and ``location`` at Vertex AI, without a project that of the Gemini API. ``auth`` says what
    ``api_key`` is: ``key`` an API key, ``bearer`` a token, ``google`` the credentials of a service account or
    a user as JSON; None with ``google`` means application default credentials. ``stream`` false asks for every
    reply whole. ``show_thinking``: models that think summarize it. ``server_tools`` run at the vendor and are
    offered in the turns of a session, under its policies: ``gemini:hosted/googleSearch``. ``models`` are patterns of
    names, before the table in ``model_traits.py``.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: by project and location, else the Gemini API."""
    api: Literal["generate", "interactions"] = attrs.field(
        default="generate", validator=attrs.validators.in_(("generate", "interactions"))
    )
    """Which API is asked: generate (generateContent) or interactions."""
    auth: Literal["key", "bearer", "google"] = "key"
    """What api_key holds: key, bearer (a token) or google (credentials; without api_key the default ones)."""
    project: str = attrs.field(default="", validator=check_place)
    """The project at Vertex AI; empty: the Gemini API."""
    location: str = attrs.field(default="global", validator=check_place)
    """The location at Vertex AI, such as europe-west4."""
    stream: bool = True
    """Whether replies come as a stream; else each is asked for whole."""
    show_thinking: bool = True
    """Whether models that think send summaries of it."""
    cache_ttl_s: float = attrs.field(default=0.0, validator=_check_ttl)
    """Seconds for which the vendor keeps instruction and tools under a name, billed by the hour; 0: not at all."""
    models: Mapping[str, Model] = attrs.field(factory=dict[str, Model], converter=_models)
    """What single models can, by patterns of their names; see the README of pluggent-gemini."""
    safety: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_texts)
    """What is blocked: threshold by category, such as HARM_CATEGORY_HARASSMENT = "BLOCK_ONLY_HIGH"."""
    server_tools: tuple[Mapping[str, Any], ...] = attrs.field(default=(), converter=_tools, validator=_check_tools)
    """Tools that run at the vendor, offered to its models as policies on model requests let them."""

    @property
    def at_vertex(self) -> bool:
        """Whether this is Vertex AI, whose requests have a few other fields."""
        return bool(self.project) or is_vertex(self.base_url)


def declared(server: Server) -> tuple[Declared, ...]:
    """Return the tools that run at the vendor, as ``server_tools`` has them, by the words of its API."""
    kinds = [str(tool.get("type", "+".join(tool))) for tool in server.server_tools]
    return tuple(Declared(kind, kind, tool) for kind, tool in zip(kinds, server.server_tools, strict=True))


def url_of(server: Server) -> str:
    """Return where the requests to *server* go.

    >>> url_of(Server(project="acme-7", location="europe-west4"))
    'https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/acme-7/locations/europe-west4/publishers/google'
    """
    if server.base_url:
        return server.base_url
    return vertex_url(server.project, server.location, "google", "v1beta1") if server.project else DEFAULT_BASE_URL


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The server that is called ``gemini``, and more of them under names of their own.

    ``base_url`` empty means the project at Vertex AI, without one the environment variable GOOGLE_GEMINI_BASE_URL,
    without both the Gemini API.
    Where GEMINI_API_KEY is not set, the default key is GOOGLE_API_KEY.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: by project and location, else GOOGLE_GEMINI_BASE_URL, else the Gemini API."""
    api_key: Secret | None = attrs.field(factory=lambda: DEFAULT_KEY)
    """Keys are made at https://aistudio.google.com/apikey; GOOGLE_API_KEY is read, too."""
    servers: Mapping[str, Server] = attrs.field(
        factory=dict[str, Server], converter=_servers, validator=check_names("gemini")
    )
    """More servers, each a provider under a name of its own: the settings above."""
