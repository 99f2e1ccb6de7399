"""``pluggent plugins``: everything installed, its state, why, and what mends it. Loads no plugin.

Imports the standard library alone: this command is used when an import is broken.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.catalog import Catalog, PluginRecord
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.host_access import Setup, prepare, recorded_failures
from pluggent_cli.parsing import Parser, action, command_parser, examples, one_name
from pluggent_cli.table import NAMES
from pluggent_cli.terminal.console import Console, Row, warning

_HEAD = ("PLUGIN", "VERSION", "OFFERS", "STATE")
_COLORS = {"available": "green", "failed": "red", "incompatible": "red", "not accepted": "yellow"}


class Seen(NamedTuple):
    """One entry of a plugin as it is shown."""

    record: PluginRecord
    state: str
    reason: str
    mend: str


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "plugins",
        "[OPTIONS] [show NAME]",
        "Show what is installed, in which state it is, why, and what to do about it. Nothing is imported.\n"
        "A plugin that failed to load the last time is shown as failed until it has loaded again.",
        examples(
            "pluggent plugins",
            "pluggent plugins show pluggent-guard      everything about one plugin",
            "pluggent plugins --json | jq -r '.plugins[] | select(.state != \"available\") | .plugin'",
            "pluggent plugins --safe                   what would run in safe mode",
        ),
    )
    made.add_argument("words", metavar="show NAME", nargs="*", help="everything about one plugin, by id or entry name")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the list, or one plugin."""
    what, rest = action("plugins", options.words, ("show",))
    setup = prepare(options, console)
    catalog = setup.catalog()
    seen = tuple(_seen(setup, catalog))
    if what == "show":
        _show(setup, console, _named(one_name("plugins show", rest), seen))
    elif console.json:
        problems = [problem._asdict() for problem in catalog.problems]
        listed = [_document(one) for one in seen]
        console.document({"plugins": listed, "problems": problems, "skipped": list(setup.discovery.skipped)})
    else:
        _list(setup, console, catalog, seen)
    return exits.OK


# ---- states -----------------------------------------------------------------------------


def _seen(setup: Setup, catalog: Catalog) -> Iterable[Seen]:
    failures = recorded_failures(setup.state_dir)
    for record in catalog.records:
        failure = failures.get(record.capability)
        if record.state != "available":
            yield Seen(record, record.state, record.reason, record.mend)
        elif record.kind == "hooks" and not setup.accepts(record):
            mend = f"pluggent trust --plugin {record.id}"
            yield Seen(record, "not accepted", "it has hooks, which see everything", mend)
        elif record.kind == "command" and record.name in NAMES:
            yield Seen(record, "shadowed", f"'{record.name}' is a command of pluggent itself", "")
        elif failure is not None and failure.version == record.version:
            who = f"plugin '{record.id}' ({record.distribution.shown_name} {record.version}) "
            yield Seen(record, "failed", f"on {failure.when} it {failure.reason.removeprefix(who)}", "")
        else:
            yield Seen(record, "available", setup.required_by(record.id), "")


def _named(name: str, seen: Sequence[Seen]) -> list[Seen]:
    found = [one for one in seen if name in (one.record.id, one.record.name, one.record.capability)]
    if not found:
        known = [word for one in seen for word in (one.record.id, one.record.name)]
        raise ConfigError("pluggent plugins show", [f"no plugin {name!r} is installed{did_you_mean(name, known)}"])
    return found


# ---- printing ---------------------------------------------------------------------------


def _list(setup: Setup, console: Console, catalog: Catalog, seen: Sequence[Seen]) -> None:
    if seen:
        console.table(_HEAD, [_row(one) for one in seen])
    else:
        console.line("no plugins are installed; to begin with: pip install pluggent")
    for problem in catalog.problems:
        console.error(warning(console, str(problem)))
    for folder in setup.discovery.skipped if console.verbose else ():
        text = f"not searched, because it lies in the working directory: {escape_all(folder)}"
        console.note(console.err_ink("dim", text))


def _row(one: Seen) -> Row:
    record = one.record
    below = [("plain", one.reason), ("cyan", f"to mend it: {one.mend}" if one.mend else "")]
    styles = ("bold", "plain", "plain", _COLORS.get(one.state, "yellow"))
    return Row((record.id, record.version, f"{record.kind} {record.name}", one.state), styles, below)


def _show(setup: Setup, console: Console, found: Sequence[Seen]) -> None:
    if console.json:
        console.document({"plugins": [_document(one) for one in found]})
        return
    for id in dict.fromkeys(one.record.id for one in found):
        entries = [one for one in found if one.record.id == id]
        item = entries[0].record.distribution
        title = f"{console.ink('bold', item.shown_name)} {escape_all(item.version)}"
        console.line(f"{title}  {escape_all(item.summary)}".rstrip())
        console.line(f"  installed in  {escape_all(item.location)}")
        console.line(f"  contract      pluggent-hookspecs {escape_all(item.contract) or '(it does not say which)'}")
        if grants := _granted(setup, id):
            console.line(f"  granted       {', '.join(grants)}")
        if id in setup.settings.plugins:
            console.line(f"  settings      {', '.join(_origins(setup, id)) or 'none'}")
        for one in entries:
            state = console.ink(_COLORS.get(one.state, "yellow"), one.state)
            console.line(f"  {escape_all(one.record.capability)} = {escape_all(one.record.value)}  {state}")
            for text in (one.reason, f"to mend it: {one.mend}" if one.mend else ""):
                if text:
                    console.line(f"    {escape_all(text)}")


def _granted(setup: Setup, id: str) -> list[str]:
    return [name for name, ids in setup.settings.grants.of_plugins.items() if id in ids]


def _origins(setup: Setup, id: str) -> list[str]:
    """Return where each setting of the plugin comes from; values stay unseen, they may be secret."""
    prefix = f"plugins.{id}."
    return [f"{escape_all(key.removeprefix(prefix))} ({escape_all(str(where))})"
            for key, where in setup.origins.items() if key.startswith(prefix)]  # fmt: skip


def _document(one: Seen) -> dict[str, Any]:
    record = one.record
    return {
        "plugin": record.id,
        "version": record.version,
        "kind": record.kind,
        "name": record.name,
        "capability": record.capability,
        "value": record.value,
        "state": one.state,
        "reason": one.reason,
        "mend": one.mend,
        "summary": record.distribution.summary,
        "contract": record.distribution.contract,
        "location": record.distribution.location,
    }
