"""Turns a record into a checked plugin object in a pluggy manager, or says why it cannot be.

pluggy loses hooks in silence: an unmarked method, an object with __call__, a proxy. Here every
public name that is a hook's, or carries a marker, is compared with what will be registered; a
difference refuses the plugin. Who may claim which band, and in what order, is chains.py's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import time
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import attrs
import pluggy
from pluggent_hookspecs import hooks as hookspecs
from pluggent_hookspecs.errors import ConfigError, PluginLoadError
from pluggent_hookspecs.hooks import HOOKS, IMPL_MARK, PROJECT, HookKind, ImplOptions
from pluggent_hookspecs.secrets import Secret

from pluggent_host.catalog import PluginRecord
from pluggent_host.nearest import nearest

if TYPE_CHECKING:  # cattrs costs 70 ms, and most plugins are given no settings
    from cattrs import Converter

_PROVIDES: Mapping[str, str] = types.MappingProxyType(
    {
        "provider": "provide_providers",
        "tools": "provide_tools",
        "memory": "provide_memory",
        "parser": "provide_parsers",
        "command": "provide_commands",
    }
)
"""The one hook of each kind of capability; ``hooks`` has all the others."""

_PLUGGY_MARK = f"{PROJECT}_impl"
_PLUGGY_OPTIONS = ("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast", "specname")
_SYNC_ONLY = frozenset({"transform_delta", *(name for name, info in HOOKS.items() if info.kind is HookKind.PROVIDE)})
_ABSENT = object()


class _RefusalError(Exception):
    """Why a plugin is refused, in words that need no type in front."""


@attrs.frozen(eq=False)
class Loaded:
    """A registered plugin. ``hooks`` are the names it implements; ``import_ms`` is wall time."""

    record: PluginRecord
    plugin: object
    import_ms: float
    hooks: tuple[str, ...]


class _Manager(pluggy.PluginManager):
    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        # Private names are nobody's hooks, and pluggy 1.6 would run every public property.
        return super().parse_hookimpl_opts(plugin, name) if name in HOOKS else None


def new_manager() -> pluggy.PluginManager:
    """Return a manager that knows every hook of the contract and has no plugin."""
    manager = _Manager(PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def load(
    record: PluginRecord, manager: pluggy.PluginManager, settings: Mapping[str, Any] | object | None = None
) -> Loaded:
    """Import *record*, make its plugin, check it and register it.

    A plugin of kind ``hooks`` is registered under its id, any other under its capability id.
    *settings* are the plugin's section, or an instance of its ``Settings``; None is an empty one.

    Raises ConfigError naming every problem of *settings*, and PluginLoadError for anything else
    that goes wrong, SystemExit included; the manager is then as it was.
    """
    entry = f"{record.name} = {record.value} [{record.group}]"
    blame = functools.partial(_blamed, functools.partial(_load_error, record, entry))
    started = time.perf_counter()
    with blame("could not be imported from"):
        target = _imported(record.value)
    import_ms = (time.perf_counter() - started) * 1000
    with blame("cannot be made by"):
        names_settings = _settings_class(target)
    arguments = _arguments(record.id, names_settings, settings)
    with blame("cannot be made by"):
        plugin = target if inspect.ismodule(target) else _made(cast("Callable[..., object]", target), arguments)
    with blame("is refused, loaded from"):
        hooks = _registered(manager, registered_name(record), plugin, (record.kind,))
    return Loaded(record, plugin, import_ms, hooks)


def register(
    manager: pluggy.PluginManager, plugin_id: str, obj: object, *, kinds: Iterable[str], host_code: bool = False
) -> tuple[str, ...]:
    """Check *obj* and register it as *plugin_id*; return the names of the hooks it implements.

    *kinds* are those of which it may implement hooks. *host_code* says that the application gave
    it (``app:<name>``). Raises PluginLoadError; the manager is then as it was.
    """

    def error(doing: str, cause: BaseException) -> PluginLoadError:
        advice = "" if host_code else f" Mend it, or leave it out: pluggent --without {plugin_id}"
        where = "given in application code" if host_code else ""
        return PluginLoadError(plugin_id, where, f"{doing}: {_because(cause)}{advice}")

    with _blamed(error, "is refused"):
        return _registered(manager, plugin_id, obj, kinds)


def registered_name(record: PluginRecord) -> str:
    """Return the name under which *record* stands in a manager.

    Chains, grants and before/after speak of plugin ids; a distribution has one entry of kind
    ``hooks`` at most, so that its id is free for it.
    """
    return record.id if record.kind == "hooks" else record.capability


# ---- blame ------------------------------------------------------------------------------


@contextmanager
def _blamed(error: Callable[[str, BaseException], PluginLoadError], doing: str) -> Generator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as cause:  # here plugin code runs; it may even raise SystemExit
        raise error(doing, cause) from cause


def _load_error(record: PluginRecord, entry: str, doing: str, cause: BaseException) -> PluginLoadError:
    mend = "Mend it"
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        own = record.value.partition(":")[0]
        missing = own == cause.name or own.startswith(f"{cause.name}.")
        name = cause.name.partition(".")[0].replace("_", "-")
        mend = f"Reinstall it (pip install --force-reinstall {record.id})" if missing else f"pip install {name}"
    problem = f"{doing} {entry}: {_because(cause)} {mend}, or leave it out: pluggent --without {record.id}"
    return PluginLoadError(record.id, f"{record.distribution.shown_name} {record.version}", problem)


def _because(error: BaseException) -> str:
    said: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(said) < 5:  # noqa: PLR2004 (further causes help nobody)
        said.append(_say(cause) if isinstance(cause, _RefusalError) else f"{type(cause).__name__}: {_say(cause)}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    sentence = ", because of ".join(said)
    return sentence if sentence.endswith("?") else f"{sentence}."


def _say(error: BaseException) -> str:
    try:
        # A KeyError quotes its text, and validators of attrs add what they were given.
        text = error.args[0] if error.args and isinstance(error.args[0], str) and len(error.args) > 1 else str(error)
    except Exception:  # noqa: BLE001 (a plugin's exception may be broken itself)
        return "(its text cannot be read)"
    return text.strip().rstrip(".")


# ---- making -----------------------------------------------------------------------------


def _imported(value: str) -> object:
    module, _, path = value.partition(":")
    target: object = importlib.import_module(module)
    for name in path.split(".") if path else ():
        known = dir(target)
        target = getattr(target, name, _ABSENT)
        if target is _ABSENT:
            raise _RefusalError(f"there is no '{name}' in it{nearest(name, known)}")
    return target


def _settings_class(target: object) -> type | None:
    """Return the class that *target* names as ``Settings``; refuse what is no factory."""
    if inspect.ismodule(target):
        return None
    if not callable(target):
        raise _RefusalError("it is an object, not a factory: name the class, or a function that makes one")
    names: object = getattr(target, "Settings", None)
    if names is not None and not (
        inspect.isclass(names) and (attrs.has(names) or hasattr(names, "__dataclass_fields__"))
    ):
        raise _RefusalError("its Settings is no attrs class and no dataclass")
    parameters = inspect.signature(target).parameters.values()
    needed = [item.name for item in parameters if item.default is item.empty and item.kind not in _VARIADIC]
    if names is None and needed:
        raise _RefusalError(f"its factory needs {', '.join(needed)}, but names no Settings class")
    if names is not None and (len(needed) > 1 or not any(item.kind is not item.KEYWORD_ONLY for item in parameters)):
        raise _RefusalError("it names Settings, so its factory takes them as its one parameter")
    return names


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def _made(factory: Callable[..., object], arguments: tuple[object, ...]) -> object:
    plugin = factory(*arguments)
    if inspect.iscoroutine(plugin):
        plugin.close()
        raise _RefusalError("its factory is async; make the plugin at once, and connect in open(context)")
    return plugin


def _arguments(plugin: str, names: type | None, settings: object) -> tuple[object, ...]:
    where = f"plugins.{plugin}"
    if names is None:
        if settings:
            raise ConfigError("settings", [f"{where}: this plugin takes no settings"])
        return ()
    if isinstance(settings, names):
        return (settings,)
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError("settings", [f"{where}: expected a table or {names.__qualname__}, got {_kind_of(settings)}"])
    try:
        return (_structured(cast("Mapping[str, Any]", settings or {}), names),)
    except Exception as error:
        raise ConfigError("settings", list(_problems(error, where))) from error


def _structured(section: Mapping[str, Any], names: type) -> object:
    if not section:
        try:
            inspect.signature(names).bind()
        except TypeError:
            pass  # something is required: let cattrs name it
        else:
            return names()
    made: object = _converter().structure(section, cast("type[object]", names))
    return made


# ---- settings ---------------------------------------------------------------------------

_WORDS: Mapping[type, str] = types.MappingProxyType(
    {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
)


@functools.cache
def _converter() -> Converter:
    """Return the converter of plugin settings: strict, because ``"false"`` is not False."""
    import cattrs  # see above: only for a plugin that is given settings
    from cattrs.strategies import configure_union_passthrough  # the same

    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    plain: object = str | int | float | bool | None
    configure_union_passthrough(plain, converter)
    for wanted in (str, bool, int, float):
        converter.register_structure_hook(wanted, _exactly)
    converter.register_structure_hook(Secret, _secret)
    inside: set[Any] = set()

    def shaped(wanted: Any) -> bool:
        return wanted not in inside and _shape(wanted) is not None

    def factory(wanted: Any) -> Callable[[Any, Any], Any]:
        inside.add(wanted)
        try:
            hook = converter.get_structure_hook(wanted, cache_result=False)
        finally:
            inside.discard(wanted)
        return functools.partial(_of_shape, _shape(wanted) or dict, hook)

    converter.register_structure_hook_factory(shaped, factory)
    return converter


def _shape(wanted: Any) -> type | None:
    origin = getattr(wanted, "__origin__", wanted)
    if not inspect.isclass(origin) or issubclass(origin, str):
        return None
    if attrs.has(origin) or hasattr(origin, "__dataclass_fields__") or issubclass(origin, Mapping):
        return dict
    return list if issubclass(origin, Iterable) and origin.__module__ in ("builtins", "collections.abc") else None


def _of_shape(shape: type, hook: Callable[[Any, Any], Any], value: Any, wanted: Any) -> Any:
    fits = isinstance(value, Mapping) if shape is dict else isinstance(value, list | tuple | set | frozenset)
    if not fits and not (inspect.isclass(wanted) and isinstance(value, wanted)):
        raise TypeError(f"expected {_WORDS[shape]}, got {_kind_of(value)}")
    return hook(value, wanted)


def _exactly(value: Any, wanted: Callable[[Any], Any]) -> Any:
    if type(value) is wanted or (wanted is float and type(value) is int):
        return wanted(value)
    raise TypeError(f"expected {_WORDS[cast('type', wanted)]}, got {_kind_of(value)}")


def _secret(value: Any, _: object) -> Secret:
    if isinstance(value, str):
        return Secret(value)
    if isinstance(value, Secret):
        return value
    raise TypeError(f"expected a reference such as env:NAME, got {_kind_of(value)}")


def _kind_of(value: object) -> str:
    shown = list if isinstance(value, tuple) else dict if isinstance(value, Mapping) else type(value)
    return "nothing" if value is None else _WORDS.get(shown, shown.__name__)


def _problems(error: BaseException, where: str, wanted: object = None) -> Iterator[str]:
    from cattrs import errors  # imported already, or costs 70 ms for an error that ends the start

    if isinstance(error, errors.ClassValidationError):
        noted, others = error.group_exceptions()
        for inner, note in noted:
            required = isinstance(inner, KeyError) and inner.args == (note.name,)
            at = f"{where}.{note.name}"
            yield from (f"{at}: is required",) if required else _problems(inner, at, note.type)
        for inner in others:
            yield from _problems(inner, where)
    elif isinstance(error, errors.IterableValidationError):
        listed, others = error.group_exceptions()
        for inner, at in listed:
            place = f".{at.index}" if isinstance(at.index, str) else f"[{at.index}]"
            yield from _problems(inner, where + place, at.type)
        for inner in others:
            yield from _problems(inner, where)
    elif isinstance(error, errors.ForbiddenExtraKeysError):
        known = list(inspect.signature(error.cl).parameters)
        yield from (f"{where}.{name}: unknown{nearest(name, known)}" for name in sorted(error.extra_fields))
    else:
        literal = getattr(wanted, "__args__", ()) if " not in literal " in str(error) else ()
        union = f"expected {wanted}" if " not part of " in str(error) else ""  # cattrs' text repeats the value
        choices = f"expected one of {', '.join(map(repr, literal))}" if literal else ""
        yield f"{where}: {choices or union or _say(error)}"


# ---- checking ---------------------------------------------------------------------------


def _registered(manager: pluggy.PluginManager, name: str, plugin: object, kinds: Iterable[str]) -> tuple[str, ...]:
    if plugin is None or inspect.isclass(plugin):
        raise _RefusalError("there is no object: a factory returns one, and a class is never registered itself")
    if manager.has_plugin(name):
        raise _RefusalError(f"'{name}' is registered already")
    if manager.is_registered(plugin):
        raise _RefusalError("it equals a plugin that is registered: compare plugins by identity (attrs: eq=False)")
    found = [hook for hook in HOOKS if _present(plugin, hook)]
    problems = [f"{hook}: {problem}" for hook in found for problem in _wrong(plugin, hook, frozenset(kinds))]
    problems += _strays(plugin)
    if not found and not problems:
        problems = [f"it implements no hook; this kind has {', '.join(_hooks_of(frozenset(kinds)))}"]
    if problems:
        raise _RefusalError("; ".join(problems))
    try:
        manager.register(plugin, name)
        manager.check_pending()
        _compare(manager, plugin, set(found))
    except BaseException:
        # pluggy 1.6 leaves half a plugin behind; blocking a name is its public way to forget one.
        manager.set_blocked(name)
        manager.unblock(name)
        raise
    return tuple(found)


def _compare(manager: pluggy.PluginManager, plugin: object, found: set[str]) -> None:
    lost = found - {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    if lost:
        raise _RefusalError(f"pluggy does not see {', '.join(sorted(lost))}: write plain methods")


def _hooks_of(kinds: frozenset[str]) -> list[str]:
    capabilities = {_PROVIDES[kind] for kind in kinds if kind in _PROVIDES}
    return [
        name
        for name, info in HOOKS.items()
        if name in capabilities or ("hooks" in kinds and info.fired and info.kind is not HookKind.PROVIDE)
    ]


def _present(plugin: object, name: str) -> bool:
    try:
        return inspect.getattr_static(plugin, name, _ABSENT) is not _ABSENT or hasattr(plugin, name)
    except Exception:  # noqa: BLE001 (a plugin's __getattr__ may raise anything: then it answers to the name)
        return True


def _wrong(plugin: object, hook: str, kinds: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the attribute *hook* of *plugin*: what hides it, or what breaks its promise."""
    static = inspect.getattr_static(plugin, hook, _ABSENT)
    if static is _ABSENT:
        yield "it answers through __getattr__, which pluggy does not see: write a method"
        return
    if isinstance(static, property | functools.cached_property):
        yield "it is a property: write a method"
        return
    value: Any = getattr(plugin, hook, None)
    if not (inspect.isfunction(value) or inspect.ismethod(value)):
        yield f"it is {_a(value)}, which pluggy does not see: write a method"
        return
    unmarked = _unmarked(static, value)
    if unmarked:
        yield unmarked
        return
    info = HOOKS[hook]
    if not info.fired:
        yield "this host does not fire this hook, so it would guard nothing: leave it out"
    elif hook not in _hooks_of(kinds):
        yield f"it does not belong to kind {' or '.join(sorted(kinds))}, which has {', '.join(_hooks_of(kinds))}"
    yield from _wrong_form(value, info)


def _unmarked(static: object, value: Any) -> str:
    ours: object = getattr(value, IMPL_MARK, None)
    theirs: object = getattr(value, _PLUGGY_MARK, None)
    if ours is None and theirs is None:
        if _marks(static):
            return "@hookimpl stands above @staticmethod or @classmethod: put it below"
        written = cast("dict[str, object]", vars(getattr(value, "__func__", value)))
        foreign = [mark.removesuffix("_impl") for mark, found in written.items() if _is_foreign(mark, found)]
        if foreign:
            return f"it is marked for the project '{foreign[0]}': use pluggent_hookspecs.hookimpl"
        return "it is not marked with @hookimpl, so it would never be called: mark it, or give it another name"
    if not isinstance(ours, ImplOptions) or not isinstance(theirs, dict):
        return "it is marked by pluggy itself: use pluggent_hookspecs.hookimpl"
    options = cast("dict[str, object]", theirs)
    refused = [name for name in _PLUGGY_OPTIONS if options.get(name)]
    return f"{', '.join(refused)} is not for pluggent's hooks: use hookimpl(band=, before=, after=)" if refused else ""


def _is_foreign(mark: str, found: object) -> bool:
    return mark.endswith("_impl") and isinstance(found, dict) and "hookwrapper" in found


def _wrong_form(value: Callable[..., Any], info: hookspecs.HookInfo) -> Iterator[str]:
    layers = list(_layers(value))
    if any(inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer) for layer in layers):
        yield "it is a generator: return the value instead of yielding"
    is_async = any(inspect.iscoroutinefunction(layer) for layer in layers)
    if info.name in _SYNC_ONLY and is_async:
        yield "it is async, but this hook is synchronous: write def, and connect in open(context)"
    if info.kind is HookKind.AROUND and not inspect.iscoroutinefunction(value):
        yield "it is synchronous, but an around hook awaits call_next: write async def"
    if is_async and getattr(value, IMPL_MARK).blocking:
        yield "blocking=True is for synchronous implementations: leave it out"
    wanted = list(inspect.signature(info.function).parameters)
    parameters = inspect.signature(value).parameters.values()
    positional = [str(item).partition(":")[0].partition("=")[0] for item in parameters if item.kind in _POSITIONAL]
    extra = [item.name for item in parameters if item.kind is item.KEYWORD_ONLY and item.default is item.empty]
    if positional != wanted or extra:
        given = ", ".join([*positional, *extra]) or "nothing"
        yield f"its parameters are {given}; they must be {', '.join(wanted)}"


def _layers(function: Any) -> Iterator[Any]:
    """Yield *function* and everything it wraps (functools.wraps)."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(getattr(function, "__func__", function), "__wrapped__", None)


def _strays(plugin: object) -> Iterator[str]:
    """Yield every marked attribute whose name is no hook's."""
    for name in dir(plugin):
        if name in HOOKS or name.startswith("__") or not _marks(inspect.getattr_static(plugin, name, None)):
            continue
        private = name.startswith("_")
        yield f"{name}: " + ("a private name is no hook" if private else f"there is no such hook{nearest(name, HOOKS)}")


def _marks(static: Any) -> bool:
    """Say whether an attribute, or the function inside it, carries our marker or pluggy's; runs no plugin code."""
    return _marked(static) or (isinstance(static, _HOLDERS) and _marked(_inside(static)))


def _marked(item: object) -> bool:
    found = (inspect.getattr_static(item, mark, None) for mark in (IMPL_MARK, _PLUGGY_MARK))
    return not inspect.isclass(item) and any(isinstance(mark, ImplOptions | dict) for mark in found)


def _inside(holder: Any) -> object:
    return holder.fget if isinstance(holder, property) else holder.__func__


_HOLDERS = (property, staticmethod, classmethod, types.MethodType)


def _a(value: object) -> str:
    return "None" if value is None else "a class" if inspect.isclass(value) else f"a {type(value).__name__} object"
