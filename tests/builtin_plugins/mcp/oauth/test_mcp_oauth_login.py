"""A person logs in to an MCP server: what is asked for, what is kept, and what is sent along."""

import asyncio
from urllib.error import URLError
from urllib.parse import urlsplit

import pytest
from mcp_oauth import Page, browsed, logged_in, served
from pluggent_hookspecs import Secret
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.listener import MOST_CONNECTIONS, Listener
from pluggent_mcp.oauth.settings import OAuth

NOTHING = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

pytestmark = pytest.mark.usefixtures("patience")


async def test_a_login_is_discovered_registered_proved_and_bound_to_the_server():
    async with served() as (authority, resource):
        login = await logged_in(resource)

        asked, exchanged = authority.asked("/authorize")[0], authority.asked("/token")[0]
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["resource"] == exchanged["resource"] == resource.url
        assert asked["scope"] == login.scope == "tools:use"
        assert (login.url, login.issuer) == (resource.url, authority.issuer)
        assert login.token_endpoint == f"{authority.issuer}/token"
        assert login.access_token in authority.valid
        assert login.fresh
        assert login.access_token not in repr(login)
        assert login.refresh_token not in repr(login)


async def test_the_answer_is_awaited_at_an_unguessable_address_and_only_once():
    pages: list[Page] = []

    async def browse(url):
        pages.append(await browsed(url))

    async with served() as (authority, resource):
        await logged_in(resource, browse=browse)
        await logged_in(resource, browse=browse)

        first, second = (urlsplit(url) for url in authority.redirects)
        assert (first.hostname, first.path.rpartition("/")[0]) == ("127.0.0.1", "/callback")
        assert first.path != second.path
        assert pages[0].status == 200
        assert "default-src 'none'" in pages[0].headers["content-security-policy"]
        assert authority.issuer not in pages[0].text
        with pytest.raises(URLError, match="refused"):
            await browsed(first.geturl())


async def test_a_client_that_was_registered_beforehand_is_used_with_its_secret_which_is_not_kept():
    oauth = OAuth(client_id="app-1", client_secret=Secret.of("hunter2-hunter2"))
    async with served() as (authority, resource):
        login = await logged_in(resource, oauth)

        assert authority.asked("/register") == []
        assert authority.asked("/token")[0]["authorization"].startswith("Basic ")
        assert (login.client_id, login.client_secret, login.client_method) == ("app-1", "", "client_secret_basic")
        assert urlsplit(authority.redirects[0]).path == "/callback"  # such a server compares it with what it knows


async def test_the_secret_goes_where_the_server_takes_it():
    oauth = OAuth(client_id="app-1", client_secret=Secret.of("hunter2-hunter2"))
    async with served() as (authority, resource):
        authority.says = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        await logged_in(resource, oauth)

        assert authority.asked("/token")[0]["client_secret"] == "hunter2-hunter2"


@pytest.mark.parametrize(
    ("set_scopes", "more", "challenge", "asked"),
    [
        ((), (), 'scope="a b"', "a b"),
        ((), (), None, "from:metadata"),
        (("c",), (), 'scope="a b"', "c"),
        (("c",), ("d", "c"), 'scope="a b"', "c d"),
    ],
    ids=["challenge", "metadata", "settings", "more"],
)
async def test_scopes_are_those_of_the_settings_or_else_what_the_server_names(set_scopes, more, challenge, asked):
    async with served() as (authority, resource):
        resource.challenge, resource.prm = challenge, {"scopes_supported": ["from:metadata"]}
        login = await logged_in(resource, OAuth(scopes=set_scopes), scopes=more)

        assert authority.asked("/authorize")[0]["scope"] == login.scope == asked


async def test_a_login_with_more_scopes_keeps_those_that_were_granted():
    async with served() as (_, resource):
        before = await logged_in(resource)
        login = await logged_in(resource, before=before, scopes=("files:write",))

        assert login.scope == "tools:use files:write"


async def test_without_metadata_of_the_resource_the_servers_own_origin_is_asked():
    async with served() as (_, resource):
        resource.prm = None
        with pytest.raises(LoginError, match=r"does not let clients register themselves \(HTTP 401\)"):
            await logged_in(resource)


async def test_a_stranger_at_the_listener_learns_nothing():
    async with Listener() as listener:
        port = urlsplit(listener.address).port
        own = f"Host: 127.0.0.1:{port}\r\n"
        path = urlsplit(listener.address).path
        for head in (
            f"GET / HTTP/1.1\r\n{own}\r\n",
            f"GET {path[:-1]}?code=a&state=b HTTP/1.1\r\n{own}\r\n",
            f"POST {path}?code=a&state=b HTTP/1.1\r\n{own}\r\n",
            f"GET {path}?code=a&state=b HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n",
            f"GET {path}?code=a&state=b HTTP/1.1\r\n\r\n",
        ):
            assert await _said(port, head) == NOTHING
        assert await _said(port, "GET /" + "x" * 70_000) == b""
        answering = asyncio.create_task(listener.answer("b", 10))
        await asyncio.sleep(0)
        for query in ("code=a", "code=a&state=c", "code=a&state=b&state=b", "code=a&state=b&state=c", "code=a&state="):
            said = await _said(port, f"GET {path}?{query} HTTP/1.1\r\n{own}\r\n")
            assert said.startswith(b"HTTP/1.1 400")
        assert (await _said(port, f"GET {path}?code=a&state=b HTTP/1.1\r\n{own}\r\n")).startswith(b"HTTP/1.1 200")

        answer = await answering
        assert (answer.code, answer.state) == ("a", "b")
        assert "'a'" not in repr(answer)


async def test_connections_that_say_nothing_do_not_keep_the_browser_out():
    async with Listener() as listener:
        there = urlsplit(listener.address)
        answering = asyncio.create_task(listener.answer("b", 10))
        silent = [await asyncio.open_connection("127.0.0.1", there.port) for _ in range(3 * MOST_CONNECTIONS)]

        said = await _said(there.port, f"GET {there.path}?code=a&state=b HTTP/1.1\r\nHost: {there.netloc}\r\n\r\n")

        assert said.startswith(b"HTTP/1.1 200")
        assert (await answering).code == "a"
        for _, writer in silent:
            writer.close()


@pytest.mark.parametrize(
    ("challenge", "supported"),
    [
        ('scope="all"', ["offline_access"]),
        ('resource_metadata=http://127.0.0.1/"scope="all"', []),
        ('scope="all", scope=all', ["offline_access", "c"]),
        ('error="insufficient_scope", scope="all"', ["offline_access"]),
    ],
)
async def test_a_server_asks_for_no_scopes_but_those_of_the_settings(challenge, supported):
    async with served() as (authority, resource):
        resource.challenge, resource.prm = challenge, {"scopes_supported": ["x"]}
        authority.says = {"scopes_supported": supported, "grant_types_supported": ["refresh_token"]}

        await logged_in(resource, OAuth(scopes=("c", "d")))

        assert authority.asked("/authorize")[0]["scope"] == "c d"


async def test_the_secret_goes_to_no_other_authorization_server_than_before():
    oauth = OAuth(client_id="app-1", client_secret=Secret.of("hunter2-hunter2"))
    async with served() as (authority, resource), served() as (other, _):
        before = await logged_in(resource, oauth)
        resource.prm = {"authorization_servers": [other.issuer]}

        with pytest.raises(LoginError, match=f"the client_secret went to {authority.issuer} before"):
            await logged_in(resource, oauth, before=before)

        assert other.seen == []


async def _said(port, head):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head.encode())
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
