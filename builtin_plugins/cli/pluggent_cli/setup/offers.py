"""Which providers there are to set up: those installed, and the servers of one's own that they can ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError, PluggentError
from pluggent_host.inspection import DEFAULT_MODEL
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.loader import settings_class
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli.host_access import Setup
from pluggent_cli.process import loading_plugins
from pluggent_cli.setup.questions import SERVERS, Example, asked, examples, server_class

OTHER = "other"
"""What a server is called that the person is to name."""


class Offer(NamedTuple):
    """One choice. ``settings`` is the class to ask for, None where the provider takes none.

    A server of one's own stands at ``servers.NAME`` of the plugin's section; ``name`` is empty where the person
    is to name it. ``given`` are settings that are known already. A ``keyless`` one needs no key as a rule.
    """

    name: str
    about: str
    record: PluginRecord
    settings: type | None
    is_server: bool = False
    given: Mapping[str, Any] = MappingProxyType({})
    keyless: bool = False

    def path(self, name: str) -> tuple[str, ...]:
        """Return where its settings stand, as provider *name*, in a file."""
        return ("plugins", self.record.id, *((SERVERS, name) if self.is_server else ()))


def offers(setup: Setup) -> tuple[tuple[Offer, ...], tuple[str, ...]]:
    """Return every choice, and a sentence about each provider that cannot be loaded. Imports their plugins."""
    plugins: list[Offer] = []
    local: list[Offer] = []
    others: list[Offer] = []
    # A first-party plugin keeps its names while it may not run: a server of one's own cannot have one of them.
    taken = {record.name for record in setup.catalog().by_kind("provider")}
    problems: list[str] = []
    for record in setup.catalog().available("provider"):
        if record.name == DEFAULT_MODEL.partition("/")[0]:
            continue  # it answers without being set up
        try:
            with loading_plugins():
                settings = settings_class(record)
        except PluggentError as error:
            problems.append(str(error))
            continue
        inner = None if settings is None else server_class(settings)
        if settings is None or inner or asked(settings, optional=False):
            plugins.append(Offer(record.name, record.id, record, settings))
        if settings is not None and inner is not None:
            free = [example for example in examples(settings) if example.name not in taken]
            known = [_on_this_machine(example, record, inner) for example in free]
            own = [*_of_settings(setup, record, inner)]
            local += [*own, *(one for one in known if one.name not in {server.name for server in own})]
            others.append(Offer("", f"another server that speaks as {record.name} does", record, inner, is_server=True))
    return (*plugins, *local, *others), tuple(problems)


def _on_this_machine(example: Example, record: PluginRecord, inner: type) -> Offer:
    about = f"{record.id}, a server at {example.settings.get('base_url', '?')}"
    return Offer(example.name, about, record, inner, is_server=True, given=example.settings, keyless=True)


def _of_settings(setup: Setup, record: PluginRecord, inner: type) -> Iterator[Offer]:
    """Yield the servers of one's own that the settings name already."""
    section: Mapping[str, object] = setup.settings.plugins.get(record.id, {})
    for name, values in _tables(section.get(SERVERS)).items():
        url = _tables(values).get("base_url")
        if isinstance(url, str):
            about = f"{record.id}, your server at {url}"
            yield Offer(name, about, record, inner, is_server=True, given={"base_url": url})


def _tables(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def chosen(answer: str, found: tuple[Offer, ...]) -> Offer:
    """Return the offer that *answer*, a number or a name, means. Raises ConfigError, which does not repeat it."""
    if answer.isdecimal() and 0 < int(answer) <= len(found):
        return found[int(answer) - 1]
    named = [one for one in found if one.name and answer in (one.name, one.record.id)]
    if named:
        return named[0]
    names = [one.name for one in found if one.name]
    if answer == OTHER and (unnamed := [one for one in found if not one.name]):
        if len(unnamed) == 1:
            return unnamed[0]
        numbers = " or ".join(str(number) for number, one in enumerate(found, 1) if not one.name)
        raise ConfigError("pluggent setup", [f"several are called {OTHER}; type the number: {numbers}"])
    meant = did_you_mean(answer, names)
    # What was typed is not repeated: it may be a key.
    known = ", ".join(names) or "none is installed"
    raise ConfigError("pluggent setup", [f"there is no such provider{meant or '.'} There are: {known}"])
