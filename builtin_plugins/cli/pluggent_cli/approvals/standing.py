"""Approvals beyond one call: what holds always, for which arguments, and who may give one without a terminal."""

from __future__ import annotations

import argparse
import hashlib
import hmac
import os
import secrets
import shlex
import stat
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_state_files.seals import OTHERS

from pluggent_cli import exits
from pluggent_cli.host_access import prepare
from pluggent_cli.parsing import one_name
from pluggent_cli.sessions.store import Sessions
from pluggent_cli.terminal.console import Console, moment, warning

if TYPE_CHECKING:  # see standing
    from pluggent_hookspecs.sessions import ApprovalRecord, ApprovalRecords
    from pluggent_transcript.standing import Standing

_SHORTEST_KEY = 32
"""Characters of a key: fewer could be tried out."""


def standing(sessions: Sessions, console: Console) -> int:
    """List the approvals that hold in every session."""
    found, problems = sessions.finish(_standing(sessions.store.approvals()))
    if console.json:
        listed = [
            {
                "id": each.id, "capability": each.capability, "definition": each.definition,
                "asks": [{"plugin": plugin, "why": why} for plugin, why in each.asks], "where": dict(each.where),
                "workspace": each.workspace, "principal": each.principal, "by": each.by, "at_s": each.at_s,
            }
            for each in found
        ]  # fmt: skip
        console.document({"standing": listed, "problems": problems})
        return exits.OK
    for each in found:
        console.line(f"{console.ink('bold', each.id)}  {console.ink('cyan', escape_all(each.capability))}")
        for plugin, why in each.asks:
            console.line(f"  {escape_all(plugin)} asks: {escape_all(why)}")
        for name, pattern in each.where.items():
            console.line(f"  where {escape_all(name)} is {escape_all(pattern)}")
        if each.principal:
            console.line(f"  for {escape_all(each.principal)}")
        if each.workspace:
            console.line(f"  in the folder {escape_all(each.workspace)}")
        console.line(f"  approved by {escape_all(each.by)}, {moment(each.at_s)}")
    if not found:
        console.line("nothing is approved beyond its session")
    for problem in problems:
        console.error(warning(console, problem))
    return exits.OK


async def _standing(records: ApprovalRecords) -> tuple[Sequence[Standing], list[str]]:
    """Return the approvals that hold, and a sentence on each record that does not count."""
    # Here and not above: listing what waits needs none of it.
    from pluggent_transcript.standing import read_standing

    answer = records.all()
    found = list(await answer if isinstance(answer, Awaitable) else answer)
    return read_standing(found), problems_in(found)


def problems_in(records: Iterable[ApprovalRecord]) -> list[str]:
    """Return a sentence on each of *records* that is not genuine and so does not count."""
    return [
        f"the approval '{each.name}' is damaged or was not written by pluggent; it does not count"
        if each.kind
        else f"{each.name} is damaged: no approval in it counts"
        for each in records
        if not each.genuine
    ]


def forget(sessions: Sessions, words: Sequence[str], console: Console) -> int:
    """Revoke an approval."""
    id = one_name("approvals forget", words)
    from pluggent_transcript.standing import KIND  # here and not above: see standing

    if not sessions.ask(lambda: sessions.store.approvals().drop(KIND, id)):
        raise SessionError(f"no approval is called {id!r}; those that hold: pluggent approvals standing")
    if console.json:
        console.document({"forgotten": id})
    else:
        console.line(f"{console.ink('bold', escape_all(id))} holds no longer; what was approved with it stays done")
    return exits.OK


def patterns(given: Sequence[str]) -> Mapping[str, str]:
    """Return the patterns of ``--where`` by name. Raises ConfigError for what is not a pattern."""
    from pluggent_hookspecs.decisions import Approval  # here and not above: see standing

    pairs = [each.partition("=") for each in given]
    if wrong := [each for each, (name, equals, _) in zip(given, pairs, strict=True) if not (name and equals)]:
        raise ConfigError("--where", [f"expected NAME=PATTERN, got {each!r}" for each in wrong])
    where = {name: pattern for name, _, pattern in pairs}
    if len(where) < len(pairs):
        raise ConfigError("--where", ["is given twice for the same argument"])
    try:
        return Approval(agreed=True, where=where).where
    except ValueError as error:
        raise ConfigError("--where", [str(error).removeprefix("where: ")]) from error


def key_holder(options: argparse.Namespace, console: Console) -> str:
    """Return whose key ``--key`` is, as the record has it. Raises ConfigError if it belongs to none."""
    from pluggent_hookspecs.secrets import Secret  # here and not above: see standing

    try:
        secret = Secret(options.key)
        _check_own(options.key)
        key = secret.reveal()
    except ValueError as error:
        raise ConfigError("--key", ["give it as env:NAME or file:PATH, never as itself"]) from error
    if len(key) < _SHORTEST_KEY:
        raise ConfigError("--key", ["is too short for a key; make one: pluggent approvals new-key NAME FILE"])
    # The settings of a working directory that was not accepted yet name no approvers.
    known = prepare(options, console).settings.approvers
    own = _digest(key)
    holders = [name for name, digest in known.items() if hmac.compare_digest(digest, own)]
    if not holders:
        raise ConfigError("--key", ["is not the key of any approver in [approvers] of the settings"])
    if len(holders) > 1:
        raise ConfigError("--key", [f"is the key of {' and '.join(holders)}; give each approver a key of their own"])
    return f"key:{holders[0]}"


def _check_own(reference: str) -> None:
    """Raise ConfigError if *reference* is to a file that another user can have read or written."""
    scheme, _, place = reference.partition(":")
    if scheme != "file" or os.name != "posix":  # elsewhere files have no modes
        return
    try:
        status = Path(place).expanduser().stat()
    except (OSError, RuntimeError):
        return  # reading it says why it cannot be read
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            place, [f"belongs to user {status.st_uid}, neither to you nor to root; make a key of your own"]
        )
    if status.st_mode & OTHERS:
        mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
        mend = f"make a new key, or if no other user can have read it: chmod 600 {shlex.quote(place)}"
        raise ConfigError(place, [f"is open to others ({mode}), who could approve with it; {mend}"])


def new_key(words: Sequence[str], console: Console) -> int:
    """Make a key in a file of its own and say what to write in the settings."""
    if len(words) != 2:  # noqa: PLR2004 (NAME and FILE)
        raise ConfigError("pluggent approvals new-key", ["needs a NAME and a FILE"])
    name, path = words[0], Path(words[1]).expanduser()
    key = secrets.token_urlsafe(48)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 (a descriptor, not a path)
            file.write(f"{key}\n")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be made: {error.strerror}"]) from error
    if console.json:
        console.document({"name": name, "file": str(path), "digest": _digest(key)})
        return exits.OK
    console.line(f"made {console.ink('bold', escape_all(str(path)))}; keep it where no tool of a host can read it")
    console.line("in the settings:")
    console.line("  [approvers]")
    console.line(f'  {name} = "{_digest(key)}"')
    return exits.OK


def _digest(key: str) -> str:
    return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
