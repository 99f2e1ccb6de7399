"""What a paused turn waits with, as a person and as a program read it, and how to answer it."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pluggent_host.awaiting import SHORT
from pluggent_host.cli.output import Console, harmless, wrapped
from pluggent_host.pausing import Pending
from pluggent_host.quoting import quoted

_REPEATED = ("config", "without", "tool")
"""Options of a run that its other part has to have too."""


def pending_document(pending: Sequence[Pending]) -> list[dict[str, Any]]:
    """Return the calls as JSON has them."""
    return [
        {
            "call_id": each.call_id,
            "tool": each.name,
            "capability": each.capability,
            "arguments": json.loads(each.arguments_json),
            "kind": each.kind,
            "digest": each.digest,
            "asks": [{"plugin": plugin, "why": why} for plugin, why in each.asks],
        }
        for each in pending
    ]


def say_paused(console: Console, session: str, pending: Sequence[Pending], options: argparse.Namespace) -> None:
    """Show what waits, on standard error, and the one line that approves it and goes on."""
    asking = [each for each in pending if each.asks]
    ink = console.err_ink
    what = "call" if all(each.kind == "tool_call" for each in asking) else "request"
    console.error(f"{ink('yellow', 'paused:')} {len(asking)} {what}{'s' * (len(asking) != 1)} waiting for an approval")
    for each in asking:
        for line in harmless(each.rendered).split("\n"):
            console.error(f"  {line}")
        for plugin, why in each.asks:
            for line in wrapped(f"{quoted(plugin)} asks: {quoted(why)}", console.width - 2):
                console.error(f"  {line}")
        named = "call" if each.kind == "tool_call" else each.kind.replace("_", " ")
        console.error(ink("dim", f"  {named} {quoted(each.call_id)}, request {quoted(each.digest)}"))
    # By what will run, not by the call's name: the line approves nothing else, whatever happens meanwhile.
    requests = " ".join(each.digest[:SHORT] for each in asking)
    resume = shlex.join(["pluggent", "resume", session, *_again(options)])
    console.error(harmless(f"approve: pluggent approvals approve {session} {requests} && {resume}"))


def _again(options: argparse.Namespace) -> list[str]:
    """Return the options that decide which plugins and tools there are, as they were given."""
    words = ["--safe"] if options.safe else []
    for name in _REPEATED:
        given: list[str] | str | None = getattr(options, name)
        for value in given if isinstance(given, list) else [given] if given else ():
            words += [f"--{name}", str(Path(value).absolute()) if name == "config" else value]
    return words
