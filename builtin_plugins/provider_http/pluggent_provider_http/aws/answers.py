"""What services answer that give credentials: fetched, and read as what is not trusted. Blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

from pluggent_provider_http.aws.sigv4 import Credentials

_HTTP_S = 10.0
_METADATA_S = 1.0
_MOST_BYTES = 65_536


class CredentialsError(Exception):
    """There are no credentials; the message says why and what to do. ``passes``: another try may succeed."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


def made(said: Mapping[str, Any], access: str, secret: str, token: str, expires: str, what: str) -> Credentials:
    """Return the credentials in the fields of those names of an answer. Raises CredentialsError, naming *what*."""
    access_key, secret_key, session = said.get(access), said.get(secret), said.get(token)
    if not isinstance(access_key, str) or not isinstance(secret_key, str) or not access_key or not secret_key:
        code = said.get("Code") or said.get("code") or ""
        raise CredentialsError(f"{what}: the answer holds no credentials {str(code)[:100]}".strip(), passes=True)
    ends = said.get(expires)
    expires_at = None if ends is None else moment(ends, what)
    return Credentials(access_key, secret_key, session if isinstance(session, str) else "", expires_at)


def moment(said: object, what: str) -> float:
    """Return a time: an ISO text, or milliseconds since 1970."""
    try:
        if isinstance(said, int | float) and not isinstance(said, bool):
            return float(said) / 1000
        when = datetime.fromisoformat(str(said).replace("UTC", "+00:00"))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise CredentialsError(f"{what}: {str(said)[:40]!r} is not a time") from None


def as_object(data: bytes, what: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises CredentialsError, naming *what* it is of."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise CredentialsError(f"{what}: the answer is not a JSON object", passes=True)
    return cast("Mapping[str, Any]", said)


# ---- HTTP -----------------------------------------------------------------------------------


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would carry a token to where it points."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage) -> None:
        """Follow nothing; an answer that is no success is then an error."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener(*, local: bool) -> OpenerDirector:
    return build_opener(_NoRedirects(), *([ProxyHandler({})] if local else []))


def fetched(
    url: str,
    headers: Mapping[str, str],
    what: str,
    body: bytes | None = None,
    *,
    method: str | None = None,
    local: bool = False,
) -> bytes:
    """Return what a server answers; a *local* one is asked without a proxy and soon. Raises CredentialsError."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise CredentialsError(f"{what}: expected a URL of HTTP")
    place = f"{urlsplit(url).scheme}://{urlsplit(url).netloc.rpartition('@')[2]}"
    request = Request(url, body, dict(headers), method=method)  # noqa: S310 (the scheme is checked above)
    try:
        with _opener(local=local).open(request, timeout=_METADATA_S if local else _HTTP_S) as answer:
            return cast("bytes", answer.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            code = _code_of(error)
        passes = error.code >= 500 or error.code == 429  # noqa: PLR2004 (HTTP's own numbers)
        raise CredentialsError(f"{what}: {place} answered {error.code}{code}", passes=passes) from None
    except (OSError, HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        raise CredentialsError(f"{what}: {place} cannot be reached: {cause}", passes=True) from None


def _code_of(error: HTTPError) -> str:
    """Return the service's word for an error; its sentence may repeat what was sent."""
    try:
        text = error.read(_MOST_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
    found = re.search(r"<Code>(\w{1,60})</Code>", text) or re.search(
        r'"(?:code|__type|error)"\s*:\s*"([\w#.]{1,60})"', text
    )
    return f" ({found[1]})" if found else ""
