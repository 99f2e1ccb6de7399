"""``pluggent doctor``: what is wrong with this installation, and the command that mends it.

It loads every plugin for real, which no other listing does. It asks models only with an option.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from pluggent_host.common.escape import escape_all

from pluggent_cli import exits, process
from pluggent_cli.doctor.checks import Check, environment, folders, optional, terminal
from pluggent_cli.doctor.plugins import Loaded, examine
from pluggent_cli.host_access import Setup, gather
from pluggent_cli.parsing import Parser, command_parser, examples
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, Row, wrapped

_MARKS = {"ok": ("green", "✓"), "note": ("yellow", "·"), "problem": ("red", "✗")}
_COLORS = {"active": "green", "failed": "red", "incompatible": "red"}
_HEAD = ("PLUGIN", "VERSION", "OFFERS", "STATE")


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "doctor",
        "[OPTIONS]",
        "Check this installation: Python and versions, settings, folders and who may read them, the terminal;\n"
        "load every plugin and measure what importing it costs at start-up, on top of the host, measured in a\n"
        "process of its own. Every problem comes with what mends it; the exit code is 1 if there is one.",
        examples(
            "pluggent doctor",
            "pluggent doctor --online                   ask every provider for its models, too",
            "pluggent doctor --json | jq '.plugins[] | {plugin, state, cost}'",
        ),
    )
    made.add_argument("--online", action="store_true", help="ask the providers for their models; uses the network")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run all checks and print the results."""
    setup, errors = gather(options)
    log_to(console, debug=options.debug)
    settings = [Check("settings", "problem", str(error), "pluggent config check") for error in errors]
    settings += [Check("settings", "note", note, "") for note in setup.notes]
    return process.run(_examined(setup, options, console, settings))


async def _examined(setup: Setup, options: argparse.Namespace, console: Console, settings: list[Check]) -> int:
    loaded, found = await examine(setup, online=options.online)
    checks = [*environment(), *settings, *folders(setup), *found, *terminal(console), *optional()]
    wrong = [check for check in checks if check.state == "problem"] + [one for one in loaded if one.is_wrong]
    code = exits.FAILED if wrong else exits.OK
    if console.json:
        listed = [check._asdict() for check in checks]
        plugins = [_document(one) for one in loaded]
        console.document({"ok": not wrong, "checks": listed, "plugins": plugins, "exit_code": code})
    else:
        _print(console, checks, loaded)
        told = f"{len(wrong)} problem{'' if len(wrong) == 1 else 's'}" if wrong else "no problems"
        console.line()
        console.line(console.ink("red" if wrong else "green", told))
    return code


def _print(console: Console, checks: Sequence[Check], loaded: Iterable[Loaded]) -> None:
    areas = dict.fromkeys(check.area for check in checks)
    for area in areas:
        console.line(console.ink("bold", area))
        for check in checks:
            if check.area == area:
                _line(console, check)
        if area == "plugins":
            console.table(_HEAD, [_row(one) for one in loaded])


def _line(console: Console, check: Check) -> None:
    style, mark = _MARKS[check.state]
    first, *others = wrapped(escape_all(check.text), console.width - 4)
    console.line(f"  {console.ink(style, mark)} {first}")
    for other in others:
        console.line(f"    {other}")
    if check.mend:
        for line in wrapped(f"to mend it: {escape_all(check.mend)}", console.width - 4):
            console.line(f"    {console.ink('cyan', line)}")


def _row(one: Loaded) -> Row:
    record = one.record
    color = _COLORS.get(one.state, "yellow")
    below = [("red" if one.is_wrong else "plain", one.reason), ("dim", _cost(one))]
    below += [("cyan", f"to mend it: {one.mend}" if one.mend else "")]
    cells = (record.id, record.version, f"{record.kind} {record.name}", one.state)
    return Row(cells, ("bold", "plain", "plain", color), below)


def _cost(one: Loaded) -> str:
    cost = one.cost
    if cost is None or cost.deadly:
        return ""
    if cost.problem:
        return "" if one.state == "failed" else f"not measured: {cost.problem}"
    others = f", also of {', '.join(cost.packages)}" if cost.packages else ""
    return f"import: {cost.wall_ms:.0f} ms ({cost.cpu_ms:.0f} ms CPU), {cost.modules} modules{others}"


def _document(one: Loaded) -> dict[str, Any]:
    return {
        "plugin": one.record.id,
        "version": one.record.version,
        "capability": one.record.capability,
        "state": one.state,
        "reason": one.reason,
        "mend": one.mend,
        "cost": one.cost and one.cost._asdict(),
    }
