"""What the system's file of settings fixes: later sources may tighten it, and none may loosen it.

Pure. Which way is tighter is written with each setting in keys.py. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_host.common.names import did_you_mean
from pluggent_host.plugins.discovery import normalised
from pluggent_host.settings import SystemList

from pluggent_cli.config.keys import KEYS, SECTIONS, is_names, shown

LOCK = "lock"
"""The key, of that file alone, under which it names settings that no other source may set."""


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
            elif path == "grants.optional" and any(self._configures(name) for name in value if name not in now[path]):
                # What may fail to load may be left out.
                replaced[path] = tuple(name for name in value if name in now[path] or not self._configures(name))
                if path in self.values:
                    replaced[path] = KEYS[path].held(now[path], replaced[path])
                ignored.append(path)
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
        return _plugin(name) in self.configured()

    def configured(self) -> Mapping[str, str]:
        """Return the plugins that the file configures, each with the key that does: they are required."""
        keys = [(section, name) for section in ("plugins", "required") for name in self.values.get(section, {})]
        return {normalised(name): f"{section}.{name}" for section, name in reversed(keys)}

    def list_of(self, allowed: Sequence[str], mode: str) -> tuple[str, ...]:
        """Return which plugins are *allowed* in that *mode*: of those that the file configures all."""
        if self.values.get("selection.mode") == "allow":
            return SystemList.of(allowed, self.values.get("selection.allow", ()))
        listed = {name for name in allowed if "==" not in name}
        more = [plugin for plugin in self.configured() if plugin not in map(normalised, listed)]
        return (*allowed, *more) if mode == "allow" else tuple(allowed)


def contradictions(lock: Lock) -> Sequence[str]:
    """Return where the file leaves out a plugin that it also configures, which makes it required."""
    allow = lock.values.get("selection.allow", ())
    listed, blocked = set(map(_plugin, allow)), set(map(_plugin, lock.values.get("selection.block", ())))
    narrow = lock.values.get("selection.mode") == "allow"
    problems: list[str] = []
    for plugin, key in lock.configured().items():
        why = f"{plugin}, which {key} configures and so requires"
        if narrow and plugin not in listed:
            problems.append(f'selection.allow does not list {why}: add "{plugin}" to the list, or take out {key}')
        if plugin in blocked:
            problems.append(f"selection.block lists {why}: take it out of one of the two")
    return problems


def _plugin(name: str) -> str:
    """Return the plugin that *name* means to the catalog, however it is written."""
    return normalised(name.replace(" ", "").partition("==")[0])


def lock_of(where: str, document: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Lock, Sequence[str]]:
    """Return the lock that *document*, whose right settings are *values*, makes, and what is wrong with its list."""
    named = document.get(LOCK, [])
    if not is_names(named):
        return Lock(where, values), [f"{LOCK}: expected a list of names, got {shown(named)}"]
    known = [*KEYS, *SECTIONS]
    problems = [f"{LOCK}: {name!r} is not a setting{did_you_mean(name, known)}" for name in named if name not in known]
    return Lock(where, values, tuple(cast("Sequence[str]", named))), problems


def check_system_file(where: str, descriptor_status: os.stat_result) -> None:
    """Raise ConfigError if anybody but the system's administrator, or this user, could have written the file."""
    if descriptor_status.st_uid not in (0, os.geteuid()):
        raise ConfigError(where, [f"belongs to user {descriptor_status.st_uid}, not to root; have it looked at"])
    if descriptor_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(descriptor_status.st_mode)
        raise ConfigError(where, [f"can be written by others (mode {mode:04o}); have it looked at: chmod go-w {where}"])
