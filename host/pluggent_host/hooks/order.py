"""Frozen, ordered chains of hook implementations, one per hook, made when a host opens.

What is decided here is order and nothing else; caller.py runs a chain. Order never
depends on registration or on directories: band, then before/after inside it, then the
operator's list, then plugin id.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import attrs
import pluggy
from pluggent_hookspecs import Value
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import IMPL_MARK, Band, HookKind, ImplOptions
from pluggent_hookspecs.observations import Vote
from pluggent_plugin_loader.names import APP

from pluggent_host.settings import HostSettings

_TO_FREEZE: tuple[Band, ...] = ("host-first", "normal", "late", "security", "host-last")
_ONION: tuple[Band, ...] = ("host-first", "security", "normal", "late", "host-last")


def _abstention(impl: Impl) -> tuple[None, Vote]:
    return None, Vote(impl.plugin, "none")


@attrs.frozen(eq=False, repr=False)
class Impl:
    """One implementation: whose it is, what to call, and why it stands where it stands."""

    plugin: str
    function: Callable[..., Any]
    band: Band = "normal"
    blocking: bool = False
    is_async: bool = False
    events: tuple[type, ...] = ()
    incremental: int | None = None
    why: str = ""
    abstains: tuple[None, Vote] = attrs.field(
        init=False, repr=False, default=attrs.Factory(_abstention, takes_self=True)
    )
    """The ballot of no opinion: nearly all are, so it is made once."""


Chain = tuple[Impl, ...]


@attrs.frozen(repr=False)
class Chains(Value):
    """All chains of a host. ``digest`` names this composition: who is in it, in which order."""

    by_hook: Mapping[str, Chain]
    digest: str
    identities: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """What stands for the version and settings of each plugin."""

    def __getitem__(self, hook: str) -> Chain:
        return self.by_hook.get(hook, ())


def build(manager: pluggy.PluginManager, settings: HostSettings, versions: Mapping[str, str]) -> Chains:
    """Return the chains of everything registered with *manager*.

    Raises ConfigError, naming everybody concerned, for a band that was not granted and for
    before/after that form a circle.
    """
    problems: list[str] = []
    by_hook: dict[str, Chain] = {}
    for name, info in HOOKS.items():
        if info.kind is HookKind.PROVIDE:
            continue
        impls = [_impl(hookimpl, settings, problems) for hookimpl in getattr(manager.hook, name).get_hookimpls()]
        if impls:
            by_hook[name] = _ordered(name, info.kind, impls, settings.order, problems)
    if problems:
        raise ConfigError("hooks", sorted(set(problems)))
    plugins = {impl.plugin for chain in by_hook.values() for impl in chain}
    identities = {plugin: _identity(plugin, settings, versions) for plugin in sorted(plugins)}
    return Chains(MappingProxyType(by_hook), _digest(by_hook, versions), MappingProxyType(identities))


def _identity(plugin: str, settings: HostSettings, versions: Mapping[str, str]) -> str:
    what = [plugin, versions.get(plugin, ""), settings.plugins.get(plugin, {})]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def _impl(hookimpl: Any, settings: HostSettings, problems: list[str]) -> tuple[Impl, ImplOptions]:
    plugin, function = hookimpl.plugin_name, hookimpl.function
    options: ImplOptions = getattr(function, IMPL_MARK)
    in_code = plugin.startswith(APP)
    if options.band == "security" and not in_code and plugin not in settings.grants.security:
        problems.append(
            f"plugin '{plugin}' claims the band 'security' for {function.__name__}; "
            f'allow it with [grants] security = ["{plugin}"], or leave it out: --without {plugin}'
        )
    if options.band in ("host-first", "host-last") and not in_code:
        problems.append(f"plugin '{plugin}' claims the band '{options.band}', which belongs to application code")
    impl = Impl(
        plugin, function, options.band, options.blocking, inspect.iscoroutinefunction(function),
        options.events, options.incremental,
    )  # fmt: skip
    return impl, options


def _ordered(
    hook: str,
    kind: HookKind,
    impls: list[tuple[Impl, ImplOptions]],
    operator: tuple[str, ...],
    problems: list[str],
) -> Chain:
    bands = _ONION if kind is HookKind.AROUND else _TO_FREEZE
    chain: list[Impl] = []
    for band in bands:
        members = {impl.plugin: (impl, options) for impl, options in impls if impl.band == band}
        chain += _sorted_band(hook, members, operator, problems)
    return tuple(chain)


def _sorted_band(
    hook: str,
    members: Mapping[str, tuple[Impl, ImplOptions]],
    operator: tuple[str, ...],
    problems: list[str],
) -> Iterable[Impl]:
    behind: dict[str, set[str]] = {plugin: set() for plugin in members}
    for plugin, (_, options) in members.items():
        behind[plugin].update(other for other in options.after if other in members)
        for other in options.before:
            if other in members:
                behind[other].add(plugin)
    rank = {plugin: place for place, plugin in enumerate(operator)}
    waiting = {plugin: set(others) for plugin, others in behind.items()}
    while waiting:
        free = [plugin for plugin, others in waiting.items() if not others & waiting.keys()]
        if not free:
            problems.append(f"{hook}: before/after form a circle: {', '.join(sorted(waiting))}")
            return
        first = min(free, key=lambda plugin: (rank.get(plugin, len(rank)), plugin))
        del waiting[first]
        yield attrs.evolve(members[first][0], why=_why(members[first][0], behind[first], rank))


def _why(impl: Impl, behind: set[str], rank: Mapping[str, int]) -> str:
    reasons = [f"band {impl.band}"]
    if behind:
        reasons.append(f"after {', '.join(sorted(behind))}")
    reasons.append("place in [order]" if impl.plugin in rank else "by plugin id")
    return ", ".join(reasons)


def _digest(by_hook: Mapping[str, Chain], versions: Mapping[str, str]) -> str:
    lines = [
        f"{hook} {impl.plugin} {versions.get(impl.plugin, '')} {impl.band}"
        for hook, chain in sorted(by_hook.items())
        for impl in chain
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
