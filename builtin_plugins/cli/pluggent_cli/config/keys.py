"""What each setting may be: one table, KEYS, the check of values against it, and the lock of the system's file.

KEYS also says how a later source combines with an earlier one, and which way is tighter. What the
system's file sets, later sources may tighten and never loosen. Sources are read in sources.py.
Standard library only.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from pluggent_hookspecs.errors import ConfigError
from pluggent_host.settings import granted
from pluggent_plugin_loader.discovery import normalised
from pluggent_plugin_loader.settings import NOTHING, SystemList
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_transcript.limits import Limits, ToolLimits

_NUMBER_MAX = 1e12
_NAME_MAX = 200
_SHOWN = 60
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


# ---- what a value may be ---------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """What a setting may be. ``parse`` reads it from text; None: it cannot be given as text.

    ``entry`` is the kind of each entry of a table.
    """

    expected: str
    fits: Callable[[Any], bool]
    make: Callable[[Any], Any] = _same
    parse: Callable[[str], Any] | None = None
    entry: Kind | None = None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_principal(value: object) -> bool:
    # What begins so was only said by a client itself, and no rule about a proven name fits it.
    return isinstance(value, str) and 0 < len(value) <= _NAME_MAX and value.isprintable() and value[:8] != "claimed:"


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_number(value: object, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise ValueError(text)
    return text.lower() in _TRUE


def _whole(least: int) -> Kind:
    def fits(value: Any) -> bool:
        return _is_number(value, (int,)) and least <= value <= _NUMBER_MAX

    return Kind(f"a whole number of at least {least}", fits, parse=int)


def _above_zero(what: str) -> Kind:
    def fits(value: Any) -> bool:
        return _is_number(value, (int, float)) and 0 < value <= _NUMBER_MAX and math.isfinite(value)

    return Kind(f"{what} above 0", fits, float, float)


def _or_none(kind: Kind) -> Kind:
    def fits(value: Any) -> bool:
        return value == "none" or kind.fits(value)

    def make(value: Any) -> Any:
        return None if value == "none" else kind.make(value)

    def parse(text: str) -> Any:
        return text if text == "none" or kind.parse is None else kind.parse(text)

    return Kind(f'{kind.expected}, or "none"', fits, make, parse)


def _choice(*names: str) -> Kind:
    def fits(value: Any) -> bool:
        return _is_text(value) and value in names

    return Kind(f"one of {', '.join(names)}", fits, parse=str)


def is_names(value: Any) -> bool:
    """Say whether *value* is a list of names."""
    return isinstance(value, list | tuple) and all(
        isinstance(name, str) and name for name in cast("Sequence[Any]", value)
    )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _table(entry: Kind) -> Kind:
    return Kind("a table", _is_table, MappingProxyType, entry=entry)


_SECONDS = _above_zero("a number of seconds")
LIMIT_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "model_calls": _whole(1),
        "tool_rounds": _whole(0),
        "tool_timeout_s": _SECONDS,
        "result_bytes": _whole(256),
        "wall_s": _SECONDS,
        "tokens": _whole(1),
        "cost_usd": _above_zero("a number of dollars"),
        "repeats": _whole(1),
        "asks": _whole(0),
        "denials": _whole(0),
        "delegation_depth": _whole(0),
        "repairs": _whole(0),
    }
)
"""Every limit but ``per_tool``. Code may give less than a file: any number from 0 on, say to see what a limit does."""
TOOL_LIMIT_KINDS: Mapping[str, Kind] = MappingProxyType(
    {"calls": _whole(0), "timeout_s": _SECONDS, "result_bytes": _whole(256)}
)


def _limits_of_a_tool() -> Kind:
    kinds = TOOL_LIMIT_KINDS

    def fits(value: Any) -> bool:
        return _is_table(value) and all(name in kinds and kinds[name].fits(each) for name, each in value.items())

    def make(value: Any) -> ToolLimits:
        return ToolLimits(**{name: kinds[name].make(each) for name, each in value.items()})

    expected = ", ".join(f"{name} ({kind.expected})" for name, kind in kinds.items())
    return Kind(f"a table of {expected}", fits, make)


def _is_model(value: object) -> bool:
    provider, slash, model = value.partition("/") if isinstance(value, str) else ("", "", "")
    return bool(provider and slash and model)


def _is_aliases(value: object) -> bool:
    names = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {"/": ""}
    return all(name and "/" not in name and name.isprintable() for name in names)


_TEMPLATE_TEXTS = ("prompt", "system", "model")


def _is_template(value: object) -> bool:
    if isinstance(value, str):
        return _is_prompt(value)
    if not isinstance(value, Mapping):
        return False
    table = cast("Mapping[str, Any]", value)
    defaults = table.get("defaults", {})
    return (
        table.keys() <= {*_TEMPLATE_TEXTS, "defaults"}
        and all(_is_text(table.get(name, "")) for name in _TEMPLATE_TEXTS)
        and _is_prompt(table.get("prompt", ""))
        and _is_table(defaults)
        and all(map(_is_text, cast("Mapping[str, Any]", defaults).values()))
    )


def _is_prompt(text: str) -> bool:
    from string import Template  # for those who write templates

    return bool(text.strip()) and Template(text).is_valid()


def _template(value: Any) -> Mapping[str, Any]:
    return MappingProxyType({"prompt": value} if isinstance(value, str) else dict(value))


_TEXT = Kind("text", _is_text, parse=str)
_MODEL = Kind("a model as provider/model, such as openai/gpt-5-mini", _is_model)
_ALIASES = Kind("a table of models by a name without a slash", _is_aliases, MappingProxyType, entry=_MODEL)
_TEMPLATE = Kind(
    "a prompt, or a table of prompt, system, model (text) and defaults (a table of text), in which $name is a place"
    " and $$ a dollar",
    _is_template,
    _template,
)
_PRINCIPAL = Kind(f"a name of 1 to {_NAME_MAX} printable characters that does not begin with 'claimed:'", _is_principal)
_KEY_DIGEST = Kind('"sha256:" and 64 hexadecimal digits', _is_digest)
_BOOLEAN = Kind("true or false", _is_boolean, parse=_boolean)
_NAMES = Kind("a list of names", is_names, _distinct)
_LISTABLE = _NAMES._replace(parse=_listed)
_FREE = Kind("a table", _is_table, MappingProxyType)


# ---- how sources combine ---------------------------------------------------------------


def _later(_: Any, new: Any) -> Any:
    return new


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return _distinct([*old, *new])


def _granted_of(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """Return of the grant *old* what *new* leaves: what it lists, if it lists any, without what it takes away."""
    listed = [name for name in new if not name.startswith("!")]
    removed = [name for name in new if name.startswith("!")]
    if listed:
        removed += [f"!{name}" for name in old if not name.startswith("!") and name not in listed]
    return granted(old, tuple(removed)) if removed or not new else old


def _common(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in old if name in new)


def _all_of(old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return _entries(old, {name: _union(old.get(name, ()), hooks) for name, hooks in new.items()})


def _entries(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({**old, **new})


def _options(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    return _entries(old, {name: _entries(old.get(name, NOTHING), options) for name, options in new.items()})


def _either(old: bool, new: bool) -> bool:  # noqa: FBT001 (a setting is a value here)
    return old or new


def _least(old: float | None, new: float | None) -> float | None:
    return new if old is None else old if new is None else min(old, new)


def _least_of_tools(old: Mapping[str, ToolLimits], new: Mapping[str, ToolLimits]) -> Mapping[str, ToolLimits]:
    return _entries(old, {name: _least_of_tool(old.get(name, ToolLimits()), limits) for name, limits in new.items()})


def _least_of_tool(old: ToolLimits, new: ToolLimits) -> ToolLimits:
    return ToolLimits(*cast("Any", map(_least, old, new)))


def _towards(*tighter: str) -> Callable[[str, str], str]:
    """Return a tightening along *tighter*, loosest first."""
    return lambda old, new: max(old, new, key=tighter.index)


class Key(NamedTuple):
    """One setting. ``tighten`` says what an untrusted file may do to it; None: nothing.

    ``under_lock`` is what anybody may still do to it where the system's file sets it; None: nothing.
    Of a table ``by_entry`` only the entries that stand in that file are held. What is ``personal`` the file of a
    working directory never sets.
    """

    kind: Kind
    merge: Callable[[Any, Any], Any] = _later
    tighten: Callable[[Any, Any], Any] | None = None
    under_lock: Callable[[Any, Any], Any] | None = None
    by_entry: bool = False
    personal: bool = False

    @property
    def adds_up(self) -> bool:
        """Whether a later source adds to the value instead of replacing it."""
        return self.merge in (_union, granted)

    @property
    def only_grows(self) -> bool:
        """Whether it is tightened by adding to it, so that nothing that is given is lost."""
        return self.merge is _union or self.under_lock is _all_of

    def loses(self, new: Any, held: Any) -> bool:
        """Return whether something of *new* is not in *held*."""
        if self.merge is granted:
            return any(name not in held for name in new if not name.startswith("!"))
        return bool(held != new) and not self.only_grows

    def held(self, old: Any, new: Any) -> Any:
        """Return what *new* makes of *old*, which the system's file has set: something at least as tight."""
        how = self.under_lock or self.tighten
        return old if how is None else how(old, new)


def _limit(name: str) -> Key:
    kind = LIMIT_KINDS[name]
    return Key(_or_none(kind) if Limits._field_defaults[name] is None else kind, tighten=_least)


KEYS: Mapping[str, Key] = MappingProxyType(
    {
        "model": Key(_TEXT),
        "system": Key(_TEXT),
        "strict": Key(_BOOLEAN, tighten=_either),
        "on_ask": Key(_choice("console", "pause", "deny"), tighten=_towards("console", "pause", "deny")),
        "stream": Key(_choice("held", "provisional"), tighten=_towards("provisional", "held")),
        "fsync": Key(_choice("off", "effects"), tighten=_towards("off", "effects")),
        "stops_batch": Key(_LISTABLE, _union, _union),
        "sessions": Key(_TEXT),
        # Neither the file of a project nor a variable, which what a project starts may set, says who a person is.
        "principal": Key(_PRINCIPAL, personal=True),
        # Fewer plugins may mean fewer policies, so an untrusted file has no say in who runs.
        "selection.mode": Key(_choice("all", "allow", "safe"), under_lock=_towards("all", "allow", "safe")),
        "selection.allow": Key(_LISTABLE, under_lock=_common),
        "selection.block": Key(_LISTABLE, _union, under_lock=_union),
        "selection.any_version": Key(_BOOLEAN),
        "grants.security": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.may_allow": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.may_respond": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.approvers": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.retriers": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.optional": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.handled": Key(_NAMES, granted, under_lock=_granted_of),
        "grants.sessions": Key(_NAMES, granted, under_lock=_granted_of),
        **{f"limits.{name}": _limit(name) for name in LIMIT_KINDS},
        "limits.per_tool": Key(_table(_limits_of_a_tool()), _entries, _least_of_tools),
        "timeouts.provide_s": Key(_SECONDS),
        "timeouts.hook_s": Key(_SECONDS),
        "timeouts.observe_s": Key(_SECONDS),
        "timeouts.approver_s": Key(_SECONDS),
        "timeouts.open_s": Key(_SECONDS),
        "timeouts.close_s": Key(_SECONDS),
        "timeouts.source_s": Key(_SECONDS),
        "timeouts.model_s": Key(_SECONDS),
        "approvers": Key(_table(_KEY_DIGEST), _entries),
        "required": Key(_table(_NAMES), _entries, under_lock=_all_of),
        "order": Key(_NAMES),
        "aliases": Key(_table(_TEXT), _entries, by_entry=True),
        "effects": Key(_table(_NAMES), _entries, by_entry=True),
        "models.aliases": Key(_ALIASES, _entries, by_entry=True),
        "templates": Key(_table(_TEMPLATE), _entries, by_entry=True),
        "plugins": Key(_table(_FREE), _options, by_entry=True),
    }
)
SECTIONS = frozenset(path.partition(".")[0] for path in KEYS if "." in path)


# ---- checking --------------------------------------------------------------------------


def sifted(values: Iterable[tuple[str, Any]]) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return those of *values* (dotted keys) that are right, as settings hold them, and all problems.

    Problems are unknown keys, wrong types, and numbers out of range.
    """
    problems: list[str] = []
    made: dict[str, Any] = {}
    for path, value in values:
        before = len(problems)
        if path not in KEYS:
            problems.append(_unknown(path))
            continue
        one = _made(path, value, KEYS[path].kind, problems)
        if len(problems) == before:
            made[path] = one
    return made, problems


def _made(path: str, value: Any, kind: Kind, problems: list[str]) -> Any:
    if not kind.fits(value):
        # What is written where a plugin's settings belong may be a secret.
        hidden = path.startswith("plugins.") and isinstance(value, str)
        got = "text" if hidden else shown(value)
        problems.append(f"{path}: expected {kind.expected}, got {got}")
        return None
    if kind.entry:
        make = partial(_made, kind=kind.entry, problems=problems)
        value = {name: make(f"{path}.{name}", entry) for name, entry in value.items()}
    return kind.make(value)


def _unknown(path: str) -> str:
    section, dot, name = path.partition(".")
    if section in SECTIONS and not dot:
        return f"{path}: expected a table, [{path}]"
    known = [key.partition(".") for key in KEYS]
    within = [inner for outer, _, inner in known if outer == section] if dot else [outer for outer, _, _ in known]
    return f"{path}: is not a known setting{did_you_mean(name if dot else path, within)}"


def shown(value: object) -> str:
    """Return *value* for a sentence about it."""
    if _is_number(value, (int, float)):
        return "a huge number" if _NUMBER_MAX < abs(cast("float", value)) < math.inf else str(value)
    if isinstance(value, str):
        return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
    if isinstance(value, bool):
        return str(value).lower()
    names = {"dict": "a table", "list": "a list", "tuple": "a list"}
    kind = type(value).__name__
    return names.get(kind, kind)


# ---- what the system's file fixes -------------------------------------------------------


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
                left = tuple(name for name in value if name in now[path] or not self._configures(name))
                key = KEYS[path]
                replaced[path] = key.held(now[path], left) if path in self.values else key.merge(now[path], left)
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
                ignored += [path] if KEYS[path].loses(value, replaced[path]) else []
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


def check_system_folder(folder: str) -> None:
    """Raise ConfigError if others could take the system's file away, or put another one there."""
    try:
        found = os.stat(folder)  # noqa: PTH116 (pathlib is not imported here)
    except OSError:
        return  # none, and so no file
    if found.st_uid not in (0, os.geteuid()):
        raise ConfigError(folder, [f"belongs to user {found.st_uid}, not to root; have it looked at"])
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        mend = f"have it looked at: chmod go-w {folder}"
        raise ConfigError(folder, [f"others can put files there (mode {mode:04o}); {mend}"])


def check_system_file(where: str, descriptor_status: os.stat_result) -> None:
    """Raise ConfigError if anybody but the system's administrator, or this user, could have written the file."""
    if descriptor_status.st_uid not in (0, os.geteuid()):
        raise ConfigError(where, [f"belongs to user {descriptor_status.st_uid}, not to root; have it looked at"])
    if descriptor_status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(descriptor_status.st_mode)
        raise ConfigError(where, [f"can be written by others (mode {mode:04o}); have it looked at: chmod go-w {where}"])
