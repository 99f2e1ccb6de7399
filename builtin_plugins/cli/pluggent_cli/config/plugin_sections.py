"""Checks what the settings say about plugins, and the sections of plugins by their own settings classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pluggent_hookspecs.errors import ConfigError, PluggentError
from pluggent_host.inspection import look_around
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.loader import check_settings

from pluggent_cli.host_access import Setup
from pluggent_cli.process import loading_plugins


def check_plugins(setup: Setup) -> Iterator[tuple[str, str | Sequence[PluggentError]]]:
    """Yield each plugin that has a section, with the errors in it, or why it was not looked at.

    What is wrong with the lists of plugins comes first, under an empty id. Imports the plugins
    that have a section, and no other.
    """
    try:
        catalog = look_around(setup.settings, installed=setup.discovery, acknowledged=None)
    except ConfigError as error:
        yield "", (error,)
        try:
            catalog = setup.catalog()
        except ConfigError:
            return  # its lists are wrong: that has been said
    for id in sorted(setup.settings.plugins):
        records = [record for record in catalog.records if record.id == id]
        if not records:
            continue  # that nothing of this name is installed has been said
        usable = [record for record in records if record.state == "available" and _is_accepted(setup, record)]
        if usable:
            yield id, tuple(_errors(setup, usable))
        else:
            yield id, _why_not(records[0])


def _is_accepted(setup: Setup, record: PluginRecord) -> bool:
    return record.kind != "hooks" or setup.accepts(record)


def _why_not(record: PluginRecord) -> str:
    if record.state != "available":
        return f"it is {record.state}: {record.reason}"
    return f"its hooks were not accepted yet: pluggent trust --plugin {record.id}"


def _errors(setup: Setup, records: Sequence[PluginRecord]) -> Iterator[PluggentError]:
    for record in records:
        try:
            with loading_plugins():
                check_settings(record, setup.settings.plugins[record.id])
        except ConfigError as error:
            yield from (ConfigError("settings", [problem]) for problem in error.problems)
        except PluggentError as error:
            yield error
