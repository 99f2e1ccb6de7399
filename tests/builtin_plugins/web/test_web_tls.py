"""A connection to an address that was checked is secured for the name that was asked for."""

import shutil

import pytest
from odd_server import Certificates
from web_site import Names, answer, site, visitor

pytestmark = pytest.mark.usefixtures("patience")
PAGES = {"/x": answer("secured words", content_type="text/plain")}
NAMES = Names({"model.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)})
ALLOWED = ("model.test", "other.test", "127.0.0.1")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Return certificates of our own, or skip."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make certificates with")
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


async def test_a_certificate_has_to_be_that_of_the_name(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
    async with site(PAGES, certificates.server()) as there, visitor(names=NAMES, allow_private=ALLOWED) as visiting:
        named = await visiting.read(f"https://model.test:{there.port}/x")
        addressed = await visiting.read(f"https://127.0.0.1:{there.port}/x")
        other = await visiting.refused(f"https://other.test:{there.port}/x")

    assert "secured words" in named
    assert "secured words" in addressed
    assert "its certificate is not trusted" in other
    assert len(there.requests) == 2
    assert f"host: model.test:{there.port}" in there.requests[0].lower()


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(certificates: Certificates) -> None:
    async with site(PAGES, certificates.server()) as there, visitor(names=NAMES, allow_private=ALLOWED) as visiting:
        words = await visiting.refused(f"https://model.test:{there.port}/x")

    assert words.startswith(f"https://model.test:{there.port} cannot be fetched from: its certificate is not trusted: ")
    assert there.requests == []


async def test_a_redirect_from_https_to_http_is_a_call_of_its_own(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.file)
    async with site(PAGES) as plain:
        moved = {"/a": answer(b"", "302 Found", location=f"http://127.0.0.1:{plain.port}/x")}
        async with (
            site(moved, certificates.server()) as there,
            visitor(names=NAMES, allow_private=ALLOWED) as visiting,
        ):
            text = await visiting.read(f"https://model.test:{there.port}/a")

    assert f"http://127.0.0.1:{plain.port}/x" in text
    assert "secured words" in text
