"""The command ``pluggent budget``: how the accounts in the file of the ledger stand."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
from pluggent_hookspecs import Command, ConfigError, ProvideEvent, hookimpl

from pluggent_budget.accounts import Rule, Standing, rule_of
from pluggent_budget.amounts import UNITS, WALL
from pluggent_budget.ledger_file import accept_clock, connected, latest_ms, standing_of, unusable
from pluggent_budget.messages import BEHIND_S, LONGEST_PATH, SECTION, behind, plain
from pluggent_budget.periods import Calendar, Clock, HighWater
from pluggent_budget.settings import BudgetSettings

_ALL = """SELECT key, ends_ms, tokens, nanos, tool_calls, model_calls, wall_ms,
    held_tokens, held_nanos, held_tool_calls, held_model_calls, open, began_ms FROM account ORDER BY key"""


ACCEPT = "pluggent budget --accept-clock"
INSIDE = "PLUGGENT_INSIDE"
"""What is set for processes that a running host started."""


@attrs.frozen
class Line:
    """One account of one limit, as it is shown."""

    rule: Rule
    names: tuple[str, ...]
    ends: float | None
    standing: Standing

    @property
    def json(self) -> dict[str, Any]:
        """The account for programs; amounts in the units of the settings."""
        per = json.loads(self.rule.prefix + "null}")["per"]
        used, held, caps = self.standing.used, self.standing.held, dict(self.rule.caps)
        return {
            "limit": self.rule.about,
            "of": dict(zip(per, self.names, strict=True)),
            "ends": self.ends,
            "units": {
                unit.setting: {
                    "limit": None if place not in caps else caps[place] / unit.scale,
                    "used": used[place] / unit.scale,
                    "reserved": held[place] / unit.scale,
                }
                for place, unit in enumerate(UNITS)
            },
        }


class BudgetCommand:
    """The plugin behind the entry point ``budget`` of the commands."""

    Settings = BudgetSettings

    def __init__(self, settings: BudgetSettings = BudgetSettings(), *, clock: Clock = Clock()) -> None:  # noqa: B008 (frozen)
        self._settings = settings
        self._clock = clock
        self._behind_s = 0.0

    @hookimpl
    def provide_commands(self, event: ProvideEvent) -> Iterable[Command]:
        """Offer ``pluggent budget``."""
        return [Command("budget", "show what is used of the limits that are kept in a file", self._run, _configure)]

    def _run(self, options: argparse.Namespace) -> int:
        if options.accept_clock:
            return self._accept_clock()
        lines = list(self._lines(everything=options.all))
        if options.json:
            sys.stdout.write(json.dumps([line.json for line in lines], indent=2) + "\n")
        else:
            sys.stdout.writelines(f"{line}\n" for line in self._shown(lines))
        return 0

    def _accept_clock(self) -> int:
        """Let the clock here be right. Raises ConfigError if no person does so, or there is no ledger."""
        path = self._settings.file
        if os.environ.get(INSIDE):
            problem = "a person accepts the clock, from a terminal of their own; this was started by a running host"
            raise ConfigError(ACCEPT, [problem])
        if path is None:
            raise ConfigError(ACCEPT, [f"no limit is kept in a file ({SECTION} path)"])
        connection = connected(path, self._settings.busy_s, create=False)
        try:
            accept_clock(connection, int(self._clock.now() * 1000))
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        finally:
            connection.close()
        sys.stdout.write("accepted; hosts that run keep the moment that they know until they end\n")
        return 0

    def _lines(self, *, everything: bool) -> Iterator[Line]:
        """Read the accounts of the limits that are in force. Raises ConfigError if there is no file to read."""
        path, clock = self._settings.file, HighWater(self._clock.now)
        rules = [rule for rule in (rule_of(limit, self._settings) for limit in self._settings.limits) if rule.in_file]
        if path is None or not rules or not path.exists():
            return
        connection = connected(path, self._settings.busy_s, create=False)
        try:
            rows = connection.execute(_ALL).fetchall()
            clock.raised((latest_ms(connection) or 0) / 1000)
            now, self._behind_s = clock(), clock.behind_s
        except sqlite3.Error as error:
            raise unusable(path, error) from error
        finally:
            connection.close()
        for rule in rules:
            for key, ends_ms, *counts in rows:
                if key.startswith(rule.prefix) and (everything or ends_ms is None or ends_ms > now * 1000):
                    ends = None if ends_ms is None else ends_ms / 1000
                    yield Line(rule, tuple(json.loads(key)["is"]), ends, standing_of(counts, now))

    def _shown(self, lines: Iterable[Line]) -> Iterator[str]:
        calendar, about = Calendar(self._settings.zone), None
        if self._settings.file is None:
            yield f"No limit is kept in a file ({SECTION} path): those of turns and sessions live in the host alone."
            return
        yield f"ledger {plain(str(self._settings.file), LONGEST_PATH)}"
        if self._behind_s >= BEHIND_S:
            yield behind(self._behind_s, self._settings.file)
        for line in lines:
            if line.rule.about != about:
                about = line.rule.about
                yield ""
                yield about
            ends = "" if line.ends is None else f", until {calendar.shown(line.ends)}"
            yield f"  {', '.join(map(plain, line.names)) or 'everything'}{ends}"
            yield from _figures(line)
        if about is None:
            yield "nothing has been counted yet"


def _figures(line: Line) -> Iterator[str]:
    used, held = line.standing.used, line.standing.held
    for place, cap in line.rule.caps:
        unit = UNITS[place]
        share = f" ({100 * used[place] / cap:.0f} %)" if cap else ""
        running = f", {unit.figure(held[place])} {'running' if place == WALL else 'reserved'}" if held[place] else ""
        yield f"    {unit.figure(used[place])} of {unit.shown(cap)}{share}{running}"


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="past days and months too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--accept-clock", action="store_true", help="the clock was wrong before, and is right now")
