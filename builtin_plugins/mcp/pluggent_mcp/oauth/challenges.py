"""Challenges of servers that need a login (WWW-Authenticate), and the errors about them; without any secret."""

from __future__ import annotations

import re
import shlex

from pluggent_mcp.oauth.settings import is_scope

MOST_SCOPES = 400
"""Characters of scopes in a message."""

WANTS_LOGIN = "wants a login"
"""The beginning of the message, behind the name of the server."""

_STEP_UP = "insufficient_scope"


class LoginError(Exception):
    """A login is missing, or it failed. Neither the message nor a chained cause holds a secret."""


class LoginNeededError(LoginError):
    """A person has to log in."""


def wants_login(name: str) -> str:
    """Return the message for a server without a login.

    >>> wants_login("my files")
    "wants a login: pluggent mcp login 'my files'"
    """
    return f"{WANTS_LOGIN}: pluggent mcp login {shlex.quote(name)}"


def wants_more(name: str, challenge: str) -> str:
    """Return the message for a *challenge* that asks for more scopes; empty for another one.

    >>> wants_more("web", 'Bearer error="insufficient_scope", scope="files:write"')
    "wants a login with the scope files:write: pluggent mcp login web --scope 'files:write'"
    """
    if part(challenge, "error") != _STEP_UP:
        return ""
    scopes = scopes_in(challenge)
    if not scopes:
        return f"{WANTS_LOGIN} with more scopes, and does not say which"
    options = " ".join(f"--scope '{scope}'" for scope in scopes if "'" not in scope)
    return f"{WANTS_LOGIN} with the scope {' '.join(scopes)}: pluggent mcp login {shlex.quote(name)} {options}"


def scopes_in(challenge: str) -> tuple[str, ...]:
    """Return the valid scopes of a challenge, as many as fit into a message."""
    said = part(challenge, "scope")
    return tuple(dict.fromkeys(each for each in said[:MOST_SCOPES].split() if is_scope(each)))


def part(challenge: str, name: str) -> str:
    """Return a parameter of a ``WWW-Authenticate`` header, empty if there is none.

    >>> part('Bearer realm="a", x_scope=no, scope="a b"', "scope")
    'a b'
    """
    found = re.search(rf'(?<![\w-]){name}\s*=\s*(?:"([^"]*)"|([^\s,]+))', challenge)
    return (found[1] or found[2] or "") if found else ""
