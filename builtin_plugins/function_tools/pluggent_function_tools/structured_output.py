"""What form a reply has to have, and how it becomes a value: structured output.

The schema goes to the model; what the model answers is checked here, whatever it promised.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

import attrs
from pluggent_hookspecs import Json, Message, Refusal, freeze_object

from pluggent_function_tools.arguments import ArgumentProblems, Checker, canonical, parse
from pluggent_function_tools.function_tool import FunctionTool, function_tool

T = TypeVar("T")

_FENCE = re.compile(r"\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(?P<inside>.*?)\r?\n[ \t]*```\s*", re.DOTALL)
_VALUE = "value"


@attrs.frozen(eq=False, repr=False)
class OutputForm(Generic[T]):
    """A form for replies. ``schema`` is JSON Schema 2020-12 of an object.

    A type that is not an object (a list, a number) is wrapped in an object under ``value``:
    vendors want objects.
    """

    schema: Mapping[str, Json]
    _reads: FunctionTool | Checker
    _wrapped: bool = False

    def of_reply(self, reply: Message, before: str = "") -> tuple[tuple[T, ...], tuple[str, ...]]:
        """Return the value of *reply*, whose text began with *before*, or none and what is wrong with it."""
        if any(isinstance(part, Refusal) for part in reply.content):
            return (), ("it is a refusal",)
        try:
            return (self.read(before + reply.text),), ()
        except ArgumentProblems as error:
            return (), error.problems

    def read(self, text: str) -> T:
        """Return the value in *text*, which is JSON, or one fenced block of it.

        Raises ArgumentProblems with everything that is wrong, each with its path.
        """
        if not text.strip():
            raise ArgumentProblems(["it is empty"])
        fenced = _FENCE.fullmatch(text)
        found: dict[str, Any] = parse(fenced["inside"] if fenced else text)
        if isinstance(self._reads, Checker):
            if problems := self._reads.problems(found):
                raise ArgumentProblems(problems)
            return cast("T", found)
        given = found if self._wrapped else {_VALUE: found}
        try:
            return cast("T", self._reads.bind(self._reads.normalise(given), None)())
        except ArgumentProblems as error:
            inside = f"$.{_VALUE}"
            raise ArgumentProblems(
                problem
                if self._wrapped
                else "$" + problem.removeprefix(inside)
                if problem.startswith(inside)
                else problem
                for problem in error.problems
            ) from None


def output_form(wanted: Any) -> OutputForm[Any]:
    """Return the form of *wanted*: a type, or a JSON Schema of an object (its values are dicts).

    Types are those that a tool's parameters can have: attrs classes, dataclasses, TypedDicts,
    builtin types, Literal, enums and unions. Raises TypeError for any other.

    >>> output_form(list[int]).read('{"value": [1, 2]}')
    [1, 2]
    """
    if isinstance(wanted, Mapping):
        schema = cast("Mapping[str, Json]", wanted)
        if schema.get("type") != "object":
            raise TypeError('output: a JSON Schema has to be that of an object ({"type": "object", …})')
        checker = Checker(schema)
        try:
            checker.problems({})
        except ArgumentProblems as error:
            raise TypeError(f"output: {error}") from None
        return OutputForm(freeze_object(schema), checker)
    try:
        return _of_type(wanted)
    except TypeError as error:
        raise TypeError(f"output: {wanted!r} is not a type" if "unhashable" in str(error) else str(error)) from None


@functools.lru_cache(maxsize=256)
def _of_type(wanted: Any) -> OutputForm[Any]:
    def output(value: Any) -> Any:
        return value

    output.__annotations__ = {_VALUE: wanted}
    try:
        reads = function_tool(output)
    except TypeError as error:
        raise TypeError(str(error).replace(f"tool 'output': parameter '{_VALUE}'", "output", 1)) from None
    whole = cast("dict[str, Any]", reads.spec.parameters)
    inner, shared = _inner(whole)
    if inner.get("type") != "object":
        form: OutputForm[Any] = OutputForm(freeze_object(whole), reads, True)  # noqa: FBT003 (private fields go by place)
        return form
    title = getattr(wanted, "__name__", "")
    schema = {**({"title": title} if title else {}), **inner, **({"$defs": shared} if shared else {})}
    return OutputForm(freeze_object(schema), reads)


def _inner(whole: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the schema of the value itself, and what it refers to."""
    inner: Mapping[str, Any] = whole["properties"][_VALUE]
    shared: Mapping[str, Any] = whole.get("$defs", {})
    reference = inner.get("$ref")
    if not isinstance(reference, str):
        return inner, shared
    name = reference.rpartition("/")[2]
    refers_to_itself = f'"{reference}"'.encode() in canonical(shared)
    rest = {other: schema for other, schema in shared.items() if other != name or refers_to_itself}
    return {**shared[name], **{key: value for key, value in inner.items() if key != "$ref"}}, rest
