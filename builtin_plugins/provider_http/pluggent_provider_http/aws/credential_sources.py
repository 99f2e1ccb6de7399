"""Where credentials come from, in the order of Amazon's own tools. Blocks: run it in a thread.

https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html

The environment; a web identity; a profile (a role, single sign-on, keys, a program); a container;
the instance. What is configured and fails is an error, and nothing behind it is tried.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from time import time
from typing import IO, Any, cast
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

import attrs

from pluggent_provider_http.aws.profiles import ProfileError, profile, profile_name, section
from pluggent_provider_http.aws.sigv4 import Credentials, Scope, signed

_HTTP_S = 10.0
_METADATA_S = 1.0
_PROGRAM_S = 60.0
_MOST_BYTES = 65_536
_MOST_ROLES = 5
_METADATA = "http://169.254.169.254"
_CONTAINER = "http://169.254.170.2"
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "fd00:ec2::23", "localhost")


class CredentialsError(Exception):
    """There are no credentials; the message says why and what to do. ``passes``: another try may succeed."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


def from_environment(environ: Mapping[str, str] = os.environ) -> Credentials | None:
    """Return what AWS_ACCESS_KEY_ID and its companions hold, None if they hold nothing."""
    access_key, secret_key = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        return None
    return Credentials(access_key, secret_key, environ.get("AWS_SESSION_TOKEN") or "")


def find(given: str, region: str, environ: Mapping[str, str] = os.environ) -> Credentials:
    """Return the credentials of the profile *given*, or the first that there are. Raises CredentialsError.

    *region* is where roles are asked for.
    """
    search = _Search(region, environ)
    try:
        found = search.profile(given) if given else search.all()
    except ProfileError as error:
        raise CredentialsError(str(error)) from error
    if found is not None:
        return found
    if given:
        raise CredentialsError(f"profile {given!r} in ~/.aws has no credentials")
    raise CredentialsError(
        "found no AWS credentials: neither in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, nor in profile "
        f"{profile_name('', environ)!r} in ~/.aws, nor of a web identity, a container or an instance. Set them, run "
        "aws configure, or set an API key"
    )


@attrs.frozen
class _Search:
    region: str
    environ: Mapping[str, str]

    def all(self) -> Credentials | None:
        sources: tuple[Callable[[], Credentials | None], ...] = (
            lambda: from_environment(self.environ),
            self._web_identity,
            lambda: self.profile(profile_name("", self.environ)),
            self._container,
            self._instance,
        )
        return next((found for source in sources if (found := source()) is not None), None)

    # ---- profiles -----------------------------------------------------------------------------

    def profile(self, name: str, seen: tuple[str, ...] = ()) -> Credentials | None:
        """Return the credentials of one profile; None if it has none."""
        if name in seen or len(seen) > _MOST_ROLES:
            raise CredentialsError(f"profiles in ~/.aws refer to each other: {' → '.join((*seen, name))}")
        fields = profile(name, self.environ)
        if "role_arn" in fields:
            return self._role(name, fields, seen)
        if "sso_session" in fields or "sso_start_url" in fields:
            return self._single_sign_on(name, fields)
        if "aws_access_key_id" in fields:
            return _static(name, fields)
        if "credential_process" in fields:
            return self._program(name, fields["credential_process"])
        return None

    def _role(self, name: str, fields: Mapping[str, str], seen: tuple[str, ...]) -> Credentials:
        session = fields.get("role_session_name", "pluggent")
        if "web_identity_token_file" in fields:
            return self._identity(fields["role_arn"], fields["web_identity_token_file"], session)
        if "mfa_serial" in fields:
            raise CredentialsError(
                f"profile {name!r} wants a code of a device (mfa_serial), which is not asked for here: take a session "
                "with aws sts get-session-token, or credential_process"
            )
        source = fields.get("source_profile")
        if source is not None:
            # A profile that is its own source has the keys beside the role.
            by = _static(name, fields) if source == name else self.profile(source, (*seen, name))
        else:
            by = self._named_source(name, fields.get("credential_source", ""))
        if by is None:
            raise CredentialsError(
                f"profile {name!r}: {source or fields.get('credential_source')!r} has no credentials"
            )
        asked = {"RoleArn": fields["role_arn"], "RoleSessionName": session}
        asked |= {"ExternalId": fields["external_id"]} if "external_id" in fields else {}
        asked |= {"DurationSeconds": fields["duration_seconds"]} if "duration_seconds" in fields else {}
        return self._assumed("AssumeRole", asked, by, fields.get("region") or self.region)

    def _named_source(self, name: str, source: str) -> Credentials | None:
        match source:
            case "Environment":
                return from_environment(self.environ)
            case "Ec2InstanceMetadata":
                return self._instance()
            case "EcsContainer":
                return self._container()
            case _:
                raise CredentialsError(
                    f"profile {name!r} has a role_arn and neither source_profile nor credential_source"
                )

    def _program(self, name: str, command: str) -> Credentials:
        what = f"credential_process of profile {name!r}"
        try:
            words = shlex.split(command)
            done = subprocess.run(  # noqa: S603 (the user's own settings name it)
                words, capture_output=True, timeout=_PROGRAM_S, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            raise CredentialsError(f"{what} has not answered within {_PROGRAM_S:g} s", passes=True) from None
        except (OSError, ValueError) as error:
            raise CredentialsError(f"{what} cannot be started: {type(error).__name__}") from None
        if done.returncode:
            raise CredentialsError(f"{what} failed with exit code {done.returncode}")
        said = _object(done.stdout, what)
        if said.get("Version") != 1:
            raise CredentialsError(f"{what} answered with Version {said.get('Version')!r}, expected 1")
        return _made(said, "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration", what)

    def _single_sign_on(self, name: str, fields: Mapping[str, str]) -> Credentials:
        log_in = f"run: aws sso login --profile {name}"
        session = fields.get("sso_session")
        shared = section(f"sso-session {session}", self.environ) if session else {}
        wanted = {**shared, **fields}
        missing = [key for key in ("sso_account_id", "sso_role_name", "sso_region") if not wanted.get(key)]
        if missing:
            raise CredentialsError(f"profile {name!r} has no {', '.join(missing)}")
        key = hashlib.sha1((session or fields["sso_start_url"]).encode(), usedforsecurity=False).hexdigest()
        file = Path("~/.aws/sso/cache").expanduser() / f"{key}.json"
        try:
            token = _object(file.read_bytes(), str(file))
        except OSError:
            raise CredentialsError(f"profile {name!r}: there is no login; {log_in}") from None
        if _moment(token.get("expiresAt"), str(file)) <= time() or not isinstance(token.get("accessToken"), str):
            raise CredentialsError(f"profile {name!r}: the login has expired; {log_in}")
        portal = self.environ.get("AWS_ENDPOINT_URL_SSO") or f"https://portal.sso.{wanted['sso_region']}.amazonaws.com"
        asked = urlencode({"role_name": wanted["sso_role_name"], "account_id": wanted["sso_account_id"]})
        what = f"single sign-on of profile {name!r}"
        url = f"{portal.rstrip('/')}/federation/credentials?{asked}"
        answer = _object(_fetched(url, {"x-amz-sso_bearer_token": token["accessToken"]}, what), what)
        said = answer.get("roleCredentials")
        found: Mapping[str, Any] = cast("Mapping[str, Any]", said) if isinstance(said, dict) else {}
        return _made(found, "accessKeyId", "secretAccessKey", "sessionToken", "expiration", what)

    # ---- roles --------------------------------------------------------------------------------

    def _web_identity(self) -> Credentials | None:
        file, role = self.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"), self.environ.get("AWS_ROLE_ARN")
        if not file or not role:
            return None
        return self._identity(role, file, self.environ.get("AWS_ROLE_SESSION_NAME") or "pluggent")

    def _identity(self, role: str, file: str, session: str) -> Credentials:
        try:
            token = Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(f"the web identity token {file} cannot be read ({type(error).__name__})") from None
        asked = {"RoleArn": role, "RoleSessionName": session, "WebIdentityToken": token}
        return self._assumed("AssumeRoleWithWebIdentity", asked, None, self.region)

    def _assumed(self, action: str, asked: Mapping[str, str], by: Credentials | None, region: str) -> Credentials:
        region = region or "us-east-1"
        url = (self.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com").rstrip("/") + "/"
        body = urlencode({"Action": action, "Version": "2011-06-15", **asked}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
        if by is not None:
            headers |= signed("POST", url, headers, body, by, Scope(region, "sts"), time())
        what = f"the role {asked['RoleArn']}"
        text = _fetched(url, headers, what, body).decode("utf-8", "replace")
        tags = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        found = {tag: match[1] for tag in tags if (match := re.search(f"<{tag}>([^<]*)</{tag}>", text))}
        return _made({tag: html.unescape(value) for tag, value in found.items()}, *tags, what)

    # ---- machines -------------------------------------------------------------------------------

    def _container(self) -> Credentials | None:
        relative = self.environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = _CONTAINER + relative if relative else self.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme != "https" and not _is_local(parts.hostname or ""):
            raise CredentialsError(
                f"AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor on this machine: {parts.scheme}://{parts.hostname}"
            )
        token = self.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN") or ""
        if file := self.environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            try:
                token = Path(file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CredentialsError(f"{file} cannot be read ({type(error).__name__})") from None
        what = "the container's credentials"
        answer = _object(_fetched(url, {"authorization": token} if token else {}, what, local=True), what)
        return _made(answer, "AccessKeyId", "SecretAccessKey", "Token", "Expiration", what)

    def _instance(self) -> Credentials | None:
        """Return the credentials of the machine's role; None if the machine is none of Amazon's, or has no role."""
        if self.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        base = (self.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA).rstrip("/")
        what = "the instance's credentials"
        lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
        try:
            token = _fetched(f"{base}/latest/api/token", lifetime, what, b"", method="PUT", local=True)
            headers = {"x-aws-ec2-metadata-token": token.decode("latin-1").strip()}
            roles = f"{base}/latest/meta-data/iam/security-credentials/"
            role = _fetched(roles, headers, what, local=True).decode("utf-8", "replace").split("\n")[0].strip()
        except CredentialsError:
            return None
        if not role:
            return None
        answer = _object(_fetched(roles + quote(role, safe=""), headers, what, local=True), what)
        return _made(answer, "AccessKeyId", "SecretAccessKey", "Token", "Expiration", what)


def _is_local(host: str) -> bool:
    try:
        return host in _CONTAINER_HOSTS or ip_address(host).is_loopback
    except ValueError:
        return False


# ---- values ---------------------------------------------------------------------------------


def _static(name: str, fields: Mapping[str, str]) -> Credentials:
    secret_key = fields.get("aws_secret_access_key")
    if not fields.get("aws_access_key_id") or not secret_key:
        raise CredentialsError(f"profile {name!r} has not both of aws_access_key_id and aws_secret_access_key")
    return Credentials(fields["aws_access_key_id"], secret_key, fields.get("aws_session_token", ""))


def _made(said: Mapping[str, Any], access: str, secret: str, token: str, expires: str, what: str) -> Credentials:
    access_key, secret_key, session = said.get(access), said.get(secret), said.get(token)
    if not isinstance(access_key, str) or not isinstance(secret_key, str) or not access_key or not secret_key:
        code = said.get("Code") or said.get("code") or ""
        raise CredentialsError(f"{what}: the answer holds no credentials {str(code)[:100]}".strip(), passes=True)
    moment = said.get(expires)
    expires_at = None if moment is None else _moment(moment, what)
    return Credentials(access_key, secret_key, session if isinstance(session, str) else "", expires_at)


def _moment(said: object, what: str) -> float:
    """Return a time: an ISO text, or milliseconds since 1970."""
    try:
        if isinstance(said, int | float) and not isinstance(said, bool):
            return float(said) / 1000
        when = datetime.fromisoformat(str(said).replace("UTC", "+00:00"))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise CredentialsError(f"{what}: {str(said)[:40]!r} is not a time") from None


def _object(data: bytes, what: str) -> Mapping[str, Any]:
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


def _fetched(
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
