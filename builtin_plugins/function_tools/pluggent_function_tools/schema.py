"""Reads what a model is told of a function: parameters and words, from its signature and docstring."""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, ForwardRef, Literal, Union, cast, get_args, get_origin

import attrs
import msgspec
from pluggent_hookspecs import Json, Param, ToolContext, Value, thaw

from pluggent_function_tools.arguments import canonical

if sys.version_info >= (3, 14):
    from annotationlib import Format

_USE = (
    "use str, int, float, bool, list, dict, tuple, set, pathlib.Path, Literal, enums, attrs classes, TypedDicts, or a"
    " union of them (of a path with None alone)"
)
_NUMERIC = ("ge", "gt", "le", "lt", "multiple_of")
_SIZED = ("min_length", "max_length")
_TEXT = (*_SIZED, "pattern")
_KEYWORDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_COLLECTIONS = (list, tuple, set, frozenset, dict)
_UNSEEN = inspect.Parameter.empty
_EXACT = (bool, int)
"""Types whose values are all JSON."""
_UNSUPPORTED = (TypeError, ValueError, RecursionError, NameError, re.error)
_FIXED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@attrs.frozen(repr=False)
class Signature(Value):
    """The parameters of a function, for the model and for calls.

    ``schema`` is JSON Schema 2020-12 of all arguments, ``decode`` makes values of their JSON, ``convert`` of plain
    values; ``bounded``: the schema says more than they check. ``positional``: the positional-only ones, ``context``:
    the host's. ``hand`` makes what the function gets of plain values, where that is something else: a path is text
    until then.
    """

    description: str
    schema: Mapping[str, Any]
    decode: Callable[[bytes], msgspec.Struct]
    convert: Callable[[object], msgspec.Struct]
    positional: tuple[str, ...]
    context: str | None
    bounded: bool
    hand: Callable[[object], msgspec.Struct] | None = None


def read_signature(name: str, function: Callable[..., Any]) -> Signature:
    """Read *function*, a tool called *name*. Raises TypeError for a parameter that a model cannot be told."""
    parameters = tuple(_parameters(name, function))
    try:
        return _read(name, function, parameters, each_alone=False)
    except _UNSUPPORTED:
        # Only now, because it takes twice as long: which parameter it is.
        return _read(name, function, parameters, each_alone=True)


def _read(
    name: str, function: Callable[..., Any], parameters: Iterable[tuple[str, Any, Any]], *, each_alone: bool
) -> Signature:
    seen, context = _split(name, parameters, each_alone=each_alone)
    description, words = _described(inspect.getdoc(function) or "")
    schema, bounded = _schema(seen, words)
    struct, hand = _struct(name, seen), None
    decode = msgspec.json.Decoder(struct).decode  # fails for a type that it cannot decode
    convert = functools.partial(msgspec.convert, type=struct, str_keys=True)
    if any(each.handed is not each.type for each in seen):
        handed = _struct(name, tuple(attrs.evolve(each, type=each.handed) for each in seen))
        msgspec.json.Decoder(handed, dec_hook=path_of)  # as above
        hand = functools.partial(msgspec.convert, type=handed, str_keys=True, dec_hook=path_of)
    return Signature(description, schema, decode, convert, _positional(function), context, bounded, hand)


@attrs.frozen(repr=False)
class _Seen(Value):
    """A parameter that the model sees: ``type`` as msgspec understands it, ``handed`` with paths as paths."""

    name: str
    type: Any
    handed: Any
    default: Any
    description: str | None
    examples: tuple[Json, ...]
    format: str | None


def _parameters(name: str, function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, resolved annotation and default of each parameter."""
    if sys.version_info >= (3, 14):
        signature = inspect.signature(function, annotation_format=Format.FORWARDREF)
    else:
        signature = inspect.signature(function)
    names = _names(function)
    for parameter in signature.parameters.values():
        if parameter.kind in _FIXED:
            raise TypeError(f"tool '{name}': parameter '{parameter}': a tool's parameters must all be named")
        try:
            yield parameter.name, _resolved(parameter.annotation, names), parameter.default
        except NameError as error:
            raise TypeError(
                f"tool '{name}': parameter '{parameter.name}': annotation {parameter.annotation!r} cannot be"
                f" resolved ({error}); import it at the top of the module, not under TYPE_CHECKING"
            ) from None


def _names(function: Callable[..., Any]) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    known = cast("dict[str, Any]", getattr(inner, "__globals__", {}))
    # ToolContext is often imported for type checkers only. Json is an alias of itself: any JSON.
    aliases = {name: Any for name, value in known.items() if value is Json}
    return {"ToolContext": ToolContext, **known, **aliases}


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    if annotation is _UNSEEN or annotation is Json:
        return Any
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):  # most are a bare name, and typing takes long to say so
        known = names.get(annotation, getattr(builtins, annotation, None))
        if isinstance(known, type) or (known is not None and not _has_names(known)):
            return known
    holder = type("_", (), {"__annotations__": {"it": annotation}})
    return typing.get_type_hints(holder, globalns=names, localns={}, include_extras=True)["it"]


def _has_names(hint: Any) -> bool:
    """Say whether *hint* still holds names to be looked up."""
    if get_origin(hint) is Literal:
        return False
    args = get_args(hint)
    args = args[:1] if get_origin(hint) is Annotated else args
    return isinstance(hint, str | ForwardRef) or not (args or isinstance(hint, type)) or any(map(_has_names, args))


def _split(
    name: str, parameters: Iterable[tuple[str, Any, Any]], *, each_alone: bool
) -> tuple[tuple[_Seen, ...], str | None]:
    seen: list[_Seen] = []
    contexts: list[str] = []
    for parameter, hint, default in parameters:
        if _is_context(hint):
            contexts.append(parameter)
        else:
            seen.append(_seen(name, parameter, hint, default, alone=each_alone))
    if len(contexts) > 1:
        raise TypeError(f"tool '{name}': parameters {', '.join(contexts)} all want the ToolContext; one is enough")
    return tuple(seen), contexts[0] if contexts else None


def _is_context(hint: Any) -> bool:
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return any(_is_context(inner) for inner in get_args(hint))
    return hint is ToolContext


def _seen(name: str, parameter: str, hint: Any, default: Any, *, alone: bool) -> _Seen:
    """Read one parameter; *alone*: fail if its type is not supported."""
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    try:
        wanted = _translated(hint)
        if default is None and wanted is not Any and type(None) not in get_args(wanted):
            wanted = _union([wanted, None])
        handed = wanted
        if holds_path := _holds_path(hint):
            handed = _union([_handed(hint), None]) if default is None else _handed(hint)
        if alone:
            msgspec.json.Decoder(handed, dec_hook=path_of)
            msgspec.json.Decoder(wanted)
            msgspec.json.schema_components([wanted])
    except _UNSUPPORTED as error:
        why = str(error).splitlines()[-1] if str(error) else "it contains itself"
        raise TypeError(
            f"tool '{name}': parameter '{parameter}': type {_shown(hint)} is not supported ({why}); {_USE}"
        ) from None
    try:
        if default is not _UNSEEN and not (default is None or (type(default) is wanted and wanted in _EXACT)):
            # What a call without this argument gets is what the model would have to write for it.
            default = msgspec.json.decode(canonical(_plain(default) if holds_path else default), type=wanted)
    except ValueError as error:
        raise TypeError(
            f"tool '{name}': parameter '{parameter}': the default {default!r} does not fit {_shown(hint)}: {error}"
        ) from None
    examples = next((note.examples for note in metadata if getattr(note, "examples", None)), ())
    format = next((note.format for note in metadata if isinstance(note, Param) and note.format), None)
    return _Seen(parameter, wanted, handed, default, _note(metadata), examples, "path" if holds_path else format)


# ---- paths ------------------------------------------------------------------------------


def _holds_path(hint: Any) -> bool:
    """Say whether *hint* is a class of pathlib, or has one in it."""
    if type(hint).__name__ == "TypeAliasType":
        return _holds_path(hint.__value__)
    if get_origin(hint) is Annotated:
        return _holds_path(get_args(hint)[0])
    return _is_path(hint) or (get_origin(hint) is not Literal and any(map(_holds_path, get_args(hint))))


def _is_path(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, PurePath)


def _handed(hint: Any) -> Any:
    """Return *hint*, which holds a path, without its notes: they were checked on the text."""
    if type(hint).__name__ == "TypeAliasType":
        return _handed(hint.__value__)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _handed(args[0])
    if _is_union(origin):
        return _union([_handed(arg) for arg in args])
    if not args or origin is Literal or not isinstance(origin, type):
        return Any if hint is object else hint
    return cast("Any", origin)[tuple(arg if arg is ... else _handed(arg) for arg in args)]


def path_of(kind: type[Any], text: object) -> Any:
    """Make a path of *text*, for msgspec."""
    if not _is_path(kind):
        raise NotImplementedError(f"{kind} is not a path")
    if not isinstance(text, str) or not text:
        raise ValueError("expected a path, got an empty text")  # it would be the folder that one is in
    return kind(text)


def _plain(default: Any) -> Any:
    """Return *default* with the texts of its paths."""
    if isinstance(default, PurePath):
        return str(default)
    if isinstance(default, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, Any]", default).items()}
    if isinstance(default, list | tuple | set | frozenset):
        return [_plain(each) for each in cast("Iterable[Any]", default)]
    return default


def _note(metadata: tuple[Any, ...]) -> str | None:
    texts = (note if isinstance(note, str) else getattr(note, "description", None) for note in metadata)
    return next((text for text in texts if isinstance(text, str)), None)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _positional(function: Callable[..., Any]) -> tuple[str, ...]:
    code = inspect.unwrap(function).__code__
    names: tuple[str, ...] = code.co_varnames[: code.co_posonlyargcount]
    return names[1:] if inspect.ismethod(function) else names


def _struct(name: str, seen: tuple[_Seen, ...]) -> type[msgspec.Struct]:
    fields = [
        (each.name, each.type)
        if each.default is _UNSEEN
        else (each.name, each.type, msgspec.field(default_factory=functools.partial(_same, each.default)))
        for each in seen
    ]
    return msgspec.defstruct(f"arguments of {name}", fields, kw_only=True, forbid_unknown_fields=True)


def _same(value: Any) -> Any:
    return value  # never handed to the function: it is encoded at once, and decoded afresh


def _translated(hint: Any) -> Any:
    """Return *hint* with every string, Param and bound in ``Annotated`` as msgspec spells it."""
    if hint is object:
        return Any
    if _is_path(hint):
        return str
    if type(hint).__name__ == "TypeAliasType":  # the statement `type X = …` of Python 3.12
        return _translated(hint.__value__)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return functools.reduce(_noted, args[1:], _translated(args[0]))
    if _is_union(origin):
        return _union([_translated(arg) for arg in args])
    if not args or origin is Literal or not isinstance(origin, type):
        return hint
    return cast("Any", origin)[tuple(arg if arg is ... else _translated(arg) for arg in args)]


def _union(members: list[Any]) -> Any:
    return Union[tuple(members)]  # noqa: UP007 (the members are values here)


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is types.UnionType


def _noted(hint: Any, note: Any) -> Any:
    if isinstance(note, msgspec.Meta):
        return Annotated[hint, note]
    if isinstance(note, str):
        return Annotated[hint, msgspec.Meta(description=note)]
    if bounds := _bounds(note):
        hint = _bounded(hint, bounds)  # first: the members of a union are bounded, one with a description is no union
    if isinstance(note, Param) and note.description is not None:
        hint = Annotated[hint, msgspec.Meta(description=note.description)]
    return hint


def _bounds(note: Any) -> dict[str, Any]:
    """Return the bounds in *note*: a Param, or an object of annotated_types and its like."""
    found = {name: getattr(note, name, None) for name in (*_NUMERIC, *_TEXT)}
    return {name: value for name, value in found.items() if isinstance(value, int | float | str)}


def _bounded(hint: Any, bounds: dict[str, Any]) -> Any:
    """Put *bounds* on *hint*, in a union on the members that can have them."""
    members = get_args(hint) if _is_union(get_origin(hint)) else (hint,)
    taken: set[str] = set()
    done: list[Any] = []
    for member in members:
        mine = {name: value for name, value in bounds.items() if name in _fitting(member)}
        taken |= mine.keys()
        done.append(Annotated[member, msgspec.Meta(**mine)] if mine else member)
    if missed := sorted(bounds.keys() - taken):
        raise TypeError(f"{', '.join(missed)} cannot bound it")
    return _union(done)


def _fitting(hint: Any) -> tuple[str, ...]:
    base: Any = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    base = get_origin(base) or base
    if base in (int, float):
        return _NUMERIC
    if base in (str, bytes):
        return _TEXT
    return _SIZED if isinstance(base, type) and issubclass(base, _COLLECTIONS) else ()


def _schema(seen: tuple[_Seen, ...], words: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """Return the schema of the arguments, and whether it says more than msgspec checks."""
    classes = list(_classes([each.type for each in seen]))
    made, shared = msgspec.json.schema_components(
        [*(each.type for each in seen), *classes], ref_template="#/$defs/{name}"
    )
    properties: dict[str, Any] = {}
    for each, schema in zip(seen, made, strict=False):
        if description := each.description or words.get(each.name):
            schema["description"] = description
        if each.format is not None:
            schema["format"] = each.format
        if each.examples:
            schema["examples"] = [thaw(example) for example in each.examples]
        if each.default is not _UNSEEN:
            schema["default"] = msgspec.to_builtins(each.default, str_keys=True)
        properties[each.name] = schema
    refs = [shared[schema["$ref"].rpartition("/")[2]] for schema in made[len(seen) :]]
    bounded = [_annotate(cls, schema) for cls, schema in zip(classes, refs, strict=True)]
    required = [each.name for each in seen if each.default is _UNSEEN]
    whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    whole |= {"additionalProperties": False} | ({"$defs": shared} if shared else {})
    return _untitled(whole), any(bounded)


def _classes(hints: list[Any]) -> Iterator[type]:
    """Yield every class with fields that *hints* reach: attrs, dataclasses, TypedDict, named tuples."""
    waiting, seen = list(hints), set[int]()
    while waiting:
        hint = waiting.pop()
        waiting += [arg for arg in get_args(hint) if get_origin(hint) is not Literal]
        cls = get_origin(hint) or hint
        if not isinstance(cls, type) or id(cls) in seen or not _has_fields(cls):
            continue
        seen.add(id(cls))
        waiting += typing.get_type_hints(cls, include_extras=True).values()
        if not getattr(cls, "__parameters__", ()) and not issubclass(cls, tuple):
            yield cls


def _has_fields(cls: type) -> bool:
    marks = ("__attrs_attrs__", "__dataclass_fields__", "__total__", "__struct_fields__", "_fields")
    return any(hasattr(cls, mark) for mark in marks)


def _annotate(cls: type, schema: dict[str, Any]) -> bool:
    """Write the ``Annotated`` notes on fields of *cls* into *schema*; return whether one is a bound."""
    schema.setdefault("additionalProperties", False)
    bounded = False
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        property_ = schema.get("properties", {}).get(name)
        if property_ is None or get_origin(hint) is not Annotated:
            continue
        notes = tuple(note for note in get_args(hint)[1:] if not isinstance(note, msgspec.Meta))
        if description := _note(notes):
            property_["description"] = description
        for note in notes:
            bounds = {} if isinstance(note, str) else _bounds(note)
            property_ |= {_keyword(bound, property_): value for bound, value in bounds.items()}
            bounded = bounded or bool(bounds)
    return bounded


def _keyword(bound: str, schema: Mapping[str, Any]) -> str:
    head, _, tail = bound.partition("_")
    if head in ("min", "max") and tail == "length":
        return head + {"array": "Items", "object": "Properties"}.get(schema.get("type", ""), "Length")
    return {**_KEYWORDS, "multiple_of": "multipleOf"}.get(bound, bound)


def _untitled(schema: object) -> Any:
    if isinstance(schema, list):
        return [_untitled(item) for item in cast("list[object]", schema)]
    if not isinstance(schema, dict):
        return schema
    done: dict[str, Any] = {}
    for key, item in cast("dict[str, Any]", schema).items():
        if key in ("properties", "$defs"):
            done[key] = {name: _untitled(inner) for name, inner in item.items()}
        elif key in ("default", "examples", "enum", "const"):
            done[key] = item
        elif key != "title":
            done[key] = _untitled(item)
    return done


_SECTION = re.compile(r"^\s*(?:[:@]\w|-{3,}\s*$|[A-Z]\w*(?: \w+)?:\s*$)", re.MULTILINE)
"""How a section of a docstring begins: ``Args:``, ``:param x:``, or a heading over dashes."""


def _described(text: str) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring (Google, NumPy, reST) and those of its parameters."""
    if not _SECTION.search(text):
        return text, {}
    # Inside: it takes 6 ms, and most tools have no sections.
    import docstring_parser

    try:
        read = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    words = {
        name.strip().lstrip("*"): " ".join(param.description.split())
        for param in read.params
        for name in param.arg_name.split(",")
        if param.description
    }
    return "\n\n".join(filter(None, (read.short_description, read.long_description))), words
