"""A file of settings with every option of this installation, its default and what it is for. All commented out.

What is prose begins with "# ", an option with "#" alone: taking that away sets it, to its default.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pluggent_hookspecs.errors import PluggentError
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.loader import settings_class

from pluggent_cli.config.command_settings import CommandSettings
from pluggent_cli.config.keys import KEYS
from pluggent_cli.config.settings_class import Field, field_docs, fields_of
from pluggent_cli.config.sources import value_at
from pluggent_cli.config.toml import toml_key, toml_value
from pluggent_cli.host_access import Setup
from pluggent_cli.process import loading_plugins
from pluggent_cli.terminal.console import wrapped

_COLUMNS = 80
_HEAD = """\
# Settings of pluggent: every option of this installation, with its default.
# To set one, take away the # before it, and that before its [section].
# Which files are read: pluggent config path. Whether they are right:
# pluggent config check.
"""
_UNSET: Mapping[str, str] = {
    "model": "Not set: offline/demo answers. Choose one with pluggent setup.",
    "on_ask": "Not set: run and chat ask at a terminal; without one run pauses.",
    "principal": "Not set: the name that the system has for you.",
}
_INSTEAD: Mapping[str, Any] = {"model": "offline/demo", "on_ask": "console"}
"""What the example sets in place of defaults that say nothing."""


def example(setup: Setup) -> str:
    """Return the text of the file. Imports every plugin that may run."""
    return "\n".join([_HEAD, *_of_host(setup), *_of_plugins(setup)]).rstrip() + "\n"


# ---- the host ---------------------------------------------------------------------------


def _of_host(setup: Setup) -> Iterator[str]:
    defaults = HostSettings(principal=setup.settings.principal)
    defaults = defaults._replace(grants=defaults.grants.filled_in(setup.discovery.first_party))
    installed = {record.id for record in setup.catalog().records}
    docs: dict[type, Mapping[str, str]] = {}
    for path, (section, name) in _paths():
        if name and path == next(each for each, (other, _) in _paths() if other == section):
            yield from (f"#[{section}]", "")
        value = value_at(path, defaults, CommandSettings())
        if section == "grants":
            value = tuple(each for each in value if each in installed)
        whole: object = value_at(section, defaults, CommandSettings())
        owner = type(whole) if name else _owner(section)
        if owner not in docs:
            docs[owner] = field_docs(owner)
        yield from _prose(f"{docs[owner].get(name or section, '')} {_UNSET.get(path, '')}")
        if isinstance(value, Mapping):
            yield from (f"#[{path}]", "")
        else:
            given = '"none"' if value is None else toml_value(_INSTEAD.get(path, value))
            yield from (f"#{name or section} = {given}", "")


def _owner(setting: str) -> type:
    return CommandSettings if setting in CommandSettings._fields else HostSettings


def _paths() -> list[tuple[str, tuple[str, str]]]:
    """Return each setting with its section and its name in it: single ones first, tables last."""
    plain: list[str] = []
    tables: list[str] = []
    for path, key in KEYS.items():
        if path != "plugins":
            (tables if key.kind.entry or "." in path else plain).append(path)
    # A table inside a section ends that section, so it stands behind all others of it.
    tables.sort(key=lambda path: (_section_order(path), KEYS[path].kind.entry is not None))
    return [(path, (path.partition(".")[0], path.partition(".")[2])) for path in (*plain, *tables)]


def _section_order(path: str) -> int:
    sections = list(dict.fromkeys(each.partition(".")[0] for each in KEYS))
    return sections.index(path.partition(".")[0])


# ---- plugins ----------------------------------------------------------------------------


def _of_plugins(setup: Setup) -> Iterator[str]:
    records: dict[str, list[PluginRecord]] = {}
    for record in setup.catalog().records:
        if record.state == "available":
            records.setdefault(record.id, []).append(record)
    for id, mine in records.items():
        if any(record.kind == "hooks" and not setup.accepts(record) for record in mine):
            yield from (f"# {id}: not shown, because its hooks were not accepted yet: pluggent trust --plugin {id}", "")
            continue
        classes: dict[type, None] = {}
        for record in mine:
            try:
                with loading_plugins():
                    found = settings_class(record)
            except PluggentError as error:
                yield from (*_prose(f"{id}: {error}"), "")
                break
            if found is not None:
                classes[found] = None
        fields = {field.name: field for each in classes for field in fields_of(each)}
        if fields:
            yield from _of_plugin(mine[0], fields)


def _of_plugin(record: PluginRecord, fields: Mapping[str, Field]) -> Iterator[str]:
    yield from _prose(f"{record.id} {record.version}: {record.distribution.summary}")
    yield from (f"#[plugins.{toml_key([record.id])}]", "")
    for field in fields.values():
        value = field.default
        if field.required:
            yield from (*_prose(f"{field.name}: required. {field.about}"), "")
        elif value is None or _is_table_of_tables(field):
            yield from (
                *_prose(f"{field.name}: {field.about} Not set." if field.about else f"{field.name}: not set."),
                "",
            )
        else:
            yield from _prose(field.about)
            try:
                yield f"#{toml_key([field.name])} = {toml_value(value)}"
            except TypeError:
                yield from _prose(f"{field.name}: its default has no form in TOML.")
            yield ""


def _is_table_of_tables(field: Field) -> bool:
    """Say whether it is an empty table or list of settings of their own, such as servers or rules."""
    inner = typing.get_args(field.type)
    return not field.default and isinstance(field.default, Mapping | tuple | list) and any(map(_has_fields, inner))


def _has_fields(each: Any) -> bool:
    return isinstance(each, type) and (hasattr(each, "__attrs_attrs__") or hasattr(each, "__dataclass_fields__"))


def _prose(text: str) -> Iterator[str]:
    text = " ".join(text.replace("``", "").split())
    if text:
        yield from (f"# {line}" for line in wrapped(text, _COLUMNS - 2))
