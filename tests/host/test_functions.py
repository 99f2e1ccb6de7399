import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import math
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import Effect, Json, Param, Tool, ToolContext, tool
from pluggent_host.arguments import ArgumentProblems, Checker, canonical
from pluggent_host.functions import definition_digest, function_tool


class Unit(enum.StrEnum):
    METRIC = "metric"
    IMPERIAL = "imperial"


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Place:
    """Where it is."""

    city: Annotated[str, "name of the city"]
    days: Annotated[int, Param("how long", ge=1, le=7)] = 1
    title: str = ""


@dataclasses.dataclass
class Trip:
    stops: list[Place] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    fast: bool
    limit: Annotated[int, Param(gt=0)]


class Point(NamedTuple):
    x: int
    y: int


class Fickle:
    """Not what it seems: a class whose values change each time they are read."""


@dataclasses.dataclass
class Doubling:
    n: int

    def __post_init__(self) -> None:
        self.n *= 2


def schema_of(function: Any) -> dict[str, Any]:
    return msgspec.json.decode(canonical(function_tool(function).spec.parameters))


def call(function: Any, value: dict[str, Any], context: Any = None) -> Any:
    made = function_tool(function)
    return made.bind(made.normalise(value), context)()


def problems(function: Any, value: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ArgumentProblems) as caught:
        function_tool(function).normalise(value)
    return caught.value.problems


def kitchen_sink(
    a: int,
    b: float,
    c: bool,
    d: str,
    e: list[int],
    f: dict[str, Place],
    g: tuple[int, str],
    h: set[int],
    i: Literal["x", 2],
    j: Unit,
    k: Level,
    l: int | str,  # noqa: E741
    m: Optional[str],  # noqa: UP045
    n: Union[Trip, None],  # noqa: UP007
    o: Options,
    p: dt.datetime,
    q: uuid.UUID,
    r: Decimal,
    s: Any,
    t: object,
    u: dict[int, str],
    v: Point,
    w: frozenset[str],
    x: bytes,
    y,
    z: dt.date = dt.date(2026, 1, 2),
):
    """Take everything."""
    return locals()


SINK: dict[str, Any] = {
    "a": 10**30,
    "b": 1,
    "c": True,
    "d": "é",
    "e": [1, 2],
    "f": {"home": {"city": "Oslo"}},
    "g": [1, "b"],
    "h": [3, 1],
    "i": 2,
    "j": "metric",
    "k": 2,
    "l": "text",
    "m": None,
    "n": {"stops": [{"city": "Rome", "days": 2}]},
    "o": {"fast": True},
    "p": "2026-01-01T00:00:00+00:00",
    "q": "12345678-1234-5678-1234-567812345678",
    "r": "1.50",
    "s": {"any": [None]},
    "t": "any",
    "u": {"2": "b", "10": "a"},
    "v": [1, 2],
    "w": ["b", "a"],
    "x": "aGk=",
    "y": [1],
}


def test_every_supported_type_arrives_as_itself():
    assert call(kitchen_sink, SINK) == {
        "a": 10**30,
        "b": 1.0,
        "c": True,
        "d": "é",
        "e": [1, 2],
        "f": {"home": Place("Oslo")},
        "g": (1, "b"),
        "h": {1, 3},
        "i": 2,
        "j": Unit.METRIC,
        "k": Level.HIGH,
        "l": "text",
        "m": None,
        "n": Trip([Place("Rome", 2)]),
        "o": {"fast": True},
        "p": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "q": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "r": Decimal("1.50"),
        "s": {"any": [None]},
        "t": "any",
        "u": {2: "b", 10: "a"},
        "v": Point(1, 2),
        "w": frozenset({"a", "b"}),
        "x": b"hi",
        "y": [1],
        "z": dt.date(2026, 1, 2),
    }


def test_the_schema_of_every_supported_type_is_valid_and_fits_the_arguments():
    made = function_tool(kitchen_sink)

    assert Checker(made.spec.parameters).problems(SINK) == ()
    assert Checker(made.spec.parameters).problems(msgspec.json.decode(made.normalise(SINK))) == ()


def test_normal_arguments_are_a_fixed_point():
    made = function_tool(kitchen_sink)
    once = made.normalise(SINK)

    assert made.normalise(msgspec.json.decode(once)) == once


@given(
    st.fixed_dictionaries(
        {"a": st.integers(-(10**30), 10**30)},
        optional={
            "b": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
            "c": st.lists(st.text(st.characters(exclude_categories=("Cs",)))),
            "d": st.none() | st.integers(0, 5),
        },
    )
)
def test_what_was_normalised_always_binds(value):
    def f(a: int, b: float = 0.5, c: list[str] | None = None, d: int | None = 3) -> Any:
        return {"a": a, "b": b, "c": c, "d": d}

    assert call(f, value) == {"b": 0.5, "c": None, "d": 3} | value


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


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
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


@pytest.mark.parametrize("docstring", [None, "", "One\nparagraph.", "Weird:\n\n    :param\n\nArgs:\n"])
def test_any_docstring_will_do(docstring):
    def f(a: int) -> int:
        return a

    f.__doc__ = docstring

    assert function_tool(f).spec.name == "f"


def test_the_mark_says_what_the_function_does_not():
    @tool(name="look-up", description="Mine.", effects=[Effect.NETWORK_READ], timeout_s=3, idempotent=True, tags=["a"])
    def f() -> None:
        """Not this."""

    spec = function_tool(f, default_effects=frozenset({"shell"})).spec

    assert (spec.name, spec.description, spec.effects) == ("look-up", "Mine.", {"network_read"})
    assert (spec.timeout_s, spec.idempotent, spec.tags) == (3, True, {"a"})


def test_default_effects_count_only_where_none_are_declared():
    def plain() -> None: ...

    @tool(effects=())
    def pure() -> None: ...

    assert function_tool(plain).spec.effects is None
    assert function_tool(plain, default_effects=frozenset({"shell"})).spec.effects == {"shell"}
    assert function_tool(pure, default_effects=frozenset({"shell"})).spec.effects == frozenset()


@pytest.mark.parametrize("name", ["<lambda>", "a b", "x" * 65, "größe"])
def test_names_that_vendors_refuse_are_refused(name):
    def f() -> None: ...

    with pytest.raises(ValueError, match="is not usable"):
        function_tool(tool(name=name)(f))


def test_the_context_is_filled_in_and_not_shown():
    def plain(a: int, context: ToolContext) -> Any:
        return a, context

    def optional(ctx: "ToolContext | None" = None, *, a: int = 1) -> Any:
        return a, ctx

    assert list(schema_of(plain)["properties"]) == list(schema_of(optional)["properties"]) == ["a"]
    assert call(plain, {"a": 1}, context := object()) == call(optional, {}, context) == (1, context)


def test_a_context_that_only_type_checkers_import_is_found():
    def f(a: "int", context: "ToolContext") -> "Unimportable":  # noqa: F821
        return a, context

    del_free = {name: value for name, value in globals().items() if name != "ToolContext"}
    moved = type(f)(f.__code__, del_free, "f")
    moved.__annotations__ = {"a": "int", "context": "ToolContext", "return": "Unimportable"}

    assert call(moved, {"a": 1}, "the context") == (1, "the context")


def test_two_contexts_are_refused():
    def f(a: ToolContext, b: ToolContext) -> None: ...

    with pytest.raises(TypeError, match="tool 'f': parameters a, b all want the ToolContext"):
        function_tool(f)


def test_the_contracts_json_alias_is_any_json():
    def f(data: Json, more: "Json" = None) -> Any:
        return data, more

    assert schema_of(f)["properties"] == {"data": {}, "more": {"default": None}}
    assert call(f, {"data": [1, {"a": None}]}) == ([1, {"a": None}], None)


@pytest.mark.parametrize(
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
def test_types_that_a_model_cannot_be_told_are_refused_with_all_names(annotation, shown):
    def f(what): ...

    f.__annotations__ = {"what": annotation}

    with pytest.raises(TypeError, match=f"tool 'f': parameter 'what': type .*{shown}.*(?s:.*); use str, int"):
        function_tool(f)


def test_annotations_that_cannot_be_resolved_are_refused():
    def f(a: "Missing"): ...  # noqa: F821

    with pytest.raises(TypeError, match="tool 'f': parameter 'a': annotation 'Missing' cannot be resolved"):
        function_tool(f)


@pytest.mark.parametrize("function", [lambda *a: a, lambda **k: k])
def test_parameters_without_names_are_refused(function):
    with pytest.raises(TypeError, match=r"tool 'f': parameter '\*+[ak]'"):
        function_tool(tool(name="f")(function))


@pytest.mark.parametrize("thing", [print, int, functools.partial(print), object()])
def test_only_functions_and_bound_methods_become_tools(thing):
    with pytest.raises(TypeError, match="is no function"):
        function_tool(thing)


def test_generators_are_refused():
    def f():
        yield 1

    async def g():
        yield 1

    for function in (f, g):
        with pytest.raises(TypeError, match="a generator cannot be a tool"):
            function_tool(function)


@pytest.mark.parametrize("default", ["text", math.nan, object()])
def test_defaults_that_do_not_fit_are_refused(default):
    def f(a: float = default) -> None: ...

    with pytest.raises(TypeError, match=r"tool 'f': parameter 'a': the default .* does not fit float"):
        function_tool(f)


def test_a_default_none_allows_null():
    def f(a: int = None, b: Annotated[int, Param(ge=1)] | None = None):  # noqa: RUF013
        return a, b

    assert call(f, {}) == call(f, {"a": None, "b": None}) == (None, None)
    assert problems(f, {"b": 0})


def test_mutable_defaults_are_fresh_for_every_call():
    def f(tags: list[str] = ["a"], places: list[Place] = [Place("Oslo")]) -> Any:  # noqa: B006
        tags.append("b")
        return tags, places

    assert call(f, {}) == call(f, {}) == (["a", "b"], [Place("Oslo")])


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


def test_all_problems_of_the_arguments_are_named():
    def f(city: str, days: int, place: Place | None = None) -> None: ...

    assert set(problems(f, {"days": "two", "town": "x", "place": {"city": 5}})) == {
        "$.city: is required",
        "$.town: is not a known property",
        '$.days: "two" is not of type "integer"',
        '$.place: fits none of the alternatives: 5 is not of type "string"; or {"city":5} is not of type "null"',
    }


def test_names_that_a_nested_class_does_not_know_are_not_dropped_in_silence():
    def f(place: Place, trips: list[Trip]) -> None: ...

    value = {"place": {"city": "Oslo", "dayz": 3}, "trips": [{"stops": [{"city": "Rome", "x": 1}]}]}

    assert set(problems(f, value)) == {
        "$.place.dayz: is not a known property",
        "$.trips[0].stops[0].x: is not a known property",
    }


def test_whole_floats_are_integers_and_others_are_not():
    def f(n: int, rest: float = 0.5) -> Any:
        return n, rest

    assert call(f, {"n": 2.0, "rest": 3.0}) == (2, 3.0)
    assert problems(f, {"n": 2.5}) == ('$.n: 2.5 is not of type "integer"',)


def test_a_class_that_refuses_its_values_is_a_problem_of_the_arguments():
    @attrs.frozen
    class Even:
        n: int

        def __attrs_post_init__(self) -> None:
            if self.n % 2:
                raise LookupError("odd")

    def f(even: Even) -> Any:
        return even

    assert call(f, {"even": {"n": 2}}) == Even(2)
    assert problems(f, {"even": {"n": 1}}) == ("$: odd",)


@pytest.mark.parametrize(
    "data", [b'{"a":1, "b":2}', b'{"b":2,"a":1}', b'{"a":1}', b'{"a":1,"b":2.0}', b'{"a":1,"b":', b"[]"]
)
def test_bytes_that_are_not_the_frozen_form_do_not_run(data):
    def f(a: int, b: float = 2) -> None: ...

    with pytest.raises(ArgumentProblems):
        function_tool(f).bind(data if data != b'{"a":1,"b":2.0}' else b'{"a":1,"b":2}', None)


def test_a_class_that_changes_what_was_approved_does_not_run():
    def f(d: Doubling) -> None: ...

    with pytest.raises(ArgumentProblems, match="structuring changed the arguments"):
        function_tool(f).bind(b'{"d":{"n":1}}', None)


def test_methods_and_positional_only_parameters_work():
    class Desk:
        def book(self, room: int, /, *, hours: int = 1, note: str = "") -> Any:
            """Book it."""
            return self, room, hours, note

    desk = Desk()

    assert function_tool(desk.book).spec.description == "Book it."
    assert call(desk.book, {"room": 7, "note": "x"}) == (desk, 7, 1, "x")


def test_decorated_functions_keep_their_signature():
    def f(a: int) -> int:
        return a

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return "wrapped", f(*args, **kwargs)

    assert list(schema_of(wrapper)["properties"]) == ["a"]
    assert call(wrapper, {"a": 1}) == ("wrapped", 1)


async def test_async_functions_are_recognised_and_awaited():
    async def later(a: int) -> int:
        await asyncio.sleep(0)
        return a

    def now(a: int) -> int:
        return a

    assert function_tool(later).is_async
    assert not function_tool(now).is_async
    assert await function_tool(later).bind(b'{"a":1}', None)() == 1
    for function in (later, now):
        made = function_tool(function)
        assert isinstance(made, Tool)
        assert await made.call({"a": 1.0}, None) == 1


def test_a_definitions_digest_changes_with_everything_that_an_approval_relies_on():
    spec = function_tool(tool(effects=())(kitchen_sink)).spec
    again = function_tool(tool(effects=(), tags=["not relied on"])(kitchen_sink)).spec
    changes = [
        {"name": "other"},
        {"description": "other"},
        {"parameters": {"type": "object"}},
        {"effects": None},
        {"effects": {"shell"}},
        {"timeout_s": 1.0},
        {"idempotent": True},
        {"exclusive": True},
        {"concurrent": True},
    ]
    digests = [definition_digest(attrs.evolve(spec, **change)) for change in changes]

    assert definition_digest(spec) == definition_digest(again)
    assert len({definition_digest(spec), *digests}) == len(changes) + 1
    assert all(len(digest) == 64 for digest in digests)
