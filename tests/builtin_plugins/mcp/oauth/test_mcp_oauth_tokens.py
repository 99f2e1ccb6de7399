"""Kept logins at work: sent to their own server alone, renewed once, missed with words that help."""

import asyncio
import json
import logging
import sys
import time
from asyncio.subprocess import PIPE

import attrs
import httpx2
import mcp_programs
import pytest
from mcp_answering import OLD, answering
from mcp_oauth import logged_in, served
from mcp_using import Context, using
from pluggent_hookspecs import ToolError, ToolErrorKind
from pluggent_mcp.client.status import ServerStatus
from pluggent_mcp.oauth.login_store import file_of, load_login, save_login
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.oauth.tokens import Tokens
from pluggent_mcp.settings import Server
from starlette.responses import JSONResponse, Response

pytestmark = pytest.mark.usefixtures("patience")

WANTED = "MCP server 'web' wants a login: pluggent mcp login web"


@pytest.fixture
def environ(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGGENT_STATE_DIR", str(tmp_path / "state"))
    return {"PLUGGENT_STATE_DIR": str(tmp_path / "state")}


def there(resource, environ):
    login = load_login("web", resource.url, environ)
    assert login is not None
    return login


def web(resource, **settings):
    return Server(url=resource.url, **{"oauth": True, **settings})


async def test_a_kept_login_is_used_for_every_request(environ):
    async with served() as (_, resource):
        login = await logged_in(resource)
        save_login(login, environ)
        resource.tokens.clear()
        async with using(web=web(resource)) as used:
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"

        assert set(resource.tokens) == {login.access_token}


async def test_a_login_is_used_over_the_old_transport_too(environ):
    async with served("sse") as (_, resource):
        login = await logged_in(resource, type="sse")
        save_login(login, environ)
        resource.tokens.clear()
        async with using(web=web(resource, type="sse")) as used:
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"

        assert set(resource.tokens) == {login.access_token}


async def test_a_server_that_repeats_the_token_is_not_quoted(environ):
    async def answer(method, body, headers):
        if b'"initialize"' in body or b"notifications/" in body:
            return OLD["initialize" if b'"initialize"' in body else "notifications/initialized"]
        said = {"code": -1, "message": f"what is {headers['authorization']}?"}
        return 200, "application/json", json.dumps({"jsonrpc": "2.0", "id": 2, "error": said}).encode()

    async with served() as (_, resource), answering(answer) as url:
        login = await logged_in(resource)
        save_login(attrs.evolve(login, url=url), environ)
        async with using(web=Server(url=url, oauth=True, protocol="legacy")) as used:
            assert "what is Bearer ***?" in used.failures["web"]
            assert login.access_token not in used.failures["web"]


async def test_without_a_login_no_server_is_contacted_and_the_error_says_what_to_do(environ):
    async with served() as (authority, resource), using(web=web(resource)) as used:
        assert used.failures["web"] == WANTED
        assert (authority.seen, resource.tokens) == ([], [])


async def test_a_server_without_oauth_in_its_settings_names_both_ways(environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        resource.tokens.clear()
        async with using(web=web(resource, oauth=False)) as used:
            assert 'headers = { Authorization = "Bearer ${TOKEN}" }' in used.failures["web"]
            assert "oauth = true" in used.failures["web"]
        assert set(resource.tokens) == {""}


@pytest.mark.parametrize("name", ["web", "other"])
async def test_a_login_is_for_one_name_at_one_address(name, environ):
    async with served() as (_, resource), served() as (_, elsewhere):
        save_login(await logged_in(resource), environ)
        resource.tokens.clear()
        there = {"web": elsewhere.url, "other": resource.url}[name]
        async with using(**{name: Server(url=there, oauth=True)}) as used:
            assert "wants a login" in used.failures[name]
        assert (resource.tokens, elsewhere.tokens) == ([], [])


@pytest.mark.parametrize("to", ["https://127.0.0.1:9/mcp", "http://127.0.0.2:9/mcp", "http://127.0.0.1:1/mcp"])
async def test_a_token_never_goes_to_another_origin(to, environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        link = ServerStatus("web", web(resource))
        request = httpx2.Request("POST", to, headers={"Authorization": "Bearer left over"})

        async def send():
            return httpx2.Response(200, request=request)

        await Tokens(web(resource), OAuth(), link, environ).sent(request, send)

        assert "authorization" not in request.headers


async def test_a_server_that_sends_us_elsewhere_takes_no_token_along(environ):
    async with served() as (_, resource), served() as (_, elsewhere):

        async def answer(method, body, headers):
            return f"HTTP/1.1 307 X\r\nlocation: {elsewhere.url}\r\ncontent-length: 0\r\n\r\n".encode()

        async with answering(answer) as url:
            save_login(attrs.evolve(await logged_in(resource), url=url), environ)
            async with using(web=Server(url=url, oauth=True, start_timeout_s=2)) as used:
                assert "web" in used.failures
        assert elsewhere.tokens == []


@pytest.mark.parametrize("oauth", [OAuth(client_id="another"), OAuth(issuer="https://login.example.com")], ids=str)
async def test_a_login_made_with_other_settings_does_not_count(oauth, environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        async with using(web=web(resource, oauth=oauth)) as used:
            assert used.failures["web"] == WANTED


# ---- renewal -----------------------------------------------------------------------------


async def test_an_expired_token_is_renewed_before_it_is_sent_and_the_new_one_is_kept(environ):
    async with served() as (authority, resource):
        login = await logged_in(resource)
        save_login(attrs.evolve(login, expires_at=time.time() - 1), environ)
        resource.tokens.clear()
        async with using(web=web(resource)) as used:
            assert used.failures == {}

        new = there(resource, environ)
        assert set(resource.tokens) == {new.access_token} != {login.access_token}
        assert authority.asked("/token")[-1]["resource"] == resource.url
        assert (new.refresh_token, new.scope) != (login.refresh_token, "")
        assert len(authority.asked("/token")) == 2


async def test_a_token_of_unknown_life_is_renewed_when_it_is_refused(environ):
    async with served() as (authority, resource):
        authority.token = {"expires_in": None}
        authority.rotates = False
        login = await logged_in(resource)
        assert login.expires_at is None
        save_login(login, environ)
        async with using(web=web(resource)) as used:
            authority.valid.clear()
            authority.token = {"expires_in": None, "refresh_token": None, "scope": None}
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"

        new = there(resource, environ)
        assert (new.refresh_token, new.scope) == (login.refresh_token, login.scope)
        assert new.access_token != login.access_token


async def test_a_refresh_token_that_is_over_is_forgotten_and_a_login_wanted(environ):
    async with served() as (authority, resource):
        save_login(await logged_in(resource), environ)
        authority.valid.clear()
        authority.refreshing.clear()
        async with using(web=web(resource)) as used:
            assert used.failures["web"] == WANTED
        assert load_login("web", resource.url, environ) is None


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (JSONResponse({"error": "invalid_client"}, 401), f"{WANTED} (the one before was refused: invalid_client)"),
        (
            Response(b"sesame-open-sesame", 503),
            f"HTTP 503. Try again; if it stays so, it {WANTED[17:]}",
        ),
        (Response(b"sesame-open-sesame", 200), "answered with what is not a token. Try again"),
        (Response(b"", 307, headers={"location": "https://other.example.com"}), "cannot be renewed: HTTP 307"),
    ],
    ids=["client", "busy", "html", "redirect"],
)
async def test_a_renewal_that_fails_otherwise_leaves_the_login_as_it_was(answer, why, environ, caplog):
    caplog.set_level(logging.DEBUG)
    async with served() as (authority, resource):
        login = await logged_in(resource)
        save_login(login, environ)
        authority.valid.clear()
        authority.instead["/token"] = lambda: answer
        async with using(web=web(resource)) as used:
            assert why in used.failures["web"]
        assert load_login("web", resource.url, environ) == login
        for secret in (login.access_token, login.refresh_token, "sesame"):
            assert secret not in caplog.text + used.failures["web"]


async def test_a_lifetime_that_no_clock_can_hold_is_a_long_one(environ):
    async with served() as (authority, resource):
        save_login(attrs.evolve(await logged_in(resource), expires_at=time.time() - 1), environ)
        authority.token = {"expires_in": 10**400}
        async with using(web=web(resource)) as used:
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"

        assert there(resource, environ).fresh


async def test_a_login_without_a_refresh_token_ends_with_its_access_token(environ):
    async with served() as (authority, resource):
        save_login(attrs.evolve(await logged_in(resource), refresh_token=""), environ)
        async with using(web=web(resource)) as used:
            authority.valid.clear()
            with pytest.raises(ToolError, match="wants a login: pluggent mcp login web") as failed:
                await used.call("web__add", a=1, b=2)
        assert failed.value.kind is ToolErrorKind.FAILED
        assert len(authority.asked("/token")) == 1


async def test_a_person_who_logs_in_meanwhile_is_noticed(environ):
    async with served() as (authority, resource):
        save_login(attrs.evolve(await logged_in(resource), refresh_token=""), environ)
        async with using(web=web(resource)) as used:
            authority.valid.clear()
            with pytest.raises(ToolError, match="wants a login"):
                await used.call("web__add", a=1, b=2)
            save_login(await logged_in(resource), environ)
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"


async def test_many_requests_at_once_renew_a_token_once(environ):
    async with served() as (authority, resource):
        save_login(await logged_in(resource), environ)
        async with using(web=web(resource), more=web(resource)) as used:
            authority.valid.clear()
            said = await asyncio.gather(*(used.call("web__add", a=1, b=number) for number in range(8)))

        assert [output.for_model for output in said] == [str(1 + number) for number in range(8)]
        assert len(authority.asked("/token")) == 2


async def test_two_processes_renew_a_token_once(environ):
    async with served() as (authority, resource):
        save_login(attrs.evolve(await logged_in(resource), expires_at=1.0), environ)
        children = [
            await asyncio.create_subprocess_exec(
                sys.executable, mcp_programs.__file__, "renew", resource.url, stdout=PIPE
            )
            for _ in range(2)
        ]
        said = [(await child.communicate())[0].decode().strip() for child in children]

        assert [json.loads(each) for each in said] == [200, 200]
        assert len(authority.asked("/token")) == 2


async def test_a_renewal_is_not_given_up_halfway(environ):
    asked, answered = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async with served() as (authority, resource):
        login = await logged_in(resource)
        save_login(attrs.evolve(login, expires_at=1.0), environ)

        async def slow(scope, receive, send):
            loop.call_soon_threadsafe(asked.set)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answered.wait(), loop))
            await JSONResponse({"access_token": "new-token", "token_type": "bearer"})(scope, receive, send)

        authority.instead["/token"] = lambda: slow

        async def never():
            return httpx2.Response(500)

        request = httpx2.Request("POST", resource.url)
        sending = asyncio.create_task(
            Tokens(web(resource), OAuth(), ServerStatus("web", web(resource)), environ).sent(request, never)
        )
        await asked.wait()
        sending.cancel()
        answered.set()
        with pytest.raises(asyncio.CancelledError):
            await sending

        assert there(resource, environ).access_token == "new-token"


async def test_a_scope_that_is_missing_is_named_with_the_command_that_asks_for_it(environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        resource.wants = "files:write"
        async with using(web=web(resource)) as used:
            with pytest.raises(ToolError, match="scope files:write: pluggent mcp login web --scope 'files:write'"):
                await used.call("web__add", Context(), a=1, b=2)
            resource.wants = ""
            assert (await used.call("web__add", a=1, b=2)).for_model == "3"


async def test_a_scope_that_is_missing_from_the_start_is_named_too(environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        resource.wants, resource.method = "tools:list", b""
        async with using(web=web(resource)) as used:
            assert "It wants a login with the scope tools:list: pluggent mcp login web" in used.failures["web"]


async def test_a_file_that_others_can_read_is_not_used(environ):
    async with served() as (_, resource):
        save_login(await logged_in(resource), environ)
        resource.tokens.clear()
        file_of("web", resource.url, environ).chmod(0o644)
        async with using(web=web(resource)) as used:
            assert "is not a regular file of mode 0600" in used.failures["web"]
        assert resource.tokens == []
