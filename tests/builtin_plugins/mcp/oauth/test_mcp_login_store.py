"""Where logins are kept: whole files of their own, private to the user, without a secret in their names."""

import asyncio
import json
import os
import stat

import attrs
import pytest
from pluggent_hookspecs import Secret
from pluggent_host.tools.workspace_guard import PRIVATE, Protected
from pluggent_mcp.commands.settings_file import block
from pluggent_mcp.oauth.challenges import LoginError, part, scopes_in, wants_more
from pluggent_mcp.oauth.login_store import (
    Login,
    address,
    delete_login,
    file_of,
    folder,
    load_login,
    login_lock,
    logins_of,
    save_login,
)
from pluggent_mcp.oauth.settings import OAuth, in_file
from pluggent_mcp.servers_file import servers_in
from pluggent_mcp.settings import Server

URL = "https://mcp.example.com/mcp"
LOGIN = Login(
    name="web", url=URL, issuer="https://login.example.com", resource=URL, client_id="c-1",
    token_endpoint="https://login.example.com/token", access_token="access-sesame", refresh_token="refresh-sesame",
    client_secret="client-sesame", expires_at=1.5,
)  # fmt: skip


@pytest.fixture
def environ(tmp_path):
    return {"PLUGGENT_STATE_DIR": str(tmp_path / "state")}


def test_a_login_is_kept_in_a_file_that_only_its_owner_reads(environ):
    file = save_login(LOGIN, environ)

    assert load_login("web", f"{URL}?key=sesame", environ) == LOGIN
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "sesame" not in file.name + repr(LOGIN)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("other", URL), ("web", f"{URL}/"), ("web", "https://mcp.example.com:8443/mcp"), ("web", "http://mcp.example.com/mcp"),
    ],
)  # fmt: skip
def test_under_another_name_or_at_another_address_there_is_none(name, url, environ):
    save_login(LOGIN, environ)

    assert load_login(name, url, environ) is None


def test_a_file_that_was_put_in_the_place_of_another_is_not_believed(environ):
    file = save_login(LOGIN, environ)
    file.rename(file_of("web", "https://evil.example.com/mcp", environ))

    with pytest.raises(LoginError, match="holds the login to another server"):
        load_login("web", "https://evil.example.com/mcp", environ)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"name": 1}', '{"access_token": "sesame"}', "[" * 100_000,
        json.dumps({**attrs.asdict(LOGIN), "token_endpoint": "http://evil.example.com/sesame"}),
        json.dumps({**attrs.asdict(LOGIN), "access_token": "sesame\n"}),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_told_without_what_stands_in_it(text, environ):
    file = save_login(LOGIN, environ)
    file.write_text(text, encoding="utf-8")

    with pytest.raises(LoginError, match="cannot be read; move it away") as failed:
        load_login("web", URL, environ)
    assert "sesame" not in str(failed.value)
    assert failed.value.__suppress_context__


def test_places_that_others_may_have_a_hand_in_are_refused(environ, tmp_path):
    file = save_login(LOGIN, environ)
    file.parent.chmod(0o755)
    with pytest.raises(LoginError, match="others may look into it"):
        load_login("web", URL, environ)

    file.parent.chmod(0o700)
    os.link(file, tmp_path / "second")
    with pytest.raises(LoginError, match="is not a regular file"):
        load_login("web", URL, environ)

    file.unlink()
    file.symlink_to(tmp_path / "second")
    with pytest.raises(LoginError, match="cannot be opened"):
        load_login("web", URL, environ)


@pytest.mark.parametrize("umask", [0, 0o002, 0o077])
def test_folders_above_the_logins_are_their_users_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        file = save_login(LOGIN, {"XDG_STATE_HOME": str(tmp_path / "state")})
    finally:
        os.umask(before)

    assert [stat.S_IMODE(path.stat().st_mode) for path in file.parents[:3]] == [0o700] * 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_logins_in_a_state_that_others_can_write_are_refused(environ, mode):
    state = save_login(LOGIN, environ).parents[1]
    state.chmod(mode)

    for use in (lambda: load_login("web", URL, environ), lambda: save_login(LOGIN, environ)):
        with pytest.raises(LoginError, match=f"in the place of the logins .*chmod go-w '{state}'"):
            use()


def test_what_is_forgotten_is_gone_and_can_be_forgotten_twice(environ):
    file = save_login(LOGIN, environ)
    assert list(logins_of("web", environ)) == [(file, LOGIN)]
    assert list(logins_of("other", environ)) == []

    delete_login(file)
    delete_login(file)

    assert list(logins_of("web", environ)) == []


def test_an_address_is_compared_in_one_way_of_writing_it():
    assert address("HTTPS://MCP.Example.com:443/mcp?a=b#c") == URL
    assert address("https://mcp.example.com") == "https://mcp.example.com/"
    assert address("http://[::1]:80/") == "http://[::1]/"


async def test_only_one_at_a_time_changes_a_login(environ):
    async with login_lock("web", URL, environ, 1):
        with pytest.raises(LoginError, match="another process has been renewing"):
            async with login_lock("web", URL, environ, 0.01):
                raise AssertionError("both at once")
        async with asyncio.timeout(5), login_lock("other", URL, environ, 1):
            pass


def test_logins_are_where_the_host_keeps_its_state_and_for_no_tool(environ, tmp_path):
    place = folder(environ)
    protected = Protected(tuple(str(tmp_path / "state" / name) for name in PRIVATE))

    file = save_login(LOGIN, environ)

    assert place == tmp_path / "state" / "logins"
    assert folder({"XDG_STATE_HOME": "/srv/state"}).parts[-3:] == ("state", "pluggent", "logins")
    assert protected.holds(json.dumps({"path": str(file)}).encode(), "") == str(place)


# ---- settings ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"url": "http://mcp.example.com/mcp", "oauth": True}, "is not https://"),
        ({"url": "https://ann:pw@mcp.example.com/mcp", "oauth": True}, "holds a user and a password"),
        ({"url": URL, "oauth": True, "headers": {"authorization": "Bearer x"}}, "have an Authorization already"),
        ({"command": "run", "oauth": True}, "a command has no url"),
    ],
)
def test_a_server_without_a_safe_login_is_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        Server(**settings)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"scopes": ["a b"]}, "is not a scope"),
        ({"scopes": "a"}, "expected a list"),
        ({"issuer": "http://login.example.com"}, "expected the https:// URL"),
        ({"client_secret": Secret.of("x")}, "goes with a client_id"),
    ],
)
def test_settings_of_a_login_are_checked(settings, why):
    with pytest.raises((ValueError, TypeError), match=why):
        OAuth(**settings)


def test_a_file_of_other_hosts_may_ask_for_a_login_but_names_no_secret():
    said = {"client_id": "app-1", "scopes": ["a"], "issuer": "https://login.example.com"}
    servers, problems = servers_in({"mcpServers": {"a": {"url": URL, "oauth": said}, "b": {"url": URL, "oauth": True}}})

    assert problems == []
    assert (servers["a"].login, servers["b"].login) == (OAuth(**said), OAuth())
    assert 'oauth = { client_id = "app-1", scopes = ["a"]' in block("a", servers["a"], {}, {}, accept=False)
    assert "oauth = true" in block("b", servers["b"], {}, {}, accept=False)
    for wrong, why in (
        (
            {"client_id": "a", "client_secret": "file:~/.ssh/id_rsa"},
            ".oauth.client_secret: stands in your own",
        ),
        ("yes", ".oauth: expected true, false or a table"),
        ({"scopes": ["a b"]}, ".oauth: 'a b' is not a scope"),
        ({"client_id": 5}, ".oauth: client_id and issuer are texts"),
    ):
        assert why in servers_in({"mcpServers": {"a": {"url": URL, "oauth": wrong}}})[1][0]
    assert in_file({"clientId": "a", "callbackPort": 1}) is False  # another host's, which means something else


def test_what_a_server_says_of_scopes_is_no_command():
    challenge = 'Bearer error="insufficient_scope", scope="a \';rm b$(c)"'

    assert scopes_in(challenge) == ("a", "';rm", "b$(c)")
    assert wants_more("it's", challenge).endswith("""login 'it'"'"'s' --scope 'a' --scope 'b$(c)'""")
    assert wants_more("web", 'Bearer error="invalid_token"') == ""
    assert len(part('scope="' + "x" * 9_000 + '"', "scope")) == 9_000
    assert scopes_in('scope="' + "é " * 300 + '"') == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_the_place_of_a_login_is_refused_and_not_waited_for(environ):
    file = save_login(LOGIN, environ)
    file.unlink()
    os.mkfifo(file, 0o600)

    with pytest.raises(LoginError, match="is not a regular file"):
        load_login(LOGIN.name, LOGIN.url, environ)
