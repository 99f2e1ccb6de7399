"""What a request may change of the operator's settings: allowed headers, shorter waits, the vendor's cache. Pure."""

from __future__ import annotations

from typing import Any

import attrs
from pluggent_hookspecs import ModelParameters, ModelTimeouts

from pluggent_provider_http.endpoint import Endpoint, is_sendable
from pluggent_provider_http.unsendable import UnsendableError

TTLS = ("5m", "1h")
"""How long Anthropic's models keep what a prompt begins with."""


def headers_of(parameters: ModelParameters, endpoint: Endpoint) -> dict[str, str]:
    """Return ``parameters.headers``, names in lower case. Raises UnsendableError for one that is not allowed.

    >>> endpoint = Endpoint(base_url="http://x", allow_headers=("X-Team",))
    >>> headers_of(ModelParameters(headers={"x-team": "a"}), endpoint)
    {'x-team': 'a'}
    """
    if not parameters.headers:
        return {}
    allowed = {name.lower() for name in endpoint.allow_headers}
    for name, value in parameters.headers.items():
        if name.lower() not in allowed:
            known = f"allowed are {', '.join(sorted(allowed))}" if allowed else "none is"
            raise UnsendableError(f"parameters.headers: {name!r} is not allowed; {known} (setting allow_headers)")
        if not is_sendable(value):
            # The value is not shown: it may be a secret.
            raise UnsendableError(f"parameters.headers: the value of {name!r} is not printable ASCII")
    return {name.lower(): value for name, value in parameters.headers.items()}


def with_waits(endpoint: Endpoint, timeouts: ModelTimeouts | None) -> Endpoint:
    """Return *endpoint* with those of *timeouts* that are shorter. Raises UnsendableError for one that is not above 0.

    >>> with_waits(Endpoint(base_url="http://x"), ModelTimeouts(first_byte_s=600, silence_s=5)).silence_s
    5
    """
    if timeouts is None:
        return endpoint
    shorter: dict[str, Any] = {}
    for name in ("connect_s", "first_byte_s", "silence_s"):
        seconds: float | None = getattr(timeouts, name)
        if seconds is not None and not seconds > 0:
            raise UnsendableError(f"parameters.timeouts.{name}: expected more than 0, got {seconds!r}")
        if seconds is not None and seconds < getattr(endpoint, name):
            shorter[name] = seconds
    return attrs.evolve(endpoint, **shorter) if shorter else endpoint


def kept_for(api: str, wished: str | None, usual: str) -> str:
    """Return how long the vendor is to keep what a request begins with: 5m, 1h or off. *wished* goes before *usual*.

    Raises UnsendableError, which names the *api*.
    """
    if wished in (None, "auto"):
        return usual
    if wished not in (*TTLS, "off"):
        raise UnsendableError(f"parameters.cache: {api} keeps beginnings for 5m or 1h, not {wished!r}")
    return wished
