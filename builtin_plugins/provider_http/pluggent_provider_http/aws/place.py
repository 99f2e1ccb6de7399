"""Which region and service the signature of a request names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from pluggent_provider_http.aws.profiles import ProfileError, profile, profile_name
from pluggent_provider_http.aws.sigv4 import Scope

_MANTLE = "bedrock-mantle"
_HOST = re.compile(
    rf"(?:^|\.)(?P<service>bedrock|bedrock-runtime|{_MANTLE})(?:-fips)?\.(?P<region>[a-z]+(?:-[a-z]+)+-\d+)\."
)


def scope_of(
    base_url: str, region: str = "", service: str = "", profile_given: str = "", environ: Mapping[str, str] = os.environ
) -> Scope:
    """Return what the signatures of requests to *base_url* name, unless *region* and *service* are given.

    >>> scope_of("https://bedrock-mantle.us-east-2.api.aws/openai/v1")
    Scope(region='us-east-2', service='bedrock-mantle')
    >>> scope_of("https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1")
    Scope(region='eu-west-1', service='bedrock')
    """
    found = _HOST.search(urlsplit(base_url).hostname or "")
    named = found["service"] if found else ""
    here = region or (found["region"] if found else "")
    return Scope(region_of(here, profile_given, environ), service or (_MANTLE if named == _MANTLE else "bedrock"))


def region_of(given: str, profile_given: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the region that is *given*, of the environment or of the profile; empty if there is none.

    >>> region_of("", "", {"AWS_REGION": "eu-west-1"})
    'eu-west-1'
    """
    if found := given or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION"):
        return found
    with suppress(ProfileError):  # what is wrong with the file is said when its credentials are wanted
        return profile(profile_name(profile_given, environ), environ).get("region", "")
    return ""
