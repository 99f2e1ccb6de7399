"""Where credentials come from, in the order of Amazon's own tools. Blocks: run it in a thread.

https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html

The environment; a web identity; a profile (a role, single sign-on, keys, a program); a container;
the instance. What is configured and fails is an error, and nothing behind it is tried.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from time import time
from urllib.parse import quote, urlencode, urlsplit

import attrs

from pluggent_provider_http.aws.answers import CredentialsError, as_object, fetched, made
from pluggent_provider_http.aws.profiles import ProfileError, profile, profile_name
from pluggent_provider_http.aws.sigv4 import Credentials, Scope, signed
from pluggent_provider_http.aws.single_sign_on import signed_on

_PROGRAM_S = 60.0
_MOST_ROLES = 5
_METADATA = "http://169.254.169.254"
_CONTAINER = "http://169.254.170.2"
_CONTAINER_HOSTS = ("169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "fd00:ec2::23", "localhost")


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
            return signed_on(name, fields, self.environ)
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
        said = as_object(done.stdout, what)
        if said.get("Version") != 1:
            raise CredentialsError(f"{what} answered with Version {said.get('Version')!r}, expected 1")
        return made(said, "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration", what)

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
        text = fetched(url, headers, what, body).decode("utf-8", "replace")
        tags = ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        found = {tag: match[1] for tag in tags if (match := re.search(f"<{tag}>([^<]*)</{tag}>", text))}
        return made({tag: html.unescape(value) for tag, value in found.items()}, *tags, what)

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
        answer = as_object(fetched(url, {"authorization": token} if token else {}, what, local=True), what)
        return made(answer, "AccessKeyId", "SecretAccessKey", "Token", "Expiration", what)

    def _instance(self) -> Credentials | None:
        """Return the credentials of the machine's role; None if the machine is none of Amazon's, or has no role."""
        if self.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            return None
        base = (self.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _METADATA).rstrip("/")
        what = "the instance's credentials"
        lifetime = {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}
        try:
            token = fetched(f"{base}/latest/api/token", lifetime, what, b"", method="PUT", local=True)
            headers = {"x-aws-ec2-metadata-token": token.decode("latin-1").strip()}
            roles = f"{base}/latest/meta-data/iam/security-credentials/"
            role = fetched(roles, headers, what, local=True).decode("utf-8", "replace").split("\n")[0].strip()
        except CredentialsError:
            return None
        if not role:
            return None
        answer = as_object(fetched(roles + quote(role, safe=""), headers, what, local=True), what)
        return made(answer, "AccessKeyId", "SecretAccessKey", "Token", "Expiration", what)


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
