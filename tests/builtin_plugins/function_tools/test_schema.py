import functools
import math
import types
from typing import Annotated, Any

import attrs
import msgspec
import pytest
from each_of import each_of
from pluggent_function_tools.arguments import canonical
from pluggent_function_tools.function_tool import function_tool
from pluggent_hookspecs import Json, Param, ToolContext, tool
from tool_sources import Place, Trip, Unit, call, problems


class Fickle:
    """Not what it seems: a class whose values change each time they are read."""


def schema_of(function: Any) -> dict[str, Any]:
    return msgspec.json.decode(canonical(function_tool(function).spec.parameters))


def test_a_schema_reads_like_the_signature():
    @tool(effects=())
    def forecast(
        city: Annotated[str, Param("a city", min_length=1, examples=("Oslo",))],
        days: Annotated[int, "how many", Param(ge=1, le=7)] = 3,
        unit: Unit = Unit.METRIC,
    ) -> str:
        """Tell the weather."""
        return f"{city}{days}{unit}"

    assert schema_of(forecast) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 1, "description": "a city", "examples": ["Oslo"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7, "description": "how many", "default": 3},
            "unit": {"$ref": "#/$defs/Unit", "default": "metric"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {"Unit": {"enum": ["imperial", "metric"]}},
    }


def test_a_class_is_described_with_the_words_and_bounds_of_its_fields():
    def go(place: Place) -> Place:
        return place

    assert schema_of(go)["$defs"]["Place"] == {
        "type": "object",
        "description": "Where it is.",
        "properties": {
            "city": {"type": "string", "description": "name of the city"},
            "days": {"type": "integer", "description": "how long", "minimum": 1, "maximum": 7, "default": 1},
            "title": {"type": "string", "default": ""},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert problems(go, {"place": {"city": "Oslo", "days": 9}}) == ("$.place.days: 9 is greater than the maximum of 7",)


def test_a_tool_without_parameters_takes_an_empty_object():
    def now() -> str:
        return "now"

    assert schema_of(now) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert call(now, {}) == "now"


GOOGLE = """Find a train.

    Slow ones too.

    Args:
        start: Where from,
            by name.
        end (str): Where to.

    Returns:
        The train.
    """
NUMPY = """Find a train.

    Slow ones too.

    Parameters
    ----------
    start : str
        Where from,
        by name.
    end
        Where to.
    """
REST = """Find a train.

    Slow ones too.

    :param start: Where from, by name.
    :param str end: Where to.
    """


@each_of("docstring", [GOOGLE, NUMPY, REST])
def test_docstrings_describe_the_tool_and_its_parameters(docstring):
    def train(start: str, end: Annotated[str, "where to get off"]) -> str:
        return start + end

    train.__doc__ = docstring
    made = function_tool(train)

    assert made.spec.description == "Find a train.\n\nSlow ones too."
    assert schema_of(train)["properties"] == {
        "start": {"type": "string", "description": "Where from, by name."},
        "end": {"type": "string", "description": "where to get off"},
    }


@each_of("docstring", [None, "", "One\nparagraph.", "Weird:\n\n    :param\n\nArgs:\n"])
def test_any_docstring_will_do(docstring):
    def f(a: int) -> int:
        return a

    f.__doc__ = docstring

    assert function_tool(f).spec.name == "f"


def test_the_context_is_filled_in_and_not_shown():
    def plain(a: int, context: ToolContext) -> Any:
        return a, context

    def optional(ctx: "ToolContext | None" = None, *, a: int = 1) -> Any:
        return a, ctx

    assert list(schema_of(plain)["properties"]) == list(schema_of(optional)["properties"]) == ["a"]
    assert call(plain, {"a": 1}, context := object()) == call(optional, {}, context) == (1, context)


def test_a_context_that_only_type_checkers_import_is_found():
    def f(a: "int", context: "ToolContext") -> "Unimportable":  # noqa: F821  # pyright: ignore[reportUndefinedVariable] (the case)
        return a, context

    del_free = {name: value for name, value in globals().items() if name != "ToolContext"}
    moved = types.FunctionType(f.__code__, del_free, "f")
    moved.__annotations__ = {"a": "int", "context": "ToolContext", "return": "Unimportable"}

    assert call(moved, {"a": 1}, "the context") == (1, "the context")


def test_the_contracts_json_alias_is_any_json():
    def f(data: Json, more: "Json" = None) -> Any:
        return data, more

    assert schema_of(f)["properties"] == {"data": {}, "more": {"default": None}}
    assert call(f, {"data": [1, {"a": None}]}) == ([1, {"a": None}], None)


@each_of(
    ("annotation", "shown"),
    [
        (complex, "complex"),
        (Fickle, "Fickle"),
        (list[Fickle], "Fickle"),
        (type, "type"),
        (Place | Trip, "Place | .*Trip"),
        (Annotated[str, Param(ge=1)], "ge cannot bound it"),
        (Annotated[str, Param(pattern="(")], "pattern|regex|missing"),
    ],
)
def test_types_that_no_schema_describes_are_refused_with_all_names(annotation, shown):
    def f(what): ...

    f.__annotations__ = {"what": annotation}

    with pytest.raises(TypeError, match=f"tool 'f': parameter 'what': type .*{shown}.*(?s:.*); use str, int"):
        function_tool(f)


def two_contexts(a: ToolContext, b: ToolContext) -> None: ...


def unresolved(a: "Missing"): ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable] (the case)


def with_default(default):
    def f(a: float = default) -> None: ...

    return f


@each_of(
    ("function", "says"),
    [
        (two_contexts, "parameters a, b all want the ToolContext"),
        (unresolved, "parameter 'a': annotation 'Missing' cannot be resolved"),
        (lambda *a: a, r"parameter '\*a'"),
        (lambda **k: k, r"parameter '\*\*k'"),
        *((with_default(default), "parameter 'a': the default .* does not fit float")
          for default in ("text", math.nan, object())),
    ],
)  # fmt: skip
def test_parameters_that_no_model_can_fill_are_refused(function, says):
    with pytest.raises(TypeError, match=f"tool 'f': {says}"):
        function_tool(tool(name="f")(function))


def test_a_default_none_allows_null():
    def f(a: int = None, b: Annotated[int, Param(ge=1)] | None = None):  # noqa: RUF013  # pyright: ignore[reportArgumentType] (the case)
        return a, b

    assert call(f, {}) == call(f, {"a": None, "b": None}) == (None, None)
    assert problems(f, {"b": 0})


def test_bounds_hold_inside_lists_and_unions():
    def f(
        a: list[Annotated[int, Param(ge=0)]],
        b: Annotated[str | list[int] | None, Param(max_length=2)] = None,
        c: Annotated[int | None, msgspec.Meta(description="c")] = None,
    ) -> Any:
        return a, b, c

    assert call(f, {"a": [1], "b": "xx"}) == ([1], "xx", None)
    assert problems(f, {"a": [-1]}) == ("$.a[0]: -1 is less than the minimum of 0",)
    assert problems(f, {"a": [], "b": "xxx"})
    assert problems(f, {"a": [], "b": [1, 2, 3]})


def test_bounds_of_other_libraries_are_understood():
    @attrs.frozen
    class Ge:
        ge: int

    @attrs.frozen
    class Len:
        min_length: int
        max_length: int | None = None

    def f(a: Annotated[int, Ge(2)], b: Annotated[list[int], Len(1, 2)]) -> None: ...

    assert schema_of(f)["properties"] == {
        "a": {"type": "integer", "minimum": 2},
        "b": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    }


def test_methods_and_positional_only_parameters_work():
    class Desk:
        def book(self, desk: int, /, *, hours: int = 1, note: str = "") -> Any:
            """Book it."""
            return self, desk, hours, note

    desk = Desk()

    assert function_tool(desk.book).spec.description == "Book it."
    assert call(desk.book, {"desk": 7, "note": "x"}) == (desk, 7, 1, "x")


def test_decorated_functions_keep_their_signature():
    def f(a: int) -> int:
        return a

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return "wrapped", f(*args, **kwargs)

    assert list(schema_of(wrapper)["properties"]) == ["a"]
    assert call(wrapper, {"a": 1}) == ("wrapped", 1)
