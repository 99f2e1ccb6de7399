"""Values of the contract as JSON and back without loss, and the entries of a session as lines of its log.

Each object carries its class under ``"type"``; fields that have their default are left out, so
that a line of a transcript is short. A class that the converter meets for the first time, the
host's own records included, is understood from its fields. How lines and seals are kept is up to
the store (see pluggent_hookspecs.sessions).
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, overload

import attrs
import cattrs
import msgspec
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn
from msgspec import UNSET, UnsetType
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
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.messages import Part, Role, Text
from pluggent_hookspecs.observations import DecisionMade, Vote
from pluggent_hookspecs.sessions import Line

from pluggent_host.approvals.pending import Paused, Resolved
from pluggent_host.approvals.standing import Standing
from pluggent_host.transcript.entries import FORMAT, Decided, Entry, SessionBegan, Settled

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


SEALED = (Paused, Resolved, Standing)
"""What must have been written here, by us: requests that wait, and what a person has said about them."""

log = logging.getLogger("pluggent.transcript")
_LONGEST_KIND = 40
_ENTRIES: dict[str, type[Any]] = {cls.__name__: cls for cls in get_args(Entry)}


def encode(entry: Entry, encoder: Encoder) -> Line:
    """Return the line of *entry*; *encoder* is that of the whole log."""
    kind = type(entry)
    if kind in SEALED:
        return Line(kind.__name__, line_of(plain_entry(entry)), sealed=True)
    return Line(kind.__name__, encoder.of(entry))


def decode(lines: Iterable[Line], place: str) -> list[Entry]:
    """Return the entries that *lines* of the log at *place* are.

    A line that must be sealed and is not genuine, because another hand wrote it or it was copied
    from another session: of an approval it is left out and named in the log, a pause says that it
    does not count (``void``). Raises SessionError, naming the line, for anything that is not an entry.
    """
    entries: list[Entry] = []
    for number, line in enumerate(lines, 1):
        entry = _entry(line.data, place, number)
        if type(entry) not in SEALED or (line.sealed and line.genuine):
            entries.append(entry)
        elif isinstance(entry, Paused):
            entries.append(attrs.evolve(entry, void=_void_pause(place, number, sealed=line.sealed)))
        else:
            log.warning("%s, line %d: pluggent did not write this approval here; it is left out", place, number)
    return entries


def decode_unsealed(lines: Iterable[Line], place: str) -> Iterator[Entry]:
    """Yield entries up to the first damage, looking at no seal: to show what happened, not to act on it."""
    for number, line in enumerate(lines, 1):
        yield _entry(line.data, place, number)


def _entry(data: bytes, place: str, number: int) -> Entry:
    try:
        plain: dict[str, Any] = json.loads(data)
        kind = plain.pop("t")
        entry: Entry | None = from_plain(plain, _ENTRIES[kind]) if kind in _ENTRIES or not _is_name(kind) else None
    except Exception as error:
        raise SessionError(
            f"{place}, line {number} is damaged ({type(error).__name__}); "
            "mend or remove that line, or start a new session"
        ) from error
    if entry is None:
        raise _newer(f"{place}, line {number} is an entry '{kind}'")
    if type(entry) is SessionBegan and entry.version > FORMAT:
        raise _newer(f"{place} has the format {entry.version} and not {FORMAT}")
    return entry


def _is_name(kind: object) -> bool:
    """Say whether another version may have a kind of entry called so."""
    return type(kind) is str and kind.isidentifier() and len(kind) <= _LONGEST_KIND


def _newer(what: str) -> SessionError:
    return SessionError(
        f"{what}: a newer version of pluggent-host wrote it; this session opens with that version:"
        " pip install --upgrade pluggent-host"
    )


def _void_pause(place: str, line: int, *, sealed: bool) -> str:
    """Return why the pause in that *line* of a session does not count, and what is to be done about it."""
    why = (
        "the seal of the pause does not fit: it was changed, or copied from another session, folder or computer,"
        " an older copy of the session was put back, or the key that seals was made anew"
        if sealed
        else "the pause has no seal: an older pluggent wrote it, or another program"
    )
    return f"{place}, line {line}: {why}. Nothing of it runs; say again what is still wanted"


# ---- encoding ---------------------------------------------------------------------------


class Encoder:
    """Writes the entries of one transcript as JSON.

    What every call has, decisions and results, is written the short way: exactly what codec.py makes
    of it, in a quarter of the time. codec.py asks at every field of every object what to do with it.
    """

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self._written = msgspec.Raw()
        """What ``_scope``, where something was last decided, looks like."""
        self._abstained: dict[str, tuple[Vote, _Vote]] = {}
        """By plugin, the last vote without an opinion: nearly all are one object, see Impl.abstains."""

    def of(self, entry: Entry) -> bytes:
        r"""Return *entry* as one line of JSON.

        >>> Encoder().of(Decided(DecisionMade(Scope("s"), "tool_call", "t1.0.1", "d", "allow", "host")))[:61]
        b'{"t":"Decided","decision":{"scope":{"session_id":"s","type":"'
        """
        try:
            if type(entry) is Decided:
                made = entry.decision
                if not made.changes and (made.scope is self._scope or self._keep(made.scope)):
                    decision = _encode(_decision(made, self._written, self._votes(made.votes)))
                    return b'{"t":"Decided","decision":%b,"type":"Decided"}\n' % decision
            elif type(entry) is Settled and entry.told is None and not entry.undo and _is_simple(entry.message):
                return b'{"t":"Settled",%b\n' % _encode(_settled(entry))[1:]
        except (ValueError, TypeError, OverflowError):
            pass  # a lone surrogate, a subclass of str, a number that is not a time
        return line_of(plain_entry(entry))  # a change may hold anything, too

    def _votes(self, votes: tuple[Vote, ...]) -> list[_Vote]:
        known = self._abstained
        return [
            kept[1] if (kept := known.get(vote.plugin)) is not None and kept[0] is vote else self._vote(vote)
            for vote in votes
        ]

    def _vote(self, vote: Vote) -> _Vote:
        if type(vote) is not Vote:
            raise TypeError("a vote of a class of its own")
        plain = _Vote(vote.plugin, vote.verdict, vote.reason or UNSET, _time(vote.elapsed_us), "Vote")
        if vote.verdict == "none":
            self._abstained[vote.plugin] = (vote, plain)
        return plain

    def _keep(self, scope: Scope) -> bool:
        """Note what *scope* looks like; False if it is an odd one."""
        written = _encode(to_plain(scope))
        if type(scope) is not Scope or b"null" in written:
            return False
        self._scope, self._written = scope, msgspec.Raw(written)
        return True


def plain_entry(entry: Entry) -> dict[str, Any]:
    """Return *entry* as an object that first says which one it is."""
    return {"t": type(entry).__name__, **to_plain(entry)}


# ---- decisions -------------------------------------------------------------------------
#
# The fields of an object in their order, UNSET where they have their default. Given by position,
# in no loop: this is in the way of every call.


class _Decision(msgspec.Struct, gc=False):
    scope: msgspec.Raw
    operation: str
    operation_id: str
    digest: str
    verdict: str
    by: str
    reason: str | UnsetType
    capability: str | UnsetType
    call_id: str | UnsetType
    arguments_json: str | UnsetType
    votes: list[_Vote] | UnsetType
    elapsed_us: float | UnsetType
    type: str


class _Vote(msgspec.Struct, gc=False):
    plugin: str
    verdict: str
    reason: str | UnsetType
    elapsed_us: float | UnsetType
    type: str


def _decision(made: DecisionMade, scope: msgspec.Raw, votes: list[_Vote]) -> _Decision:
    return _Decision(
        scope,
        made.operation,
        made.operation_id,
        made.digest,
        made.verdict,
        made.by,
        made.reason or UNSET,
        made.capability or UNSET,
        made.call_id or UNSET,
        made.arguments_json.decode() or UNSET,
        votes or UNSET,
        _time(made.elapsed_us),
        "DecisionMade",
    )


def _time(elapsed_us: float) -> float | UnsetType:
    if not isfinite(elapsed_us):
        raise ValueError("not to be told from null")
    return elapsed_us or UNSET


# ---- results ---------------------------------------------------------------------------


class _Settled(msgspec.Struct, gc=False):
    turn_id: str
    call_id: str
    message: _Result
    outcome: str | UnsetType
    whole: str | UnsetType
    type: str


class _Result(msgspec.Struct, gc=False):
    role: str
    content: list[_Text] | UnsetType
    tool_call_id: str | UnsetType
    name: str | UnsetType
    is_error: bool | UnsetType
    type: str


class _Text(msgspec.Struct, gc=False):
    text: str
    type: str


def _is_simple(message: Message) -> bool:
    return message.role is Role.TOOL and not message.tool_calls and not message.extra


def _settled(entry: Settled) -> _Settled:
    message = entry.message
    result = _Result(
        "tool",
        [_text(part) for part in message.content] or UNSET,
        _given(message.tool_call_id),
        _given(message.name),
        message.is_error or UNSET,
        "Message",
    )
    return _Settled(entry.turn_id, entry.call_id, result, entry.outcome or UNSET, _given(entry.whole), "Settled")


def _text(part: Part) -> _Text:
    if type(part) is not Text:
        raise TypeError("no plain text")
    return _Text(part.text, "Text")


def _given(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
