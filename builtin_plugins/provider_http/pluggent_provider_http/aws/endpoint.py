"""The settings of a server whose requests may be signed. Values only: nothing is opened or read here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
from pluggent_hookspecs import Secret

from pluggent_provider_http.endpoint import Endpoint

_WORD = re.compile(r"[a-z0-9-]*")


def _check_word(_: object, attribute: attrs.Attribute[Any], word: str) -> None:
    if not _WORD.fullmatch(word):
        example = {"region": "us-east-1", "service": "bedrock-mantle"}[attribute.name]
        raise ValueError(f"{attribute.name}: expected a {attribute.name} such as {example}, got {word[:40]!r}")


@attrs.frozen(kw_only=True)
class AwsEndpoint(Endpoint):
    """A server that may be one of Amazon's: what a signature names, and whose credentials sign."""

    region: str = attrs.field(default="", validator=_check_word)
    """The region; empty: that of base_url, AWS_REGION, AWS_DEFAULT_REGION, else what the profile says."""
    service: str = attrs.field(default="", validator=_check_word)
    """The service that a signature names; empty: bedrock-mantle where base_url says so, else bedrock."""
    profile: str = ""
    """The profile in ~/.aws whose credentials sign; empty: AWS_PROFILE, else all places where Amazon's tools look."""


_Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", str], None]


def check_auth(*words: str, default_key: Secret) -> _Check:
    """Return a validator of attrs for a setting ``auth``: one of *words*, and no key for what takes none."""

    def check(server: Endpoint, attribute: attrs.Attribute[Any], auth: str) -> None:
        if auth not in words:
            raise ValueError(f"{attribute.name}: expected one of {', '.join(words)}, got {auth!r}")
        if auth == "sigv4" and server.api_key not in (None, default_key):
            raise ValueError(
                f"{attribute.name}: sigv4 signs with credentials of AWS: leave api_key out, or take bearer"
            )

    return check
