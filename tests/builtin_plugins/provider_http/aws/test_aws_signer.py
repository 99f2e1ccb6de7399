"""Credentials that are held: found once, renewed early, looked for again; and a clock that is corrected."""

from __future__ import annotations

import asyncio
import threading
from email.utils import formatdate

import pytest
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind
from pluggent_provider_http.aws.answers import CredentialsError
from pluggent_provider_http.aws.signer import Signer
from pluggent_provider_http.aws.sigv4 import Credentials, Scope
from pluggent_provider_http.server_errors import Faults

SCOPE = Scope("eu-west-1", "bedrock")
FAULTS = Faults("bedrock", "https://x")
NOW = 1_800_000_000.0


class World:
    """The outside of a signer: searches that are counted and held up, and a clock."""

    def __init__(self, *found: Credentials | CredentialsError | Exception) -> None:
        self.found = list(found)
        self.searches = 0
        self.now = NOW
        self.go = threading.Event()
        self.go.set()

    def search(self, profile: str, region: str) -> Credentials:
        self.searches += 1
        assert self.go.wait(20)
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def signer(self) -> Signer:
        return Signer(SCOPE, search=self.search, clock=lambda: self.now)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield
    join_searches()


def join_searches() -> None:
    """Wait for the threads that search; who waits for credentials goes on a moment before they end."""
    for thread in threading.enumerate():
        if thread.name == "pluggent-aws-credentials":
            thread.join(20)


def lasting(seconds: float, name: str = "AK") -> Credentials:
    return Credentials(name, "SK-12345678", "TOKEN-12345678", NOW + seconds)


def name_of(signer: Signer) -> str:
    """Return the access key that signs now."""
    authorization = signer.headers("POST", "https://x/", {}, b"")["authorization"]
    return authorization.partition("Credential=")[2].partition("/")[0]


async def searched(world: World, times: int) -> None:
    """Wait until so many searches have ended."""
    await asyncio.to_thread(join_searches)
    assert world.searches == times


async def test_credentials_are_found_once_and_held():
    world = World(lasting(3600))
    signer = world.signer()

    for _ in range(3):
        await signer.ready(FAULTS)

    assert (world.searches, name_of(signer)) == (1, "AK")
    assert signer.secrets == ("SK-12345678", "TOKEN-12345678")


async def test_many_who_wait_share_one_search():
    world = World(lasting(3600))
    world.go.clear()
    signer = world.signer()
    waiting = [asyncio.create_task(signer.ready(FAULTS)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    world.go.set()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert world.searches == 1
    assert waiting[0].cancelled()
    assert name_of(signer) == "AK"


async def test_they_are_renewed_before_they_expire_and_nobody_waits():
    world = World(lasting(3600), lasting(7200, "NEW"))
    signer = world.signer()
    await signer.ready(FAULTS)
    world.now += 3600 - 200
    world.go.clear()

    await signer.ready(FAULTS)
    assert name_of(signer) == "AK"
    world.go.set()
    await searched(world, 2)

    assert name_of(signer) == "NEW"


async def test_a_renewal_that_fails_is_no_matter_while_the_old_ones_serve():
    world = World(lasting(3600), CredentialsError("no"), CredentialsError("no"))
    signer = world.signer()
    await signer.ready(FAULTS)
    world.now += 3600 - 200

    for _ in range(3):
        await signer.ready(FAULTS)
        await searched(world, 2)

    assert world.searches == 2
    world.now += 180
    with pytest.raises(ProviderError, match="no"):
        await signer.ready(FAULTS)


async def test_those_that_have_expired_are_waited_for():
    world = World(lasting(3600), lasting(7200, "NEW"))
    signer = world.signer()
    await signer.ready(FAULTS)
    world.now += 3590

    await signer.ready(FAULTS)

    assert name_of(signer) == "NEW"


async def test_a_file_is_read_again_after_a_while():
    world = World(Credentials("AK", "SK"), Credentials("NEW", "SK"))
    signer = world.signer()
    await signer.ready(FAULTS)
    world.now += 301
    await signer.ready(FAULTS)

    assert name_of(signer) == "NEW"


async def test_keys_of_the_environment_are_seen_at_once(monkeypatch):
    world = World()
    signer = world.signer()
    for name in ("ONE", "TWO"):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", name)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
        await signer.ready(FAULTS)
        assert name_of(signer) == name

    assert world.searches == 0


@pytest.mark.parametrize(
    ("raised", "kind", "retryable"),
    [
        (CredentialsError("run: aws sso login"), Kind.AUTHENTICATION, False),
        (CredentialsError("answered 500", passes=True), Kind.UNAVAILABLE, True),
        (RuntimeError("SECRET"), Kind.AUTHENTICATION, False),
    ],
)
async def test_a_search_that_fails_is_an_error_of_its_kind(raised, kind, retryable):
    world = World(raised, lasting(3600))
    signer = world.signer()
    with pytest.raises(ProviderError) as caught:
        await signer.ready(FAULTS)

    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
    assert "SECRET" not in str(caught.value)
    await signer.ready(FAULTS)
    assert name_of(signer) == "AK"


# ---- refusals -----------------------------------------------------------------------------------


def refused(message: str = "Signature expired", kind: Kind = Kind.AUTHENTICATION, status: int = 403) -> ProviderError:
    return ProviderError(kind, message, provider="bedrock", status=status)


@pytest.mark.parametrize("off_s", [-600, 600])
async def test_a_clock_that_is_off_by_ten_minutes_is_corrected_by_the_servers(off_s):
    world = World(lasting(36000))
    signer = world.signer()
    await signer.ready(FAULTS)

    error = signer.explained(refused(), {"date": formatdate(NOW + off_s, usegmt=True)})

    assert error.retryable
    assert f"clock is 600 s {'behind' if off_s > 0 else 'ahead of'} the server's" in str(error)
    assert signer.headers("POST", "https://x/", {}, b"")["x-amz-date"] == {
        600: "20270115T081000Z", -600: "20270115T075000Z",
    }[off_s]  # fmt: skip


@pytest.mark.parametrize("date", [formatdate(NOW + 100, usegmt=True), "", "soon", "Mon, 99 Foo 2020 25:61:61 GMT"])
async def test_a_clock_that_is_right_is_left_alone(date):
    world = World(lasting(36000))
    signer = world.signer()
    await signer.ready(FAULTS)
    before = signer.headers("POST", "https://x/", {}, b"")

    assert not signer.explained(refused("no"), {"date": date}).retryable
    assert signer.headers("POST", "https://x/", {}, b"") == before


async def test_credentials_that_are_not_known_are_looked_for_again_without_another_try():
    world = World(lasting(3600), lasting(3600, "NEW"))
    signer = world.signer()
    await signer.ready(FAULTS)

    assert not signer.explained(refused("The security token included in the request is invalid."), {}).retryable
    await signer.ready(FAULTS)
    assert name_of(signer) == "NEW"


async def test_credentials_that_expired_in_between_are_looked_for_again():
    world = World(lasting(3600), lasting(3600, "NEW"))
    signer = world.signer()
    await signer.ready(FAULTS)

    error = signer.explained(refused("no"), {"x-amzn-errortype": "ExpiredTokenException"})

    assert error.retryable
    assert "new ones are looked for" in str(error)
    await signer.ready(FAULTS)
    assert name_of(signer) == "NEW"


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (refused("busy", Kind.UNAVAILABLE, 503), {"date": formatdate(NOW + 600)}),
        (refused("no access to the model"), {"x-amzn-errortype": "AccessDeniedException"}),
    ],
    ids=["busy", "not allowed"],
)
async def test_other_errors_change_nothing(error, headers):
    world = World(lasting(3600))
    signer = world.signer()
    await signer.ready(FAULTS)

    assert signer.explained(error, headers) is error
    await signer.ready(FAULTS)
    assert world.searches == 1
