"""Settings of ``pluggent mcp serve``. Values only."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

import attrs
from pluggent_hookspecs import Secret

DEFAULT_PORT = 8722
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


def _several(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _check_hosts(_: object, __: object, value: tuple[str, ...]) -> None:
    for host in value:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a name of a host; write it without scheme and port: mcp.example.com")


def _check_positive(_: object, __: object, value: float) -> None:
    if value <= 0:
        raise ValueError(f"expected more than 0, got {value:g}")


@attrs.frozen
class Address:
    """Where to listen. ``host`` is an address or a name, without brackets.

    >>> Address.parse("[::1]:9000"), Address.parse("9000").port, Address.parse("").loopback
    (Address(host='::1', port=9000), 9000, True)
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``HOST:PORT``, ``HOST``, ``PORT`` or nothing. Raises ValueError."""
        if not text:
            return cls()
        if text.isascii() and text.isdigit():
            return cls(port=_port(text))
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            host, port = text, ""
        if not _HOST.fullmatch(host):
            raise ValueError(f"{text!r} is not HOST:PORT; an IPv6 address stands in brackets, as in [::1]:9000")
        return cls(host.strip("[]"), _port(port) if port else DEFAULT_PORT)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text[:6]) > 65_535:  # noqa: PLR2004 (the largest there is)
        raise ValueError(f"{text!r} is not a port")
    return int(text)


@attrs.frozen(kw_only=True)
class Serving:
    """What ``pluggent mcp serve`` offers, and how it protects itself.

    >>> Serving(tools=("files__*",)).max_sessions
    256
    """

    tools: tuple[str, ...] = attrs.field(default=(), converter=_several)
    """What is exported: names of tools, capability ids, either with ``*``, or a plugin's name."""
    resources: tuple[str, ...] = attrs.field(default=(), converter=_several)
    """Whose resources are exported, in the same words: those of the tools among them that list and read some."""
    prompts: tuple[str, ...] = attrs.field(default=(), converter=_several)
    """Whose prompts are exported, in the same way."""
    token: Secret | None = None
    """What clients over HTTP have to know; without it one is made and shown each time."""
    hosts: tuple[str, ...] = attrs.field(default=(), converter=_several, validator=_check_hosts)
    """Names, other than those of this machine, under which clients over HTTP may reach it."""
    max_calls: int = attrs.field(default=16, validator=_check_positive)
    """How many run at once; sixteen times as many may wait, each for 30 s."""
    max_message_bytes: int = attrs.field(default=4 << 20, validator=_check_positive)
    """Of one request."""
    max_sessions: int = attrs.field(default=256, validator=_check_positive)
    """Of the handshake protocols over HTTP; an idle one makes room for a new one."""
    idle_timeout_s: float = attrs.field(default=900.0, validator=_check_positive)
    """After which a session over HTTP is over, if nothing of it is under way."""
    request_timeout_s: float = attrs.field(default=20.0, validator=_check_positive)
    """To send a request over HTTP to its end. How long a call may take is the tool's matter."""
