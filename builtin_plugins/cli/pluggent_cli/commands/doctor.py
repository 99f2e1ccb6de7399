"""``pluggent doctor``: what is wrong with this installation, and the command that mends it.

It loads every plugin for real, which no other listing does. It asks models only with an option.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pluggent_contract_values.escape import escape_all

from pluggent_cli import exits, process
from pluggent_cli.doctor.checks import Check, environment, folders, optional, terminal
from pluggent_cli.doctor.plugins import Loaded, examine
from pluggent_cli.host_access import Setup, gather
from pluggent_cli.parsing import Parser, command_parser, examples, whole_number
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, Row, wrapped

IMPORT_BUDGET_MS = 500
"""What importing a plugin may take: a person notices half a second at every start."""
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
            "pluggent doctor --import-budget 100        name the plugins that take longer than this to import",
        ),
    )
    made.add_argument("--import-budget", metavar="N", type=whole_number, default=IMPORT_BUDGET_MS, help="milliseconds"
                      " that importing a plugin may take before that is noted"
                      f" (default {IMPORT_BUDGET_MS})")  # fmt: skip
    made.add_argument("--online", action="store_true", help="ask the providers for their models; uses the network")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run all checks and print the results."""
    setup, errors = gather(options)
    if options.debug:  # what is logged otherwise is among the checks
        log_to(console, debug=True)
    settings = [Check("settings", "problem", str(error), "pluggent config check") for error in errors]
    settings += [Check("settings", "note", note, "") for note in setup.notes]
    return process.run(_examined(setup, options, console, settings))


async def _examined(setup: Setup, options: argparse.Namespace, console: Console, settings: list[Check]) -> int:
    loaded, found = await examine(setup, online=options.online)
    slow = _slow(loaded, options.import_budget)
    checks = [*environment(), *settings, *folders(setup), *found, *slow, *terminal(console), *optional()]
    wrong = [check for check in checks if check.state == "problem"]
    wrong_plugins = {(one.record.id, one.reason) for one in loaded if one.is_wrong}
    count = len(wrong) + len(wrong_plugins)
    code = exits.FAILED if count else exits.OK
    if console.json:
        listed = [check._asdict() for check in checks]
        plugins = [_document(one) for one in loaded]
        console.document({"ok": not count, "checks": listed, "plugins": plugins, "exit_code": code})
    else:
        _print(console, checks, loaded)
        told = f"{count} problem{'' if count == 1 else 's'}" if count else "no problems"
        console.line()
        console.line(console.ink("red" if count else "green", told))
    return code


def _slow(loaded: Iterable[Loaded], budget_ms: int) -> Iterator[Check]:
    """Name each plugin whose import takes longer than *budget_ms*."""
    costs = {one.record.id: one.cost for one in loaded if one.cost is not None and not one.cost.problem}
    for id, cost in costs.items():
        if cost.wall_ms > budget_ms:
            text = (
                f"importing '{id}' takes {cost.wall_ms:.0f} ms, more than {budget_ms}: every start that uses it waits"
            )
            mend = f"tell its author (heavy imports belong into its factory), or leave it out: pluggent --without {id}"
            yield Check("plugins", "note", text, mend)


def _print(console: Console, checks: Sequence[Check], loaded: Iterable[Loaded]) -> None:
    areas = dict.fromkeys(check.area for check in checks)
    for area in areas:
        console.line(console.ink("bold", area))
        for check in checks:
            if check.area == area:
                _line(console, check)
        if area == "plugins":
            console.table(_HEAD, list(_rows(loaded)))


def _line(console: Console, check: Check) -> None:
    style, mark = _MARKS[check.state]
    first, *others = wrapped(escape_all(check.text), console.width - 4)
    console.line(f"  {console.ink(style, mark)} {first}")
    for other in others:
        console.line(f"    {other}")
    if check.mend:
        for line in wrapped(f"to mend it: {escape_all(check.mend)}", console.width - 4):
            console.line(f"    {console.ink('cyan', line)}")


def _rows(loaded: Iterable[Loaded]) -> Iterator[Row]:
    """Yield a row for each; what is said of one plugin is said with the first of its entries."""
    said: set[tuple[str, ...]] = set()
    for one in loaded:
        about = (one.record.id, one.reason, one.mend, _cost(one))
        yield _row(one, again=about in said)
        said.add(about)


def _row(one: Loaded, *, again: bool) -> Row:
    record = one.record
    color = _COLORS.get(one.state, "yellow")
    below = [("red" if one.is_wrong else "plain", one.reason), ("dim", _cost(one))]
    below += [("cyan", f"to mend it: {one.mend}" if one.mend else "")]
    below = [] if again else below
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
