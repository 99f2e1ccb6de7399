"""Loads every plugin, measures what each costs, and asks providers for their models on request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import NamedTuple

from pluggent_hookspecs.errors import ConfigError, PluggentError, PluginError, PluginLoadError
from pluggent_host.host import Host
from pluggent_host.inspection import NoModelList
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.catalog import Catalog, PluginRecord
from pluggent_plugin_loader.discovery import normalised

from pluggent_cli.doctor.checks import Check
from pluggent_cli.doctor.import_cost import Cost, import_cost
from pluggent_cli.host_access import Setup, Trust, open_tolerant, without
from pluggent_cli.installed_plugins import TRUST_FILE
from pluggent_cli.process import collected_log

_AREA = "plugins"
_MEANT = frozenset({"active", "blocked", "disallowed", "shadowed"})
"""States that were chosen, or that do no harm."""


class Loaded(NamedTuple):
    """One entry of a plugin: the state it came to and why, and what its plugin costs; None if it was not measured."""

    record: PluginRecord
    state: str
    reason: str
    mend: str
    cost: Cost | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether something about it has to be mended."""
        return self.state not in _MEANT or (self.state == "active" and bool(self.reason))


async def examine(setup: Setup, *, online: bool) -> tuple[tuple[Loaded, ...], tuple[Check, ...]]:
    """Return every plugin as it is once loaded, and the other problems."""
    setup = _with_usable_trust(setup)
    with collected_log() as logged:
        try:
            loaded, checks = await _loaded(setup, online=online)
        except ConfigError as error:
            # The settings name what is not there: the plugins are judged without them.
            plain = setup._replace(settings=HostSettings(), origins={})
            loaded, checks = await _loaded(plain, online=online)
            problem = f"{error}; plugins were loaded without settings"
            checks = (Check("settings", "problem", problem, "pluggent config check"), *checks)
    told = [*(check.text for check in checks), *(one.reason for one in loaded if one.reason)]
    return loaded, (*checks, *_logged(logged.lines, told))


def _logged(lines: Iterable[str], told: list[str]) -> Iterator[Check]:
    """Return what was logged and is not among what is *told* anyway."""
    for line in dict.fromkeys(lines):
        if not any(text in line or line in text for text in told):
            yield Check(_AREA, "note", line, "")


def _with_usable_trust(setup: Setup) -> Setup:
    """Return *setup* as it is, or with nothing accepted where the store cannot be relied on: folders() says so."""
    try:
        setup.trust.store.entries()
    except ConfigError:
        return setup._replace(trust=Trust(setup.state_dir / "relied-on-by-none" / TRUST_FILE))
    return setup


async def _loaded(setup: Setup, *, online: bool) -> tuple[tuple[Loaded, ...], tuple[Check, ...]]:
    catalog = setup.catalog()
    checks = list(_searched(catalog))
    costs = await _costs(setup, catalog)
    deadly = {id for id, cost in costs.items() if cost.deadly}
    async with open_tolerant(without(setup, deadly)) as (host, missing, problems):
        checks += await _all_loaded(host)
        # A problem of one hook plugin is shown with it; one of all of them is shown on its own.
        checks += [Check(_AREA, "problem", text, "") for text in problems if text.endswith("without any hooks.")]
        checks += _required(setup, host)
        states = {record.capability: (state, reason) for record, state, reason in host.plugins if record.is_first}
        errors = host.failures
        checks += [check async for check in _online(host)] if online else []
    loaded = tuple(_judged(setup, record, states, errors, missing, costs) for record in catalog.records)
    return loaded, (*checks, Check(_AREA, "ok", f"{len({record.id for record in catalog.records})} installed", ""))


def _searched(catalog: Catalog) -> Iterator[Check]:
    for problem in catalog.problems:
        mend = f"remove one of the two, or reinstall {problem.plugin}" if problem.plugin else ""
        yield Check(_AREA, "problem" if problem.fatal else "note", str(problem), mend)


def _required(setup: Setup, host: Host) -> Iterator[Check]:
    active = {record.id for record, state, _ in host.plugins if record.kind == "hooks" and state == "active"}
    for id, hooks in setup.settings.required.items():
        if not hooks and setup.catalog().is_ready(normalised(id)):
            continue
        if normalised(id) not in active:
            text = f"plugin '{id}' is required and does not run, so nothing does"
            yield Check(_AREA, "problem", text, f"pip install {id}, or take it out of [required]")
            continue
        for hook in hooks:
            if all(impl.plugin != normalised(id) for impl in host.chains[hook]):
                text = f"plugin '{id}' is required to implement {hook}, and does not, so nothing runs"
                yield Check(_AREA, "problem", text, f"pip install --upgrade {id}")


def _judged(
    setup: Setup,
    record: PluginRecord,
    states: Mapping[str, tuple[str, str]],
    errors: Mapping[str, PluggentError],
    missing: tuple[str, ...],
    costs: Mapping[str, Cost],
) -> Loaded:
    if record.state != "available":
        return Loaded(record, record.state, record.reason, record.mend)
    if record.kind == "hooks" and not setup.accepts(record):
        reason = "it has hooks, which see everything, and was not accepted yet, so nothing runs with it"
        return Loaded(record, "not accepted", reason, f"pluggent trust --plugin {record.id}")
    cost = costs[record.id]
    mend = f"leave it out: pluggent --without {record.id}"
    if cost.deadly:
        return Loaded(record, "failed", cost.problem, mend, cost)
    state, reason = states[record.capability]
    if record.kind == "hooks" and record.id in missing and state != "failed":
        return Loaded(record, "left out", "see above", "", cost)
    error = errors.get(record.capability) if state == "failed" else None
    if isinstance(error, PluginError):
        cure = error.cure if isinstance(error, PluginLoadError) else ""
        return Loaded(record, state, error.problem.removesuffix(cure).strip(), _shown(cure) or mend, cost)
    return Loaded(record, state, reason, mend if state == "failed" or reason else "", cost)


def _shown(cure: str) -> str:
    """Return *cure* behind "to mend it: "."""
    cure = cure.removeprefix("Mend it, or ")
    return cure[:1].lower() + cure[1:]


async def _costs(setup: Setup, catalog: Catalog) -> Mapping[str, Cost]:
    """Return what each plugin costs that may run; one after the other, because they would slow each other down."""
    by_id: dict[str, list[PluginRecord]] = {}
    for record in catalog.records:
        if record.state == "available" and (record.kind != "hooks" or setup.accepts(record)):
            by_id.setdefault(record.id, []).append(record)
    return {id: await import_cost(records) for id, records in by_id.items()}


async def _all_loaded(host: Host) -> tuple[Check, ...]:
    """Load all that there is; return what is wrong with the settings about its tools."""
    try:
        await host.load_all()
        return ()
    except PluggentError as error:
        return (Check("tools", "problem", str(error), ""),)


async def _online(host: Host) -> AsyncIterator[Check]:
    for name, models in (await host.models()).items():
        if isinstance(models, NoModelList):
            yield Check("models", "note", f"{name} does not say which models it has, so it was not asked", "")
        elif isinstance(models, PluggentError):
            yield Check("models", "problem", str(models), f"pluggent models {name}")
        else:
            count = f"{len(models):,} model{'' if len(models) == 1 else 's'}"
            yield Check("models", "ok", f"{name} answers: {count}", "")
