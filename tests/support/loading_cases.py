"""Plugins to be loaded or refused, and what a manager holds before and after."""

from collections.abc import Callable
from pathlib import Path

import pluggy
import pytest
from fake_distributions import install
from pluggent_hookspecs import HOOKS, PluginLoadError
from pluggent_host.plugins.catalog import PluginRecord, catalog
from pluggent_host.plugins.discovery import discover
from pluggent_host.settings import Selection

HEADER = "import attrs\nfrom pluggent_hookspecs import hookimpl, Secret\n"


def record_of(site: Path, source: str, *, entry: str = "hooks/guard", value: str = "acme_guard:Plugin") -> PluginRecord:
    """Install a distribution ``acme-guard`` with one module and return its record."""
    install(site, "acme-guard", {entry: value}, version="1.2", modules={"acme_guard": source})
    (record,) = catalog(discover([str(site)]), Selection(), "0.1.0").records
    return record


def contents(manager: pluggy.PluginManager) -> object:
    """Return all that a manager holds, for comparison."""
    impls = {name: [impl.plugin_name for impl in getattr(manager.hook, name).get_hookimpls()] for name in HOOKS}
    return [name for name, _ in manager.list_name_plugin()], impls, sorted(vars(manager.hook))


def refusal(manager: pluggy.PluginManager, action: Callable[[], object]) -> str:
    """Return what the error says; the manager must be as it was."""
    before = contents(manager)
    with pytest.raises(PluginLoadError) as caught:
        action()
    assert contents(manager) == before
    assert caught.value.__cause__ is not None
    return str(caught.value)
