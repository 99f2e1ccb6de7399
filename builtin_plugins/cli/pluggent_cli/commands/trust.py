"""``pluggent trust``: accept a file of the working directory, or a package whose hooks see everything."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_plugin_loader.discovery import Distribution, normalised
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.config.sources import FILE_NAME
from pluggent_cli.host_access import Setup, bare_setup
from pluggent_cli.installed_plugins import folder_of
from pluggent_cli.parsing import Parser, command_parser, examples
from pluggent_cli.terminal.console import Console, Row, warning
from pluggent_cli.terminal.tty import agreed, can_ask, check_outside
from pluggent_cli.trust.store import FILE, LEFT_OUT, Accepted

MOST_SHOWN = 30
"""Files that an acceptance names on the terminal."""


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "trust",
        "[OPTIONS] [FILE]",
        "Accept a file (by default ./pluggent.toml) as it is now, with every file that it refers to; any change\n"
        "ends that. Until then a file of the working directory can only tighten. Or accept one version of a\n"
        "package with hooks: they see every prompt, call and answer, so none runs before it was accepted.",
        examples(
            "pluggent trust                         accept ./pluggent.toml; read it first",
            "pluggent trust --list                  what was accepted, and what has changed since",
            "pluggent trust --plugin acme-audit     look at the hooks of this package, and accept them",
            "pluggent trust --plugin acme-audit==1.2   accept exactly this version, without a question",
            "pluggent trust --revoke [FILE]         no longer",
            "pluggent trust --revoke --plugin acme-audit   nor expect it, if it is gone or in the project",
        ),
    )
    made.add_argument("file", metavar="FILE", nargs="?", help="the file to accept (default: ./pluggent.toml)")
    made.add_argument("--plugin", metavar="PLUGIN", help="accept a package with hooks, in the version that is installed"
                      " now; NAME==VERSION: without a question")  # fmt: skip
    made.add_argument("--revoke", action="store_true", help="accept it no longer")
    made.add_argument("--list", action="store_true", help="show what was accepted")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Accept, revoke or list."""
    if options.plugin is not None and options.file is not None:
        raise ConfigError("pluggent trust", ["accept a FILE or a --plugin, one at a time"])
    if options.list and (options.plugin is not None or options.file is not None or options.revoke):
        raise ConfigError("pluggent trust", ["--list goes with nothing else"])
    setup = bare_setup()
    if options.list:
        return _list(setup, console)
    check_outside("pluggent trust")
    if options.plugin is not None:
        return _plugin(setup, console, options.plugin, revoke=options.revoke)
    return _file(setup, console, Path(options.file or FILE_NAME), revoke=options.revoke)


def _list(setup: Setup, console: Console) -> int:
    entries = setup.trust.store.entries()
    if console.json:
        console.document({"accepted": [entry._asdict() for entry in entries]})
    elif not entries:
        console.line("nothing was accepted yet")
    else:
        console.table(("WHAT", "STATE", "COVERS"), [
            Row((entry.name, entry.state, _covers(entry)),
                ("bold", "green" if entry.state == "accepted" else "red"))
            for entry in entries
        ])  # fmt: skip
    for problem in setup.trust.store.problems():
        console.error(warning(console, problem))
    return exits.OK


def _file(setup: Setup, console: Console, path: Path, *, revoke: bool) -> int:
    shown = escape_all(os.path.realpath(path))
    if revoke:
        return _revoked(console, shown, found=setup.trust.store.revoke(path))
    if not path.exists():
        hint = "" if path != Path(FILE_NAME) else "; to see what was accepted: pluggent trust --list"
        raise ConfigError(str(path), [f"there is no such file{hint}"])
    covered = setup.trust.store.trust_file(path)
    if console.json:
        console.document({"accepted": shown, "covers": list(covered)})
        return exits.OK
    console.line(f"accepted {console.ink('bold', shown)} as it is now")
    for other in covered[1 : MOST_SHOWN + 1]:
        only = " at its top: it is too large, or holds this file" if other.endswith(os.sep) else ""
        console.line(f"  and {'the programs in ' if only else ''}{escape_all(other)}, which it refers to{only}")
    if len(covered) > MOST_SHOWN + 1:
        console.line(f"  and {len(covered) - MOST_SHOWN - 1} more; all of them: pluggent trust --json")
    return exits.OK


def _plugin(setup: Setup, console: Console, name: str, *, revoke: bool) -> int:
    if revoke:
        if _leave_out(setup, console, normalised(name)):
            return exits.OK  # of what is installed elsewhere under this name nothing changes
        expected = setup.remembered().forget(normalised(name))
        accepted = setup.trust.store.forget(normalised(name))
        return _revoked(console, f"plugin '{escape_all(name)}'", found=accepted or expected)
    name, _, version = name.partition("==")
    item = _installed(setup, name)
    if item.left_out or item.name not in setup.discovery.first_party:
        _check_accepted(console, item, version)
    if item.left_out:
        setup.trust.store.accept_source(folder_of(item), item.name, item.version)
    elif item.name in setup.discovery.first_party:
        console.line(f"{item.name} is part of pluggent and needs no acceptance")
        return exits.OK
    if item.has_hooks:
        setup.trust.store.acknowledge(item.name, item.version)
    if console.json:
        console.document({"accepted": item.name, "version": item.version})
    else:
        what = "the hooks of " if item.has_hooks else ""
        console.line(f"accepted {what}{console.ink('bold', item.name)} {escape_all(item.version)}")
        console.line(f"  from {escape_all(item.location)}; another version will be asked about anew")
    return exits.OK


def _check_accepted(console: Console, item: Distribution, version: str) -> None:
    """Show what is to be accepted, and ask; without a terminal the version that a person has looked at has to be named.

    Raises ConfigError if it is another one, or the person does not agree.
    """
    where, exact = "pluggent trust --plugin", f"{item.name}=={item.version}"
    if version and version != item.version:
        raise ConfigError(where, [f"{item.name} {item.version} is installed, not {version}; look at it, then: {exact}"])
    if version:
        return
    lines = [
        f"{item.shown_name} {item.version}, from {item.location}",
        *([f"  {item.summary}"] if item.summary else []),
        *(f"  {entry.group}: {entry.name} = {entry.value}" for entry in item.entry_points),
        f"  hooks in its source: {_hooks(item)}",
    ]
    if not can_ask():
        for line in lines if not console.json else ():
            console.error(escape_all(line))
        raise ConfigError(where, [f"there is no terminal to ask at; to accept exactly this version: {exact}"])
    if not agreed(where, [escape_all(line) for line in lines], "Accept it? It sees what its hooks see. [y/N] "):
        raise ConfigError(where, [f"'{item.name}' was not accepted"])


def _hooks(item: Distribution) -> str:
    # Here and not above: the hooks of the contract need attrs, and --list does without.
    from pluggent_cli.trust.hooks_in_source import hooks_in_source

    found = hooks_in_source(item)
    if found is None:
        return "not known, because its modules cannot be read as source here"
    return ", ".join(found) or "none by name"


def _leave_out(setup: Setup, console: Console, name: str) -> bool:
    """Agree that the plugins of this *name* in the project do not run; return whether there was one to agree on."""
    items = [item for item in setup.discovery.left_out if item.name == name and not item.agreed]
    for item in items:
        setup.trust.store.leave_out_source(folder_of(item), item.name, item.version)
    if items and console.json:
        console.document({"left_out": name, "locations": [item.location for item in items]})
    for item in items if not console.json else ():
        console.line(
            f"left out, because it lies in the project: {console.ink('bold', name)} {escape_all(item.version)}"
        )
        console.line(f"  in {escape_all(item.location)}; to run it after all: pluggent trust --plugin {name}")
    return bool(items)


def _installed(setup: Setup, name: str) -> Distribution:
    found = setup.discovery
    all_items = {item.name: item for item in (*reversed(found.left_out), *found.distributions) if not item.shadowed_by}
    item = all_items.get(normalised(name))
    if item is None:
        raise ConfigError("--plugin", [f"no plugin {name!r} is installed{did_you_mean(normalised(name), all_items)}"])
    if not item.has_hooks and not item.left_out:
        raise ConfigError("--plugin", [f"'{item.name}' has no hooks, so there is nothing to accept; it runs as it is"])
    return item


def _revoked(console: Console, what: str, *, found: bool) -> int:
    if console.json:
        console.document({"revoked": what if found else None})
    else:
        console.line(f"no longer accepted: {what}" if found else f"{what} was not accepted anyway")
    return exits.OK


def _covers(entry: Accepted) -> str:
    if entry.kind == FILE:
        return "itself" if len(entry.about) == 1 else f"itself and {len(entry.about) - 1} more"
    return f"{', '.join(entry.about)}{' (left out)' if entry.kind == LEFT_OUT else ''}"
