"""What a server of Amazon's computes of a request, to compare it with the signature in it."""

from __future__ import annotations

from datetime import datetime

from pluggent_provider_http.aws.sigv4 import Credentials, Scope, signed
from pluggent_testing.wires.http_server import Received

KEYS = {"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SECRET-KEY-7f3a", "AWS_SESSION_TOKEN": "TOKEN-7f3a-7f3a"}
SETTINGS = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK")


def signed_again(asked: Received, origin: str, scope: Scope) -> str:
    """Return the signature that a server computes from what it has received."""
    names = asked.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    own = {name: asked.headers[name] for name in names if not name.startswith("x-amz-") and name != "host"}
    moment = datetime.strptime(f"{asked.headers['x-amz-date']}+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    who = Credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], KEYS["AWS_SESSION_TOKEN"])
    assert asked.headers["host"] == origin.partition("//")[2]
    return signed(asked.method, origin + asked.path, own, asked.body, who, scope, moment)["authorization"]
