"""A client for those scenarios of the official conformance suite in which a person logs in."""

import os
import re
from typing import Any

from mcp_conforming import Willing, calls
from mcp_oauth import logged_in
from mcp_using import Used, using
from pluggent_hookspecs import Secret, ToolError
from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.login_store import Login, save_login
from pluggent_mcp.oauth.settings import OAuth
from pluggent_mcp.settings import Server

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client that the suite knows by its document."""
MOST_LOGINS = 3


async def conform_logged_in(url: str, context: dict[str, Any], scenario: str) -> str:
    """Log in and use the server at *url*; once more with each scope that turns out to be missing."""
    oauth = _oauth(context, scenario)
    server = Server(url=url, oauth=oauth)
    before: Login | None = None
    scopes: tuple[str, ...] = ()
    why = ""
    for _ in range(MOST_LOGINS):
        try:
            before = await logged_in(server, oauth, name="peer", before=before, scopes=scopes)
        except LoginError as error:
            return str(error)
        save_login(before, os.environ)
        async with using(peer=server) as used:
            why = str(used.failures or "") or await _used(used)
        if "--scope" not in why and "wants a login" not in why:
            return why
        scopes = tuple(re.findall(r"--scope '([^']+)'", why))
    return why


async def _used(used: Used) -> str:
    for name, arguments in calls(used, None):
        try:
            await used.call(name, Willing(), **arguments)
        except ToolError as error:
            return str(error)
    return ""


def _oauth(context: dict[str, Any], scenario: str) -> OAuth:
    if scenario == "auth/basic-cimd":
        return OAuth(client_id=DOCUMENT)
    if "client_id" not in context:
        return OAuth()
    return OAuth(client_id=context["client_id"], client_secret=Secret.of(context["client_secret"]))
