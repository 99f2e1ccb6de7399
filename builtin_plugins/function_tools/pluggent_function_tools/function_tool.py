"""Makes tools of functions, which are called with the frozen arguments alone."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import msgspec
from pluggent_hookspecs import TOOL_MARK, Json, ToolContext, ToolMark, ToolSpec, tool

from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, is_flat, plain, sorted_json
from pluggent_function_tools.schema import Signature, read_signature

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHARED = (
    "tags", "category", "version", "compact_description", "timeout_s", "idempotent", "exclusive", "concurrent", "extra",
    "stops_batch", "result_schema",
)  # fmt: skip
_DIGEST = object()


def function_tool(function: Callable[..., Any], *, default_effects: frozenset[str] | None = None) -> FunctionTool:
    """Make a tool of *function*: a function or a bound method, sync or async, marked with ``@tool`` or not.

    Parameters without an annotation take any JSON; ``x: int = None`` takes null too. The host fills one parameter
    annotated ToolContext. *default_effects* count where the mark declares none. Raises TypeError for a
    parameter that cannot be described to a model, ValueError for a name that vendors refuse.

    >>> def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> made = function_tool(add)
    >>> made.spec.description, made.normalise({"a": 2})
    ('Add two numbers.', b'{"a":2,"b":1}')
    """
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise TypeError(f"{function!r} is not a function: a tool is made of a function or a bound method")
    mark = cast("ToolMark", getattr(function, TOOL_MARK, None) or getattr(tool(lambda: None), TOOL_MARK))
    name = mark.name or function.__name__
    if not _NAME.fullmatch(name):
        raise ValueError(f"tool name '{name}' is not usable: 1 to 64 letters, digits, '_', '-'; see @tool(name=…)")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"tool '{name}': a generator cannot be a tool; return the whole result")
    signature = read_signature(name, function)
    spec = ToolSpec(
        name=name,
        description=mark.description if mark.description is not None else signature.description,
        parameters=signature.schema,
        effects=mark.effects if mark.effects is not None else default_effects,
        **{field: getattr(mark, field) for field in _SHARED},
    )
    return FunctionTool(spec, function, signature, mark)


def definition_digest(spec: ToolSpec) -> str:
    """Return the SHA-256, in hex, of everything in *spec* that an approval depends on."""
    return cast("str", spec.memo(_DIGEST, _digest))


def _digest(spec: ToolSpec) -> str:
    # Appended, so that tools without them keep the digest that they had.
    flags = (spec.idempotent, spec.exclusive, spec.concurrent, *((True,) if spec.stops_batch else ()))
    effects = None if spec.effects is None else sorted(spec.effects)
    later = ((spec.version, spec.result_schema),) if spec.version or spec.result_schema else ()
    shown = (spec.name, spec.description, spec.parameters, effects, spec.timeout_s, flags, spec.extra, *later)
    return hashlib.sha256(canonical(shown)).hexdigest()


class FunctionTool:
    """A function as a tool. ``is_async``: a call returns an awaitable at once.

    ``previewing`` and ``parting`` are what its mark names as *preview* and *parts*, bound to the same object.
    """

    def __init__(self, spec: ToolSpec, function: Callable[..., Any], signature: Signature, mark: ToolMark) -> None:
        self.spec = spec
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        self.previewing = _bound_with(function, mark.preview)
        self.parting = _bound_with(function, mark.parts)
        self._signature = signature
        self._decode, self._convert, self._hand = signature.decode, signature.convert, signature.hand
        self._checked: tuple[bytes, msgspec.Struct] | None = None

    @functools.cached_property
    def _checker(self) -> Checker:
        return Checker(self.spec.parameters)

    def __repr__(self) -> str:
        return f"FunctionTool({self.spec.name!r})"

    def normalise(self, value: Mapping[str, Json]) -> bytes:
        """Return *value* as the canonical JSON of the function's arguments, defaults included; idempotent.

        ``2.0`` becomes 2 where an integer is declared. Raises ArgumentProblems with every problem.
        """
        if is_flat(value) and (data := self._normal(value)) is not None:
            return data
        given = canonical(value)
        if self._signature.bounded and (problems := self._checker.problems(value)):
            raise ArgumentProblems(problems)
        try:
            try:
                made = self._decode(given)
            except msgspec.ValidationError as error:
                if "got `float`" not in str(error):
                    raise
                # JSON knows one kind of number, and models write 2.0.
                made = self._decode(canonical(_integral(value)))
            data = sorted_json(made)
        except Exception as error:  # noqa: BLE001 (the author's own classes check too, and raise what they like)
            raise ArgumentProblems(self._checker.problems(value) or [_told(error)]) from None
        if self._hand is not None:
            self._checked = data, self._handed(self._hand, made)
        else:  # without a default, which is one object for all calls
            self._checked = (data, made) if data == given else None
        if data != given and (lost := list(_lost(value, msgspec.json.decode(data), "$"))):
            raise ArgumentProblems(lost)
        return data

    def _normal(self, value: Mapping[str, Json]) -> bytes | None:
        """Return what ``normalise`` returns of a *value* without inner values; None if it is not that simple.

        A long text in it is neither written nor read twice.
        """
        try:
            if self._signature.bounded and self._checker.problems(value):
                return None
            made = self._convert(value)
            data = sorted_json(made)
            if self._hand is not None:
                self._checked = data, self._handed(self._hand, made)
            else:  # see normalise
                self._checked = (data, made) if len(value) == len(made.__struct_fields__) else None
        except Exception:  # noqa: BLE001 (normalise finds it again, and says it)
            return None
        return data

    @staticmethod
    def _handed(hand: Callable[[object], msgspec.Struct], made: msgspec.Struct) -> msgspec.Struct:
        try:
            return hand(msgspec.to_builtins(made, str_keys=True, enc_hook=plain))
        except msgspec.ValidationError as error:
            raise ArgumentProblems([_told(error)]) from None

    def bind(self, arguments_json: bytes, context: ToolContext | None) -> Callable[[], Any]:
        """Return the call: ``bind(…)()`` runs the function once; its result may be an awaitable.

        Raises ArgumentProblems if *arguments_json* differs from normalise(): a call runs with the decided bytes.
        """
        return self._bound(self.function, arguments_json, context)

    def preview(self, arguments_json: bytes, context: ToolContext) -> Callable[[], Any] | None:
        """Return what makes the preview of a call, as ``bind``; None if there is none."""
        return None if self.previewing is None else self._bound(self.previewing, arguments_json, context)

    def parts(self, arguments_json: bytes) -> Any:
        """Return what its author says are the parts of the arguments; None if he says nothing."""
        if self.parting is None:
            return None
        return self._bound(self.parting, arguments_json, None, with_context=False)()

    def _bound(
        self, function: Callable[..., Any], arguments_json: bytes, context: ToolContext | None, *,
        with_context: bool = True,
    ) -> Callable[[], Any]:  # fmt: skip
        keywords = msgspec.structs.asdict(self._structured(arguments_json))
        if self._signature.context is not None and with_context:
            keywords[self._signature.context] = context
        if not self._signature.positional:
            return functools.partial(function, **keywords)
        first = [keywords.pop(name) for name in self._signature.positional]
        return functools.partial(function, *first, **keywords)

    def _structured(self, arguments_json: bytes) -> msgspec.Struct:
        """Return what the function gets, made of the very bytes that were decided."""
        checked, self._checked = self._checked, None
        if checked is not None and checked[0] is arguments_json:  # made of them a moment ago, and handed out once
            return checked[1]
        try:
            made = self._decode(arguments_json)
        except Exception as error:  # noqa: BLE001 (see normalise)
            raise ArgumentProblems([_told(error)]) from None
        if sorted_json(made) != arguments_json:
            raise ArgumentProblems(["$: structuring changed the arguments"])
        # A path is made of the bytes: nothing is made of a path.
        return made if self._hand is None else self._handed(self._hand, made)

    async def call(self, arguments: Mapping[str, Json], context: ToolContext) -> Any:
        """Run with *arguments*; see Tool. A blocking function blocks here: hosts use bind()."""
        result = self.bind(self.normalise(arguments), context)()
        return await result if inspect.isawaitable(result) else result


def _bound_with(function: Callable[..., Any], other: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return *other*, a function of the same class where *function* is a method, bound to the same object."""
    if other is None or not inspect.ismethod(function) or not inspect.isfunction(other):
        return other
    return cast("Callable[..., Any]", other.__get__(function.__self__))


def _told(error: Exception) -> str:
    if not isinstance(error, msgspec.ValidationError):
        return f"$: {error}"
    why, _, path = str(error).partition(" - at `")
    return f"{path.rstrip('`') or '$'}: {why[:1].lower()}{why[1:]}"


def _integral(value: Any) -> Any:
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case Mapping():
            return {key: _integral(item) for key, item in cast("Mapping[str, Any]", value).items()}
        case list() | tuple():
            return [_integral(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _lost(value: object, kept: object, path: str) -> Iterator[str]:
    """Yield the names that a nested class does not know."""
    if isinstance(value, Mapping) and isinstance(kept, dict):
        known = cast("dict[str, object]", kept)
        for key, item in cast("Mapping[str, object]", value).items():
            if key in known:
                yield from _lost(item, known[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: is not a known property"
    elif isinstance(value, list | tuple) and isinstance(kept, list):
        pairs = zip(cast("list[object]", value), cast("list[object]", kept), strict=False)
        for index, (item, other) in enumerate(pairs):
            yield from _lost(item, other, f"{path}[{index}]")
