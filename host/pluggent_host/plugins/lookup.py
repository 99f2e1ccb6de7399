"""Finds the provider, embedder, memory store, session store or parser that a name means, and loads its plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import attrs
from pluggent_hookspecs.embeddings import Embedder
from pluggent_hookspecs.errors import ConfigError, NameTaken, PluggentError
from pluggent_hookspecs.events import ProvideEvent
from pluggent_hookspecs.memory import MemoryStore
from pluggent_hookspecs.models import Provider
from pluggent_hookspecs.plans import PlanParser
from pluggent_hookspecs.sessions import SessionStore
from pluggent_plugin_loader.catalog import Catalog, PluginRecord, catalog
from pluggent_plugin_loader.discovery import discover
from pluggent_plugin_loader.loader import make
from pluggent_plugin_loader.names import plugin_of
from pluggent_plugin_loader.settings import Selection
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_host import __version__
from pluggent_host.plugins.registry import Offer, PluginSet
from pluggent_host.settings import HostSettings


@attrs.frozen(eq=False, repr=False)
class Model:
    """A provider, its capability id, and its own name for the model."""

    provider: Provider
    capability: str
    name: str


@attrs.define(eq=False, repr=False)
class Capabilities:
    """The providers, embedders, stores and parsers of one host, by name."""

    _plugins: PluginSet
    _settings: HostSettings
    _models: dict[str, Model] = attrs.field(factory=dict[str, Model])

    async def model(self, name: str) -> Model:
        """Return what ``provider/model`` means. Raises ConfigError or PluginError."""
        if name not in self._models:
            provider, slash, own = name.partition("/")
            if not (provider and slash and own):
                mend = "write provider/model, such as openai/gpt-5-mini"
                raise ConfigError("model", [f"{name!r} is not a model: {mend}"])
            offer, thing = await self._find("provider", provider)
            self._models[name] = Model(thing, f"{offer.plugin}:provider/{thing.name}", own)
        return self._models[name]

    async def embedder(self, name: str) -> tuple[str, Embedder, str]:
        """Return the capability id and the embedder of ``embedder/model``, and its own name for the model.

        Raises ConfigError or PluginError.
        """
        embedder, slash, own = name.partition("/")
        if not (embedder and slash and own):
            mend = "write embedder/model, such as openai/text-embedding-3-small"
            raise ConfigError("model", [f"{name!r} is not a model of an embedder: {mend}"])
        offer, thing = await self._find("embedder", embedder)
        return f"{offer.plugin}:embedder/{thing.name}", thing, own

    async def providers(self, name: str = "") -> Mapping[str, Provider | PluggentError]:
        """Return {name: provider, or the error that makes it unusable}: of *name* alone, or all.

        Raises ConfigError or PluginError if *name* is given and cannot be used.
        """
        if name:
            return {name: (await self._find("provider", name))[1]}
        offers = [*await self._plugins.offers("provider", ())]
        found: dict[str, Provider | PluggentError] = {}
        for record in self._plugins.catalog.available("provider"):
            try:
                offers.append(await self._plugins.offer(record))
            except PluggentError as error:
                found[record.name if record.name not in found else record.capability] = error
        owners: dict[str, str] = {}
        for offer in offers:
            for thing in offer.things:
                other = owners.setdefault(thing.name, offer.plugin)
                taken = f"offers the provider '{thing.name}', and so does {other}, so it means neither"
                found[thing.name] = thing if other == offer.plugin else NameTaken(offer.plugin, "", taken)
        return dict(sorted(found.items()))

    async def store(self, name: str = "") -> tuple[str, MemoryStore]:
        """Return the memory store *name* (default: the only one) and its capability id."""
        if not name:
            in_code = [thing.name for offer in await self._plugins.offers("memory", ()) for thing in offer.things]
            have = in_code or [record.name for record in self._plugins.catalog.available("memory")]
            if len(have) != 1:
                raise ConfigError("memory", [f"say which memory store; there are: {', '.join(have) or 'none'}"])
            name = have[0]
        offer, thing = await self._find("memory", name)
        return f"{offer.plugin}:memory/{thing.name}", thing

    async def sessions(self, name: str) -> SessionStore:
        """Return the session store *name*."""
        return cast("SessionStore", (await self._find("session", name))[1])

    async def parser(self, name: str) -> PlanParser:
        """Return the plan parser *name*."""
        return cast("PlanParser", (await self._find("parser", name))[1])

    async def _find(self, kind: str, name: str) -> tuple[Offer, Any]:
        known = self._plugins.catalog.available(kind)
        records: tuple[PluginRecord, ...] = ()
        every = self._plugins.catalog.by_kind(kind)
        is_installed = any(name in (record.name, record.id) for record in every if record.is_first)
        if not is_installed:
            # A plugin with settings may provide more names than its entry point has, if no other plugin has them.
            records = tuple(record for record in known if record.id in self._settings.plugins)
        offers = [(offer, _called(name, offer.things)) for offer in await self._plugins.offers(kind, records)]
        found = [(offer, thing) for offer, thing in offers if thing is not None]
        if len(found) > 1:
            others = " and ".join(offer.plugin for offer, _ in found)
            raise NameTaken(found[0][0].plugin, "", f"offers the {kind} '{name}', and so do others: {others}")
        if found:
            return found[0]
        in_code = [thing.name for offer in await self._plugins.offers(kind, ()) for thing in offer.things]
        if in_code and not is_installed:
            have = [*in_code, *(record.name for record in known)]
            others = did_you_mean(name, have) or f"; there are: {', '.join(have)}"
            raise ConfigError(kind, [f"there is no {kind} {name!r}{others}"])
        record = self._plugins.catalog.find(kind, name)
        offer = await self._plugins.offer(record)
        thing = _called(name, offer.things) or _called(record.name, offer.things)
        if thing is None:
            have = [thing.name for thing in offer.things]
            provided = ", ".join(have) or "nothing"
            problem = f"plugin '{offer.plugin}' provides {provided}, not {name!r}{did_you_mean(name, have)}"
            raise ConfigError(kind, [problem])
        return offer, thing


def _called(name: str, things: Iterable[Any]) -> Any:
    return next((thing for thing in things if thing.name == name), None)


STATE_FILES = "pluggent-state-files:session/file"
"""The full id: another store could claim the short name."""


def session_files(folder: Path, found: Catalog) -> SessionStore:
    """Return the store of the sessions in the state folder *folder*, whatever the selection of plugins says.

    Raises ConfigError if its plugin is not installed or cannot be used, PluginLoadError if it is broken.
    """

    def of(records: Iterable[PluginRecord]) -> PluginRecord | None:
        return next((each for each in records if each.capability == STATE_FILES and each.is_first), None)

    record = of(found.records) or of(catalog(discover(only=plugin_of(STATE_FILES)), Selection(), __version__).records)
    if record is None:
        mend = "install it: pip install pluggent-state-files"
        raise ConfigError("state_dir", [f"sessions are kept by the plugin pluggent-state-files; {mend}"])
    if record.state not in ("available", "disallowed"):
        raise ConfigError("state_dir", [f"{STATE_FILES} is {record.state}: {record.reason}; {record.mend}"])
    stores: Iterable[SessionStore] = make(record, {"folder": str(folder)}).provide_sessions(ProvideEvent(__version__))
    return next(iter(stores))
