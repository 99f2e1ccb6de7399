"""``pluggent config``: the settings in force and where each comes from, what is wrong with them, which files count."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError

from pluggent_cli import exits
from pluggent_cli.config.places import place_of
from pluggent_cli.config.report import Setting, effective
from pluggent_cli.config.sources import FILE_NAME, Source, load_bytes, sources
from pluggent_cli.host_access import Setup, gather, named_config, prepare, working_directory
from pluggent_cli.parsing import Parser, action, command_parser, examples
from pluggent_cli.terminal.console import Console, Row, cut, escape_controls

ACTIONS = ("show", "check", "path", "example")
_ROLES = {
    "system": "of the whole system", "user": "your own", "named": "named by --config",
    "project": "of the working directory",
}  # fmt: skip
_SHOWN = 200
_DEFAULTS = {
    "model": "default: offline/demo answers",
    "principal": "default: the name that the system has for you",
    "on_ask": "default: run asks at a terminal, and pauses where there is none",
}


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "config",
        "[OPTIONS] [show | check | path | example]",
        "Show every setting in force with its value and where that comes from; check everything that is set, and\n"
        "that a run would begin; list the files that are read; or print a file of all options of this installation.\n"
        "Texts among the settings of plugins are not shown: one may be a secret. References such as env:NAME are.",
        examples(
            "pluggent config                        every setting, one a line",
            "pluggent config --json | jq -r '.settings[] | select(.origin) | .key'     what is not a default",
            "pluggent config check && pluggent run …",
            "pluggent config path",
            "pluggent config example > pluggent.toml     every option there is, with its default",
        ),
    )
    made.add_argument("words", metavar="ACTION", nargs="*", help=f"one of {', '.join(ACTIONS)} (default: show)")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Show or check the settings, or list their files."""
    what, rest = action("config", options.words, ACTIONS)
    if rest:
        raise ConfigError(f"pluggent config {what}", [f"takes no name, got {rest[0]!r}"])
    match what:
        case "check":
            return _check(options, console)
        case "path":
            return _path(options, console)
        case "example":
            return _example(prepare(options, console), console)
        case _:
            return _show(prepare(options, console), console)


# ---- show -------------------------------------------------------------------------------


def _show(setup: Setup, console: Console) -> int:
    settings = tuple(effective(setup.settings, setup.origins, setup.command))
    if console.json:
        console.document({"settings": [_document(one) for one in settings], "notes": list(setup.notes)})
        return exits.OK
    for one in settings:
        value = cut(escape_all(one.text), _SHOWN)
        origin = escape_all(str(one.origin)) if one.origin else _DEFAULTS.get(one.key, "default")
        line = (
            f"{console.ink('bold', escape_all(one.key))} = {value}"
            if one.origin
            else f"{escape_all(one.key)} = {value}"
        )
        console.line(f"{line}  {console.ink('dim', f'# {origin}')}")
    return exits.OK


def _document(one: Setting) -> dict[str, Any]:
    origin = one.origin
    return {
        "key": one.key,
        "value": one.value,
        "withheld": one.withheld,
        "origin": origin and {"kind": origin.kind, "where": origin.where, "line": origin.line,
                              "also": [{"kind": also.kind, "where": also.where, "line": also.line}
                                       for also in origin.also]},
    }  # fmt: skip


# ---- check ------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Something wrong: ``where`` is a file, a variable, or what the settings are of."""

    where: str
    text: str
    code: int = exits.USAGE


def _check(options: argparse.Namespace, console: Console) -> int:
    setup, errors = gather(options)
    problems = [problem for error in errors for problem in _of(error, setup)]
    checked: list[str] = []
    skipped: list[tuple[str, str]] = []
    # Here and not above: looking at plugins takes the host, showing settings does not.
    from pluggent_cli.config.plugin_sections import check_plugins

    for id, outcome in check_plugins(setup):
        if isinstance(outcome, str):
            skipped.append((id, outcome))
        else:
            checked += [id] if id else []
            problems += [problem for error in outcome for problem in _of(error, setup)]
    if not problems:
        # As above. What is right one by one is now tried together.
        from pluggent_cli.config.opening import refusal

        refused, warnings = refusal(setup)
        problems += _of(refused, setup) if refused is not None else ()
        setup = setup._replace(notes=(*setup.notes, *warnings))
    code = max((problem.code for problem in problems), default=exits.OK, key=_GRAVITY.index)
    _print_check(console, setup, problems, checked, skipped, code)
    return code


_GRAVITY = (exits.OK, exits.FAILED, exits.PLUGIN, exits.USAGE)
"""Exit codes, the one that counts before all others last."""


def _of(error: Exception, setup: Setup) -> Iterator[Problem]:
    code = exits.code_of(error)
    if isinstance(error, ConfigError):
        yield from (Problem(*place_of(setup.origins, error.path, problem), code) for problem in error.problems)
    else:
        yield Problem("", str(error), code)


def _print_check(
    console: Console, setup: Setup, problems: Iterable[Problem], checked: list[str],
    skipped: Iterable[tuple[str, str]], code: int,
) -> None:  # fmt: skip
    problems = tuple(dict.fromkeys(problems))
    if console.json:
        console.document({
            "problems": [{"where": one.where, "problem": one.text} for one in problems],
            "checked": checked, "skipped": [{"plugin": id, "why": why} for id, why in skipped],
            "notes": list(setup.notes), "exit_code": code,
        })  # fmt: skip
        return
    for one in problems:
        where = f"{console.ink('bold', escape_all(one.where))}: " if one.where else ""
        console.line(f"{console.ink('red', '✗')} {where}{escape_all(one.text)}")
    for id, why in skipped:
        console.line(f"{console.ink('yellow', '·')} {escape_all(id)}: not checked: {escape_all(why)}")
    for note in setup.notes:
        console.line(f"{console.ink('yellow', '·')} {escape_all(note)}")
    among = f" (with the settings of {', '.join(map(escape_all, checked))})" if checked else ""
    if problems:
        console.line(f"{len(problems)} problem{'' if len(problems) == 1 else 's'}{among}")
    else:
        console.line(f"{console.ink('green', '✓')} the settings are right{among}")


# ---- example ----------------------------------------------------------------------------


def _example(setup: Setup, console: Console) -> int:
    # Here and not above: looking at settings classes takes the host and imports every plugin.
    from pluggent_cli.config.example import example

    text = example(setup)
    if console.json:
        console.document({"file": FILE_NAME, "text": text})
    else:
        console.write(escape_controls(text))
    return exits.OK


# ---- path -------------------------------------------------------------------------------


def _path(options: argparse.Namespace, console: Console) -> int:
    setup, _ = gather(options)
    found = sources(config=named_config(options), environ=os.environ, cwd=working_directory())
    states = [(source, *_state(source, setup)) for source in found]
    if console.json:
        console.document({"files": [
            {"path": str(source.path), "role": source.role, "state": state, "mend": mend}
            for source, state, mend in states
        ]})  # fmt: skip
        return exits.OK
    console.table(("FILE", "WHICH", "STATE"), [
        Row((str(source.path), _ROLES[source.role], state), ("bold", "plain", _COLORS.get(state, "red")),
            [("cyan", f"to change that: {mend}" if mend else "")])
        for source, state, mend in states
    ])  # fmt: skip
    return exits.OK


_COLORS = {"read": "green", "not there": "dim", "not trusted: it may only tighten": "yellow"}


def _state(source: Source, setup: Setup) -> tuple[str, str]:
    """Return what becomes of the file, and the command that changes it."""
    try:
        content = load_bytes(source.path)
    except ConfigError as error:
        missing = isinstance(error.__cause__, FileNotFoundError)
        return ("not there", "") if missing else ("; ".join(error.problems), "")
    if source.role != "project":
        return "read", ""
    try:
        trusted = setup.trust.is_trusted(source.path, content)
    except ConfigError as error:
        return f"not trusted: {error}", ""
    if trusted:
        return "read", ""
    return "not trusted: it may only tighten", f"read it, then {shlex.join(['pluggent', 'trust', str(source.path)])}"
