"""Compares what a plugin seems to offer with what pluggy sees, so that no hook is lost in silence.

An unmarked method, an object with __call__ or a proxy is lost to pluggy: every public name that is a
hook's, or has a marker, is compared with the registered ones; a difference refuses the plugin.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, cast

import pluggy
from pluggent_hookspecs import hooks as hookspecs
from pluggent_hookspecs.hooks import HOOKS
from pluggent_hookspecs.markers import IMPL_MARK, PROJECT, HookKind, ImplOptions

from pluggent_plugin_loader.suggestions import did_you_mean

HOLDING = ("transform_model_response", "decide_model_response", "transform_output", "decide_output")
"""Hooks that may change or refuse a whole reply: while one is active, a stream shows nothing before.

One that is marked ``incremental`` leaves that to transform_delta of its plugin.
"""
PROVIDES: Mapping[str, str] = types.MappingProxyType(
    {
        "provider": "provide_providers",
        "embedder": "provide_embedders",
        "tools": "provide_tools",
        "memory": "provide_memory",
        "session": "provide_sessions",
        "parser": "provide_parsers",
        "command": "provide_commands",
    }
)
"""The one hook of each kind of capability; ``hooks`` has all the others."""

_PLUGGY_MARK = f"{PROJECT}_impl"
_PLUGGY_OPTIONS = ("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast", "specname")
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_SYNC_ONLY = {"transform_delta", "write_record"} | {n for n, info in HOOKS.items() if info.kind is HookKind.PROVIDE}
_ABSENT = object()
MOST_COLLECTED = 10_000
"""How many things a plugin may give at once."""


class RefusalError(Exception):
    """The reason why a plugin is refused."""


def text_of(error: BaseException) -> str:
    """Return the text of *error*, which may be of a plugin and broken."""
    try:
        # A KeyError quotes its text, and validators of attrs add what they were given.
        text = error.args[0] if error.args and isinstance(error.args[0], str) and len(error.args) > 1 else str(error)
    except Exception:  # noqa: BLE001 (a plugin's exception may be broken itself)
        return "(its text cannot be read)"
    return text.strip().rstrip(".")


def register_checked(manager: pluggy.PluginManager, name: str, plugin: object, kinds: Iterable[str]) -> tuple[str, ...]:
    """Register *plugin* as *name* and return its hooks; if one would be lost, raise and leave the manager as it was."""
    if plugin is None or inspect.isclass(plugin):
        raise RefusalError("there is no object: a factory returns one, and a class is never registered itself")
    if manager.has_plugin(name):
        raise RefusalError(f"'{name}' is registered already")
    if manager.is_registered(plugin):
        raise RefusalError("it equals a plugin that is registered: compare plugins by identity (attrs: eq=False)")
    names = _names_of(type(plugin))
    found = [hook for hook in HOOKS if hook in names or _answers_to(plugin, hook)]
    problems = [f"{hook}: {problem}" for hook in found for problem in _wrong(plugin, hook, frozenset(kinds))]
    problems += _strays(plugin)
    problems += [] if problems else _incomplete(plugin, found)
    if not found and not problems:
        problems = [f"it implements no hook; this kind has {', '.join(_hooks_of(frozenset(kinds)))}"]
    if problems:
        raise RefusalError("; ".join(problems))
    try:
        manager.register(plugin, name)
        manager.check_pending()
        if lost := set(found) - {caller.name for caller in manager.get_hookcallers(plugin) or ()}:
            raise RefusalError(f"pluggy does not see {', '.join(sorted(lost))}: write plain methods")  # noqa: TRY301 (undone below)
    except BaseException:
        # pluggy 1.6 leaves half a plugin behind; blocking a name is its public way to forget one.
        manager.set_blocked(name)
        manager.unblock(name)
        raise
    return tuple(found)


def collected(given: object, limit_s: float | None = None) -> list[Any]:
    """Return what a plugin gave as an iterable, which may have no end. Raises RefusalError.

    One step that blocks cannot be interrupted: *limit_s* is looked at between two steps.
    """
    if given is None:
        raise RefusalError("returned None: return a list, which may be empty (is its 'return' missing?)")
    if not isinstance(given, Iterable):
        raise RefusalError(f"returned {type(given).__name__}, not an iterable: return a list")
    found: list[Any] = []
    started = perf_counter()
    for each in cast("Iterable[object]", given):
        found.append(each)
        if len(found) > MOST_COLLECTED:
            raise RefusalError(f"gave more than {MOST_COLLECTED}")
        if limit_s is not None and perf_counter() - started > limit_s:
            raise RefusalError(f"had not ended after {limit_s:g} s; it may take that long, and do no input or output")
    return found


def _hooks_of(kinds: frozenset[str]) -> list[str]:
    capabilities = {PROVIDES[kind] for kind in kinds if kind in PROVIDES}
    return [
        name
        for name, info in HOOKS.items()
        if name in capabilities or ("hooks" in kinds and info.kind is not HookKind.PROVIDE)
    ]


def _names_of(cls: type) -> frozenset[str]:
    """Return the names of all attributes of *cls*. inspect.getattr_static() would take longer for each one."""
    return frozenset(name for each in cls.__mro__ for name in vars(each))


def _answers_to(plugin: object, name: str) -> bool:
    try:
        return hasattr(plugin, name)
    except Exception:  # noqa: BLE001 (a plugin's __getattr__ may raise anything: then it answers to the name)
        return True


def _wrong(plugin: object, hook: str, kinds: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the attribute *hook* of *plugin*."""
    static = inspect.getattr_static(plugin, hook, _ABSENT)
    if static is _ABSENT:
        yield "it answers through __getattr__, which pluggy does not see: write a method"
        return
    if isinstance(static, property | functools.cached_property):
        yield "it is a property: write a method"
        return
    value: Any = getattr(plugin, hook, None)
    if not (inspect.isfunction(value) or inspect.ismethod(value)):
        what = "None" if value is None else "a class" if inspect.isclass(value) else f"a {type(value).__name__} object"
        yield f"it is {what}, which pluggy does not see: write a method"
        return
    if unmarked := _unmarked(static, value):
        yield unmarked
        return
    info = HOOKS[hook]
    if hook not in _hooks_of(kinds):
        yield f"it does not belong to kind {' or '.join(sorted(kinds))}, which has {', '.join(_hooks_of(kinds))}"
    yield from _wrong_form(value, info)


def _unmarked(static: object, value: Any) -> str:
    ours: object = getattr(value, IMPL_MARK, None)
    theirs: object = getattr(value, _PLUGGY_MARK, None)
    if ours is None and theirs is None:
        if _marks(static):
            return "@hookimpl stands above @staticmethod or @classmethod: put it below"
        for mark, found in cast("dict[str, object]", vars(getattr(value, "__func__", value))).items():
            if mark.endswith("_impl") and isinstance(found, dict) and "hookwrapper" in found:
                return f"it is marked for the project '{mark.removesuffix('_impl')}': use pluggent_hookspecs.hookimpl"
        return "it is not marked with @hookimpl, so it would never be called: mark it, or give it another name"
    if not isinstance(ours, ImplOptions) or not isinstance(theirs, dict):
        return "it is marked by pluggy itself: use pluggent_hookspecs.hookimpl"
    options = cast("dict[str, object]", theirs)
    refused = [name for name in _PLUGGY_OPTIONS if options.get(name)]
    return f"{', '.join(refused)} is not for pluggent's hooks: use hookimpl(band=, before=, after=)" if refused else ""


def _wrong_form(value: Callable[..., Any], info: hookspecs.HookInfo) -> Iterator[str]:
    layers = list(_layers(value))
    if any(inspect.isgeneratorfunction(layer) or inspect.isasyncgenfunction(layer) for layer in layers):
        yield "it is a generator: return the value instead of yielding"
    is_async = any(inspect.iscoroutinefunction(layer) for layer in layers)
    if info.name in _SYNC_ONLY and is_async:
        yield "it is async, but this hook is synchronous: write def, and connect in open(context)"
    if info.kind is HookKind.AROUND and not inspect.iscoroutinefunction(value):
        yield "it is synchronous, but an around hook awaits call_next: write async def"
    if info.name in _SYNC_ONLY and getattr(value, IMPL_MARK).blocking:
        yield "blocking=True is not for this hook: it is called where it stands"
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
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(getattr(function, "__func__", function), "__wrapped__", None)


def _incomplete(plugin: object, found: Sequence[str]) -> Iterator[str]:
    """Yield the hooks that *plugin* lacks next to those it has."""
    windows = {hook: getattr(getattr(plugin, hook, None), IMPL_MARK, ImplOptions()).incremental for hook in found}
    marked = {hook: window for hook, window in windows.items() if window is not None}
    for hook, window in marked.items():
        if hook not in HOLDING:
            yield f"{hook}: incremental is for {', '.join(HOLDING)}"
        elif window < 1:
            yield f"{hook}: incremental={window} is not a number of characters"
    if marked and "transform_delta" not in found:
        yield f"{', '.join(marked)}: incremental needs transform_delta, which says what may be shown meanwhile"
    if "transform_delta" in found and not marked:
        yield (
            "transform_delta: the whole reply has to pass the plugin too: "
            f"implement one of {', '.join(HOLDING)} with @hookimpl(incremental=N)"
        )
    if ("reserve" in found) != ("settle" in found):
        yield "reserve and settle belong together: implement both"


def _strays(plugin: object) -> Iterator[str]:
    """Yield every marked attribute without the name of a hook, and every class inside with hooks of its own."""
    for name in dir(plugin):
        if name.startswith("__"):
            continue
        static = inspect.getattr_static(plugin, name, None)
        if inspect.isclass(static) and not inspect.ismodule(plugin):
            names = _names_of(static)
            hidden = [each for each in HOOKS if each in names and _marks(inspect.getattr_static(static, each, None))]
            if hidden:
                yield f"{name}: it is a class inside, so its hooks ({', '.join(hidden)}) are not called: move them out"
        if name in HOOKS or not _marks(static):
            continue
        missing = f"there is no such hook{did_you_mean(name, HOOKS)}"
        yield f"{name}: {'a private name is not a hook' if name.startswith('_') else missing}"


def near_misses(plugin: object) -> tuple[str, ...]:
    """Return a sentence on each method without a marker that its author may believe to be a hook. Runs no plugin code.

    That is one whose name is one edit away from a hook's, or that takes an ``event`` and begins like a hook. It may be
    a helper all the same, so it refuses nothing.
    """
    own = vars(plugin) if inspect.ismodule(plugin) else None
    found: list[str] = []
    for name in dir(plugin) if own is None else own:
        if name.startswith("_") or name in HOOKS:
            continue
        near = next((hook for hook in _LONG_HOOKS.get(len(name), ()) if _one_edit(name, hook)), "")
        if not near and not name.startswith(_LIKE_A_HOOK):
            continue
        static = inspect.getattr_static(plugin, name, None)
        code = getattr(getattr(static, "__func__", static), "__code__", None)
        if not isinstance(code, types.CodeType) or _marks(static) or (own and _is_imported(static, plugin)):
            continue
        if near or "event" in code.co_varnames[: min(2, code.co_argcount)]:
            meant = f"; did you mean '{near}'?" if near else did_you_mean(name, HOOKS)
            found.append(
                f"its method {name} has no marker and is not the name of a hook, so it is never called{meant or '.'}"
                f" Mark the right name with @hookimpl, or make it private: _{name}"
            )
    return tuple(found)


_LIKE_A_HOOK = ("decide_", "transform_", "around_", "before_", "after_", "on_", "resolve_", "select_", "observe_")
_LONG_NAME = 10
"""Characters: of a shorter name (``observe``) a near one is too often another word (``observed``)."""


_LONG_HOOKS: Mapping[int, tuple[str, ...]] = types.MappingProxyType(
    {
        length: tuple(hook for hook in HOOKS if len(hook) >= _LONG_NAME and abs(len(hook) - length) <= 1)
        for length in range(_LONG_NAME - 1, max(map(len, HOOKS)) + 2)
    }
)
"""By the length of a name the hooks that may be one edit away from it."""


def _is_imported(static: object, module: object) -> bool:
    return getattr(static, "__module__", None) != getattr(module, "__name__", None)


def _one_edit(word: str, hook: str) -> bool:
    """Say whether one letter more, less or changed, or two swapped, make *hook* of *word*."""
    start = next((at for at, (one, other) in enumerate(zip(word, hook, strict=False)) if one != other), None)
    if start is None:
        return True  # one is the beginning of the other
    rest, wanted = word[start:], hook[start:]
    swapped = rest[:2] == wanted[:2][::-1] and rest[2:] == wanted[2:]
    return rest[1:] == wanted[1:] or rest[1:] == wanted or rest == wanted[1:] or swapped


def _marks(static: Any) -> bool:
    """Say whether an attribute, or the function inside it, has our marker or that of pluggy; runs no plugin code."""
    inside = static.fget if isinstance(static, property) else getattr(static, "__func__", None)
    return _marked(static) or (isinstance(static, _HOLDERS) and _marked(inside))


def _marked(item: object) -> bool:
    if type(item) is types.FunctionType:  # most are, and have what they have in their own dict
        return any(isinstance(item.__dict__.get(mark), ImplOptions | dict) for mark in (IMPL_MARK, _PLUGGY_MARK))
    found = (inspect.getattr_static(item, mark, None) for mark in (IMPL_MARK, _PLUGGY_MARK))
    return not inspect.isclass(item) and any(isinstance(mark, ImplOptions | dict) for mark in found)


_HOLDERS = (property, staticmethod, classmethod, types.MethodType)
