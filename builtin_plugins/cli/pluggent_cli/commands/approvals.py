"""``pluggent approvals``: what waits for a person in any session, and answering it.

Listing and showing take no lease; no plugin but a store that the settings name is loaded. Approving wants a person at a
terminal who has read the request there, or an approver's key; denying needs neither.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, SessionError

from pluggent_cli import exits
from pluggent_cli.approvals.refusals import MOST, cleaned, words_after_no
from pluggent_cli.approvals.standing import forget, key_holder, new_key, patterns, standing
from pluggent_cli.approvals.view import call_lines, reach_of, request_name, waiting_document, waiting_rows
from pluggent_cli.host_access import prepare_to_look
from pluggent_cli.parsing import Parser, action, command_parser, examples, one_name, typed_text
from pluggent_cli.sessions.pending import SHORT, Call, Waiting, all_waiting, answer_stored, named, waiting_in
from pluggent_cli.sessions.store import Sessions, open_sessions
from pluggent_cli.terminal.console import Console, moment, warning
from pluggent_cli.terminal.tty import answer_to, check_outside, is_yes, who

ACTIONS = ("list", "show", "approve", "deny", "expire", "standing", "forget", "new-key")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_LONG = "7d"


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "approvals",
        "[OPTIONS] [list | show SESSION [CALL] | approve SESSION CALL … | deny SESSION CALL … | expire\n"
        "                           | standing | forget ID | new-key NAME FILE]",
        "Look at what waits for an approval (tool calls, what was said, requests to the model), and answer it. A\n"
        f"CALL is named by its id or by the first {SHORT} characters of its request, which say exactly what will\n"
        "run. An answer is kept with the session; pluggent resume continues the turn, and every policy decides once\n"
        "more before anything runs.",
        examples(
            "pluggent approvals                                 everything that waits, in all sessions",
            "pluggent approvals show trip",
            "pluggent approvals approve trip 023a10b829c2316c   asks you at the terminal",
            "pluggent approvals approve trip --all --always --where 'path=/srv/reports/*'",
            "pluggent approvals approve trip --all --key env:ACME_APPROVER   where no person is at a terminal",
            'pluggent approvals deny trip --all --reason "not before Monday"',
            "pluggent approvals expire --older-than 2d          deny what was not answered for two days",
            "pluggent approvals standing                        what holds always; forget ID takes it back",
            "pluggent approvals new-key ann ann.key             make a key, and say what to write in the settings",
        ),
    )
    made.add_argument("words", metavar="ACTION", nargs="*", help=f"one of {', '.join(ACTIONS)}, and what belongs to it")
    made.add_argument("--all", action="store_true", help="answer every call of the session that waits")
    made.add_argument("--for-session", action="store_true", help="approve the same ask about the same tool for the"
                      " rest of the session")  # fmt: skip
    made.add_argument("--always", action="store_true", help="approve the same ask about the same tool in every session"
                      " in the same folder")  # fmt: skip
    made.add_argument("--where", metavar="NAME=PATTERN", type=typed_text, action="append", default=[], help="only"
                      " where an argument is like this; * is anything but /, ** anything")  # fmt: skip
    made.add_argument("--key", metavar="REFERENCE", default="", help="approve with a key of [approvers] instead of at a"
                      " terminal: env:NAME or file:PATH")  # fmt: skip
    made.add_argument(
        "--reason", metavar="TEXT", type=typed_text, default="", help="why; the model reads it with a denial"
    )
    made.add_argument("--older-than", metavar="AGE", type=age, default=age(_LONG), help="what expires: 30m, 12h, 7d"
                      f" (default {_LONG})")  # fmt: skip
    return made


def age(text: str) -> float:
    """Read a length of time, in seconds. Raises ArgumentTypeError.

    >>> age("90m")
    5400.0
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time such as 30m, 12h or 7d")
    return float(match[1]) * _UNITS[match[2]]


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the action that *options* name."""
    what, rest = action("approvals", options.words, ACTIONS)
    _check_options(what, options)
    if what == "new-key":
        return new_key(rest, console)
    if what in ("", "list", "standing") and rest:
        raise ConfigError(f"pluggent approvals {what or 'list'}", [f"takes no name, got {rest[0]!r}"])
    with open_sessions(prepare_to_look(options, console)) as sessions:
        match what:
            case "show":
                return _show(sessions, rest, console)
            case "approve":
                return _approve(sessions, rest, options, console)
            case "deny":
                waiting, calls = _chosen(sessions, what, rest, everything=options.all)
                return _answer(sessions, waiting, calls, options, console)
            case "expire":
                return _expire(sessions, options.older_than, console)
            case "standing":
                return standing(sessions, console)
            case "forget":
                return forget(sessions, rest, console)
            case _:
                return _list(sessions, console)


def _check_options(what: str, options: argparse.Namespace) -> None:
    given = {
        "--all": options.all and what not in ("approve", "deny"),
        "--for-session": options.for_session and what != "approve",
        "--always": options.always and what != "approve",
        "--where": options.where and what != "approve",
        "--key": options.key and what != "approve",
        "--reason": options.reason and what not in ("approve", "deny"),
    }
    if wrong := [name for name, is_wrong in given.items() if is_wrong]:
        raise ConfigError(f"pluggent approvals {what}".rstrip(), [f"takes no {name}" for name in wrong])
    if len(options.reason) > MOST:
        raise ConfigError("--reason", [f"has {len(options.reason):,} characters; {MOST:,} are the most"])
    if options.for_session and options.always:
        raise ConfigError("pluggent approvals approve", ["give --for-session or --always, not both"])
    if options.where and not (options.for_session or options.always):
        raise ConfigError("pluggent approvals approve", ["--where goes with --for-session or --always"])


# ---- looking ----------------------------------------------------------------------------


def _list(sessions: Sessions, console: Console) -> int:
    found = list(all_waiting(sessions))
    good = [one for one in found if not one.problem]
    if console.json:
        problems = [{"session": one.session, "problem": one.problem} for one in found if one.problem]
        console.document(
            {"folder": sessions.folder, "waiting": [waiting_document(one) for one in good], "problems": problems}
        )
        return exits.OK
    for one in found:
        if one.problem:
            console.note(warning(console, f"session '{one.session}' {one.problem}"))
    if not good:
        console.line("nothing waits for an approval")
        return exits.OK
    head = ("SESSION", "SINCE", "CALL", "TOOL", "REQUEST", "STATE")
    console.table(head, [row for one in good for row in waiting_rows(one)])
    first = next((one for one in good if one.open), None)
    if first is not None:
        console.note(
            console.err_ink("dim", f"what each wants to do, and who asks: pluggent approvals show {first.session}")
        )
    return exits.OK


def _show(sessions: Sessions, words: Sequence[str], console: Console) -> int:
    waiting = _waiting(sessions, "show", words[:1])
    calls = _named(waiting, words[1:], waiting.calls) if words[1:] else waiting.calls
    if console.json:
        console.document(waiting_document(waiting._replace(calls=calls)))
        return exits.OK
    ink = console.ink
    console.line(f"{ink('bold', waiting.session)}  {escape_all(waiting.turn)}, paused since {moment(waiting.at_s)}")
    for call in calls:
        console.line()
        for line in call_lines(call, console.width):
            console.line(line)
    if open := [call for call in calls if call.is_open]:
        words_of = " ".join(call.digest[:SHORT] for call in open)
        more = _further(open)
        console.note(
            console.err_ink("dim", f"\napprove: pluggent approvals approve {waiting.session} {words_of}{more}")
        )
        console.note(
            console.err_ink("dim", f"deny:    pluggent approvals deny {waiting.session} {words_of} [--reason TEXT]")
        )
    else:
        console.note(console.err_ink("dim", f"\nall is answered; continue: pluggent resume {waiting.session}"))
    return exits.OK


def _further(calls: Sequence[Call]) -> str:
    """Return the options with which an approval of all *calls* is good for more than them."""
    reaches = {call.reach for call in calls}
    return "" if "once" in reaches else " [--for-session]" if "session" in reaches else " [--for-session | --always]"


# ---- which ------------------------------------------------------------------------------


def _waiting(sessions: Sessions, what: str, words: Sequence[str]) -> Waiting:
    """Return what the session waits with that *words* name. Raises ConfigError and SessionError."""
    id = sessions.named(f"approvals {what}", one_name(f"approvals {what}", words))
    waiting = waiting_in(sessions, id)
    if waiting is None:
        raise SessionError(f"session '{id}' has no turn that waits for a person")
    if waiting.problem:
        raise SessionError(f"session '{id}' {waiting.problem}")
    return waiting


def _named(waiting: Waiting, words: Sequence[str], among: Sequence[Call]) -> tuple[Call, ...]:
    found = {word: named(among, word) for word in words}
    if wrong := [word for word, calls in found.items() if len(calls) != 1]:
        known = ", ".join(f"{call.call_id} ({call.digest[:SHORT]})" for call in among) or "none"
        problems = [f"session '{waiting.session}' has no call {word!r} that waits; these do: {known}" for word in wrong]
        raise SessionError("; ".join(problems))
    return tuple(dict.fromkeys(calls[0] for calls in found.values()))


def _chosen(
    sessions: Sessions, what: str, words: Sequence[str], *, everything: bool
) -> tuple[Waiting, tuple[Call, ...]]:
    if everything == bool(words[1:]):
        raise ConfigError(f"pluggent approvals {what}", ["wants a SESSION, and either CALLs or --all"])
    waiting = _waiting(sessions, what, words[:1])
    calls = waiting.open if everything else _named(waiting, words[1:], waiting.open)
    if not calls:
        raise SessionError(f"all calls of session '{waiting.session}' are answered: pluggent resume {waiting.session}")
    return waiting, calls


# ---- answering --------------------------------------------------------------------------


def _approve(sessions: Sessions, words: Sequence[str], options: argparse.Namespace, console: Console) -> int:
    check_outside("pluggent approvals approve")
    patterns(options.where)  # what is typed wrong is said before anybody is asked
    waiting, calls = _chosen(sessions, "approve", words, everything=options.all)
    _check_reach(calls, options)
    if options.key:
        return _answer(sessions, waiting, calls, options, console, by=key_holder(options, console))
    lines: list[str] = []
    for call in calls:
        lines += ["", *(f"  {line}" for line in call_lines(call, console.width - 2))]
    what = "this" if len(calls) == 1 else f"these {len(calls)} calls"
    lines += ["", "n leaves it as it is; n and words deny it, and the model reads them: n, use the other folder"]
    typed = answer_to("pluggent approvals approve", lines, f"Approve {what}{_more(options, calls)}? [y/N] ")
    if is_yes(typed):
        return _answer(sessions, waiting, calls, options, console, by=who())
    if words := words_after_no(typed):
        return _answer(sessions, waiting, calls, options, console, words=words)
    console.note("nothing was approved")
    return exits.FAILED


def _check_reach(calls: Sequence[Call], options: argparse.Namespace) -> None:
    """Raise ConfigError if an approval of *calls* cannot reach as far as *options* say: it would be cut in silence."""
    option = "--always" if options.always else "--for-session" if options.for_session else ""
    enough = ("always",) if options.always else ("always", "session")
    wrong = [call for call in calls if option and call.reach not in enough]
    if wrong:
        problems = [f"{request_name(call.kind, call.call_id, call.digest[:SHORT])} {reach_of(call)}" for call in wrong]
        raise ConfigError(option, [f"{problem}; leave {option} out" for problem in problems])


def _more(options: argparse.Namespace, calls: Sequence[Call]) -> str:
    if not (options.for_session or options.always):
        return ""
    such = f" with {', '.join(map(escape_all, options.where))}" if options.where else ""
    folders = [escape_all(folder) for folder in dict.fromkeys(call.workspace for call in calls) if folder]
    here = f" in {' or '.join(folders)}" if folders else ""
    where = f"in every session{here}" if options.always else "for the rest of the session"
    return f", and the same asks{such} {where}"


def _answer(
    sessions: Sessions, waiting: Waiting, calls: Sequence[Call], options: argparse.Namespace, console: Console,
    *, by: str = "", words: str = "",
) -> int:  # fmt: skip
    """Write down that *by* approves *calls*; without a name they are denied, with *words*, else with ``--reason``."""
    from pluggent_hookspecs.decisions import Approval  # here and not above: listing does without attrs

    approval = Approval(
        bool(by), "always" if options.always else "session" if options.for_session else "once",
        words or cleaned(options.reason), where=patterns(options.where),
    )  # fmt: skip
    answer_stored(sessions, waiting.session, [call.digest for call in calls], approval, by or who())
    word = "approved" if by else "denied"
    left = len(waiting.open) - len(calls)
    if console.json:
        answered = [{"call_id": call.call_id, "digest": call.digest} for call in calls]
        console.document({"session": waiting.session, word: answered, "left": left})
        return exits.OK
    for call in calls:
        console.line(f"{word} {console.ink('bold', escape_all(call.call_id))}  {escape_all(call.tool)}")
    then = f"{left} more to answer" if left else f"continue: pluggent resume {waiting.session}"
    console.note(console.err_ink("dim", then))
    return exits.OK


def _expire(sessions: Sessions, older_s: float, console: Console) -> int:
    from pluggent_hookspecs.decisions import Approval  # here and not above: see _answer

    now = time.time()
    denied: list[tuple[Waiting, Call]] = []
    problems: list[str] = []
    for one in all_waiting(sessions):
        if one.problem:
            problems.append(f"session '{one.session}' {one.problem}")
        elif one.open and now - one.at_s > older_s:
            approval = Approval(agreed=False, reason="it expired: it was not answered in time")
            try:
                answer_stored(sessions, one.session, [call.digest for call in one.open], approval, "expiry")
            except SessionError as error:
                problems.append(str(error))
            else:
                denied += [(one, call) for call in one.open]
    return _say_expired(denied, problems, console)


def _say_expired(denied: Sequence[tuple[Waiting, Call]], problems: Sequence[str], console: Console) -> int:
    code = exits.FAILED if problems else exits.OK
    if console.json:
        listed = [{"session": one.session, "call_id": call.call_id, "digest": call.digest} for one, call in denied]
        console.document({"denied": listed, "problems": list(problems), "exit_code": code})
    else:
        for one, call in denied:
            who_waits = f"{console.ink('bold', one.session)}  {escape_all(call.call_id)}  {escape_all(call.tool)}"
            console.line(f"denied {who_waits}  (since {moment(one.at_s)})")
        if not denied:
            console.line("nothing has waited that long")
    for problem in problems:
        console.error(f"{console.err_ink('red', 'error:')} {escape_all(problem)}")
    return code
