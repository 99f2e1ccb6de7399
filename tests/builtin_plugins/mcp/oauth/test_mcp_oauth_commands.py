"""``pluggent mcp login``, ``logout``, and what other commands say of a login."""

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import mcp_programs
import pytest
from cli_support import started, usual_environ
from mcp_oauth import browsed, logged_in, served
from mcp_using import McpCommand, Said
from pluggent_hookspecs import Secret
from pluggent_mcp.oauth.login_store import file_of, load_login, login_lock, save_login
from pluggent_mcp.oauth.settings import OAuth

pytestmark = pytest.mark.usefixtures("patience")

BROWSER = f"{sys.executable} {mcp_programs.__file__} browse %s"
READS = 'effects = { "*" = ["network_read"] }'


@pytest.fixture
def mcp(clean_home, tmp_path, monkeypatch, capsys):
    return McpCommand.alone(clean_home, tmp_path, monkeypatch, capsys)


def table(url, oauth="true", name="web"):
    return f'[plugins.pluggent-mcp.mcpServers.{name}]\nurl = "{url}"\noauth = {oauth}\n{READS}\n'


def start(*words, **environ):
    return started(
        {**usual_environ(), **environ}, "mcp", *words,
        cwd=Path.cwd(), bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


async def ended(process, before=""):
    out, err = await asyncio.to_thread(process.communicate)
    return Said(process.returncode, out.decode(), before + err.decode())


async def run(*words, **environ):
    return await ended(start(*words, **environ))


async def address(process):
    """Return what was said up to the address that a person is to open, and it."""
    said = ""
    while "response_type=code" not in said:
        line = (await asyncio.to_thread(process.stderr.readline)).decode()
        assert line, said
        said += line
    return said, said.rsplit(maxsplit=1)[-1]


async def test_a_person_logs_in_and_from_then_on_the_server_can_be_used(mcp):
    async with served() as (authority, resource):
        mcp.settings(table(resource.url))
        process = start("login", "web", "--no-browser")
        before, url = await address(process)
        await browsed(url)
        said = await ended(process, before)

        assert (said.code, said.out.partition(" tools; kept in ")[0]) == (0, "logged in to web: 6")
        assert f"web at {resource.url} sends you to {authority.issuer} to log in." in said.err
        assert "Waiting for the answer at http://127.0.0.1:" in said.err
        login = load_login("web", resource.url, os.environ)
        assert login is not None
        assert login.access_token in authority.valid
        for secret in (login.access_token, login.refresh_token):
            assert secret not in said.out + said.err
        called = await run("call", "web", "add", "a:=1", "b:=2")
        assert (called.code, called.out.strip()) == (0, "3")


async def test_the_browser_of_the_person_is_opened(mcp):
    async with served() as (_, resource):
        mcp.settings(table(resource.url))
        said = await run("login", "web", BROWSER=BROWSER)

        assert (said.code, said.out.partition(":")[0]) == (0, "logged in to web")


async def test_a_login_that_ends_early_leaves_nothing(mcp, tmp_path):
    async with served() as (_, resource):
        mcp.settings(table(resource.url))
        process = start("login", "web", "--no-browser")
        _, url = await address(process)
        process.send_signal(signal.SIGINT)
        said = await ended(process)

        assert said.code == 130
        assert "Traceback" not in said.err
        assert not (tmp_path / "state" / "logins").exists()
        with pytest.raises(OSError, match="refused"):
            await browsed(parse_qs(urlsplit(url).query)["redirect_uri"][0])


@pytest.mark.parametrize(
    ("words", "environ", "why"),
    [
        (("login", "other"), {}, "there is no server 'other'"),
        (("login", "plain"), {}, "'plain' has no oauth setting; if it requires a login, set oauth = true for it"),
        (("login", "web"), {"PLUGGENT_INSIDE": "1"}, "this was started by a running host"),
        (("login", "web", "--timeout", "0"), {}, "--timeout: expected more than 0"),
        (("login", "web", "--scope", "a b"), {}, "--scope: 'a b' is not a scope"),
    ],
)  # fmt: skip
def test_what_cannot_be_logged_in_to_is_told(mcp, words, environ, why, monkeypatch):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    mcp.settings(table("https://mcp.example.com/mcp") + table("https://mcp.example.com/mcp", "false", "plain"))

    said = mcp(*words)

    assert (said.code, why in said.err) == (2, True), said


async def test_a_server_that_is_not_there_is_told(mcp):
    mcp.settings(table("http://127.0.0.1:9/mcp"))

    said = await run("login", "web")

    assert (said.code, said.err) == (1, "web: not logged in: http://127.0.0.1:9 cannot be spoken to: ConnectError\n")


async def test_who_logs_out_is_forgotten_here_and_there(mcp):
    async with served() as (authority, resource):
        mcp.settings(table(resource.url))
        login = await logged_in(resource)
        save_login(login, os.environ)

        said = await run("logout", "web")

        assert (said.code, said.err) == (0, "")
        assert said.out == f"logged out of web at {resource.url}, and revoked at {authority.issuer}\n"
        assert [asked["token"] for asked in authority.asked("/revoke")] == [login.refresh_token, login.access_token]
        assert (authority.valid, load_login("web", resource.url, os.environ)) == (set(), None)
        assert (await run("logout", "web")).out == "no login to web is stored\n"


async def test_tokens_that_are_renewed_while_a_person_logs_out_are_revoked(mcp):
    async with served() as (authority, resource):
        mcp.settings(table(resource.url))
        before = await logged_in(resource)
        save_login(before, os.environ)
        async with login_lock("web", resource.url, os.environ, 5):
            process = start("logout", "web")
            lock = file_of("web", resource.url, os.environ).with_suffix(".lock")
            await asyncio.to_thread(waited_for, lock, process.pid)
            renewed = attrs.evolve(before, access_token="new-access", refresh_token="new-refresh")
            save_login(renewed, os.environ)
        said = await ended(process)

        assert (said.code, said.err) == (0, "")
        assert [asked["token"] for asked in authority.asked("/revoke")] == ["new-refresh", "new-access"]
        assert load_login("web", resource.url, os.environ) is None


def waited_for(file, pid):
    """Wait until the process *pid* has *file* open."""
    folder = Path(f"/proc/{pid}/fd")
    found = ""
    while found != str(file):
        for each in folder.iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found = str(each.readlink())
            if found == str(file):
                break
        assert folder.exists()


async def test_logging_out_sends_the_secret_of_the_settings_to_no_other_server(mcp):
    async with served() as (authority, resource), served() as (other, elsewhere):
        mcp.settings(table(resource.url, '{client_id = "app-1", client_secret = "env:APP_SECRET"}'))
        login = await logged_in(resource, OAuth(client_id="app-1", client_secret=Secret.of("hunter2-hunter2")))
        save_login(login, os.environ)
        save_login(
            attrs.evolve(login, url=elsewhere.url, issuer=other.issuer, revocation_endpoint=f"{other.issuer}/revoke"),
            os.environ,
        )

        said = await run("logout", "web", APP_SECRET="hunter2-hunter2")

        assert said.code == 0
        basic = "Basic " + base64.b64encode(b"app-1:hunter2-hunter2").decode()
        assert {asked["authorization"] for asked in authority.asked("/revoke")} == {basic}
        assert len(other.asked("/revoke")) == 2
        assert not any("hunter2" in str(asked) or asked["authorization"] for asked in other.asked("/revoke"))


async def test_a_login_is_forgotten_whatever_its_authorization_server_does(mcp):
    async with served() as (_, resource):
        login = await logged_in(resource)
        save_login(attrs.evolve(login, revocation_endpoint="http://127.0.0.1:9/revoke"), os.environ)
        save_login(attrs.evolve(login, revocation_endpoint="", url="https://mcp.example.com/old"), os.environ)

        said = await run("logout", "web")

        assert said.code == 0
        assert "http://127.0.0.1:9 has not confirmed that it forgets the tokens too" in said.out
        assert "at https://mcp.example.com/old; its authorization server supports no revocation" in said.out


async def test_the_list_says_who_is_logged_in_and_contacts_no_server(mcp):
    async with served() as (_, resource):
        login = await logged_in(resource)
        resource.tokens.clear()
        old = attrs.evolve(login, name="old", expires_at=time.time() - 1, refresh_token="")
        save_login(login, os.environ)
        save_login(old, os.environ)
        mcp.settings("".join(table(resource.url, name=name) for name in ("web", "old", "new")))
        said = await run("list", "--json")

        assert {row["name"]: row["state"] for row in json.loads(said.out)["servers"]} == {
            "web": "logged in", "old": "login needed", "new": "login needed",
        }  # fmt: skip
        assert resource.tokens == []


async def test_no_person_is_asked_while_a_server_is_used(mcp):
    async with served() as (_, resource):
        mcp.settings(table(resource.url))
        marked = {"BROWSER": BROWSER}
        for words in (("test", "web"), ("call", "web", "add", "a:=1", "b:=2"), ("tools", "web")):
            said = await run(*words, **marked)

            assert said.code != 0
            assert "MCP server 'web' wants a login: pluggent mcp login web" in said.out + said.err
        assert resource.tokens == []
