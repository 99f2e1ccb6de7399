"""``pluggent audit``: verifies the record and prints it."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

from pluggent_hookspecs import Command, ConfigError, ProvideEvent, hookimpl

from pluggent_audit.chain import FILE_BEGUN, LOG_CLOSED, LOG_OPENED, Head, Line, begun, look, read_line
from pluggent_audit.file_access import folder_of
from pluggent_audit.settings import AuditSettings
from pluggent_audit.verification import Problem, Report, compare, compare_kept, in_order, raw_lines, verify

WHOLE = 0
DAMAGED = 3
"""As for ``pluggent`` itself: what was found is not what was wanted."""
COLUMNS = ("n", "at", "event", "session", "turn", "operation", "verdict", "by", "capability", "call_id", "digest",
           "reason", "record")  # fmt: skip
_NAMED = ("plugin", "state", "hook", "model", "name", "call_id")
"""What else tells records of other kinds apart."""
PLUGIN_STATE = "PluginStateChanged"
_ROUTINE = {
    FILE_BEGUN: {"log", "file", "format"}, LOG_OPENED: {"pid"}, LOG_CLOSED: set[str](),
    "SessionOpened": {"scope", "model", "tools", "chains"}, "SessionClosed": {"scope"},
}  # fmt: skip
"""Records of opening and closing, with the fields that they have if all is well."""
_REASONS = ("reason", "error", "problem", "detail", "why")


class AuditCommand:
    """The plugin behind the command ``audit``; its settings are those of the record."""

    Settings = AuditSettings

    def __init__(self, settings: AuditSettings = AuditSettings()) -> None:  # noqa: B008 (frozen)
        self._settings = settings

    @hookimpl
    def provide_commands(self, event: ProvideEvent) -> list[Command]:
        """Return the one command."""
        return [Command("audit", "whether the audit record is whole, and what stands in it", self._run, _configure)]

    def _run(self, options: argparse.Namespace) -> int:
        files = self._files(options)
        if options.what == "verify":
            return self._verify(files, options)
        lines = _chosen(files, options)
        if options.what == "show":
            _show(list(lines), options)
        elif options.format == "csv":
            _as_csv(lines, sys.stdout)
        else:
            for line in lines:
                sys.stdout.write(json.dumps(_row(line)) + "\n")  # ASCII: nothing in it does anything to a terminal
        return WHOLE

    def _files(self, options: argparse.Namespace) -> dict[str, list[Path]]:
        given = [Path(name) for name in options.files]
        missing = [f"{path}: there is no such file" for path in given if not path.is_file()]
        if missing:
            raise ConfigError("pluggent audit", missing)
        if given:
            return in_order(given)
        folder = folder_of(self._settings, os.environ)
        found = look(folder) if folder.is_dir() else {}
        if not found and not (folder.is_dir() and begun(folder)):
            raise ConfigError("pluggent audit", [f"there is no record in {folder}; name the files, or set folder"])
        return found

    def _verify(self, logs: dict[str, list[Path]], options: argparse.Namespace) -> int:
        wanted = _head(options.head)
        if wanted is not None and len(logs) > 1:
            raise ConfigError("--head", [f"there are {len(logs)} logs here: {', '.join(logs)}; name the files of one"])
        key = None if self._settings.key is None else self._settings.key.reveal().encode()
        if options.files:
            told = [_checked(log, files, key, wanted) for log, files in logs.items()]
        else:
            told = list(_all_checked(folder_of(self._settings, os.environ), logs, key, wanted))
        if options.json:
            _write(json.dumps([_facts(*one) for one in told], indent=2))
        else:
            for log, report, problems in told:
                for problem in problems:
                    _write(str(problem))
                state = f"{len(problems)} problem{'s' * (len(problems) != 1)}" if problems else "whole"
                _write(f"{log}: {report.lines} lines, {state}; head {report.head}")
        return DAMAGED if any(problems for _, _, problems in told) else WHOLE


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("verify", "show", "export"), help="check the chain, read it, or hand it on")
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="files of a log; default: all in the configured folder")
    add("--head", metavar="N:HASH", help="verify: where the log has to end, as kept elsewhere")
    add("--session", metavar="ID", help="records of this session alone")
    add("--verdict", metavar="VERDICT", help="decisions of this verdict alone: allow, deny, ask, approved, refused, …")
    add("--event", metavar="NAME", help="records of this kind alone, such as DecisionMade")
    add("--last", metavar="N", type=int, default=0, help="show: the last N only")
    add("--all", action="store_true", help="show: also what opens and closes (plugins, sessions, the log itself)")
    add("--format", choices=("json", "csv"), default="json", help="export: one JSON object a line, or CSV")
    add("--json", action="store_true", help="verify: print one JSON document")


# ---- verify ----------------------------------------------------------------------------


def _head(text: str | None) -> Head | None:
    try:
        return None if text is None else Head.parse(text)
    except ValueError as error:
        raise ConfigError("--head", [str(error)]) from error


def _checked(log: str, files: list[Path], key: bytes | None, wanted: Head | None) -> tuple[str, Report, list[Problem]]:
    """Verify *files*, which were named: they may be old ones, and the head is that of the newest."""
    report = verify(files, key, whole=False)
    problems = [*report.problems, *(compare(report, wanted, "--head") if wanted is not None else ())]
    kept = files[-1].parent / f"{log}.head"
    if os.path.lexists(kept) and files[-1:] == look(kept.parent).get(log, [])[-1:]:
        problems += compare_kept(report, kept)
    return log, report, problems


def _all_checked(
    folder: Path, logs: dict[str, list[Path]], key: bytes | None, wanted: Head | None
) -> Iterator[tuple[str, Report, list[Problem]]]:
    """Verify every log that was begun in *folder*, those without files too."""
    heads = begun(folder)
    for log, kept in heads.items():
        files = logs.get(log, [])
        report = verify(files, key)
        problems = [*report.problems, *(compare(report, wanted, "--head") if wanted is not None else ())]
        if files or os.path.lexists(kept):
            problems += compare_kept(report, kept)
        else:
            problems.append(Problem(kept.name, 0, "is missing, and later logs are not: so may its lines be"))
        yield log, report, problems


def _facts(log: str, report: Report, problems: list[Problem]) -> dict[str, Any]:
    found = [
        {"file": one.file, "line": one.line, "last": max(one.line, one.last), "what": one.what} for one in problems
    ]
    return {"log": log, "lines": report.lines, "head": str(report.head), "problems": found}


# ---- show, export ----------------------------------------------------------------------


def _chosen(logs: dict[str, list[Path]], options: argparse.Namespace) -> Iterator[Line]:
    for files in logs.values():
        for path in files:
            for raw in _lines_of(path):
                line = read_line(raw.rstrip(b"\n"))
                if line is not None and _matches(line, options):
                    yield line


def _lines_of(path: Path) -> Iterator[bytes]:
    try:
        yield from raw_lines(path)
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror or error}"]) from error


def _matches(line: Line, options: argparse.Namespace) -> bool:
    wanted = (options.session, _scope(line, "session_id")), (options.verdict, line.record.get("verdict")), (
        options.event, line.event)  # fmt: skip
    return all(one is None or one == found for one, found in wanted)


def _scope(line: Line, name: str) -> str:
    scope = line.record.get("scope")
    return str(cast("dict[str, object]", scope).get(name, "")) if isinstance(scope, dict) else ""


def _row(line: Line) -> dict[str, Any]:
    record = line.record
    reason = next((str(record[name]) for name in _REASONS if record.get(name)), "")
    plain = {
        name: str(record.get(name, "")) for name in ("operation", "verdict", "by", "capability", "call_id", "digest")
    }
    where = {"session": _scope(line, "session_id"), "turn": _scope(line, "turn_id")}
    return {"n": line.n, "at": line.at, "event": line.event, **where, **plain, "reason": reason, "record": record}


def _show(lines: list[Line], options: argparse.Namespace) -> None:
    kept = lines if options.all or options.event else [line for line in lines if not _is_routine(line)]
    for line in kept[-options.last :] if options.last else kept:
        _write(_shown(line))
    if (left_out := len(lines) - len(kept)) and sys.stderr is not None:
        records = "1 record" if left_out == 1 else f"{left_out:,} records"
        sys.stderr.write(f"{records} of opening and closing left out: --all shows them\n")


def _is_routine(line: Line) -> bool:
    """Say whether the record says no more than that something opened or closed as it should."""
    record = line.record
    if line.event == PLUGIN_STATE:
        return record.get("state") in ("active", "closed") and not record.get("reason")
    return line.event in _ROUTINE and not set(record) - _ROUTINE[line.event]


def _shown(line: Line) -> str:
    row = _row(line)
    words = [row[name] for name in ("event", "operation", "verdict", "by", "capability") if row[name]]
    words += [str(line.record[name]) for name in _NAMED if line.record.get(name)] + [row["reason"]] * bool(
        row["reason"]
    )
    return f"{row['n']:>6} {row['at']} {row['session'] or '-'} {' '.join(words)}"


def _as_csv(lines: Iterator[Line], to: TextIO) -> None:
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(COLUMNS)
    for line in lines:
        row = _row(line)
        row["record"] = json.dumps(row["record"])
        writer.writerow([_cell(row[name]) for name in COLUMNS])


def _cell(value: object) -> object:
    """Return *value* so that no spreadsheet takes it for a formula and no terminal for a command."""
    if not isinstance(value, str):
        return value
    text = _harmless(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\\") else text


def _harmless(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def _write(text: str) -> None:
    sys.stdout.write("\n".join(_harmless(line) for line in text.split("\n")) + "\n")
