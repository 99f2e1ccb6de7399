"""Signatures of requests to Amazon's services: AWS Signature Version 4.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html

Pure: no clock, no environment. Written here because the libraries that sign take 13 to 36 MB
(awscrt, botocore), or were young when this was written (aws-http-auth 0.0.2).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, urlsplit

import attrs

_ALGORITHM = "AWS4-HMAC-SHA256"


@attrs.frozen
class Credentials:
    """Who signs. ``token`` is that of a session, ``expires_at`` in seconds since 1970; None: never."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    token: str = attrs.field(default="", repr=False)
    expires_at: float | None = None


@attrs.frozen
class Scope:
    """What a signature is good for: a service in a region."""

    region: str
    service: str


def signed(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    scope: Scope,
    now: float,
) -> dict[str, str]:
    """Return the headers to add to a request: ``authorization``, ``x-amz-date``, and the token of a session.

    *headers* have names in lower case and are signed, with the host; *url* is sent as it is.
    *now* is in seconds since 1970. 100 KB take about 70 µs, of which the hash of the body is 60.

    >>> who = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    >>> made = signed("GET", "https://example.amazonaws.com/", {}, b"", who, Scope("us-east-1", "service"), 1440938160)
    >>> made["authorization"].rpartition("=")[2]
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'
    """
    moment = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": moment}
    if credentials.token:
        added["x-amz-security-token"] = credentials.token
    parts = urlsplit(url)
    given = sorted({**headers, "host": _host(parts.scheme, parts.netloc), **added}.items())
    names = ";".join([name for name, _ in given])
    lines = "".join([f"{name}:{' '.join(value.split())}\n" for name, value in given])
    path = quote(parts.path or "/", safe="/~")  # a path is encoded twice for every service but S3
    request = "\n".join((method, path, _query(parts.query), lines, names, hashlib.sha256(body).hexdigest()))
    day = moment[:8]
    within = f"{day}/{scope.region}/{scope.service}/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{within}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = _key(credentials.secret_key, day, scope.region, scope.service)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    who = f"Credential={credentials.access_key}/{within}"
    added["authorization"] = f"{_ALGORITHM} {who}, SignedHeaders={names}, Signature={signature}"
    return added


def _host(scheme: str, netloc: str) -> str:
    """Return the header that the HTTP library sends: without user, and without the port that goes without saying."""
    host = netloc.rpartition("@")[2].lower()
    return host.removesuffix({"https": ":443", "http": ":80"}.get(scheme, ":"))


def _query(query: str) -> str:
    """Return a query in the order of its names; it is taken as it is sent, so it has to be encoded already."""
    pairs = sorted(part.partition("=")[::2] for part in query.split("&") if part)
    return "&".join([f"{name}={value}" for name, value in pairs])


@lru_cache(maxsize=16)
def _key(secret_key: str, day: str, region: str, service: str) -> bytes:
    """Return the key of one day, which is made of four hashes."""
    key = f"AWS4{secret_key}".encode()
    for word in (day, region, service, "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return key
