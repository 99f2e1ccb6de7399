"""Tools that run at a vendor: as the settings declare them, as policies see them, and as a request has them. Pure.

Light on purpose: settings are made with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from pluggent_hookspecs import HostedTool, ModelRequest, Secret, thaw

from pluggent_provider_http.unsendable import UnsendableError

_SECRETS = frozenset({"authorization", "authorization_token", "headers"})
"""Fields of a declaration that say who asks, and nothing of what may be done."""
_READS = frozenset({"network_read"})
_RUNS = frozenset({"shell"})
_EFFECTS: Mapping[str, frozenset[str]] = {
    "codeexecution": _RUNS,
    "codeinterpreter": _RUNS,
    "bash": _RUNS,
    "shell": _RUNS,
    "novacodeinterpreter": _RUNS,
    "filesearch": _READS,
    "googlemaps": _READS,
    "googlesearch": _READS,
    "enterprisewebsearch": _READS,
    "novagrounding": _READS,
    "urlcontext": _READS,
    "webfetch": _READS,
    "websearch": _READS,
    "xsearch": _READS,
    "imagegeneration": frozenset[str](),
    "toolsearch": frozenset[str](),
    "mcp": _READS,
}
"""What tools do, by the letters of their kinds; a remote server lists its tools, and each of its calls is approved."""


def effects_of(kind: str) -> frozenset[str] | None:
    """Return the effects of a kind of tool, whatever its version and case; None is not known, and so not declared.

    >>> sorted(effects_of("web_search_20250305"))
    ['network_read']
    """
    letters = "".join(letter for letter in kind.lower() if letter.isalpha())
    letters = letters.removesuffix("preview").removesuffix("tool")
    return _EFFECTS.get(letters)


@attrs.frozen
class Declared:
    """One tool: its name, its kind, and the declaration that the vendor gets, in which values may be Secrets."""

    name: str
    kind: str
    declaration: Mapping[str, Any] = attrs.field(repr=False)


def offered(provider: str, declared: Iterable[Declared]) -> tuple[HostedTool, ...]:
    """Return *declared* as policies see them, below the name of the *provider*.

    >>> offered("acme", [Declared("web_search", "web_search", {"type": "web_search"})])[0].capability
    'acme:hosted/web_search'
    """
    return tuple(
        HostedTool(f"{provider}:hosted/{each.name}", effects_of(each.kind), _definition(each.declaration))
        for each in declared
    )


def asked(request: ModelRequest, declared: Iterable[Declared]) -> list[dict[str, Any]]:
    """Return the declarations of the tools that *request* may run, in its order.

    Raises UnsendableError for one that is not set up so, ConfigError for a secret that cannot be read.
    """
    if not request.hosted:
        return []
    known = {(each.name, _definition(each.declaration)): each for each in declared}
    found: list[dict[str, Any]] = []
    for tool in request.hosted:
        each = known.get((tool.name, tool.definition))
        if each is None:
            raise UnsendableError(f"hosted: {tool.capability} is not set up here; the operator does it in server_tools")
        found.append({name: _plain(value) for name, value in each.declaration.items()})
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType] (JSON)
    return thaw(value)


def _definition(declaration: Mapping[str, Any]) -> str:
    """Return what identifies *declaration*, without what says who asks: that changes, and is secret."""
    said = {name: _plain(value) for name, value in declaration.items() if name not in _SECRETS}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
