"""From what a person calls a model to ``provider/model``: aliases of the settings, and names that providers announce.

An installed package names words of its models' names in its entry points (group ``pluggent.model_names``), so that
nothing is imported and nothing is asked over the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.catalog import Catalog
from pluggent_plugin_loader.entry_points import MODEL_NAMES
from pluggent_plugin_loader.suggestions import did_you_mean


def full_name(name: str, aliases: Mapping[str, str], catalog: Catalog) -> str:
    """Return *name* as ``provider/model``. Raises ConfigError for a name that nothing or more than one thing explains.

    An alias wins over what a provider announces; a name with a slash is whole.
    """
    if not name or "/" in name:
        return name
    if name in aliases:
        return aliases[name]
    announced = announced_words(catalog)
    words = name.lower().split("-")
    providers = sorted({provider for word, provider in announced if word in words})
    if len(providers) == 1:
        return f"{providers[0]}/{name}"
    if providers:
        choices = " or ".join(f"{provider}/{name}" for provider in providers)
        raise ConfigError("model", [f"{name!r} may be {choices}; write which, or make it an alias: [models.aliases]"])
    raise ConfigError("model", [f"{name!r} is not a model: {_advice(name, aliases, announced, catalog)}"])


def announced_words(catalog: Catalog) -> tuple[tuple[str, str], ...]:
    """Return (word, provider) for the providers that may run; a package speaks for its own ones alone."""
    found: list[tuple[str, str]] = []
    for record in catalog.available("provider"):
        found += (
            (entry.name, record.name)
            for entry in record.distribution.entry_points
            if entry.group == MODEL_NAMES and entry.value == record.name
        )
    return tuple(dict.fromkeys(found))


def _advice(name: str, aliases: Mapping[str, str], announced: Iterable[tuple[str, str]], catalog: Catalog) -> str:
    advice = "write provider/model, such as openai/gpt-5-mini"
    if meant := did_you_mean(name, aliases):
        return f"{advice}, or an alias{meant}"
    by_provider: dict[str, list[str]] = {}
    for word, provider in announced:
        by_provider.setdefault(provider, []).append(word)
    known = "; ".join(f"{', '.join(words)} ({provider})" for provider, words in by_provider.items())
    providers = ", ".join(dict.fromkeys(record.name for record in catalog.available("provider")))
    without = f". Names with one of these words need no provider: {known}" if known else ""
    return f"{advice}{without}. Providers: {providers or 'none is installed'}"
