"""What authorization servers, and those who pose as one, cannot have: every login here ends, and says why."""

import asyncio
import logging
import traceback
from urllib.error import HTTPError

import httpx2
import pytest
from mcp_oauth import browsed, logged_in, served
from mcp_sdk import listening
from pluggent_mcp.oauth import http as oauth_http
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.http import Guard, exchange
from pluggent_mcp.oauth.settings import OAuth
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
def looked_up(monkeypatch):
    """Look names up without a network."""

    async def addresses_of(host):
        return ("127.0.0.1",) if host == "localhost" else () if host.endswith(".invalid") else (host,)

    monkeypatch.setattr(oauth_http, "addresses_of", addresses_of)


ENDLESS = {"token_type": "bearer", "expires_in": 10**400}
"""What no float holds."""
METADATA = "/.well-known/oauth-authorization-server"


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"state": "another"}, "not that of this login"),
        ({"state": None}, "not that of this login"),
        ({"code": None, "error": "access_denied"}, r"said no \(access_denied\)"),
        ({"code": None, "error": "<b>Call 555!</b>"}, "said no$"),
        ({"code": None, "error": "access_denied", "state": "another"}, "not that of this login"),
        ({"iss": "https://other.example.com"}, "Authorization response iss mismatch"),
        ({"iss": None}, "Authorization response missing iss"),
    ],
    ids=["state", "no state", "denied", "words", "denied by another", "mix-up", "no issuer"],
)
async def test_an_answer_that_is_not_the_one_asked_for_is_no_login(answers, why):
    async with served() as (authority, resource):
        authority.answers = answers
        with pytest.raises(LoginError, match=why):
            await logged_in(resource, timeout_s=1.0)
        assert authority.asked("/token") == []


async def test_an_answer_with_another_state_ends_no_login():
    async def browse(url):
        back = httpx2.URL(url).params["redirect_uri"]
        for query in ("code=a&state=b", "error=access_denied", "state=b&state=c"):
            with pytest.raises(HTTPError, match="400"):
                await browsed(f"{back}?{query}")
        return await browsed(url)

    async with served() as (authority, resource):
        assert (await logged_in(resource, browse=browse)).access_token in authority.valid


async def test_an_answer_that_says_a_thing_twice_is_no_login():
    async def browse(url):
        back = httpx2.URL(url).params["redirect_uri"]
        return await browsed(f"{back}?code=a&code=b&state={httpx2.URL(url).params['state']}")

    async with served() as (_, resource):
        with pytest.raises(LoginError, match="says one thing twice"):
            await logged_in(resource, browse=browse)


async def test_waiting_for_a_person_ends_at_the_deadline():
    async def browse(url):
        return url

    async with served() as (_, resource):
        with pytest.raises(LoginError, match=r"no login within 0.01 s \(--timeout\)"):
            await logged_in(resource, browse=browse, timeout_s=0.01)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ({"issuer": "https://other.example.com"}, "metadata issuer mismatch"),
        ({"token_endpoint": "http://other.example.com/token"}, "leads to http://other.example.com, which is not https"),
        ({"authorization_endpoint": "http://169.254.169.254/a"}, "leads to http://169.254.169.254, which is not https"),
        ({"registration_endpoint": "http://10.0.0.1/register"}, "leads to http://10.0.0.1, which is not https"),
        ({"revocation_endpoint": "http://10.0.0.1/revoke"}, "leads to http://10.0.0.1, which is not https"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "in a way that can be used, how to log in there"),
        ({"token_endpoint": "https://ann:pw@127.0.0.1/token"}, "not a URL of an authorization server"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
    ],
    ids=["issuer", "clear text", "cloud", "register", "revoke", "file", "user", "no PKCE", "plain"],
)
async def test_metadata_that_leads_astray_ends_the_login_before_anybody_is_sent_there(says, why):
    visited: list[str] = []

    async def browse(url):
        visited.append(url)

    async with served() as (authority, resource):
        authority.says = says
        with pytest.raises(LoginError, match=why):
            await logged_in(resource, browse=browse)
        assert visited == []


@pytest.mark.parametrize(
    ("prm", "why"),
    [
        ({"resource": "https://other.example.com/mcp"}, "Protected resource https://other.example.com/mcp"),
        ({"authorization_servers": ["http://other.example.com"]}, "leads to http://other.example.com"),
    ],
    ids=["resource", "server"],
)
async def test_a_server_that_names_what_is_not_its_own_is_not_logged_in_to(prm, why):
    async with served() as (_, resource):
        resource.prm = prm
        with pytest.raises(LoginError, match=why):
            await logged_in(resource)


async def test_only_the_pinned_authorization_server_is_used():
    async with served() as (authority, resource):
        with pytest.raises(LoginError, match=r"does not name https://login\.example\.com"):
            await logged_in(resource, OAuth(issuer="https://login.example.com"))
        assert authority.seen == []

        assert (await logged_in(resource, OAuth(issuer=f"{authority.issuer}/"))).issuer == authority.issuer


@pytest.mark.parametrize("path", [METADATA, "/register", "/token"])
async def test_answers_that_are_too_long_are_cut(path):
    async with served() as (authority, resource):
        authority.instead[path] = lambda: Response(b" " * 2_000_000)
        with pytest.raises(LoginError, match="longer than 262,144 bytes"):
            await logged_in(resource)


async def test_who_answers_too_late_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(oauth_http, "EXCHANGE_S", 0.2)
    over = asyncio.Event()

    async def slow(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            over.set()

    async with served() as (authority, resource):
        authority.instead["/token"] = lambda: slow
        with pytest.raises(LoginError, match=r"did not answer within 0\.2 s"):
            await logged_in(resource)


@pytest.mark.parametrize("path", ["/token", "/register"])
async def test_a_redirect_to_another_origin_is_not_followed(path):
    async with served() as (other, _), served() as (authority, resource):
        authority.instead[path] = lambda: RedirectResponse(f"{other.issuer}{path}", 307)
        with pytest.raises(LoginError, match="HTTP 307"):
            await logged_in(resource)
        assert other.seen == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Response(b"<html>", 200), "gave no token"),
        (JSONResponse({"access_token": "sesame-open-sesame", "token_type": "mac"}), "gave no token"),
        (JSONResponse({"access_token": "sesame-open-sesame\r\nX: y", "token_type": "bearer"}), "cannot be used"),
        (JSONResponse({"error": "invalid_grant", "error_description": "sesame-open-sesame"}, 400), "invalid_grant"),
        (JSONResponse(["sesame-open-sesame"], 500), "HTTP 500"),
        (JSONResponse({**ENDLESS, "access_token": "sesame-open-sesame"}), "cannot be used"),
    ],
    ids=["html", "type", "header", "refused", "broken", "endless"],
)
async def test_what_is_no_token_is_told_without_being_repeated(answer, why, caplog):
    caplog.set_level(logging.DEBUG)
    async with served() as (authority, resource):
        authority.instead["/token"] = lambda: answer
        with pytest.raises(LoginError, match=why) as failed:
            await logged_in(resource)

        exchanged, state = authority.asked("/token")[0], authority.asked("/authorize")[0]["state"]
        told = caplog.text + "".join(traceback.format_exception(failed.value))
        for secret in ("sesame", exchanged["code"], exchanged["code_verifier"], state):
            assert secret not in told


@pytest.mark.parametrize(
    ("server", "to", "allowed"),
    [
        ("https://8.8.8.8/mcp", "https://9.9.9.9/token", True),
        ("https://8.8.8.8/mcp", "https://10.0.0.1/token", False),
        ("https://8.8.8.8/mcp", "https://169.254.169.254/latest", False),
        ("https://8.8.8.8/mcp", "https://127.0.0.1:8443/token", False),
        ("https://8.8.8.8/mcp", "https://[::1]/token", False),
        ("https://8.8.8.8/mcp", "https://[::ffff:10.0.0.1]/token", False),
        ("https://8.8.8.8/mcp", "https://localhost/token", False),
        ("https://8.8.8.8/mcp", "http://127.0.0.1/token", False),
        ("https://10.0.0.2/mcp", "https://10.0.0.1/token", True),
        ("https://10.0.0.2/mcp", "https://127.0.0.1/token", False),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/token", True),
        ("http://127.0.0.1:1/mcp", "http://8.8.8.8/token", False),
        ("https://8.8.8.8/mcp", "https://8.8.8.8/" + "x" * 9_000, False),
        ("https://8.8.8.8/mcp", "javascript:alert(1)", False),
        ("https://8.8.8.8/mcp", "https://168.63.129.16/token", False),
        ("https://8.8.8.8/mcp", "https://224.0.0.1/token", False),
        ("https://8.8.8.8/mcp", "https://[ff02::1]/token", False),
        ("https://8.8.8.8/mcp", "https://[ff0e::1]/token", False),
        ("https://8.8.8.8/mcp", "https://[64:ff9b::10.0.0.1]/token", False),
        ("https://8.8.8.8/mcp", "https://[64:ff9b::8.8.8.8]/token", True),
        ("https://8.8.8.8/mcp", "https://[64:ff9b:1::8.8.8.8]/token", False),
        ("https://8.8.8.8/mcp", "https://[::ffff:0:10.0.0.1]/token", False),
        ("https://8.8.8.8/mcp", "https://[::10.0.0.1]/token", False),
        ("https://8.8.8.8/mcp", "https://[2002:a00:1::]/token", False),
        ("https://8.8.8.8/mcp", "https://[2001:0:a00:1::]/token", False),
        ("https://8.8.8.8/mcp", "https://[2606:4700::5efe:10.0.0.1]/token", False),
        ("https://8.8.8.8/mcp", "https://[2606:4700::1]/token", True),
        ("https://8.8.8.8/mcp", "https://[fec0::1]/token", False),
        ("https://8.8.8.8/mcp", "https://9.9.9.9:0/token", False),
        ("https://8.8.8.8/mcp", "https://9.9.9.9:x/token", False),
        ("https://8.8.8.8/mcp", "https://@9.9.9.9/token", False),
        ("https://8.8.8.8/mcp", "https://:pw@9.9.9.9/token", False),
        ("https://8.8.8.8/mcp", "https://nowhere.invalid/token", False),
        ("http://127.0.0.1:1/mcp", "http://@127.0.0.1:2/token", False),
    ],
)
async def test_a_server_of_the_outside_leads_to_nothing_inside(server, to, allowed, looked_up):
    try:
        await Guard(server).check(to)
    except LoginError:
        assert not allowed
    else:
        assert allowed


class Names:
    """A name service that says something else each time."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, host):
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to(monkeypatch):
    names = Names(("127.0.0.1",), ("127.0.0.2",))
    monkeypatch.setattr(oauth_http, "addresses_of", names)
    async with served() as (authority, _):
        url = authority.issuer.replace("127.0.0.1", "localhost")
        guard = Guard(url)
        for _ in range(3):
            response = await exchange(httpx2.Request("GET", f"{url}{METADATA}"), guard)
            assert response.json()["issuer"] == authority.issuer

    assert names.asked == ["localhost"]


async def test_a_name_that_leads_inside_only_later_is_not_followed_there(monkeypatch):
    monkeypatch.setattr(oauth_http, "addresses_of", Names(("8.8.8.8",), ("9.9.9.9",), ("10.0.0.1",)))
    guard = Guard("https://mcp.example.com/mcp")

    assert await guard.check("https://login.example.com/a") == ("8.8.8.8",)
    assert await guard.check("https://login.example.com/token") == ("8.8.8.8",)


async def test_a_server_whose_own_name_leads_inside_as_well_is_of_the_outside(monkeypatch):
    monkeypatch.setattr(oauth_http, "addresses_of", Names(("10.0.0.1",), ("8.8.8.8", "10.0.0.2")))

    with pytest.raises(LoginError, match="leads inside"):
        await Guard("https://mcp.example.com/mcp").check("https://login.example.com/token")


async def test_an_address_that_cannot_be_connected_to_gives_way_to_the_next(monkeypatch):
    monkeypatch.setattr(oauth_http, "addresses_of", Names(("127.0.0.2", "::1", "127.0.0.1")))
    async with served() as (authority, _):
        url = authority.issuer.replace("127.0.0.1", "localhost")

        assert (await exchange(httpx2.Request("GET", f"{url}{METADATA}"), Guard(url))).status_code == 200


async def test_the_host_that_was_named_is_the_one_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(oauth_http, "addresses_of", Names(("127.0.0.1",)))
    heard = []

    async def heard_by(request):
        heard.append(request.headers["host"])
        return Response(status_code=200)

    async with listening(Starlette(routes=[Route("/token", heard_by, methods=["POST"])])) as url:
        there = url.replace("127.0.0.1", "localhost")
        await exchange(httpx2.Request("POST", f"{there}/token", content=b"x=1"), Guard(there))

    assert heard == [there.removeprefix("http://")]


async def test_a_pinned_authorization_server_may_be_inside(looked_up):
    await Guard("https://8.8.8.8/mcp", issuer="https://127.0.0.1/login").check("https://127.0.0.1/token")

    with pytest.raises(LoginError):
        await Guard("https://8.8.8.8/mcp", issuer="https://127.0.0.1/login").check("https://127.0.0.2/token")
