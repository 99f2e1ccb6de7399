"""Stored logins: a private file for each server, written atomically. POSIX only.

A login belongs to one name and one address (origin and path). Under another name, or at another
address, it is not found.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import attrs
from pluggent_hookspecs import private_folder
from pluggent_hookspecs.folders import state_folder

from pluggent_mcp.oauth.challenges import LoginError
from pluggent_mcp.oauth.settings import OAuth, safe

FOLDER = "logins"
"""In the state folder, which the host hides from tools."""
MAX_BYTES = 1 << 18
AGAIN_S = 0.05
"""How often a lock is tried."""

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PRINTED = re.compile(r"[\x21-\x7e]*")
_PORTS = {"https": 443, "http": 80}


def _no_token(_: object, attribute: attrs.Attribute[str], value: str) -> None:
    if not _PRINTED.fullmatch(value):
        raise ValueError(f"{attribute.name} holds characters that are not allowed in a header")  # no value: a secret


@attrs.frozen(kw_only=True)
class Login:
    """A login: the client, the servers and the tokens.

    ``expires_at`` is when to renew the access token, in seconds since 1970; None: when it is refused.
    ``client_secret`` is that of a dynamically registered client; one from the settings is not stored.
    """

    name: str
    url: str
    issuer: str
    resource: str
    token_endpoint: str
    revocation_endpoint: str = ""
    client_id: str
    client_secret: str = attrs.field(default="", repr=False)
    client_method: str = ""
    access_token: str = attrs.field(repr=False, validator=_no_token)
    refresh_token: str = attrs.field(default="", repr=False)
    scope: str = ""
    expires_at: float | None = None

    def fits(self, oauth: OAuth) -> bool:
        """Return whether it was made with the configured client and authorization server."""
        own = oauth.client_id in ("", self.client_id)
        return own and oauth.issuer.rstrip("/") in ("", self.issuer.rstrip("/"))

    @property
    def fresh(self) -> bool:
        """Whether its access token has not expired."""
        return self.expires_at is None or time.time() < self.expires_at


def address(url: str) -> str:
    """Return origin and path of *url*, in one way of writing it.

    >>> address("HTTPS://MCP.example.com:443/mcp?key=abc#top")
    'https://mcp.example.com/mcp'
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path or '/'}"


def origin(url: str) -> str:
    """Return the origin of *url*.

    >>> origin("https://mcp.example.com:443/mcp")
    'https://mcp.example.com'
    """
    return "/".join(address(url).split("/")[:3])


# ---- files ------------------------------------------------------------------------------


def folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the logins, in the state folder of the host. Raises ConfigError."""
    return Path(state_folder(environ), FOLDER)


def file_of(name: str, url: str, environ: Mapping[str, str]) -> Path:
    """Return the file of one login. Nothing of *url* can be read in its name."""
    digest = hashlib.sha256(json.dumps([name, address(url)]).encode()).hexdigest()
    readable = re.sub(r"[^a-z0-9]+", "-", name.lower())[:32].strip("-")
    return folder(environ) / f"{readable or 'server'}-{digest[:32]}.json"


def load_login(name: str, url: str, environ: Mapping[str, str]) -> Login | None:
    """Return the login to *name* at *url*, None if there is none. Raises LoginError for a file that is not safe."""
    login = _read(file_of(name, url, environ))
    if login is not None and (login.name, login.url) != (name, address(url)):
        raise LoginError(f"{file_of(name, url, environ)} holds the login to another server; move it away")
    return login


def logins_of(name: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, Login]]:
    """Yield every stored login of *name*, to any address. Raises LoginError as ``load_login``."""
    for file in sorted(folder(environ).glob("*.json")):
        login = _read(file)
        if login is not None and login.name == name:
            yield file, login


def save_login(login: Login, environ: Mapping[str, str]) -> Path:
    """Store *login*, replacing an earlier one. Raises LoginError."""
    file = file_of(login.name, login.url, environ)
    _prepare(file.parent)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=".login.", dir=file.parent)  # mode 0600
        try:
            with open(descriptor, "w", encoding="utf-8") as opened:  # noqa: PTH123 (a descriptor)
                json.dump(attrs.asdict(login), opened)
                opened.flush()
                os.fsync(opened.fileno())  # the previous token may be invalid by now
            Path(temporary).replace(file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LoginError(f"{file} cannot be written: {error.strerror or error}") from error
    return file


def delete_login(file: Path) -> None:
    """Remove a login. Raises LoginError."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise LoginError(f"{file} cannot be removed: {error.strerror or error}") from error


@asynccontextmanager
async def login_lock(name: str, url: str, environ: Mapping[str, str], within_s: float) -> AsyncGenerator[None]:
    """Hold the lock on this login, across processes. Raises LoginError if it is not free in time."""
    file = file_of(name, url, environ).with_suffix(".lock")
    _prepare(file.parent)
    descriptor = _opened(file, os.O_RDWR | os.O_CREAT)
    try:
        try:
            async with asyncio.timeout(within_s):
                while not _claimed(descriptor):  # noqa: ASYNC110 (no event exists; a blocking flock cannot be cancelled)
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise LoginError(f"another process has been renewing the login for {within_s:g} s; try again") from None
        yield
    finally:
        os.close(descriptor)


def _claimed(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _prepare(place: Path) -> None:
    try:
        private_folder(place)
    except OSError as error:
        raise LoginError(f"{place}: logins cannot be stored there: {error.strerror or error}") from error
    _check_folder(place)


def _check_folder(place: Path) -> None:
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise LoginError(f"{place} is a link, not a folder, or another user's; move it away")
    if found.st_mode & 0o077:
        raise LoginError(f"{place}: others may look into it (mode {found.st_mode & 0o777:03o}); chmod 700 '{place}'")
    above = place.parent.stat()
    if above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LoginError(
            f"{place.parent}: others may put a folder of theirs in the place of the logins"
            f" (mode {above.st_mode & 0o777:03o}); chmod go-w '{place.parent}'"
        )


def _opened(file: Path, flags: int) -> int:
    try:
        descriptor = os.open(file, flags | _FLAGS, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise LoginError(f"{file} cannot be opened: {error.strerror or error}") from error
    found = os.fstat(descriptor)
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1
    if not mine or found.st_mode & 0o077:
        os.close(descriptor)
        raise LoginError(f"{file} is not a regular file of mode 0600 of the current user; move it away, log in again")
    return descriptor


def _read(file: Path) -> Login | None:
    try:
        _check_folder(file.parent)
        with open(_opened(file, os.O_RDONLY), "rb") as opened:
            text = opened.read(MAX_BYTES)
    except FileNotFoundError:
        return None
    try:
        document: Any = json.loads(text)
        return _login(cast("dict[str, Any]", document))
    except (ValueError, TypeError, AttributeError, RecursionError):
        # Without its cause, which repeats the content of the file.
        raise LoginError(f"{file} cannot be read; move it away, and log in again") from None


def _login(document: dict[str, Any]) -> Login:
    for key, value in document.items():
        if not isinstance(value, (float, int, type(None)) if key == "expires_at" else str):
            raise TypeError(key)
    login = Login(**document)
    if not all(safe(url) for url in (login.url, login.token_endpoint, login.revocation_endpoint) if url):
        raise ValueError("an address that is not safe")
    return login
