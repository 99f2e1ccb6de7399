"""How a request that waits for a person is shown: in a prompt, when a turn pauses, and in ``pluggent approvals``.

All three show the same lines of the frozen request, escaped and broken so that no text of a model or
a plugin looks like a line of ours.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pluggent_contract_values.escape import escape_all
from pluggent_transcript.pending import Pending

from pluggent_cli.sessions.pending import SHORT, Call, Waiting
from pluggent_cli.terminal.console import Console, Row, escape_controls, hanging, moment

_REPEATED = ("config", "without", "tool")
"""Options of a run that its resumption needs too."""


def request_lines(
    rendered: str, asks: Iterable[tuple[str, str]], columns: int, *, approvers: Iterable[Sequence[str]] = ()
) -> list[str]:
    """Return the request, who asks and why, and to whom an approval is limited."""
    lines = hanging(rendered, columns)
    for plugin, why in asks:
        lines += hanging(f"{escape_all(plugin)} asks: {escape_all(why)}", columns)
    for names in approvers:
        lines += hanging(f"can be approved only by {escape_all(' or '.join(names))}", columns)
    return lines


def request_name(kind: str, id: str, digest: str) -> str:
    """Return what a request is called on the command line."""
    named = "call" if kind == "tool_call" else kind.replace("_", " ")
    return f"{escape_all(named)} {escape_all(id)}, request {escape_all(digest)}"


# ---- stored requests --------------------------------------------------------------------


def waiting_rows(one: Waiting) -> Iterable[Row]:
    """Return the rows of one session in the list."""
    since = moment(one.at_s)
    asked = [call for call in one.calls if call.asks]
    if not one.open:
        yield Row((one.session, since, "", "", "", "answered"), ("bold",), [("dim", f"pluggent resume {one.session}")])
        return
    for call in asked:
        cells = (one.session, since, call.call_id, call.tool, call.digest[:SHORT], call.answer or "waits")
        yield Row(cells, ("bold", "plain", "plain", "cyan"))


def waiting_document(one: Waiting) -> dict[str, Any]:
    """Return one session for JSON."""
    return {
        "session": one.session,
        "turn": one.turn,
        "since_s": one.at_s,
        "calls": [
            {**call._asdict(), "asks": [{"plugin": plugin, "why": why} for plugin, why in call.asks]}
            for call in one.calls
        ],
    }


def call_lines(call: Call, width: int) -> list[str]:
    """Return a stored request as a person reads it before answering."""
    lines = request_lines(call.rendered, call.asks, width, approvers=call.approvers)
    if not call.asks:
        lines.append("asks for nothing itself: it runs after the call before it")
    if call.reach != "always":
        lines.append(reach_of(call))
    if call.principal:
        lines.append(f"asked for by {escape_all(call.principal)}")
    if call.workspace:
        lines.append(f"in the folder {escape_all(call.workspace)}")
    if call.answer:
        reason = f": {escape_all(call.reason)}" if call.reason else ""
        lines.append(f"{call.answer} by {escape_all(call.by)}{reason}")
    return [*lines, request_name(call.kind, call.call_id, call.digest)]


def reach_of(call: Call) -> str:
    """Return how far an approval of *call* can reach, as a clause about it."""
    once = "this call alone" if call.kind == "tool_call" else "this request alone"
    far = {"once": once, "session": "the session at most"}
    return f"can be approved for {far.get(call.reach, 'every session in its folder')}"


# ---- a turn that has just paused ---------------------------------------------------------


def pending_document(pending: Sequence[Pending]) -> list[dict[str, Any]]:
    """Return the requests of a paused turn for JSON."""
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


def say_paused(
    console: Console, session: str, pending: Sequence[Pending], options: argparse.Namespace, why: str = ""
) -> None:
    """Show the requests of a paused turn on standard error, and the one line that approves and resumes.

    *why* is what the turn waits for where it asks nothing.
    """
    asking = [each for each in pending if each.asks]
    ink = console.err_ink
    resume = shlex.join(["pluggent", "resume", session, *_again(options)])
    if not asking:
        console.error(f"{ink('yellow', 'paused:')} {escape_all(why)}")
        console.error(escape_controls(f"to fetch the reply: {resume}"))
        return
    what = "call" if all(each.kind == "tool_call" for each in asking) else "request"
    console.error(f"{ink('yellow', 'paused:')} {len(asking)} {what}{'s' * (len(asking) != 1)} waiting for an approval")
    for each in asking:
        named = request_name(each.kind, each.call_id, each.digest)
        lines = [*request_lines(each.rendered, each.asks, console.width - 2), ink("dim", named)]
        for line in lines:
            console.error(f"  {line}")
    # By what will run, not by the call's name: the line approves nothing else, whatever happens meanwhile.
    requests = " ".join(each.digest[:SHORT] for each in asking)
    console.error(escape_controls(f"approve: pluggent approvals approve {session} {requests} && {resume}"))


def _again(options: argparse.Namespace) -> list[str]:
    """Return the options that select plugins and tools, as they were given."""
    words = ["--safe"] if options.safe else []
    for name in _REPEATED:
        given: list[str] | str | None = getattr(options, name)
        for value in given if isinstance(given, list) else [given] if given else ():
            words += [f"--{name}", str(Path(value).absolute()) if name == "config" else value]
    return words
