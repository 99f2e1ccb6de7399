"""Credentials of a login with ``aws sso login``, which is renewed by its refresh token. Blocks.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-sso-credentials.html
https://docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import time
from typing import Any, cast
from urllib.parse import urlencode

from pluggent_provider_http.aws.answers import CredentialsError, as_object, fetched, made, moment
from pluggent_provider_http.aws.profiles import section
from pluggent_provider_http.aws.sigv4 import Credentials

_EARLY_S = 900.0
"""So long before its end a login is renewed, as Amazon's own tools do."""
_LATE_S = 30.0
_LONGEST_S = 604_800
_log = logging.getLogger("pluggent.provider_http.aws")


def signed_on(name: str, fields: Mapping[str, str], environ: Mapping[str, str]) -> Credentials:
    """Return the credentials of the profile *name*, whose *fields* name a login.

    Raises CredentialsError, which says how to log in.
    """
    session = fields.get("sso_session")
    shared = section(f"sso-session {session}", environ) if session else {}
    wanted = {**shared, **fields}
    missing = [key for key in ("sso_account_id", "sso_role_name", "sso_region") if not wanted.get(key)]
    if missing:
        raise CredentialsError(f"profile {name!r} has no {', '.join(missing)}")
    key = hashlib.sha1((session or fields["sso_start_url"]).encode(), usedforsecurity=False).hexdigest()
    file = Path("~/.aws/sso/cache").expanduser() / f"{key}.json"
    token = _access_token(name, file, wanted["sso_region"], environ)
    portal = environ.get("AWS_ENDPOINT_URL_SSO") or f"https://portal.sso.{wanted['sso_region']}.amazonaws.com"
    asked = urlencode({"role_name": wanted["sso_role_name"], "account_id": wanted["sso_account_id"]})
    what = f"single sign-on of profile {name!r}"
    url = f"{portal.rstrip('/')}/federation/credentials?{asked}"
    answer = as_object(fetched(url, {"x-amz-sso_bearer_token": token}, what), what)
    said = answer.get("roleCredentials")
    found: Mapping[str, Any] = cast("Mapping[str, Any]", said) if isinstance(said, dict) else {}
    return made(found, "accessKeyId", "secretAccessKey", "sessionToken", "expiration", what)


def _access_token(name: str, file: Path, region: str, environ: Mapping[str, str]) -> str:
    """Return the token of the login in *file*, which is renewed before its end if it can be."""
    log_in = f"run: aws sso login --profile {name}"
    try:
        login = as_object(file.read_bytes(), str(file))
    except OSError:
        raise CredentialsError(f"profile {name!r}: there is no login; {log_in}") from None
    token, ends = login.get("accessToken"), moment(login.get("expiresAt"), str(file))
    left_s = ends - time() if isinstance(token, str) else 0.0
    refusal = ""
    if left_s < _EARLY_S and _renewable(login):
        try:
            return _renewed(login, file, region, environ)
        except CredentialsError as error:
            _log.debug("the login of profile %r was not renewed: %s", name, error)
            if error.passes and left_s < _LATE_S:
                raise
            refusal = f", and its renewal was refused ({error})"
    if left_s < _LATE_S:
        raise CredentialsError(f"profile {name!r}: the login has expired{refusal}; {log_in}")
    return str(token)


def _renewable(login: Mapping[str, Any]) -> bool:
    """Say whether there is a refresh token, and the registration of a client that may use it."""
    if not all(isinstance(login.get(key), str) and login[key] for key in ("refreshToken", "clientId", "clientSecret")):
        return False
    ends = login.get("registrationExpiresAt")
    return ends is None or moment(ends, "registrationExpiresAt") > time()


def _renewed(login: Mapping[str, Any], file: Path, region: str, environ: Mapping[str, str]) -> str:
    """Return a new token, and put it in the place of the old one."""
    service = environ.get("AWS_ENDPOINT_URL_SSO_OIDC") or f"https://oidc.{region}.amazonaws.com"
    asked = {"grantType": "refresh_token", **{key: login[key] for key in ("clientId", "clientSecret", "refreshToken")}}
    what = "the renewal of the login"
    body = json.dumps(asked).encode()
    answer = as_object(fetched(f"{service.rstrip('/')}/token", {"content-type": "application/json"}, what, body), what)
    token, lasts_s = answer.get("accessToken"), answer.get("expiresIn")
    if not isinstance(token, str) or not token or type(lasts_s) is not int or not 0 < lasts_s <= _LONGEST_S:
        raise CredentialsError(f"{what}: the answer holds no token", passes=True)
    refresh = answer.get("refreshToken")
    ends = datetime.fromtimestamp(time() + lasts_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {**login, "accessToken": token, "expiresAt": ends}
    _keep(file, kept | ({"refreshToken": refresh} if isinstance(refresh, str) and refresh else {}))
    return token


def _keep(file: Path, login: Mapping[str, Any]) -> None:
    """Write *login* for the next program; where it cannot be written, its token serves once."""
    try:
        with NamedTemporaryFile("w", dir=file.parent, prefix=file.name, delete=False, encoding="utf-8") as opened:
            try:
                json.dump(dict(login), opened)
                opened.flush()
                os.fsync(opened.fileno())
                Path(opened.name).replace(file)  # made with mode 0600
            except BaseException:
                with suppress(OSError):
                    Path(opened.name).unlink()
                raise
    except OSError as error:
        _log.warning("the renewed login cannot be written to %s: %s", file, error)
