"""Turns a record into a checked plugin in a pluggy manager, or says why it cannot be."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import attrs
import pluggy
from pluggent_hookspecs import hooks as hookspecs
from pluggent_hookspecs.errors import PluginLoadError
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import PROJECT

from pluggent_plugin_loader.catalog import PluginRecord
from pluggent_plugin_loader.options import settings_for
from pluggent_plugin_loader.plugin_errors import is_interrupt, raised_at
from pluggent_plugin_loader.project import is_foreign, roots
from pluggent_plugin_loader.requirements import install_command
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_plugin_loader.validation import RefusalError, near_misses, register_checked, text_of

_ABSENT = object()


@attrs.frozen(eq=False, repr=False)
class Loaded:
    """A registered plugin; ``hooks`` are the names it implements, ``near_misses`` names what may be meant as one."""

    plugin: object
    hooks: tuple[str, ...]
    near_misses: tuple[str, ...] = ()


class _Manager(pluggy.PluginManager):
    def parse_hookspec_opts(self, module_or_class: ModuleType | type, name: str) -> pluggy.HookspecOpts | None:
        # What else the module has takes longer to look at than the hooks.
        return super().parse_hookspec_opts(module_or_class, name) if name in HOOKS else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        # Private names are not hooks, and pluggy 1.6 would run every public property.
        return super().parse_hookimpl_opts(plugin, name) if name in HOOKS else None


def new_manager() -> pluggy.PluginManager:
    """Return a manager that knows every hook of the contract and has no plugin."""
    manager = _Manager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load(
    record: PluginRecord, manager: pluggy.PluginManager, settings: Mapping[str, Any] | object | None = None
) -> Loaded:
    """Import *record*, make its plugin with *settings* (its section, or a ``Settings``), check it and register it.

    Raises ConfigError naming every problem of *settings*, PluginLoadError for anything else, SystemExit
    included; the manager is then as it was.
    """
    target, arguments = _prepared(record, settings)
    plugin = _made(record, target, arguments)
    with _blamed(record, "is refused, loaded from"):
        hooks = register_checked(manager, registered_name(record), plugin, (record.kind,))
    return Loaded(plugin, hooks, near_misses(plugin))


def make(record: PluginRecord, settings: Mapping[str, Any]) -> Any:
    """Import *record* and return its plugin, registered nowhere. Raises as ``load``."""
    return _made(record, *_prepared(record, settings))


def check_settings(record: PluginRecord, settings: Mapping[str, Any] | object | None) -> None:
    """Import *record* and structure its *settings* as ``load`` does, and make no plugin. Raises as ``load``."""
    _prepared(record, settings)


def settings_class(record: PluginRecord) -> type | None:
    """Import *record* and return the class of its settings, None if it takes none. Raises PluginLoadError."""
    return _target(record)[1]


def _prepared(record: PluginRecord, settings: object) -> tuple[object, tuple[object, ...]]:
    """Return the target of *record*, and the arguments of its factory."""
    target, names_settings = _target(record)
    return target, settings_for(record.id, names_settings, settings)


def _target(record: PluginRecord) -> tuple[object, type | None]:
    """Import *record*; return its target and the class of its settings."""
    with _blamed(record, "could not be imported from"):
        target = _imported(record)
    with _blamed(record, "cannot be made by"):
        return target, _settings_class(target)


def register(
    manager: pluggy.PluginManager, plugin_id: str, obj: object, *, kinds: Iterable[str], host_code: bool = False
) -> tuple[str, ...]:
    """Check *obj* and register it as *plugin_id*; return the hooks it implements, which have to be of *kinds*.

    *host_code*: the application gave it. Raises PluginLoadError; the manager is then as it was.
    """
    try:
        return register_checked(manager, plugin_id, obj, kinds)
    except BaseException as cause:
        if is_interrupt(cause):
            raise
        cure = "" if host_code else f"Mend it, {without(plugin_id)}"
        where = "given in application code" if host_code else ""
        raise PluginLoadError(plugin_id, where, f"is refused: {_because(cause)}", cure=cure) from cause


def without(plugin_id: str) -> str:
    """Return the second half of every cure."""
    return f"or leave it out: pluggent --without {plugin_id}"


def about(record: PluginRecord) -> str:
    """Return the distribution of *record* with its version, as errors name it."""
    return f"{record.distribution.shown_name} {record.version}"


def registered_name(record: PluginRecord) -> str:
    """Return the name of *record* in a manager: its id if it has hooks, else its capability id.

    Chains, grants and before/after use plugin ids; a distribution has one entry of kind ``hooks`` at most.
    """
    return record.id if record.kind == "hooks" else record.capability


@contextmanager
def _blamed(record: PluginRecord, doing: str) -> Generator[None]:
    try:
        yield
    except BaseException as cause:  # here plugin code runs; it may even raise SystemExit
        if is_interrupt(cause):
            raise
        raise _load_error(record, doing, cause) from cause


def _load_error(record: PluginRecord, doing: str, cause: BaseException) -> PluginLoadError:
    mend = _missing_module(record, cause) if isinstance(cause, ModuleNotFoundError) and cause.name else "Mend it"
    problem = f"{doing} {record.name} = {record.value} [{record.group}]: {_because(cause)}"
    return PluginLoadError(record.id, about(record), problem, cure=f"{mend}, {without(record.id)}")


def _missing_module(record: PluginRecord, cause: ModuleNotFoundError) -> str:
    """Return what to do about the module that *cause* names."""
    name, own = cause.name or "", record.value.partition(":")[0]
    if own == name or own.startswith(f"{name}."):
        return f"Reinstall it (pip install --force-reinstall {record.id})"
    # What is imported may be installed under another name: re2 comes with google-re2.
    if command := install_command(record.distribution.location):
        return f"Install what it requires: {command}"
    return f"Install the package that provides '{name.partition('.')[0]}', which it does not say that it requires"


def _because(error: BaseException) -> str:
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < 5:  # noqa: PLR2004 (further causes do not help)
        said.append(_sentence(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    sentence = ", because of ".join(said)
    return sentence if sentence.endswith("?") else f"{sentence}."


def _sentence(error: BaseException) -> str:
    if isinstance(error, RefusalError):
        return text_of(error)
    text = text_of(error)
    return f"{type(error).__name__}{f': {text}' if text else ''}{raised_at(error)}"


def _imported(record: PluginRecord) -> object:
    module, _, path = record.value.partition(":")
    target: object = _module(module, record.distribution.location)
    for name in path.split(".") if path else ():
        known = dir(target)
        target = getattr(target, name, _ABSENT)
        if target is _ABSENT:
            raise RefusalError(f"there is no '{name}' in it{did_you_mean(name, known)}")
    return target


def _module(name: str, location: str) -> ModuleType:
    """Import *name*, and first each package around it, unless the project shadows it."""
    here, parts = roots(), name.split(".")
    for end in range(1, len(parts)):
        _check_origin(".".join(parts[:end]), location, here)
        importlib.import_module(".".join(parts[:end]))
    _check_origin(name, location, here)
    return importlib.import_module(name)


def _check_origin(module: str, location: str, here: Sequence[str]) -> None:
    origin = _origin(module) if here else ""
    if origin and is_foreign(origin, module, location, here):
        raise RefusalError(
            f"its module '{module}' would come from {origin}, in the project (the working directory), but it is"
            f" installed in {Path(location).parent}. Take that folder off PYTHONPATH and sys.path or start in"
            " another one, or install it from there: pip install -e."
        )


def _origin(module: str) -> str:
    """Return the file that *module* is, or would be, imported from; "" if it has none."""
    loaded = sys.modules.get(module)
    spec = getattr(loaded, "__spec__", None) if loaded else importlib.util.find_spec(module)
    if spec is None:
        return str(getattr(loaded, "__file__", None) or "")
    return str(spec.origin) if spec.has_location and spec.origin else ""


def _settings_class(target: object) -> type | None:
    """Return the ``Settings`` class of *target*; refuse an object that is not a factory."""
    if inspect.ismodule(target):
        return None
    if not callable(target):
        raise RefusalError("it is an object, not a factory: name the class, or a function that makes one")
    names: object = getattr(target, "Settings", None)
    if names is not None and not (
        inspect.isclass(names) and (attrs.has(names) or hasattr(names, "__dataclass_fields__"))
    ):
        raise RefusalError("its Settings is neither an attrs class nor a dataclass")
    parameters = inspect.signature(target).parameters.values()
    needed = [item.name for item in parameters if item.default is item.empty and item.kind not in _VARIADIC]
    if names is None and needed:
        raise RefusalError(f"its factory needs {', '.join(needed)}, but names no Settings class")
    if names is not None and (len(needed) > 1 or not any(item.kind is not item.KEYWORD_ONLY for item in parameters)):
        raise RefusalError("it names Settings, so its factory takes them as its one parameter")
    return names


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _made(record: PluginRecord, target: object, arguments: tuple[object, ...]) -> object:
    if inspect.ismodule(target):
        return target
    with _blamed(record, "cannot be made by"):
        plugin = cast("Callable[..., object]", target)(*arguments)
        if inspect.iscoroutine(plugin):
            plugin.close()
            raise RefusalError("its factory is async; make the plugin at once, and connect in open(context)")
    return plugin
