"""Where credentials come from: every place, its order, and what is wrong with it; against real servers on loopback."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from pluggent_provider_http.aws.answers import CredentialsError
from pluggent_provider_http.aws.credential_sources import find
from pluggent_provider_http.aws.sigv4 import Credentials
from pluggent_testing.wires.http_server import LoopbackServer, Received, Steps, answer

EXPIRES = "2040-01-02T03:04:05Z"
EXPIRES_AT = 2_209_086_245.0
SAID = {"AccessKeyId": "AK", "SecretAccessKey": "SK", "Token": "T", "Expiration": EXPIRES, "Code": "Success"}
FOUND = Credentials("AK", "SK", "T", EXPIRES_AT)
NOWHERE = {"AWS_EC2_METADATA_DISABLED": "true"}
KEYS = "aws_access_key_id = AK\naws_secret_access_key = SK\n"


def nothing(asked: Received) -> Steps:
    return answer(b"", 404)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(nothing) as running:
        yield running


@pytest.fixture
def home(clean_home: Path) -> Path:
    (clean_home / ".aws").mkdir()
    return clean_home


def write(home: Path, *, config: str = "", credentials: str = "") -> None:
    (home / ".aws" / "config").write_text(config)
    (home / ".aws" / "credentials").write_text(credentials)


def as_json(value: Any) -> Steps:
    return answer(json.dumps(value).encode())


def as_xml(action: str) -> Steps:
    fields = {"AccessKeyId": "AK", "SecretAccessKey": "SK", "SessionToken": "T", "Expiration": EXPIRES}
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return answer(f"<{action}Response><Credentials>{inner}</Credentials></{action}Response>".encode())


def failure(given: str = "", **environ: str) -> CredentialsError:
    with pytest.raises(CredentialsError) as caught:
        find(given, "eu-west-1", {**NOWHERE, **environ})
    return caught.value


# ---- the environment, and nothing ---------------------------------------------------------------


def test_the_environment_comes_first(home):
    write(home, credentials=f"[default]\n{KEYS}")
    environ = {"AWS_ACCESS_KEY_ID": "EK", "AWS_SECRET_ACCESS_KEY": "ES", "AWS_SESSION_TOKEN": "ET"}

    assert find("", "eu-west-1", environ) == Credentials("EK", "ES", "ET")


def test_a_profile_that_is_given_comes_before_the_environment(home):
    write(home, credentials=f"[mine]\n{KEYS}")

    assert find("mine", "", {"AWS_ACCESS_KEY_ID": "EK", "AWS_SECRET_ACCESS_KEY": "ES"}) == Credentials("AK", "SK")


def test_where_there_is_nothing_it_says_what_to_do():
    error = failure()

    assert "AWS_ACCESS_KEY_ID" in str(error)
    assert "aws configure" in str(error)
    assert not error.passes


# ---- profiles -------------------------------------------------------------------------------------


def test_keys_stand_in_either_file_and_those_of_credentials_count(home):
    write(home, config="[profile a]\naws_access_key_id = X\naws_secret_access_key = Y\n", credentials=f"[a]\n{KEYS}")

    assert find("a", "", NOWHERE) == Credentials("AK", "SK")
    write(home, config=f"[default]\n{KEYS}aws_session_token = T\ns3 =\n  max_concurrent_requests = 20\n")
    assert find("", "", NOWHERE) == Credentials("AK", "SK", "T")


def test_other_files_can_be_named(tmp_path):
    (tmp_path / "c").write_text(f"[default]\n{KEYS}")

    assert find("", "", {**NOWHERE, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "c")}) == Credentials("AK", "SK")


def test_the_environment_names_the_profile(home):
    write(home, credentials=f"[b]\n{KEYS}")

    assert find("", "", {**NOWHERE, "AWS_PROFILE": "b"}) == Credentials("AK", "SK")


def test_a_program_gives_credentials(home):
    said = {"Version": 1, "AccessKeyId": "AK", "SecretAccessKey": "SK", "SessionToken": "T", "Expiration": EXPIRES}
    program = home / "give me.py"
    program.write_text(f"print({json.dumps(said)!r})")
    write(home, config=f'[default]\ncredential_process = {sys.executable} "{program}"\n')

    assert find("", "", NOWHERE) == FOUND


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("print('oops')", "not a JSON object"),
        ("print('{\"Version\": 2}')", "Version 2, expected 1"),
        ("print('{\"Version\": 1}')", "holds no credentials"),
    ],
)
def test_a_program_that_fails_is_named(home, program, words):
    (home / "p.py").write_text(program)
    write(home, config=f"[default]\ncredential_process = {sys.executable} {home / 'p.py'}\n")

    assert "credential_process of profile 'default'" in str(failure())
    assert words in str(failure())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("[profile a]\nregion = x\n", "profile 'a' in ~/.aws has no credentials"),
        ("[profile a]\naws_access_key_id = AK\n", "not both"),
        ("[profile a]\nrole_arn = r\n", "neither source_profile nor credential_source"),
        ("[profile a]\nrole_arn = r\nsource_profile = b\n[profile b]\nrole_arn = r\nsource_profile = a\n", "a → b → a"),
        ("[profile a]\nrole_arn = r\nsource_profile = b\n", "'b' has no credentials"),
        ("[profile a]\nrole_arn = r\nsource_profile = b\nmfa_serial = m\n", "mfa_serial"),
        ("[profile a]\nsso_session = s\n", "has no sso_account_id, sso_role_name, sso_region"),
        ("[profile a]\ncredential_process = /no/such/program\n", "cannot be started"),
        ("no section\n", "config cannot be read"),
    ],
)
def test_a_profile_that_cannot_serve_says_why(home, config, words):
    write(home, config=config)

    assert words in str(failure("a"))


def test_a_file_that_cannot_be_read_shows_nothing_of_it(home):
    write(home, credentials="SECRET without a section\n")

    assert "SECRET" not in str(failure("a"))


# ---- roles ----------------------------------------------------------------------------------------


def test_a_role_is_assumed_with_the_credentials_of_another_profile(home, server):
    role = "role_arn = arn:r\nsource_profile = base\nexternal_id = e\nduration_seconds = 900\nrole_session_name = me\n"
    write(home, config=f"[profile a]\n{role}", credentials=f"[base]\n{KEYS}")
    server.will(as_xml("AssumeRole"))

    assert find("a", "eu-west-1", {**NOWHERE, "AWS_ENDPOINT_URL_STS": server.origin}) == FOUND
    (asked,) = server.requests
    assert parse_qs(asked.body.decode()) == {
        "Action": ["AssumeRole"], "Version": ["2011-06-15"], "RoleArn": ["arn:r"], "RoleSessionName": ["me"],
        "ExternalId": ["e"], "DurationSeconds": ["900"],
    }  # fmt: skip
    assert "/eu-west-1/sts/aws4_request" in asked.headers["authorization"]


def test_a_role_may_have_its_keys_beside_it_or_in_the_environment(home, server):
    write(home, config=f"[profile a]\n{KEYS}role_arn = r\nsource_profile = a\n")
    server.will(as_xml("AssumeRole"), as_xml("AssumeRole"))
    environ = {**NOWHERE, "AWS_ENDPOINT_URL_STS": server.origin}

    assert find("a", "", environ) == FOUND
    write(home, config="[profile a]\nrole_arn = r\ncredential_source = Environment\n")
    assert find("a", "", {**environ, "AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "S"}) == FOUND
    assert "Credential=E/" in server.requests[-1].headers["authorization"]


def test_a_web_identity_becomes_a_role(tmp_path, home, server):
    (tmp_path / "token").write_text("web-token\n")
    environ = {**NOWHERE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": "arn:r",
               "AWS_ENDPOINT_URL_STS": server.origin}  # fmt: skip
    server.will(as_xml("AssumeRoleWithWebIdentity"), as_xml("AssumeRoleWithWebIdentity"))

    assert find("", "", environ) == FOUND
    assert parse_qs(server.requests[0].body.decode())["WebIdentityToken"] == ["web-token"]
    assert "authorization" not in server.requests[0].headers
    write(home, config=f"[profile a]\nrole_arn = arn:r\nweb_identity_token_file = {tmp_path / 'token'}\n")
    assert find("a", "", {**NOWHERE, "AWS_ENDPOINT_URL_STS": server.origin}) == FOUND


@pytest.mark.parametrize(
    ("status", "body", "words", "passes"),
    [
        (403, b"<Error><Code>AccessDenied</Code><Message>SK</Message></Error>", "answered 403 (AccessDenied)", False),
        (500, b"", "answered 500", True),
        (200, b"<html>", "holds no credentials", True),
        (302, b"", "answered 302", False),
    ],
)
def test_a_role_that_is_refused_is_named(home, server, status, body, words, passes):
    write(home, config=f"[profile a]\n{KEYS}role_arn = arn:r\nsource_profile = a\n")
    server.will(answer(body, status, {"location": "http://127.0.0.1:1/"}))

    error = failure("a", AWS_ENDPOINT_URL_STS=server.origin)

    assert "the role arn:r" in str(error)
    assert words in str(error)
    assert "SK" not in str(error)
    assert error.passes is passes


def test_a_server_that_is_not_there_may_come_back(home, server):
    write(home, config=f"[profile a]\n{KEYS}role_arn = arn:r\nsource_profile = a\n")
    server.stop()

    error = failure("a", AWS_ENDPOINT_URL_STS=server.origin)

    assert "cannot be reached" in str(error)
    assert error.passes


# ---- single sign-on -------------------------------------------------------------------------------


def log_in(home: Path, name: str, expires: str = EXPIRES, **more: str) -> Path:
    folder = home / ".aws" / "sso" / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()}.json"
    file.write_text(json.dumps({"accessToken": "sso-token", "expiresAt": expires, **more}))
    return file


SESSION = (
    "[profile a]\nsso_session = s\nsso_account_id = 1\nsso_role_name = R\n[sso-session s]\nsso_region = eu-west-1\n"
    "sso_start_url = https://x\n"
)
OLD = "[profile a]\nsso_start_url = https://x\nsso_account_id = 1\nsso_role_name = R\nsso_region = eu-west-1\n"


@pytest.mark.parametrize(("config", "name"), [(SESSION, "s"), (OLD, "https://x")], ids=["session", "start URL"])
def test_a_login_gives_credentials(home, server, config, name):
    write(home, config=config)
    log_in(home, name)
    said = {"accessKeyId": "AK", "secretAccessKey": "SK", "sessionToken": "T", "expiration": EXPIRES_AT * 1000}
    server.will(as_json({"roleCredentials": said}))

    assert find("a", "", {**NOWHERE, "AWS_ENDPOINT_URL_SSO": server.origin}) == FOUND
    (asked,) = server.requests
    assert asked.path == "/federation/credentials?role_name=R&account_id=1"
    assert asked.headers["x-amz-sso_bearer_token"] == "sso-token"


def test_a_login_that_is_missing_or_over_says_how_to_log_in(home):
    write(home, config=SESSION)
    assert "run: aws sso login --profile a" in str(failure("a"))

    log_in(home, "s", "2020-01-01T00:00:00UTC")
    assert "the login has expired; run: aws sso login --profile a" in str(failure("a"))


RENEWABLE = {"refreshToken": "refresh-1", "clientId": "id", "clientSecret": "client-secret-7f3a",
             "registrationExpiresAt": EXPIRES}  # fmt: skip
ROLE = {"accessKeyId": "AK", "secretAccessKey": "SK", "sessionToken": "T", "expiration": EXPIRES_AT * 1000}


def test_a_login_that_is_over_is_renewed_by_its_refresh_token(home, server):
    write(home, config=SESSION)
    file = log_in(home, "s", "2020-01-01T00:00:00Z", **RENEWABLE)
    server.will(as_json({"accessToken": "sso-2", "expiresIn": 3600, "refreshToken": "refresh-2"}),
                *[as_json({"roleCredentials": ROLE})] * 2)  # fmt: skip
    there = {**NOWHERE, "AWS_ENDPOINT_URL_SSO": server.origin, "AWS_ENDPOINT_URL_SSO_OIDC": server.origin}

    assert (find("a", "", there), find("a", "", there)) == (FOUND, FOUND)
    renewal, *asked = server.requests
    assert (renewal.path, renewal.json) == (
        "/token",
        {"grantType": "refresh_token", "clientId": "id", "clientSecret": RENEWABLE["clientSecret"],
         "refreshToken": "refresh-1"},
    )  # fmt: skip
    assert [one.headers["x-amz-sso_bearer_token"] for one in asked] == ["sso-2", "sso-2"]
    kept = json.loads(file.read_text())
    assert (kept["accessToken"], kept["refreshToken"], kept["clientId"]) == ("sso-2", "refresh-2", "id")
    assert (file.stat().st_mode & 0o777, list(file.parent.iterdir())) == (0o600, [file])


@pytest.mark.parametrize(
    ("said", "words", "passes"),
    [
        (answer(b'{"error": "invalid_grant"}', 400), "its renewal was refused", False),
        (answer(b"", 503), "answered 503", True),
        (as_json({"accessToken": "sso-2", "expiresIn": -1}), "holds no token", True),
        (answer(b"<html>"), "not a JSON object", True),
    ],
)
def test_a_renewal_that_fails_says_why_and_shows_nothing(home, server, said, words, passes):
    write(home, config=SESSION)
    log_in(home, "s", "2020-01-01T00:00:00Z", **RENEWABLE)
    server.will(said)

    error = failure("a", AWS_ENDPOINT_URL_SSO_OIDC=server.origin)

    assert words in str(error)
    assert error.passes == passes
    assert passes or "run: aws sso login --profile a" in str(error)
    assert not [secret for secret in RENEWABLE.values() if len(secret) > 2 and secret in str(error)]


def test_a_client_whose_registration_is_over_is_not_asked(home, server):
    write(home, config=SESSION)
    log_in(home, "s", "2020-01-01T00:00:00Z", **{**RENEWABLE, "registrationExpiresAt": "2020-01-01T00:00:00Z"})

    assert "run: aws sso login --profile a" in str(failure("a", AWS_ENDPOINT_URL_SSO_OIDC=server.origin))
    assert server.requests == []


# ---- machines -------------------------------------------------------------------------------------


def test_a_container_is_asked_with_its_token(tmp_path, home, server):
    (tmp_path / "token").write_text("inside\n")
    environ = {**NOWHERE, "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.origin}/creds",
               "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}  # fmt: skip
    server.will(as_json(SAID))

    assert find("", "", environ) == FOUND
    assert (server.requests[0].path, server.requests[0].headers["authorization"]) == ("/creds", "inside")


def test_a_container_elsewhere_is_not_asked_in_the_clear(home):
    error = failure(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.org/creds")

    assert "neither https nor on this machine: http://example.org" in str(error)


def test_an_instance_is_asked_for_a_token_its_role_and_its_credentials(home, server):
    server.will(answer(b"imds-token"), answer(b"my role\n"), as_json(SAID))

    assert find("", "", {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.origin}) == FOUND
    assert [(asked.method, asked.path) for asked in server.requests] == [
        ("PUT", "/latest/api/token"),
        ("GET", "/latest/meta-data/iam/security-credentials/"),
        ("GET", "/latest/meta-data/iam/security-credentials/my%20role"),
    ]
    assert server.requests[1].headers["x-aws-ec2-metadata-token"] == "imds-token"


def test_an_instance_without_a_role_has_no_credentials(home, server):
    server.will(answer(b"imds-token"))

    with pytest.raises(CredentialsError, match="found no AWS credentials"):
        find("", "", {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.origin})


def test_metadata_are_asked_without_a_proxy(home, server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.will(as_json(SAID))

    assert find("", "", {**NOWHERE, "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.origin}) == FOUND
