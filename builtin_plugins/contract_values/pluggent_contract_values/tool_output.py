"""Makes a ToolOutput of the value that a tool returned, and cuts it to the size limits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import attrs
import msgspec
from pluggent_function_tools.arguments import canonical, plain
from pluggent_hookspecs import (
    Audio,
    CachePoint,
    File,
    Image,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolOutput,
    UndoCall,
    VendorPart,
)

from pluggent_contract_values.sanitize import clean, clean_part

MEDIA_BYTES = 8_388_608
"""How much media one result may carry by default, in bytes of base64."""

_PARTS = (Text, Image, Audio, File, Refusal, Reasoning)
_WORDS = (Text, Refusal, Reasoning)
_DEEPEST = 100
_SHOWN = 500
_INSTEAD = "return text, plain JSON values, an attrs class or a ToolOutput"


def as_output(value: object) -> ToolOutput:
    """Return *value*, returned by a tool, as a ToolOutput. Never raises.

    Text stays as it is, None is no text, parts are content; everything else becomes compact JSON, also in
    ``data``. Values that are not JSON, bytes included, become an error with type, place and advice. Lone
    surrogates are replaced by U+FFFD.
    """
    try:
        return _read(value)
    except Exception as error:  # noqa: BLE001 (a tool's classes may raise when they are looked at)
        return _unusable(f"a value that cannot be read ({type(error).__name__}: {error})", _INSTEAD)


def fit(output: ToolOutput, limit_bytes: int, media_bytes: int = MEDIA_BYTES) -> tuple[ToolOutput, str | None]:
    r"""Return *output* with the text for the model cut, and the whole text if any was cut, else None.

    All text of ``for_model`` together has at most *limit_bytes* (UTF-8), the mark included; it ends at a whole
    character. Media beyond *media_bytes* (base64) are replaced by notes.

    >>> fit(ToolOutput("x" * 100), 50)[0].for_model
    'xxxxxxxxxxxxx\n[... cut: 13 of 100 bytes shown ...]'
    """
    content = output.for_model
    if isinstance(content, str):
        if _fits(content, limit_bytes):
            return output, None
        return attrs.evolve(output, for_model=_shortened(content, limit_bytes)), content
    shown = _fitting_parts(content, limit_bytes, media_bytes)
    if shown == content:
        return output, None
    return attrs.evolve(output, for_model=shown), "\n".join(part.text for part in content if isinstance(part, _WORDS))


def _read(value: object) -> ToolOutput:
    match value:
        case None:
            return ToolOutput()
        case str():
            return ToolOutput(clean(str.__str__(value)))
        case int():
            return _as_json(value)
        case ToolOutput():
            return _checked(value)
        case bytes() | bytearray() | memoryview():
            size = memoryview(cast("bytes", value)).nbytes
            return _unusable(f"{size} bytes", "return text, or a File part with the bytes in base64")
        case _:
            parts = _parts_of((value,) if isinstance(value, _PARTS) else value, list, tuple)
            return ToolOutput(parts) if parts else _as_json(value)


def _checked(output: ToolOutput) -> ToolOutput:
    """Return *output* if its fields have the declared types; its author's type checker may be off."""
    content = clean(text) if isinstance(text := output.for_model, str) else _parts_of(text, tuple)
    if content is None:
        return _unusable("a ToolOutput whose for_model is neither text nor parts", "give text or a tuple of parts")
    for_user = output.for_user
    if not isinstance(cast("object", for_user), str | None):
        return _unusable("a ToolOutput whose for_user is not text", "give text or None")
    if _parts_of(output.media, tuple) is None:
        return _unusable("a ToolOutput whose media are no parts", "give a tuple of parts")
    if output.undo and (problem := _problem_of_undo(output.undo)):
        return _unusable(f"a ToolOutput whose undo {problem}", "give a tuple of UndoCalls")
    if output.data is not None and (problem := _problem_of(output.data)):
        return _unusable(f"a ToolOutput whose data {problem}", "give plain JSON values")
    for_user = for_user and clean(for_user)
    if content == output.for_model and for_user == output.for_user:
        return output
    return attrs.evolve(output, for_model=content, for_user=for_user)


def _problem_of_undo(undo: object) -> str:
    if not isinstance(undo, tuple):
        return "is no tuple"
    for call in cast("tuple[object, ...]", undo):
        if not isinstance(call, UndoCall) or not isinstance(cast("object", call.tool), str):
            return "has something else than UndoCalls"
        if problem := _problem_of(call.arguments):
            return problem
    return ""


def _parts_of(value: object, *kinds: type) -> tuple[Part, ...] | None:
    """Return *value*, a collection of one of *kinds*, as parts; None if it is not, or has anything else in it."""
    if not isinstance(value, kinds):
        return None
    parts = cast("Sequence[Part]", value)
    return tuple(map(clean_part, parts)) if all(isinstance(part, _PARTS) for part in parts) else None


def _as_json(value: object) -> ToolOutput:
    try:
        text = _encode(value)
        # msgspec writes NaN and infinity as null.
        problem = _problem_of(value) if b"null" in text else ""
        if not problem:
            return ToolOutput(text.decode(), data=msgspec.json.decode(text))
    except Exception:  # noqa: BLE001 (any class may be in there, and raise what it likes)
        problem = _problem_of(value) or "cannot be written as JSON"
    return _unusable(f"a value that {problem}", _INSTEAD)


def _unusable(what: str, instead: str) -> ToolOutput:
    what = clean(what if len(what) <= _SHOWN else f"{what[:_SHOWN]} …")
    return ToolOutput.error(f"the tool returned {what}, which cannot be shown to a model; its author should {instead}")


_encode = msgspec.json.Encoder(enc_hook=plain).encode
_OBJECTS = frozenset({dict, MappingProxyType})
_SOUND = frozenset({bool, type(None)})
"""Classes of which each value is JSON; of int not all: one of thousands of digits cannot be written."""
_MOST = 1 << 63


def _problem_of(value: object) -> str:
    """Return why *value* is not JSON and where, as the end of a sentence; "" if it is."""
    if type(value) in _OBJECTS and all(map(_is_sound, cast("Mapping[object, object]", value).values())):
        return ""  # most data are that short
    try:
        return _first_problem(value, "$", 0)
    except Exception as error:  # noqa: BLE001 (a tool's classes may raise when they are read)
        return f"cannot be read ({type(error).__name__}: {error})"


def _is_sound(value: object) -> bool:
    if type(value) is int:
        return -_MOST < value < _MOST
    return type(value) in _SOUND or (type(value) is str and value.isascii())


def _first_problem(value: object, path: str, depth: int) -> str:
    if depth > _DEEPEST:
        return "refers to itself or is nested too deeply"
    if isinstance(value, float) and not math.isfinite(value):
        return f"holds {value} at {path}"
    if isinstance(value, str):
        return "" if clean(value) == value else f"holds a lone surrogate at {path}"
    children = _children(value, path)
    if children is not None:
        return next(filter(None, (_first_problem(item, where, depth + 1) for where, item in children)), "")
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError):
        return f"holds {_named(value)} at {path}"
    return ""


def _children(value: object, path: str) -> Iterable[tuple[str, object]] | None:
    match value:
        case Mapping():
            return ((f"{path}.{key}", item) for key, item in cast("Mapping[object, object]", value).items())
        case list() | tuple() | set() | frozenset():
            items = cast("Iterable[object]", value)
            return ((f"{path}[{index}]", item) for index, item in enumerate(items))
        case _:
            names = _field_names(type(value))
            return None if names is None else ((f"{path}.{name}", getattr(value, name, None)) for name in names)


def _field_names(cls: type) -> list[str] | None:
    if attrs.has(cls):
        return [field.name for field in attrs.fields(cls)]
    names: Mapping[str, Any] | Sequence[str] | None = getattr(
        cls, "__dataclass_fields__", getattr(cls, "__struct_fields__", None)
    )
    return None if names is None else list(names)


def _named(value: object) -> str:
    name = type(value).__qualname__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _fits(text: str, limit: int) -> bool:
    return len(text) * 4 <= limit or len(text.encode(errors="replace")) <= limit


def _shortened(text: str, limit: int) -> str:
    data = text.encode(errors="replace")
    kept = max(0, limit - len(_mark(limit, len(data))))
    shown = data[:kept].decode(errors="ignore")
    marked = shown + _mark(len(shown.encode()), len(data))
    # A limit too small for the mark itself gets no mark.
    return marked if len(marked.encode()) <= limit else data[: max(0, limit)].decode(errors="ignore")


def _mark(shown: int, whole: int) -> str:
    return f"\n[... cut: {shown} of {whole} bytes shown ...]"


def _fitting_parts(parts: tuple[Part, ...], limit: int, media_limit: int) -> tuple[Part, ...]:
    parts = tuple(_without_big_media(parts, media_limit))
    whole = sum(_text_bytes(part) for part in parts)
    if whole <= limit:
        return parts
    left = max(0, limit - len(_mark(limit, whole)))
    shown: list[Part] = []
    for part in parts:
        kept = _cut_part(part, left)
        left -= _text_bytes(kept)
        if _text_bytes(kept) or not isinstance(kept, _WORDS):
            shown.append(kept)
    mark = Text(_mark(sum(map(_text_bytes, shown)), whole).lstrip())
    return (*shown, mark) if limit >= len(_mark(limit, whole)) else tuple(shown)


def _without_big_media(parts: tuple[Part, ...], limit: int) -> Iterator[Part]:
    for part in parts:
        size = 0 if isinstance(part, _WORDS) else _media_bytes(part)
        if isinstance(part, _WORDS) or size <= limit:
            limit -= size
            yield part
        else:
            yield Text(f"[{_kind(part)} of {size} bytes left out]")


def _text_bytes(part: Part) -> int:
    return len(part.text.encode(errors="replace")) if isinstance(part, _WORDS) else 0


def _cut_part(part: Part, limit: int) -> Part:
    if not isinstance(part, _WORDS) or _fits(part.text, limit):
        return part
    return attrs.evolve(part, text=part.text.encode(errors="replace")[:limit].decode(errors="ignore"))


def _media_bytes(part: Image | Audio | File | VendorPart | CachePoint) -> int:
    if isinstance(part, CachePoint):
        return 0
    if isinstance(part, VendorPart):
        return len(canonical(part.value))
    texts = (getattr(part, name, None) for name in ("data", "url", "transcript"))
    return sum(len(text) for text in texts if text)


def _kind(part: Image | Audio | File | VendorPart | CachePoint) -> str:
    if isinstance(part, VendorPart):
        return f"{part.vendor} part"
    if isinstance(part, CachePoint):
        return "cache point"
    return f"audio/{part.format}" if isinstance(part, Audio) else part.media_type
