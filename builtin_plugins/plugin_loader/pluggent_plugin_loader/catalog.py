"""Decides about everything that is installed: its names, whether it may run, and why not.

Pure: reads no file, imports no plugin and, for `pluggent plugins`, no third-party package.
"""

# No __future__ import: with it NamedTuple would compile each annotation at every start.
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pluggent_plugin_loader.discovery import CONTRACT, HOST, ROOT, Discovery, Distribution, normalised
from pluggent_plugin_loader.entry_points import GROUPS, Problem
from pluggent_plugin_loader.names import APP, plugin_of
from pluggent_plugin_loader.settings import NOTHING, Selection, SystemList
from pluggent_plugin_loader.suggestions import did_you_mean

RESERVED = frozenset({"application", "expiry", "host"})
"""Names of the host and its users in records: no plugin may have one."""

LONGEST_NAME = 64
"""Characters that every vendor allows in a tool name."""
_FITS = re.compile(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}")


class PluginRecord(NamedTuple):
    """One entry point: its plugin, its name and its state.

    ``state`` is one of disallowed, blocked, shadowed, incompatible, skipped (it lies in the project),
    available; the host adds active, failed and closed. ``reason`` is one line, ``mend`` the command or
    setting that changes it. ``role`` is one of the ROLES of entry_points for a first-party plugin.
    """

    id: str
    version: str
    group: str
    kind: str
    name: str
    value: str
    state: str
    reason: str
    mend: str
    distribution: Distribution
    role: str = ""

    @property
    def capability(self) -> str:
        """The full id, such as ``acme-tools:provider/foo``."""
        return f"{self.id}:{self.kind}/{self.name}"

    @property
    def is_first_party(self) -> bool:
        """Whether the root distribution names it: it keeps a short name that another plugin claims too."""
        return bool(self.role)

    @property
    def is_built_in(self) -> bool:
        """Whether it runs in ``safe`` mode: first party, and not a sample."""
        return self.role not in ("", "sample")

    @property
    def is_first(self) -> bool:
        """Whether it is neither shadowed by another copy nor left out because it lies in the project."""
        return not (self.distribution.shadowed_by or self.distribution.left_out)


class Catalog(NamedTuple):
    """All records, ordered by plugin id and entry name; ``problems`` and ``first_party`` come from discovery."""

    records: tuple[PluginRecord, ...]
    aliases: Mapping[str, str] = NOTHING
    problems: tuple[Problem, ...] = ()
    first_party: Mapping[str, str] = NOTHING

    def by_kind(self, kind: str) -> tuple[PluginRecord, ...]:
        """Return all records of *kind*, whatever their state."""
        return tuple(record for record in self.records if record.kind == kind)

    def available(self, kind: str) -> tuple[PluginRecord, ...]:
        """Return the records of *kind* that may be loaded."""
        return tuple(record for record in self.by_kind(kind) if record.state == "available")

    def is_ready(self, id: str) -> bool:
        """Say whether plugin *id* may run and has no hooks, so that it is loaded on first use."""
        mine = [record for record in self.records if record.id == id]
        return all(record.kind != "hooks" for record in mine) and any(record.state == "available" for record in mine)

    def find(self, kind: str, name: str) -> PluginRecord:
        """Return the record of *kind* that *name* means: an alias, an entry name, a plugin id, or a full id.

        A first-party plugin keeps its names even while it may not run. Raises NameTaken if two claim the
        name, PluginIncompatible or ConfigError if its plugin may not run, ConfigError if it is unknown.
        """
        every = [record for record in self.by_kind(kind) if record.state != "shadowed"]
        known = [record for record in every if not record.distribution.left_out]
        alias = self.aliases.get(f"{kind}/{name}")
        if alias is not None:
            bearers = [record for record in known if record.id == _owner(alias) and record.name == name]
        elif ":" in name:
            bearers = [record for record in known if record.capability == name]
        else:
            bearers = _claimants(known, name)
        usable = [record for record in bearers if record.state == "available"]
        if len(usable) > 1:
            raise _taken(kind, name, usable)
        if not usable:
            # A copy in the project takes no name from what is installed, but explains what is missing.
            left_out = [each for each in every if each.distribution.left_out]
            bearers = bearers or [each for each in left_out if name in (each.name, each.id, each.capability)]
            raise _unusable(kind, name, bearers) if bearers else _missing(kind, name, alias, known)
        return usable[0]


def catalog(
    discovery: Discovery,
    selection: Selection,
    contract_version: str,
    *,
    aliases: Mapping[str, str] = NOTHING,
    required: Collection[str] = (),
) -> Catalog:
    """Decide about everything in *discovery*. *required* plugins run in ``safe`` mode too; block always wins.

    Raises ConfigError naming every entry of allow, block and aliases that is not installed (but for
    *required* ones, which the host reports).
    """
    running = {item.name for item in discovery.distributions}
    installed = running | {item.name for item in discovery.left_out}
    required = frozenset(map(normalised, required))
    allowed = [name for name in selection.allow if normalised(name) not in required]
    problems = [*_unknown("allow", allowed, installed), *_unknown("block", selection.block, installed)]
    problems += _unknown("aliases", [id for id in aliases.values() if not id.startswith(APP)], installed)
    if problems:
        from pluggent_hookspecs.errors import ConfigError  # only needed after a mistake

        raise ConfigError("selection", problems)
    root = ROOT if discovery.first_party else HOST
    records = [
        PluginRecord(
            item.name, item.version, entry.group, GROUPS[entry.group], entry.name, entry.value, *why, item, role
        )
        for item in (*discovery.distributions, *discovery.left_out)
        for role in [discovery.first_party.get(item.name, "")]
        for why in [_state(item, selection, contract_version, required, running, role, root)]
        for entry in item.entry_points
        if entry.group in GROUPS
    ]
    records.sort(key=lambda record: (record.id, record.name, record.kind, record.distribution.location))
    blocked = {record.id for record in records if record.state == "blocked" and not record.distribution.agreed}
    found = tuple(item._replace(fatal=item.fatal and item.plugin not in blocked) for item in discovery.problems)
    return Catalog(tuple(records), MappingProxyType(dict(aliases)), found, discovery.first_party)


def is_left_out(selection: Selection, item: Distribution) -> bool:
    """Say whether the system's allow list leaves *item* out on purpose."""
    return isinstance(selection.allow, SystemList) and not _listed(item, selection.allow.whole)


def _state(
    item: Distribution, selection: Selection, contract: str, required: Collection[str], running: Collection[str],
    role: str, root: str,
) -> tuple[str, str, str]:  # fmt: skip
    name = item.name
    if _listed(item, selection.block):
        return "blocked", "blocked by [selection] block", f"take '{name}' out of [selection] block"
    if item.agreed:
        return "blocked", f"{_where(item)}, and you agreed that it is left out", f"pluggent trust --plugin {name}"
    if name in RESERVED:
        return "incompatible", f"'{name}' is what records call pluggent's own part", f"pip uninstall {name}"
    if item.shadowed_by:
        return "shadowed", f"{item.shadowed_by} comes first on sys.path", f"remove {item.location}"
    listed_only = selection.mode == "allow" or isinstance(selection.allow, SystemList)
    if listed_only and not _listed(item, selection.allow):
        reason = f"[selection] allow does not list {name} {item.version}"
        return "disallowed", reason, f'add "{name}" to [selection] allow'
    if selection.mode == "safe" and role in ("", "sample") and name not in required:
        return "disallowed", "safe mode runs built-in plugins only", 'set [selection] mode = "all"'
    if item.left_out:
        return _skipped(item, is_second=name in running)
    return _fitting(item, selection, contract, root)


def _skipped(item: Distribution, *, is_second: bool) -> tuple[str, str, str]:
    leave = f"or pluggent trust --revoke --plugin {item.name} to leave it out"
    if is_second:
        return "skipped", f"{_where(item)}, and {item.name} is installed elsewhere", f"remove {item.location}, {leave}"
    return "skipped", _where(item), f"pluggent trust --plugin {item.name}, {leave}"


def _fitting(item: Distribution, selection: Selection, contract: str, root: str) -> tuple[str, str, str]:
    name = item.name
    try:
        fits = selection.any_version or version_fits(contract, item.contract)
    except ValueError as error:
        return "incompatible", f"its requirement on {CONTRACT} cannot be read: {error}", f"reinstall {name}"
    if not fits:
        reason = f"needs {CONTRACT} {item.contract}, this host has {contract}"
        older = root if _needs_newer(contract, item.contract) else name
        return "incompatible", reason, f"pip install --upgrade {older}"
    return "available", "", ""


def _needs_newer(contract: str, specifier: str) -> bool:
    """Say whether a clause of *specifier* that *contract* does not satisfy asks for a later version."""
    missed = [each.strip() for each in specifier.split(",") if not version_fits(contract, each)]
    exact = [each.lstrip("=~ ").removesuffix(".*") for each in missed if each.startswith(("~=", "=="))]
    return any(each.startswith(">") for each in missed) or any(
        not version_fits(contract, f">={each}") for each in exact
    )


def _where(item: Distribution) -> str:
    return f"{item.left_out} lies in the project (the working directory), which is not a source of plugins"


def _listed(item: Distribution, names: Iterable[str]) -> bool:
    for listed in names:
        name, _, pin = listed.replace(" ", "").partition("==")
        if normalised(name) == item.name and (not pin or item.version == pin or _same(item.version, pin)):
            return True
    return False


def _same(version: str, pin: str) -> bool:
    try:
        return version_fits(version, f"=={pin}")
    except ValueError:  # of the installed version: the pin has been read before
        return False


def _unknown(place: str, names: Iterable[str], installed: Collection[str]) -> Iterator[str]:
    for listed in names:
        name, _, pin = listed.replace(" ", "").partition("==")
        if normalised(name) not in installed:
            yield f"{place}: no plugin '{listed}' is installed{did_you_mean(normalised(name), installed)}"
        try:
            version_fits("0", f"=={pin}" if pin else "")
        except ValueError:
            yield f"{place}: '{listed}' has no proper version after =="


def _claimants(known: Sequence[PluginRecord], name: str) -> list[PluginRecord]:
    """Return the records that claim *name*, as entry name or as id; only first-party ones if there are any."""
    named = [record for record in known if record.name == name]
    owners = {record.id for record in named}
    claimants = [*named, *(record for record in known if record.id == normalised(name) and record.id not in owners)]
    first_party = [record for record in claimants if record.is_first_party]
    return [record for record in first_party if record.name == name] or first_party or claimants


def _taken(kind: str, name: str, usable: Sequence[PluginRecord]) -> Exception:
    from pluggent_hookspecs.errors import NameTaken  # only needed after a mistake

    first, *others = usable
    also = " and ".join(f"{item.capability} ({_shown(item)})" for item in others)
    if {item.name for item in usable} == {name}:
        lines = " or ".join(f'"{kind}/{name}" = "{item.id}"' for item in usable)
        settle = f"Say which under [aliases]: {lines}; or write {first.capability}"
    else:
        settle = f"Write {' or '.join(item.capability for item in usable)}"
    problem = f"offers {first.capability}, and '{name}' also means {also}, so it means neither. {settle}"
    return NameTaken(first.id, _shown(first), problem)


def _unusable(kind: str, name: str, bearers: Sequence[PluginRecord]) -> Exception:
    from pluggent_hookspecs.errors import ConfigError, PluginIncompatible  # as above

    record = bearers[0]
    if record.state == "incompatible":
        return PluginIncompatible(record.id, _shown(record), f"{record.reason}. To mend it: {record.mend}")
    problem = f"{record.capability} is {record.state}: {record.reason}. To use it, {record.mend}"
    return ConfigError(f"{kind} '{name}'", [problem])


def _missing(kind: str, name: str, alias: str | None, known: Sequence[PluginRecord]) -> Exception:
    from pluggent_hookspecs.errors import ConfigError  # as above

    if alias is not None:
        return ConfigError("aliases", [f'"{kind}/{name}" = "{alias}": that plugin offers no {kind} \'{name}\''])
    words = [word for record in known for word in (record.name, record.id, record.capability)]
    usable = sorted({record.name for record in known if record.state == "available"})
    offered = f" Installed: {', '.join(usable)}" if usable else ""
    return ConfigError(
        f"{kind} '{name}'", [f"no installed plugin offers it{did_you_mean(name, words) or '.'}{offered}"]
    )


def _shown(record: PluginRecord) -> str:
    return f"{record.distribution.shown_name} {record.version}"


def _owner(alias: str) -> str:
    return alias if alias.startswith(APP) else normalised(alias)


def tool_names(
    tools: Iterable[tuple[str, str]], aliases: Mapping[str, str] = NOTHING, first_party: Collection[str] = ()
) -> Mapping[str, str]:
    """Return {name the model sees: capability id} for (capability id, short name) pairs.

    The short name if it is unique, aliased, or claimed by one first-party plugin (or application code); else
    ``acme_tools_search``; if that is claimed too, with a hash. Fits ``^[A-Za-z0-9_-]{1,64}$``. A further
    third-party tool can make a name unusable, but never change which tool it means.

    >>> dict(tool_names([("acme-a:tool/search", "search"), ("acme-b:tool/search", "search")]))
    {'acme_a_search': 'acme-a:tool/search', 'acme_b_search': 'acme-b:tool/search'}
    """
    pairs = sorted(set(tools))
    forms = {pair: _forms(*pair) for pair in pairs}
    claims: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        for form in forms[pair]:
            claims.setdefault(form, []).append(pair)
    names: dict[str, str] = {}
    for pair in pairs:
        *wanted, last = forms[pair]
        name = next((form for form in wanted if _winner(form, claims[form], forms, aliases, first_party) == pair), last)
        names[name] = pair[0]
    return MappingProxyType(dict(sorted(names.items())))


def _forms(capability: str, short: str) -> tuple[str, str, str]:
    """Return the short, the qualified and the hashed name of a tool; only the last is unique for sure."""
    qualified = f"{plugin_of(capability)}_{short}".replace("-", "_")
    digest = _digest(f"{capability}\n{short}", 16)
    return _fitted(short), _fitted(qualified), f"{_fitted(qualified)[: LONGEST_NAME - 17]}_{digest}"


def _winner(
    name: str,
    claimants: Sequence[tuple[str, str]],
    forms: Mapping[tuple[str, str], tuple[str, str, str]],
    aliases: Mapping[str, str],
    first_party: Collection[str],
) -> tuple[str, str] | None:
    if any(forms[pair][2] == name for pair in claimants):
        return None
    wanted = aliases.get(f"tool/{name}")
    if wanted is not None:
        claimants = [pair for pair in claimants if forms[pair][0] == name and plugin_of(pair[0]) == _owner(wanted)]
    elif len(claimants) > 1:
        claimants = [pair for pair in claimants if pair[0].startswith(APP) or plugin_of(pair[0]) in first_party]
    return claimants[0] if len(claimants) == 1 else None


def _fitted(name: str) -> str:
    if _FITS.fullmatch(name):
        return name
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "_" for letter in name)
    return safe or "_" if len(safe) <= LONGEST_NAME else f"{safe[: LONGEST_NAME - 9]}_{_digest(name, 8)}"


def _digest(text: str, length: int) -> str:
    import hashlib  # 2 ms, and listing plugins needs none

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:length]


def version_fits(version: str, specifier: str) -> bool:
    """Say whether *version* satisfies *specifier* (PEP 440); pre-releases count. Raises ValueError if one is invalid.

    Releases are compared here, anything rarer (pre-releases, too) by ``packaging``.

    >>> version_fits("0.1.4", "==0.1.*"), version_fits("1.0", ">=1.1,<2")
    (True, False)
    """
    try:
        # A list, so that every clause is read, whatever the first one says.
        answers = [_satisfies(version, clause.strip()) for clause in specifier.split(",") if clause.strip()]
        return all(answers)
    except _BeyondUsError:
        from packaging.specifiers import SpecifierSet  # 20 ms, for a plugin with a rare requirement
        from packaging.version import Version  # the same

        return SpecifierSet(specifier).contains(Version(version), prereleases=True)


class _BeyondUsError(Exception):
    """A version or specifier outside the subset that is compared here."""


def _release(text: str) -> tuple[int, ...]:
    """Read ``1.2.3``."""
    parts = text.split(".")
    if not (text.isascii() and all(part.isdecimal() for part in parts)):
        raise _BeyondUsError(text)
    return tuple(map(int, parts))


def _satisfies(text: str, clause: str) -> bool:
    operator = clause[: len(clause) - len(clause.lstrip("=<>!~"))]
    wanted = clause[len(operator) :].strip()
    version = _release(text)
    if operator in ("==", "!=") and wanted.endswith(".*"):
        return _begins(version, _release(wanted[:-2])) == (operator == "==")
    other = _release(wanted)
    length = max(len(version), len(other))
    mine, theirs = _padded(version, length), _padded(other, length)
    match operator:
        case "==":
            return mine == theirs
        case "!=":
            return mine != theirs
        case ">=":
            return mine >= theirs
        case "<=":
            return mine <= theirs
        case ">":
            return mine > theirs
        case "<":
            return mine < theirs
        case "~=" if len(other) > 1:
            return mine >= theirs and _begins(version, other[:-1])
        case _:
            raise _BeyondUsError(clause)


def _begins(version: tuple[int, ...], prefix: tuple[int, ...]) -> bool:
    return _padded(version, len(prefix))[: len(prefix)] == prefix


def _padded(release: tuple[int, ...], length: int) -> tuple[int, ...]:
    return release + (0,) * (length - len(release))
