"""``pluggent mcp login`` and ``logout``: the only place where a person logs in to a server, or logs out."""

from __future__ import annotations

import argparse
import os
import threading
import webbrowser
from collections.abc import Callable

from pluggent_hookspecs import ConfigError

from pluggent_mcp.commands.list import chosen, target
from pluggent_mcp.commands.output import line, note
from pluggent_mcp.commands.server_check import check_server
from pluggent_mcp.oauth.challenges import WANTS_LOGIN, LoginError
from pluggent_mcp.oauth.http import EXCHANGE_S
from pluggent_mcp.oauth.listener import KNOWN_PATH, Listener
from pluggent_mcp.oauth.login_flow import LoginRequest, log_in
from pluggent_mcp.oauth.login_store import (
    Login,
    address,
    delete_login,
    load_login,
    login_lock,
    logins_of,
    origin,
    save_login,
)
from pluggent_mcp.oauth.settings import OAuth, is_scope
from pluggent_mcp.oauth.tokens import revoke
from pluggent_mcp.references import resolved
from pluggent_mcp.servers_file import servers_of
from pluggent_mcp.settings import Server, Settings

FAILED = 1
LOGIN = "pluggent mcp login"
INSIDE = "PLUGGENT_INSIDE"
OUT = "pluggent mcp logout"
WITHOUT_WINDOW = ("lynx", "links", "elinks", "w3m", "www-browser")
"""Browsers that run in the terminal."""


async def login(options: argparse.Namespace, settings: Settings) -> int:
    """Log in with the help of a person and store the login. Raises ConfigError."""
    name: str = options.name
    server, oauth = _ready(name, settings)
    _check(options)
    try:
        async with Listener(KNOWN_PATH if oauth.client_id else "") as listener:
            wanted = LoginRequest(
                name=name, server=server, oauth=oauth, scopes=tuple(options.scope), timeout_s=options.timeout,
                before=_before(name, server), show=_shown(name, server, options, listener),
            )  # fmt: skip
            made = await log_in(wanted, listener)
        async with login_lock(name, server.url, os.environ, EXCHANGE_S):
            file = save_login(made, os.environ)
    except LoginError as error:
        note(f"{name}: not logged in: {error}")
        return FAILED
    check = await check_server(name, server)
    if check.problem:
        how = "it refuses the new tokens" if WANTS_LOGIN in check.problem else "logged in, but not at work"
        note(f"{name}: {how}: {check.problem}")
        return FAILED
    line(f"logged in to {name}: {len(check.tools)} tools; kept in {file}")
    return 0


async def logout(options: argparse.Namespace, settings: Settings) -> int:
    """Delete the logins to a server, and revoke the tokens if the authorization server supports it."""
    name: str = options.name
    count = 0
    try:
        for file, found in list(logins_of(name, os.environ)):
            async with login_lock(name, found.url, os.environ, EXCHANGE_S):
                # Read again: another process may have renewed its tokens since.
                last = load_login(name, found.url, os.environ) or found
                delete_login(file)
            told = await _revoked(last, _oauth_for(last, settings))
            line(f"logged out of {name} at {last.url}{told}")
            count += 1
    except LoginError as error:
        note(f"{name}: {error}")
        return FAILED
    if not count:
        line(f"no login to {name} is stored")
    return 0


async def _revoked(login: Login, oauth: OAuth) -> str:
    if not login.revocation_endpoint:
        return "; its authorization server supports no revocation"
    try:
        done = await revoke(login, oauth)
    except (LoginError, ConfigError):
        done = False
    where = origin(login.revocation_endpoint)
    return f", and revoked at {where}" if done else f"; {where} has not confirmed that it forgets the tokens too"


def _ready(name: str, settings: Settings) -> tuple[Server, OAuth]:
    server = resolved(name, chosen(settings, name, LOGIN), os.environ)
    if server.login is None:
        raise ConfigError(LOGIN, [f"{name!r} has no oauth setting; if it requires a login, set oauth = true for it"])
    return server, server.login


def _check(options: argparse.Namespace) -> None:
    if os.environ.get(INSIDE):
        raise ConfigError(LOGIN, ["a person logs in, from a terminal of their own; this was started by a running host"])
    if options.timeout <= 0:
        raise ConfigError(LOGIN, [f"--timeout: expected more than 0, got {options.timeout:g}"])
    for scope in options.scope:
        if not is_scope(scope):
            raise ConfigError(LOGIN, [f"--scope: {scope!r} is not a scope"])


def _oauth_for(login: Login, settings: Settings) -> OAuth:
    """Return the settings of the server that *login* is for; the secret of another client, or server, goes nowhere."""
    server = servers_of(settings).get(login.name)
    if server is None or server.login is None or not login.fits(server.login):
        return OAuth()
    try:
        same = address(resolved(login.name, server, os.environ).url) == login.url
    except ConfigError:
        same = False
    return server.login if same else OAuth()


def _before(name: str, server: Server) -> Login | None:
    try:
        return load_login(name, server.url, os.environ)
    except LoginError:
        return None  # it is replaced; if that fails, the error says why


def _shown(name: str, server: Server, options: argparse.Namespace, listener: Listener) -> Callable[[str], None]:
    def show(url: str) -> None:
        note(f"{name} at {target(server)} sends you to {origin(url)} to log in.")
        note(f"If no browser opens, open this yourself:\n\n  {url}\n")
        note(f"Waiting for the answer at {origin(listener.address)}, for {options.timeout:g} s; Ctrl-C ends it.")
        if not options.no_browser:
            # In a thread: a browser may take long to start, and the login does not depend on it.
            threading.Thread(target=_open, args=(url,), name="mcp-login-browser", daemon=True).start()

    return show


def _open(url: str) -> None:
    try:
        browser = webbrowser.get()
        if getattr(browser, "name", "") not in WITHOUT_WINDOW:
            browser.open(url)
    except (webbrowser.Error, OSError) as error:
        note(f"no browser could be started ({type(error).__name__})")
