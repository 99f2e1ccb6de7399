"""Remembers which plugins failed to load last time, so that listing them needs to load none."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from time import strftime
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.folders import private_folder
from pluggent_host.plugins.catalog import PluginRecord

FILE_NAME = "load-failures.json"


class Failure(NamedTuple):
    """What went wrong with one version of a plugin, and when (local time)."""

    version: str
    reason: str
    when: str


def recorded(state_dir: Path) -> Mapping[str, Failure]:
    """Return the last failure of each plugin by capability id; nothing where nothing can be read."""
    try:
        plain: object = json.loads((state_dir / FILE_NAME).read_bytes())
        entries = cast("Mapping[str, Mapping[str, Any]]", plain if isinstance(plain, dict) else {})
        return {id: Failure(str(one["version"]), str(one["reason"]), str(one["when"])) for id, one in entries.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # a memory aid: damaged is as good as absent


def record(state_dir: Path, states: Iterable[tuple[PluginRecord, str, str]]) -> None:
    """Take down which of *states* (record, state, reason) are failures; one that works now is forgotten."""
    before = recorded(state_dir)
    after = dict(before)
    for plugin, state, reason in states:
        known = before.get(plugin.capability)
        if state == "active":
            after.pop(plugin.capability, None)
        elif state == "failed" and (known is None or known[:2] != (plugin.version, reason)):
            after[plugin.capability] = Failure(plugin.version, reason, strftime("%Y-%m-%d %H:%M"))
    if after != before:
        with contextlib.suppress(OSError):  # where nothing can be written, sessions say so; this need not
            _write(state_dir, after)


def _write(state_dir: Path, failures: Mapping[str, Failure]) -> None:
    private_folder(state_dir)
    temporary = state_dir / f"{FILE_NAME}.{os.getpid()}"
    text = json.dumps({id: failure._asdict() for id, failure in failures.items()}, indent=1)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    temporary.replace(state_dir / FILE_NAME)
