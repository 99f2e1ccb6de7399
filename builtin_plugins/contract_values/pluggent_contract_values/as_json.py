"""Values of the contract as JSON and back without loss.

Each object carries its class under ``"type"``; fields that have their default are left out, so
that what is written is short. A class that the converter meets for the first time, the records of a host
included, is understood from its fields.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, overload

import attrs
import cattrs
import msgspec
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from pluggent_function_tools.arguments import canonical
from pluggent_hookspecs import (
    EmbeddingResponse,
    Json,
    Message,
    ModelResponse,
    Respond,
    ToolOutput,
    Vectors,
    freeze_object,
    thaw,
)

T = TypeVar("T")

TAG = "type"
_PLAIN = "json"
_encode = msgspec.json.Encoder().encode
# Json is an alias of itself, which no library resolves: its values are passed on as they are.
_NAMES: dict[str, Any] = {"Json": Any, "Mapping": Mapping, "Sequence": Sequence}


def to_json(value: object) -> bytes:
    """Return *value* as UTF-8 JSON, keys sorted. Raises ValueError for NaN and lone surrogates.

    >>> to_json(Message.user("hi"))
    b'{"content":[{"text":"hi","type":"Text"}],"role":"user","type":"Message"}'
    """
    return canonical(to_plain(value))


@overload
def from_json(data: bytes, type: type[T]) -> T: ...
@overload
def from_json(data: bytes, type: object) -> Any: ...
def from_json(data: bytes, type: Any) -> Any:
    """Return the value of *type*, a class or a union such as Observation, that *data* says.

    Fields that are not known are ignored: a newer version may have written them. Raises
    ValueError for anything that is not such a value.
    """
    try:
        plain = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return from_plain(plain, type)


def to_plain(value: object) -> Any:
    """Return *value* as dicts, lists and scalars."""
    kind: Any = type(value)
    return _writer(kind)(value)


def line_of(plain: object) -> bytes:
    r"""Return what to_plain() made as one line of JSON; lone surrogates and NaN are written too.

    >>> line_of({"b": 1, "a": "é"})
    b'{"b":1,"a":"\xc3\xa9"}\n'
    """
    try:
        line = _encode(plain)
    except (UnicodeEncodeError, TypeError):  # a lone surrogate, or a subclass of str
        line = b"null"
    # msgspec writes NaN and infinity as null: only where a null stands can one have been.
    if b"null" in line:
        line = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return line + b"\n"


@overload
def from_plain(plain: object, type: type[T]) -> T: ...
@overload
def from_plain(plain: object, type: object) -> Any: ...
def from_plain(plain: object, type: Any) -> Any:
    """Return the value of *type* that to_plain() made *plain* of. Raises ValueError; see from_json."""
    try:
        return _converter().structure(plain, type)
    except Exception as error:
        name = getattr(type, "__name__", None) or str(type)
        why = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"not a {name}: {why}") from error


@cache
def _writer(kind: type[Any]) -> Callable[[Any], Any]:
    return _converter().get_unstructure_hook(kind)


@cache
def _converter() -> cattrs.Converter:
    made = cattrs.Converter(detailed_validation=False)
    made.register_unstructure_hook_factory(attrs.has, partial(_object_writer, made))
    made.register_structure_hook_factory(attrs.has, partial(_object_reader, made))
    made.register_unstructure_hook_func(_is_mapping, thaw)
    made.register_structure_hook_func(_is_mapping, _mapping)
    made.register_unstructure_hook_factory(_is_sequence, partial(_sequence_writer, made))
    made.register_unstructure_hook_func(_is_set, sorted)
    made.register_unstructure_hook(bytes, bytes.decode)
    made.register_structure_hook(bytes, _bytes)
    made.register_unstructure_hook(Vectors, _write_vectors)
    made.register_structure_hook(Vectors, _read_vectors)
    for scalar in (bool, int, float, str):  # enums of texts come here too: they are texts
        made.register_structure_hook(scalar, _scalar)
    made.register_structure_hook_factory(_is_union, partial(_union_reader, made))
    made.register_unstructure_hook(Respond, lambda respond: _write_respond(respond, made))
    made.register_structure_hook(Respond, lambda plain, _: _read_respond(plain, made))
    return made


# ---- which hook a type gets ------------------------------------------------------------


def _is_mapping(type_: Any) -> bool:
    return _is_subclass(type_, Mapping)


def _is_sequence(type_: Any) -> bool:
    return _is_subclass(type_, tuple | list | Sequence) and not _is_subclass(type_, str | bytes)


def _is_set(type_: Any) -> bool:
    return _is_subclass(type_, frozenset)


def _is_subclass(type_: Any, of: Any) -> bool:
    cls = get_origin(type_) or type_
    return isinstance(cls, type) and issubclass(cls, of)


def _is_union(type_: Any) -> bool:
    return get_origin(type_) in (Union, UnionType)


# ---- objects ---------------------------------------------------------------------------


def _object_writer(converter: cattrs.Converter, cls: Any) -> Callable[[Any], dict[str, Any]]:
    attrs.resolve_types(cls, localns=_NAMES)
    fields = make_dict_unstructure_fn(cls, converter, _cattrs_omit_if_default=True)
    name = cls.__name__

    def write(value: Any) -> dict[str, Any]:
        made = fields(value)
        made[TAG] = name
        return made

    return write


def _object_reader(converter: cattrs.Converter, cls: Any) -> Callable[[Any, Any], Any]:
    attrs.resolve_types(cls, localns=_NAMES)
    fields = make_dict_structure_fn(cls, converter)
    name = cls.__name__

    def read(plain: Any, _: object) -> Any:
        if not isinstance(plain, Mapping):
            raise TypeError(f"expected an object, got {_kind(plain)}")
        tag = cast("Mapping[str, object]", plain).get(TAG, name)
        if tag != name:
            raise TypeError(f"expected {name}, got '{tag}'")
        return fields(cast("Mapping[str, Any]", plain), cls)

    return read


def _sequence_writer(converter: cattrs.Converter, kind: Any) -> Callable[[Sequence[object]], list[Any]]:
    any_of = converter.unstructure
    members = get_args(kind)[:1]
    if not (members and attrs.has(members[0])):
        return lambda values: [any_of(each) for each in values]
    member = members[0]
    write = converter.get_unstructure_hook(member)
    return lambda values: [write(each) if type(each) is member else any_of(each) for each in values]


def _write_respond(respond: Respond, converter: cattrs.Converter) -> dict[str, Any]:
    value = respond.value
    # A dict is wrapped, or one with a "type" of its own would be read as what it is not.
    if isinstance(value, Mapping):
        plain: Any = {TAG: _PLAIN, "value": thaw(cast("Mapping[str, Json]", value))}
    else:
        plain = converter.unstructure(value)
    return {TAG: "Respond", "value": plain} | ({"note": respond.note} if respond.note else {})


def _read_respond(plain: Any, converter: cattrs.Converter) -> Respond:
    value = plain["value"]
    if isinstance(value, Mapping):
        tagged = cast("Mapping[str, Any]", value)
        known = {cls.__name__: cls for cls in (ToolOutput, ModelResponse, EmbeddingResponse, Message)}
        value = tagged["value"] if tagged[TAG] == _PLAIN else converter.structure(tagged, known[tagged[TAG]])
    return Respond(value, note=plain.get("note", ""))


# ---- everything else -------------------------------------------------------------------


def _mapping(plain: Any, _: object) -> Mapping[str, Json]:
    if not isinstance(plain, Mapping):
        raise TypeError(f"expected an object, got {_kind(plain)}")
    return freeze_object(cast("Mapping[str, Json]", plain))


def _bytes(plain: Any, _: object) -> bytes:
    if not isinstance(plain, str):
        raise TypeError(f"expected text, got {_kind(plain)}")
    return plain.encode()


def _write_vectors(vectors: Vectors) -> dict[str, Any]:
    return {TAG: "Vectors", "base64": base64.b64encode(vectors.data).decode(), "dimensions": vectors.dimensions}


def _read_vectors(plain: Any, _: object) -> Vectors:
    return Vectors(base64.b64decode(plain["base64"], validate=True), plain["dimensions"])


def _scalar(plain: Any, wanted: type) -> Any:
    if type(plain) is wanted:
        return plain
    if issubclass(wanted, Enum):
        return wanted(plain)
    if wanted is float and type(plain) is int:
        return float(plain)
    raise TypeError(f"expected {wanted.__name__}, got {_kind(plain)}")


def _kind(plain: object) -> str:
    if isinstance(plain, Mapping):
        return f"'{cast('Mapping[str, object]', plain).get(TAG, 'an object')}'"
    return "nothing" if plain is None else type(plain).__name__


def _union_reader(converter: cattrs.Converter, union: Any) -> Callable[[Any, Any], Any]:
    """Return a reader that goes by the tag for objects, and by the kind of value for the rest."""
    members = [member for member in get_args(union) if member is not NoneType]
    objects = {member.__name__: member for member in members if attrs.has(member)}
    others = [member for member in members if not attrs.has(member)]
    optional = NoneType in get_args(union)

    def read(plain: object, _: object) -> Any:
        if plain is None and optional:
            return None
        member = _by_tag(plain, objects) or next((other for other in others if _takes(other, plain)), None)
        if member is None:
            raise TypeError(f"expected {_shown(members)}, got {_kind(plain)}")
        return converter.structure(plain, member)

    return read


def _by_tag(plain: object, objects: Mapping[str, Any]) -> Any:
    """Return the class that *plain* says it is; the only one there is if it says nothing."""
    if not isinstance(plain, Mapping):
        return None
    tag = cast("Mapping[str, object]", plain).get(TAG, next(iter(objects)) if len(objects) == 1 else None)
    return objects.get(tag) if isinstance(tag, str) else None


def _shown(members: list[Any]) -> str:
    return " or ".join(getattr(member, "__name__", str(member)) for member in members)


def _takes(member: Any, plain: object) -> bool:
    if get_origin(member) is Literal:
        return plain in get_args(member)
    if isinstance(plain, str):
        return member in (str, bytes) or _is_subclass(member, Enum)
    if isinstance(plain, list | tuple):
        return _is_sequence(member) or _is_set(member)
    if isinstance(plain, Mapping):
        return _is_mapping(member)
    return type(plain) is member or (member is float and type(plain) is int) or member is Any
