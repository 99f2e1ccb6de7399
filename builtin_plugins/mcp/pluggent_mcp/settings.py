"""The settings of an MCP server. Values only: nothing is started, read or looked up here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs
from pluggent_hookspecs import LOG_LEVELS, Effect

from pluggent_mcp.oauth.settings import OAuth, safe
from pluggent_mcp.serving.settings import Serving

Kind = Literal["", "stdio", "http", "streamable-http", "sse"]
KINDS = ("", "stdio", "http", "streamable-http", "sse")
LogLevel = Literal["off", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
OFF: Literal["off"] = "off"
LONGEST_PREFIX = 32
LONGEST_NAME = 64

_PREFIX = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_))*(?<!_)")
_REFERENCE = re.compile(r"\$\{[^}]*\}")


def _texts(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def _several(value: Iterable[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise TypeError(f"expected a list, got the text {value!r}; write [{value!r}]")
    return tuple(value)


def _effect_lists(value: Mapping[str, Iterable[str]]) -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({tool: _several(effects) for tool, effects in value.items()})


def _check_effects(_: object, __: object, value: Mapping[str, tuple[str, ...]]) -> None:
    for tool, effects in value.items():
        for effect in effects:
            if effect not in Effect.__members__.values() and not effect.startswith("x:"):
                raise ValueError(
                    f"{tool}: unknown effect {effect!r}; known are {', '.join(Effect)}, and x:… of your own"
                )


def _check_prefix(_: object, __: object, value: str) -> None:
    if value and (len(value) > LONGEST_PREFIX or not _PREFIX.fullmatch(value)):
        raise ValueError(
            f"{value!r} is not a prefix: up to {LONGEST_PREFIX} of A-Z, a-z, 0-9, - and single _ between them"
        )


def _check_pins(_: object, __: object, value: Mapping[str, str]) -> None:
    for tool, pin in value.items():
        if not re.fullmatch(r"[0-9a-f]{16,64}", pin):
            raise ValueError(f"{tool}: a pin is at least 16 hexadecimal digits, such as a tool's version")


def _check_url(_: object, __: object, value: str) -> None:
    if value and not _REFERENCE.search(value) and urlsplit(value).scheme not in ("http", "https"):
        raise ValueError("expected a URL that begins with http:// or https://")


def _check_positive(_: object, __: object, value: float) -> None:
    if value <= 0:
        raise ValueError(f"expected more than 0, got {value:g}")


@attrs.frozen(kw_only=True)
class Server:
    """One MCP server: ``command`` starts it, or ``url`` is where it is.

    ``${NAME}`` and ``${NAME:-default}`` in ``command``, ``args``, ``env``, ``cwd``, ``url`` and
    ``headers`` are replaced from the environment when the server is started. ``type`` is needed
    for ``sse`` alone, the transport of old servers.

    ``allow`` and ``block`` are globs over the server's own names of its tools; block wins.
    ``effects`` says what tools do, by name or glob. Where it says nothing, the annotations of a
    ``trusted`` server do, and of every other server nothing is known: such a tool asks.
    ``pins`` holds tools to their definitions: a tool whose digest (its ``version``) begins
    otherwise is left out. ``required``: without this server the plugin offers no tools.

    >>> Server(command="mcp-server-time").kind
    'stdio'
    """

    type: Kind = attrs.field(default="", validator=attrs.validators.in_(KINDS))
    command: str = ""
    args: tuple[str, ...] = attrs.field(default=(), converter=_several, repr=False)
    env: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_texts, repr=False)
    cwd: str = ""
    url: str = attrs.field(default="", validator=_check_url, repr=False)
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_texts, repr=False)
    oauth: bool | OAuth = False
    """Whether a person logs in to it (``pluggent mcp login``), and how; see OAuth."""
    enabled: bool = True
    disabled: bool = False
    """As other hosts write it; either word switches the server off."""
    required: bool = False
    trusted: bool = False
    prefix: str = attrs.field(default="", validator=_check_prefix)
    """How its tools' names begin, before two underscores; empty: made of the server's name."""
    allow: tuple[str, ...] = attrs.field(default=("*",), converter=_several)
    block: tuple[str, ...] = attrs.field(default=(), converter=_several)
    effects: Mapping[str, tuple[str, ...]] = attrs.field(
        factory=dict[str, tuple[str, ...]], converter=_effect_lists, validator=_check_effects
    )
    pins: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_texts, validator=_check_pins)
    resources: bool = False
    """Whether the model may list and read the server's resources."""
    prompts: bool = False
    """Whether the model may list and get the server's prompts."""
    protocol: Literal["auto", "legacy"] = attrs.field(
        default="auto", validator=attrs.validators.in_(("auto", "legacy"))
    )
    """Whether the server is asked first which protocols it speaks, or greeted as the old ones want it."""
    log_level: LogLevel = attrs.field(default="info", validator=attrs.validators.in_((OFF, *LOG_LEVELS)))
    """Least level of the server's log records that are passed on to observers of its calls; "off": none."""
    start_timeout_s: float = attrs.field(default=28.0, validator=_check_positive)
    """Limit for the start and the list of tools; just below the limit of the host, whose error has no reason."""
    call_timeout_s: float = attrs.field(default=60.0, validator=_check_positive)
    stop_timeout_s: float = attrs.field(default=2.0, validator=_check_positive)
    """To end after its input is closed, and again after SIGTERM."""
    max_message_bytes: int = attrs.field(default=4 << 20, validator=_check_positive)
    max_tools: int = attrs.field(default=256, validator=_check_positive)

    def __attrs_post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("a server has either a command or a url")
        if self.command and self.type not in ("", "stdio"):
            raise ValueError(f"type {self.type!r} has no command, but a url")
        if self.url and self.type == "stdio":
            raise ValueError("type 'stdio' has no url, but a command")
        if problem := self._no_login():
            raise ValueError(f"oauth: {problem}")

    def _no_login(self) -> str:
        if self.login is None:
            return ""
        if not self.url:
            return "a command has no url to log in to"
        if any(name.lower() == "authorization" for name in self.headers):
            return "its headers have an Authorization already; take one of them away"
        if _REFERENCE.search(self.url):
            return ""
        if not safe(self.url):
            return "its url is not https://, so what is sent there could be read on the way"
        return "its url holds a user and a password; take them away" if "@" in urlsplit(self.url).netloc else ""

    @property
    def login(self) -> OAuth | None:
        """The OAuth settings, None for a server without a login."""
        return OAuth() if self.oauth is True else self.oauth or None

    @property
    def kind(self) -> Literal["stdio", "http", "sse"]:
        """Its transport."""
        if self.command:
            return "stdio"
        return "sse" if self.type == "sse" else "http"

    @property
    def used(self) -> bool:
        """Whether it is enabled."""
        return self.enabled and not self.disabled


def _servers(value: Mapping[str, Server]) -> Mapping[str, Server]:
    return MappingProxyType(dict(value))


def _check_servers(_: object, __: object, servers: Mapping[str, Server]) -> None:
    if problems := list(name_problems(servers)):
        raise ValueError("; ".join(problems))


def name_problems(servers: Mapping[str, Any]) -> Iterable[str]:
    """Yield the problems of the names of *servers*."""
    for name in servers:
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            yield f"{name[:LONGEST_NAME]!r} is not a name of a server: 1 to {LONGEST_NAME} printable characters"


@attrs.frozen(kw_only=True)
class Settings:
    """The servers, here or in a file of the shape that other MCP hosts read.

    A server that stands in both is the one that stands here.

    >>> Settings(mcpServers={"time": Server(command="mcp-server-time")}).file is None
    True
    """

    mcpServers: Mapping[str, Server] = attrs.field(  # noqa: N815 (the name that other hosts gave it)
        factory=dict[str, Server], converter=_servers, validator=_check_servers
    )
    """The servers, each with a command or a url; see the README of pluggent-mcp, and pluggent mcp add."""
    file: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path))
    """A JSON file with ``mcpServers``, such as ``.mcp.json`` next to the settings that name it."""
    serve: Serving = attrs.field(factory=Serving)
    """What ``pluggent mcp serve`` offers."""
