"""Tokens of Google: got once, renewed early, off the event loop, and refused in words."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs

import attrs
import pytest
from google.oauth2 import credentials as user_credentials
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind, Secret
from pluggent_provider_http import google_credentials
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.google_credentials import GoogleTokens
from pluggent_provider_http.server_errors import Faults

FAULTS = Faults("vertex", "https://aiplatform.test")
ENDPOINT = Endpoint(base_url="https://aiplatform.test", first_byte_s=20.0, connect_s=5.0)


@attrs.define(slots=False)
class TokenService:
    """What stands for Google's token service: gives ``answers``, else a token with a number."""

    url: str = ""
    asked: list[dict[str, str]] = attrs.field(factory=list)
    threads: list[int] = attrs.field(factory=list)
    answers: list[tuple[int, dict[str, Any]]] = attrs.field(factory=list)
    expires_in: int = 3600
    clock_s: float = 0.0

    def answer(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.asked.append(form)
        self.threads.append(threading.get_ident())
        token = {"access_token": f"token-{len(self.asked)}-7f3a", "expires_in": self.expires_in, "token_type": "Bearer"}
        return self.answers.pop(0) if self.answers else (200, token)


@pytest.fixture
def service() -> Iterator[TokenService]:
    found = TokenService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, answer = found.answer({name: values[0] for name, values in parse_qs(body).items()})
            data = json.dumps(answer).encode()
            self.send_response_only(status)
            self.send_header("date", formatdate(time() + found.clock_s, usegmt=True))
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@cache
def private_key() -> str:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def account(service: TokenService, **more: Any) -> Secret:
    info = {"type": "service_account", "client_email": "a@b.test", "token_uri": service.url, "project_id": "p",
            "private_key": private_key(), "private_key_id": "k", **more}  # fmt: skip
    return Secret.of(json.dumps(info))


def user(**more: Any) -> dict[str, Any]:
    return {"type": "authorized_user", "client_id": "c", "client_secret": "client-secret-7f3a",
            "refresh_token": "refresh-token-7f3a", **more}  # fmt: skip


async def header_of(tokens: GoogleTokens) -> dict[str, str]:
    await tokens.renew(FAULTS)
    assert tokens.token is not None
    return tokens.token.headers


async def error_of(tokens: GoogleTokens) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await tokens.renew(FAULTS)
    return caught.value


async def test_a_service_account_gets_one_token_for_many_requests_in_a_thread(service: TokenService) -> None:
    tokens = GoogleTokens(account(service), ENDPOINT)

    found = await asyncio.gather(*(header_of(tokens) for _ in range(20)))

    assert found == [{"authorization": "Bearer token-1-7f3a"}] * 20
    assert len(service.asked) == 1
    assert service.threads[0] != threading.get_ident()
    assert "token-1" not in repr(tokens.token)


async def test_default_credentials_of_a_user_are_read_from_their_file(
    service: TokenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "adc.json").write_text(json.dumps(user(quota_project_id="pays-7")))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    monkeypatch.setattr(user_credentials, "_GOOGLE_OAUTH2_TOKEN_ENDPOINT", service.url)

    found = await header_of(GoogleTokens(None, ENDPOINT))

    assert found == {"authorization": "Bearer token-1-7f3a", "x-goog-user-project": "pays-7"}
    assert service.asked[0]["refresh_token"] == "refresh-token-7f3a"


async def test_a_token_is_renewed_before_it_expires(service: TokenService) -> None:
    tokens = GoogleTokens(account(service), ENDPOINT)
    service.expires_in = int(google_credentials.EARLY_S) - 10

    assert await header_of(tokens) != await header_of(tokens)
    assert len(service.asked) == 2


async def test_a_token_that_is_still_good_is_used_if_there_is_no_new_one(service: TokenService) -> None:
    tokens = GoogleTokens(account(service), ENDPOINT)
    service.expires_in = int(google_credentials.EARLY_S) - 10
    first = await header_of(tokens)
    service.answers = [(400, {"error": "invalid_grant", "error_description": "Account disabled."})]

    assert await header_of(tokens) == first


async def test_credentials_that_were_renewed_are_read_after_a_failure(service: TokenService, tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    file.write_text("{}")
    tokens = GoogleTokens(Secret(f"file:{file}"), ENDPOINT)
    assert (await error_of(tokens)).kind is Kind.AUTHENTICATION
    file.write_text(account(service).reveal())

    assert await header_of(tokens) == {"authorization": "Bearer token-1-7f3a"}


async def test_a_token_that_another_request_had_refused_is_worth_another_try(service: TokenService) -> None:
    tokens = GoogleTokens(account(service), ENDPOINT)
    await tokens.renew(FAULTS)
    tokens.token = None

    with pytest.raises(ProviderError) as caught:
        tokens.current(FAULTS)
    assert (caught.value.kind, caught.value.retryable) == (Kind.AUTHENTICATION, True)


async def test_a_proxy_that_is_none_is_an_error_without_its_password(
    service: TokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://user:secret-pass-7f3a@127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    error = await error_of(GoogleTokens(account(service), ENDPOINT))

    assert "names no proxy that can be used" in str(error)
    assert "secret-pass" not in str(error)


async def test_who_stops_waiting_does_not_stop_the_others(service: TokenService) -> None:
    tokens = GoogleTokens(account(service), ENDPOINT)
    impatient = asyncio.ensure_future(header_of(tokens))
    patient = asyncio.ensure_future(header_of(tokens))
    await asyncio.sleep(0)

    impatient.cancel()

    assert await patient == {"authorization": "Bearer token-1-7f3a"}
    assert len(service.asked) == 1


@pytest.mark.parametrize(("clock_s", "where"), [(-600, "10 minutes ahead"), (600, "10 minutes behind")])
async def test_a_clock_that_is_off_is_named(service: TokenService, clock_s: float, where: str) -> None:
    service.clock_s = clock_s
    words = "Invalid JWT: Token must be a short-lived token and in a reasonable timeframe."
    service.answers = [(400, {"error": "invalid_grant", "error_description": words})]

    error = await error_of(GoogleTokens(account(service), ENDPOINT))

    assert (error.kind, error.retryable) == (Kind.AUTHENTICATION, False)
    assert words in str(error)
    assert f"the clock of this machine is {where}: set it" in str(error)


async def test_a_clock_that_is_off_does_not_change_how_long_a_token_lives(service: TokenService) -> None:
    service.clock_s = 86_400

    tokens = GoogleTokens(account(service), ENDPOINT)
    assert await header_of(tokens) == await header_of(tokens)


def bad(change: Callable[[dict[str, Any]], Any]) -> Secret:
    return Secret.of(json.dumps(change(user())))


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (Secret("env:NO_SUCH_7F3A"), "NO_SUCH_7F3A"),
        (Secret.of("ya29.token"), "holds no JSON"),
        (bad(lambda info: [info]), "service_account, authorized_user, external_account"),
        (bad(lambda info: {**info, "type": "gdch"}), "service_account, authorized_user, external_account"),
        (bad(lambda info: {name: info[name] for name in ("type", "client_id")}), "refresh_token"),
        (bad(lambda info: {**info, "type": "service_account", "private_key": "secret-key-7f3a"}), "cannot be used"),
        (bad(lambda info: {**info, "type": "external_account"}), "cannot be used"),
    ],
)
async def test_credentials_that_are_none_are_refused_without_their_secrets(secret: Secret, words: str) -> None:
    error = await error_of(GoogleTokens(secret, ENDPOINT))

    assert error.kind is Kind.AUTHENTICATION
    assert words in str(error)
    assert not [hidden for hidden in ("ya29", "secret-7f3a", "token-7f3a", "key-7f3a") if hidden in str(error)]


async def test_no_default_credentials_at_all_are_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)

    error = await error_of(GoogleTokens(None, ENDPOINT))

    assert error.kind is Kind.AUTHENTICATION
    assert "gcloud auth application-default login" in str(error)


async def test_a_token_service_that_cannot_be_reached_is_worth_another_try(service: TokenService) -> None:
    nowhere = account(service, token_uri="http://127.0.0.1:1/token")

    error = await error_of(GoogleTokens(nowhere, ENDPOINT))

    assert (error.kind, error.retryable) == (Kind.UNAVAILABLE, True)


async def test_what_the_service_repeats_of_a_secret_is_not_shown(service: TokenService) -> None:
    words = f"bad key {private_key()}"
    service.answers = [(400, {"error": "invalid_grant", "error_description": words})]

    error = await error_of(GoogleTokens(account(service), ENDPOINT))

    assert "PRIVATE KEY" not in str(error)


async def test_no_token_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch, service: TokenService) -> None:
    tokens = GoogleTokens(account(service), attrs.evolve(ENDPOINT, first_byte_s=0.05))
    hold = threading.Event()
    monkeypatch.setattr(service, "answer", lambda form: (hold.wait(20), (500, form))[1])

    error = await error_of(tokens)
    hold.set()
    await tokens.close()

    assert error.kind in (Kind.TIMEOUT, Kind.UNAVAILABLE)
    assert error.retryable
