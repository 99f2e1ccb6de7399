"""The settings of Amazon Bedrock. Values only: nothing is opened or read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs
from pluggent_hookspecs import Secret
from pluggent_provider_http.aws.endpoint import AwsEndpoint
from pluggent_provider_http.endpoint import check_names, check_url
from pluggent_provider_http.hosted_tools import Declared

from pluggent_bedrock.model_traits import Model

_GUARDRAIL = frozenset({"guardrailIdentifier", "guardrailVersion", "trace", "streamProcessingMode"})


def _models(models: Mapping[str, Model]) -> Mapping[str, Model]:
    return MappingProxyType(dict(models))


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _guardrail(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def _check_guardrail(_: object, attribute: attrs.Attribute[Any], guardrail: Mapping[str, str]) -> None:
    unknown = sorted(set(guardrail) - _GUARDRAIL)
    if unknown:
        raise ValueError(f"{attribute.name}: unknown {unknown[0]!r}; known are {', '.join(sorted(_GUARDRAIL))}")
    if guardrail and not {"guardrailIdentifier", "guardrailVersion"} <= set(guardrail):
        raise ValueError(f"{attribute.name}: needs guardrailIdentifier and guardrailVersion")


@attrs.frozen(kw_only=True)
class Server(AwsEndpoint):
    """One region of Amazon Bedrock under one identity, a provider of its own.

    ``region`` empty means that of ``base_url``, AWS_REGION, AWS_DEFAULT_REGION, and what the profile says; ``base_url``
    empty follows from the region. ``auth`` ``auto`` sends ``api_key`` if there is one and signs otherwise (``sigv4``),
    with the credentials of ``profile``, or those that Amazon's own tools would find. ``models`` (patterns of
    names) says what is known of models. ``cache`` is how long the vendor keeps what conversations begin
    with, for models that can; ``off`` marks nothing. ``stream`` false asks for every reply whole.
    ``guardrail`` is part of every request; ``server_tools`` are offered in the turns of a session, under its
    policies: ``bedrock:hosted/nova_grounding``.
    """

    base_url: str = attrs.field(default="", validator=check_url)
    """Where requests go; empty: AWS_ENDPOINT_URL_BEDROCK_RUNTIME, else Bedrock in the region."""
    auth: Literal["auto", "bearer", "sigv4"] = "auto"
    """How requests are authorized: auto, bearer (api_key) or sigv4 (signed with credentials)."""
    models: Mapping[str, Model] = attrs.field(factory=dict[str, Model], converter=_models)
    """What single models can, by patterns of their names; see the README of pluggent-bedrock."""
    cache: Literal["5m", "1h", "off"] = "5m"
    """How long the vendor keeps what conversations begin with: 5m, 1h or off."""
    stream: bool = True
    """Whether replies come as a stream; else each is asked for whole."""
    guardrail: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_guardrail, validator=_check_guardrail)
    """The guardrail of every request: guardrailIdentifier, guardrailVersion, trace, streamProcessingMode."""
    server_tools: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Names of tools that run at the vendor, offered to its models as policies on model requests let them."""


def declared(server: Server) -> tuple[Declared, ...]:
    """Return the tools that run at the vendor, as ``server_tools`` names them."""
    return tuple(Declared(name, name, {"systemTool": {"name": name}}) for name in server.server_tools)


def _servers(servers: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(servers))


@attrs.frozen(kw_only=True)
class Settings(Server):
    """The region that is called ``bedrock``, and more of them, or of other accounts, under names of their own."""

    api_key: Secret | None = attrs.field(factory=lambda: Secret("env:AWS_BEARER_TOKEN_BEDROCK"))
    """A Bedrock API key; without one requests are signed."""
    servers: Mapping[str, Server] = attrs.field(
        factory=dict[str, Server], converter=_servers, validator=check_names("bedrock")
    )
    """More regions or accounts, each a provider under a name of its own: the settings above."""
