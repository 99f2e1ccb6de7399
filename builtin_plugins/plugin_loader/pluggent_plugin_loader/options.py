"""Structures a plugin's section into its settings class, strictly, and names every problem."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.secrets import Secret

from pluggent_plugin_loader.settings import Section
from pluggent_plugin_loader.suggestions import did_you_mean
from pluggent_plugin_loader.validation import text_of

if TYPE_CHECKING:  # cattrs costs 70 ms, and most plugins are given no settings
    from cattrs import Converter

_WORDS: Mapping[type, str] = types.MappingProxyType(
    {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
)


def settings_for(plugin: str, names: type | None, settings: object) -> tuple[object, ...]:
    """Return the arguments for the factory of *plugin*, whose settings class is *names*.

    A field of type Path takes a text, with ``~``, relative to the folder of its settings file. Raises
    ConfigError naming every problem of *settings*, or that the plugin takes none.
    """
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
        section = cast("Mapping[str, Any]", settings or {})
        return (_structured(_placed(section, names) if isinstance(section, Section) else section, names),)
    except Exception as error:  # noqa: BLE001 (the author's own classes check too)
        # Not from error: what cattrs says of it repeats the values, and one may be a secret.
        raise ConfigError("settings", list(_problems(error, where))) from None


def _placed(section: Section, names: type) -> Mapping[str, Any]:
    """Return *section* with relative paths made relative to their settings files."""
    placed: dict[str, Any] = dict(section)
    try:
        hints = typing.get_type_hints(names)
    except (NameError, TypeError):
        return placed  # an author's own types, which cattrs may know what to make of
    for key, folder in section.folders.items():
        value = section[key]
        hint = hints.get(key)
        members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        if isinstance(value, str) and Path in members:
            with contextlib.suppress(ValueError):  # which the converter says, with the key
                placed[key] = Path(folder, _path(value))
    return placed


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
    converter.register_structure_hook(Path, _path)
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


def _exactly(value: Any, wanted: type[Any]) -> Any:
    subclass = wanted not in _WORDS  # cattrs comes here with an enum of texts too, which checks for itself
    if subclass or type(value) is wanted or (wanted is float and type(value) is int):
        return wanted(value)
    raise TypeError(f"expected {_WORDS[wanted]}, got {_kind_of(value)}")


def _secret(value: Any, _: object) -> Secret:
    if isinstance(value, str):
        made = Secret(value)
        scheme, _, place = value.partition(":")
        if scheme == "file" and not place.startswith("~") and not Path(place).is_absolute():
            raise ValueError("expected the whole path behind file:, or one from ~/ on; others differ by folder")
        return made
    if isinstance(value, Secret):
        return value
    raise TypeError(f"expected a reference such as env:NAME, got {_kind_of(value)}")


def _path(value: Any, _: object = None) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str):
        raise TypeError(f"expected a path, got {_kind_of(value)}")
    if not value or "\0" in value:
        raise ValueError("expected a path, got an empty text" if not value else "a path has no null character")
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"whose home is {value.partition('/')[0]!r}?") from error


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
        yield from (f"{where}.{name}: unknown{did_you_mean(name, known)}" for name in sorted(error.extra_fields))
    else:
        literal = getattr(wanted, "__args__", ()) if " not in literal " in str(error) else ()
        union = f"expected {wanted}" if " not part of " in str(error) else ""  # cattrs' text repeats the value
        choices = f"expected one of {', '.join(map(repr, literal))}" if literal else ""
        yield f"{where}: {choices or union or text_of(error)}"
