"""From options to settings, and from settings to an open host. What every command but ``--version`` begins with.

It records which plugins failed to load, so that listing plugins needs to load none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import sys
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pluggent_hookspecs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError, PluggentError, PluginError
from pluggent_hookspecs.folders import private_folder
from pluggent_host.settings import HostSettings
from pluggent_plugin_loader.catalog import Catalog, PluginRecord, catalog
from pluggent_plugin_loader.discovery import Discovery, normalised
from pluggent_plugin_loader.settings import Selection
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli.config.command_settings import CommandSettings
from pluggent_cli.config.origins import Origin
from pluggent_cli.config.sources import read_settings, state_dir
from pluggent_cli.installed_plugins import TRUST_FILE, installed
from pluggent_cli.terminal.console import Console, warning

if TYPE_CHECKING:  # a host costs what listing plugins must not
    from pluggent_host.host import Host

    from pluggent_cli.trust.known_hook_plugins import Remembered  # the same
    from pluggent_cli.trust.store import TrustStore


class Trust:
    """What the person has accepted; its store is imported when something depends on it (15 ms)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def store(self) -> TrustStore:
        # Here and not above: see the class.
        from pluggent_cli.trust.store import TrustStore

        return TrustStore(self._path)

    def is_trusted(self, path: Path, content: bytes | None = None) -> bool:
        """Say whether the file is as it was accepted."""
        return self.store.is_trusted(path, content)


class Setup(NamedTuple):
    """What a command works with: settings, what is installed, and where state is kept."""

    settings: HostSettings
    origins: Mapping[str, Origin]
    discovery: Discovery
    trust: Trust
    state_dir: Path
    notes: tuple[str, ...] = ()
    command: CommandSettings = CommandSettings()

    def accepts(self, record: PluginRecord) -> bool:
        """Say whether a plugin with hooks may run: ours, or one that the person has accepted."""
        return record.is_first_party or self.trust.store.acknowledged(record.id, record.version)

    def required_by(self, id: str) -> str:
        """Return what makes the plugin *id* required, for a sentence; "" if nothing does."""
        where = self.origins.get(f"required.{id}")
        return f"required: configured by {where}" if where else ""

    def remembered(self) -> Remembered:
        """Return the memory of which plugins with hooks ran in this environment."""
        # Here and not above: listing what is installed needs none of it.
        from pluggent_cli.trust.known_hook_plugins import Remembered

        return Remembered(self.state_dir, sys.prefix)

    def model_named(self, name: str) -> str:
        """Return *name*, an alias or what a provider announces, as ``provider/model``. Raises ConfigError."""
        if not name or "/" in name:
            return name
        # Here and not above: most names are whole.
        from pluggent_cli.inputs.model_names import full_name

        return full_name(name, self.command.models.aliases, self.catalog())

    def catalog(self) -> Catalog:
        """Return what is installed with the state of each. Raises ConfigError for names in no plugin."""
        settings = self.settings
        return catalog(
            self.discovery,
            settings.selection,
            pluggent_hookspecs.__version__,
            aliases=settings.aliases,
            required=settings.required,
        )


def bare_setup() -> Setup:
    """Return a setup that reads no settings: for judging a file that may be broken or hostile."""
    folder = state_dir(os.environ)
    working_directory()  # a deleted one is an error
    return Setup(HostSettings(), {}, installed(), Trust(folder / TRUST_FILE), folder)


def prepare(
    options: argparse.Namespace, console: Console, flags: Mapping[str, object] | None = None, *, own: bool = False
) -> Setup:
    """Read the settings that *options* and *flags* (dotted keys) lead to. Raises ConfigError.

    *own*: of the file of a project only what tightens counts, trusted or not.
    """
    setup, errors = gather(options, flags, own=own)
    for error in errors:
        raise error
    for note in setup.notes:
        console.note(console.err_ink("yellow", f"note: {escape_all(note)}"))
    return setup


def prepare_to_look(options: argparse.Namespace, console: Console) -> Setup:
    """Return what ``prepare`` would, made of the sources that are right: sessions are found whatever a file says."""
    setup, errors = gather(options)
    for error in errors:
        console.note(warning(console, str(error)))
    return setup


def gather(
    options: argparse.Namespace, flags: Mapping[str, object] | None = None, *, own: bool = False
) -> tuple[Setup, tuple[ConfigError, ...]]:
    """Return what ``prepare`` would, made of the sources that are right, and the error of each other one.

    Raises ConfigError for what was typed wrong.
    """
    environ = {name: value for name, value in os.environ.items() if name != "PLUGGENT_DEBUG"}
    cwd = working_directory()
    folder = state_dir(environ)
    trust = Trust(folder / TRUST_FILE)
    found = installed()
    given: dict[str, object] = dict(flags or {})
    if options.without:
        given["selection.block"] = left_out = [name for names in options.without for name in names.split(",")]
        _check_names("--without", left_out, found)
    if options.safe:
        given["selection.mode"] = "safe"
    loaded, errors = read_settings(
        config=named_config(options), environ=environ, flags=given, cwd=cwd, trust=trust, own=own
    )
    settings = loaded.settings._replace(
        grants=loaded.settings.grants.filled_in(found.first_party),
        principal=loaded.settings.principal or system_user(),
    )
    return Setup(settings, loaded.origins, found, trust, folder, loaded.notes, loaded.command), errors


def system_user() -> str:
    """Return the name that the system has for who runs this process; its number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def named_config(options: argparse.Namespace) -> Path | None:
    """Return the file that ``--config`` names."""
    return Path(options.config) if options.config else None


def _check_names(option: str, names: Iterable[str], found: Discovery) -> None:
    known = {item.name for item in (*found.distributions, *found.left_out)}
    wrong = [name for name in names if normalised(name.partition("==")[0]) not in known]
    if wrong:
        problems = [f"no plugin {name!r} is installed{did_you_mean(normalised(name), known)}" for name in wrong]
        raise ConfigError(option, problems)


def working_directory() -> Path:
    """Return the working directory. Raises ConfigError if it was deleted."""
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigError("working directory", [f"cannot be read: {error.strerror}; go to another one"]) from error


FOLDER_KEY = "folder"
"""Under which the metadata of a session has the working directory in which it was begun."""
_LONGEST_FOLDER = 2_000


def folder_record() -> Mapping[str, str]:
    """Return the working directory as the metadata of a session has it; nothing for a very long one."""
    folder = os.fsencode(working_directory()).decode(errors="backslashreplace")
    return {FOLDER_KEY: folder} if len(folder) <= _LONGEST_FOLDER else {}


def folder_option(option: str, given: str | None) -> Path:
    """Return the folder that *option* names, the working directory by default. Raises ConfigError."""
    folder = Path(given).expanduser() if given else working_directory()
    if not folder.is_dir():
        raise ConfigError(option, [f"{given!r} is {'not a folder' if folder.exists() else 'not there'}"])
    return folder


def workspace_option(given: str | None) -> Path | None:
    """Return the folder that tools work in: the one that *given* names, else the working directory.

    None where that is a home folder or one above it, such as ``/``: too much to hand over without being asked.
    Raises ConfigError.
    """
    if given:
        return folder_option("--workspace", given)
    here = working_directory()
    return None if any(home.is_relative_to(here) for home in _homes()) else here


def _homes() -> Iterable[Path]:
    """Yield the home folder of who runs this process, as the system and as the environment have it."""
    for home in (os.path.expanduser("~"), os.path.expanduser(f"~{system_user()}")):  # noqa: PTH111 (it may have none)
        if home.startswith(os.sep):
            yield Path(os.path.realpath(home))


@asynccontextmanager
async def open_host(setup: Setup, *, remembering: bool = True, **options: Any) -> AsyncGenerator[Host]:
    """Open a host as Host.open does, with what *setup* says; remember which plugins failed to load.

    Raises ConfigError if a plugin with hooks that ran here before is gone; not so where nothing is
    *remembering*.
    """
    # Here and not above, with everything behind it: listing plugins needs no host.
    from pluggent_host.host import Host

    if remembering:
        check_missing(setup)
    opened: Host | None = None
    settings = setup.settings
    with contextlib.suppress(ConfigError):  # what needs a model says that there is none of that name
        settings = settings._replace(model=setup.model_named(settings.model))
    options = {"config": settings, "installed": setup.discovery, "acknowledged": setup.accepts, **options}
    # A host that keeps nothing does not know where keys are, and none knows what else the command keeps there: what
    # was typed in a chat, and records of plugins.
    options["private"] = (setup.state_dir,)
    try:
        async with Host.open(**options) as opened:
            if remembering:
                _remember(setup, opened.plugins)
            try:
                yield opened
            finally:
                record_failures(setup.state_dir, opened.plugins)
    except ConfigError as error:
        for id in setup.settings.required if opened is None else ():
            if f"'{id}'" in str(error) and (why := setup.required_by(id)):
                error.add_note(f"'{id}' is {why}")
        raise
    except PluginError as error:
        if opened is None:
            record_failures(setup.state_dir, _blamed(setup, error))
        raise


def _remember(setup: Setup, plugins: Iterable[tuple[PluginRecord, str, str]]) -> None:
    running = [record.id for record, state, _ in plugins if record.kind == "hooks" and state == "active"]
    try:
        setup.remembered().add(running)
    except ConfigError as error:  # where nothing can be written, nothing is saved either
        import logging  # here and not above: listing plugins does without

        logging.getLogger("pluggent.cli").warning("which plugins ran is not remembered: %s", error)


def check_missing(setup: Setup) -> None:
    """Raise ConfigError for plugins with hooks that ran in this environment and are not installed any more."""
    # One that is still there without its hooks is gone, too.
    hooks = {record.id for record in setup.catalog().by_kind("hooks")}
    if missing := setup.remembered().missing(hooks):
        raise ConfigError("plugins", [
            f"plugin '{id}' has hooks and ran here before, and is not installed any more, or without them: a policy may"
            f" be missing; install it again, or agree that it is gone: pluggent trust --revoke --plugin {id}"
            for id in missing
        ])  # fmt: skip


def _blamed(setup: Setup, error: PluginError) -> Iterable[tuple[PluginRecord, str, str]]:
    """Return the hook plugin that kept the host from opening, with advice added to *error*."""
    for record in setup.catalog().by_kind("hooks"):
        if record.id == error.plugin:
            error.add_note(
                f"A hook plugin may be a policy, so nothing runs without it. Your choice: --without {record.id} for"
                f' this once, or [grants] optional = ["{record.id}"] in the settings.'
            )
            yield record, "failed", error.problem


@asynccontextmanager
async def open_for_listing(setup: Setup, console: Console) -> AsyncGenerator[tuple[Host, tuple[str, ...]]]:
    """Open a host in which nothing is to be run, whatever hook plugin is broken.

    Yields it and the ids of hook plugins that are not in it; what is wrong with them is noted.
    """
    async with open_tolerant(setup) as (host, missing, problems):
        for problem in problems:
            console.note(warning(console, problem))
        yield host, missing


@asynccontextmanager
async def open_tolerant(setup: Setup) -> AsyncGenerator[tuple[Host, tuple[str, ...], tuple[str, ...]]]:
    """Open a host for listing; yield it, the ids of hook plugins that are not in it, and a sentence on each problem."""
    hooks = setup.catalog().by_kind("hooks")
    unaccepted = {record.id for record in hooks if record.state == "available" and not setup.accepts(record)}
    problems = [
        f"plugin '{id}' has hooks and was not accepted yet: pluggent trust --plugin {id}" for id in sorted(unaccepted)
    ]
    settings = setup.settings
    grants = settings.grants._replace(optional=tuple(record.id for record in hooks))
    selection = _selected(setup) if settings.required else settings.selection
    tolerant = setup._replace(settings=settings._replace(grants=grants, selection=selection, required={}))
    async with AsyncExitStack() as stack:
        try:
            host = await stack.enter_async_context(open_host(without(tolerant, unaccepted), remembering=False))
        except PluggentError as error:
            # One that loads and then cannot be opened, or that cannot be ordered among the others.
            problems.append(f"{error}. Listed without any hooks.")
            everyone = {record.id for record in hooks}
            host = await stack.enter_async_context(open_host(without(tolerant, everyone), remembering=False))
            yield host, tuple(sorted(everyone)), tuple(problems)
            return
        missing = set(unaccepted)
        for record, state, reason in host.plugins:
            if record.kind != "hooks":
                continue
            if state == "skipped":
                problems.append(f"plugin '{record.id}' has hooks and is skipped: {reason}; {record.mend}")
            elif state not in ("active", "blocked", "shadowed"):
                missing.add(record.id)
                if record.id not in unaccepted:
                    problems.append(reason)
        yield host, tuple(sorted(missing)), tuple(problems)


def _selected(setup: Setup) -> Selection:
    """Return a selection that says what the one of *setup* does together with what is required."""
    records = setup.catalog().records
    out = {record.id for record in records if record.state == "disallowed"}
    selection = setup.settings.selection
    return selection._replace(mode="all", allow=(), block=(*selection.block, *sorted(out)))


def without(setup: Setup, left_out: Collection[str]) -> Setup:
    """Return *setup* with the plugins *left_out* blocked."""
    selection = setup.settings.selection
    block = (*selection.block, *sorted(left_out))
    return setup._replace(settings=setup.settings._replace(selection=selection._replace(block=block)))


# ---- plugins that failed to load --------------------------------------------------------


_FAILURES = "load-failures.json"


class Failure(NamedTuple):
    """What went wrong with one version of a plugin, and when (local time)."""

    version: str
    reason: str
    when: str


def recorded_failures(state_dir: Path) -> Mapping[str, Failure]:
    """Return the last failure of each plugin by capability id; nothing where nothing can be read."""
    try:
        plain: object = json.loads((state_dir / _FAILURES).read_bytes())
        entries = cast("Mapping[str, Mapping[str, Any]]", plain if isinstance(plain, dict) else {})
        return {id: Failure(str(one["version"]), str(one["reason"]), str(one["when"])) for id, one in entries.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}  # a memory aid: damaged is as good as absent


def record_failures(state_dir: Path, states: Iterable[tuple[PluginRecord, str, str]]) -> None:
    """Record which of *states* (record, state, reason) are failures; forget one that works now."""
    before = recorded_failures(state_dir)
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
    temporary = state_dir / f"{_FAILURES}.{os.getpid()}"
    text = json.dumps({id: failure._asdict() for id, failure in failures.items()}, indent=1)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    temporary.replace(state_dir / _FAILURES)
