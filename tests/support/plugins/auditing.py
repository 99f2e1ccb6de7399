"""Logs for tests of the audit: written by real hosts or record by record, read and damaged as files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pluggent_audit.command import AuditCommand
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
from pluggent_audit.verification import in_order, verify
from pluggent_hookspecs import DecisionMade, ProvideEvent, Scope


def decision(n: int = 0, **fields: Any) -> DecisionMade:
    """Return a decision of session s."""
    given: dict[str, Any] = {"verdict": "allow", "by": "host", **fields}
    return DecisionMade(Scope("s", "t"), "tool_call", f"op{n}", "d" * 64, **given)


def written(folder: Path, count: int, **settings: Any) -> Audit:
    """Return a closed audit into which *count* decisions were written."""
    audit = Audit(AuditSettings(folder=str(folder), **settings))
    for n in range(count):
        audit.write_record(decision(n))
    audit.close()
    return audit


def logs(folder: Path) -> list[Path]:
    """Return the files of all logs in *folder*, in order."""
    return sorted(folder.glob("*.jsonl"))


def problems(folder: Path, key: bytes | None = None) -> list[str]:
    """Return what verifying says of the one log in *folder*."""
    return [str(one) for files in in_order(logs(folder)).values() for one in verify(files, key).problems]


def edited(path: Path, edit: Callable[[list[bytes]], Sequence[bytes]]) -> None:
    """Replace the lines of *path* by what *edit* makes of them."""
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))


def command(*words: str, **settings: Any) -> int:
    """Run ``pluggent audit`` with *words*; return its exit code."""
    (made,) = AuditCommand(AuditSettings(**settings)).provide_commands(ProvideEvent())
    parser = argparse.ArgumentParser()
    assert made.configure is not None
    made.configure(parser)
    assert made.run is not None
    return made.run(parser.parse_args(words))
