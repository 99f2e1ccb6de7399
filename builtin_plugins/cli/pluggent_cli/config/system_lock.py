"""What the system's file of settings fixes: everybody after it may tighten that, and nobody may loosen it.

Pure. Which way is tighter stands with each setting in config_keys.py. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError

from pluggent_host.config_keys import KEYS, SECTIONS, is_names, shown
from pluggent_host.discovery import normalised
from pluggent_host.nearest import nearest

LOCK = "lock"
"""The key, of that file alone, under which it names settings that nobody else may set at all."""


class Lock(NamedTuple):
    """``where`` is the file, ``values`` what it sets, ``whole`` the settings that are its alone."""

    where: str
    values: Mapping[str, Any]
    whole: tuple[str, ...] = ()

    def admit(
        self, now: Mapping[str, Any], given: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any], Sequence[str]]:
        """Return which of the *given* settings are merged, which replace what is *now*, and which are ignored."""
        merged: dict[str, Any] = {}
        replaced: dict[str, Any] = {}
        ignored: list[str] = []
        for path, value in given.items():
            if any(path == name or path.startswith(f"{name}.") for name in self.whole):
                ignored += [path] if value != now[path] else []
            elif path == "selection.block":
                merged[path] = tuple(name for name in value if not self._configures(name))
                ignored += [f"{path} = {name}" for name in value if self._configures(name)]
            elif path not in self.values:
                merged[path] = value
            elif path == "selection.allow":
                # What it configures may be a policy: that is not left out like this either.
                replaced[path] = tuple(name for name in now[path] if name in value or self._configures(name))
                ignored += [path] if set(replaced[path]) != set(value) else []
            elif KEYS[path].by_entry:
                own = self.values[path]
                merged[path] = {name: entry for name, entry in value.items() if name not in own}
                ignored += [f"{path}.{name}" for name, entry in value.items() if name in own and entry != own[name]]
            else:
                replaced[path] = KEYS[path].held(now[path], value)
                ignored += [path] if replaced[path] != value and not KEYS[path].only_grows else []
        return merged, replaced, ignored

    def _configures(self, name: str) -> bool:
        # However it is written: a name means the same plugin to the catalog.
        plugin = normalised(name.replace(" ", "").partition("==")[0])
        return plugin in map(normalised, (*self.values.get("plugins", {}), *self.values.get("required", {})))


def lock_of(where: str, document: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Lock, Sequence[str]]:
    """Return the lock that *document*, whose right settings are *values*, makes, and what is wrong with its list."""
    named = document.get(LOCK, [])
    if not is_names(named):
        return Lock(where, values), [f"{LOCK}: expected a list of names, got {shown(named)}"]
    known = [*KEYS, *SECTIONS]
    problems = [f"{LOCK}: {name!r} is no setting{nearest(name, known)}" for name in named if name not in known]
    return Lock(where, values, tuple(cast("Sequence[str]", named))), problems


def check_system_file(where: str, descriptor_status: os.stat_result) -> None:
    """Raise ConfigError if anybody but the system's administrator, or this user, could have written the file."""
    if descriptor_status.st_uid not in (0, os.geteuid()):
        raise ConfigError(where, [f"belongs to user {descriptor_status.st_uid}, not to root; have it looked at"])
    if descriptor_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(descriptor_status.st_mode)
        raise ConfigError(where, [f"can be written by others (mode {mode:04o}); have it looked at: chmod go-w {where}"])
