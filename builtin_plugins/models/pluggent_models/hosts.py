"""Under which name a catalog lists the models of a host. Light: settings that name a server can ask."""

from __future__ import annotations

import re

_HOSTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"api\.openai\.com"), "openai"),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/inference-openai.html
    (re.compile(r"bedrock-(runtime\.[a-z0-9-]+\.amazonaws\.com|mantle\.[a-z0-9-]+\.api\.aws)"), "bedrock"),
    (re.compile(r"[a-z0-9-]+\.(openai|services\.ai|cognitiveservices)\.azure\.com"), "azure"),
)


def server_at(host: str) -> str:
    """Return the name under which a catalog has the models of *host*, where hosts want different APIs; empty if none.

    >>> server_at("api.openai.com"), server_at("bedrock-mantle.us-east-1.api.aws"), server_at("127.0.0.1")
    ('openai', 'bedrock', '')
    """
    return next((server for pattern, server in _HOSTS if pattern.fullmatch(host)), "")
