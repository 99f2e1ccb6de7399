import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import json
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union, cast

import attrs
import msgspec
import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_function_tools.arguments import ArgumentProblems, Checker
from pluggent_function_tools.function_tool import definition_digest, function_tool
from pluggent_hookspecs import Effect, Param, Tool, thaw, tool
from tool_sources import Place, Trip, Unit, call, problems


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Options(TypedDict, total=False):
    fast: bool
    limit: Annotated[int, Param(gt=0)]


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Doubling:
    n: int

    def __post_init__(self) -> None:
        self.n *= 2


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


PASSED: dict[str, tuple[Any, Any]] = {
    "a": (10**30, 10**30),
    "b": (1, 1.0),
    "c": (True, True),
    "d": ("é", "é"),
    "e": ([1, 2], [1, 2]),
    "f": ({"home": {"city": "Oslo"}}, {"home": Place("Oslo")}),
    "g": ([1, "b"], (1, "b")),
    "h": ([3, 1], {1, 3}),
    "i": (2, 2),
    "j": ("metric", Unit.METRIC),
    "k": (2, Level.HIGH),
    "l": ("text", "text"),
    "m": (None, None),
    "n": ({"stops": [{"city": "Rome", "days": 2}]}, Trip([Place("Rome", 2)])),
    "o": ({"fast": True}, {"fast": True}),
    "p": ("2026-01-01T00:00:00+00:00", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    "q": ("12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    "r": ("1.50", Decimal("1.50")),
    "s": ({"any": [None]}, {"any": [None]}),
    "t": ("any", "any"),
    "u": ({"2": "b", "10": "a"}, {2: "b", 10: "a"}),
    "v": ([1, 2], Point(1, 2)),
    "w": (["b", "a"], frozenset({"a", "b"})),
    "x": ("aGk=", b"hi"),
    "y": ([1], [1]),
}
"""For every parameter the JSON that a model writes, and the value that arrives."""
SINK = {name: written for name, (written, _) in PASSED.items()}


def test_every_supported_type_arrives_as_itself():
    arrived = {name: value for name, (_, value) in PASSED.items()}

    assert call(kitchen_sink, SINK) == {**arrived, "z": dt.date(2026, 1, 2)}


def test_normal_arguments_are_a_fixed_point_that_fits_the_schema():
    made = function_tool(kitchen_sink)
    once = made.normalise(SINK)

    assert made.normalise(msgspec.json.decode(once)) == once
    assert Checker(made.spec.parameters).problems(SINK) == ()
    assert Checker(made.spec.parameters).problems(msgspec.json.decode(once)) == ()


def test_a_set_is_in_order_also_beside_a_mapping_with_integer_keys():
    def pick(names: frozenset[str], seats: dict[int, str]) -> str:
        """Pick."""
        return ", ".join([*sorted(names), *seats.values()])

    names = [f"name-{number:02}" for number in range(30)]
    made = function_tool(pick)

    normal = made.normalise({"names": names[::-1], "seats": {"2": "b", "10": "a"}})

    assert msgspec.json.decode(normal)["names"] == names
    assert made.normalise(msgspec.json.decode(normal)) == normal


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


def test_the_mark_says_what_the_function_does_not():
    @tool(name="look-up", description="Mine.", effects=[Effect.NETWORK_READ], timeout_s=3, idempotent=True, tags=["a"])
    def f() -> None:
        """Not this."""

    spec = function_tool(f, default_effects=frozenset({"shell"})).spec

    assert (spec.name, spec.description, spec.effects) == ("look-up", "Mine.", {"network_read"})
    assert (spec.timeout_s, spec.idempotent, spec.tags) == (3, True, {"a"})


def test_default_effects_count_only_where_none_are_declared():
    @tool(effects=())
    def pure() -> None: ...

    assert function_tool(plain).spec.effects is None
    assert function_tool(plain, default_effects=frozenset({"shell"})).spec.effects == {"shell"}
    assert function_tool(pure, default_effects=frozenset({"shell"})).spec.effects == frozenset()


def generator():
    yield 1


async def async_generator():
    yield 1


def plain() -> None: ...


@each_of(
    ("thing", "error", "says"),
    [
        *((tool(name=name)(lambda: None), ValueError, "is not usable")
          for name in ("<lambda>", "a b", "x" * 65, "größe")),
        *((thing, TypeError, "is not a function") for thing in (print, int, functools.partial(print), object())),
        *((thing, TypeError, "a generator cannot be a tool") for thing in (generator, async_generator)),
    ],
)  # fmt: skip
def test_only_functions_and_bound_methods_with_names_that_vendors_take_become_tools(thing, error, says):
    with pytest.raises(error, match=says):
        function_tool(thing)


def test_mutable_defaults_are_fresh_for_every_call():
    def f(tags: list[str] = ["a"], places: list[Place] = [Place("Oslo")]) -> Any:  # noqa: B006, B008 (the case)
        tags.append("b")
        return tags, places

    made = function_tool(f)

    for _ in range(2):
        assert made.bind(made.normalise({}), None)() == (["a", "b"], [Place("Oslo")])


def go(city: str, days: int, place: Place | None = None, trips: list[Trip] = [], rest: float = 0.5) -> Any:  # noqa: B006
    return days, rest


@each_of(
    ("value", "problem"),
    [
        ({"days": 1}, "$.city: is required"),
        ({"city": "x", "days": 1, "town": "x"}, "$.town: is not a known property"),
        ({"city": "x", "days": "two"}, '$.days: "two" is not of type "integer"'),
        ({"city": "x", "days": 2.5}, '$.days: 2.5 is not of type "integer"'),
        ({"city": "x", "days": 1, "place": {"city": 5}},
         '$.place: fits none of the alternatives: 5 is not of type "string"; or {"city":5} is not of type "null"'),
        ({"city": "x", "days": 1, "trips": [{"stops": [{"city": "Rome", "x": 1}]}]},
         "$.trips[0].stops[0].x: is not a known property"),
    ],
)  # fmt: skip
def test_every_problem_of_the_arguments_is_named_with_its_path(value, problem):
    assert problems(go, value) == (problem,)


def test_all_problems_are_named_at_once_and_whole_floats_are_integers():
    assert len(problems(go, {"days": "two", "town": "x", "place": {"city": 5}})) == 4
    assert call(go, {"city": "x", "days": 2.0, "rest": 3.0}) == (2, 3.0)


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


@each_of("data", [b'{"a":1, "b":2}', b'{"b":2,"a":1}', b'{"a":1}', b'{"a":1,"b":2}', b'{"a":1,"b":', b"[]"])
def test_bytes_that_are_not_the_frozen_form_do_not_run(data):
    def f(a: int, b: float = 2) -> None: ...

    with pytest.raises(ArgumentProblems):
        function_tool(f).bind(data, None)


def test_a_class_that_changes_what_was_approved_does_not_run():
    def f(d: Doubling) -> None: ...

    with pytest.raises(ArgumentProblems, match="structuring changed the arguments"):
        function_tool(f).bind(b'{"d":{"n":1}}', None)


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
        assert await made.call({"a": 1.0}, None) == 1  # pyright: ignore[reportArgumentType] (neither wants it)


def test_a_definitions_digest_changes_with_everything_that_an_approval_relies_on():
    spec = function_tool(tool(effects=())(kitchen_sink)).spec
    again = function_tool(tool(effects=(), tags=["not relied on"])(kitchen_sink)).spec
    changes: list[dict[str, Any]] = [
        {"name": "other"}, {"description": "other"}, {"parameters": {"type": "object"}}, {"effects": None},
        {"effects": {"shell"}}, {"timeout_s": 1.0}, {"idempotent": True}, {"exclusive": True}, {"concurrent": True},
    ]  # fmt: skip
    digests = [definition_digest(attrs.evolve(spec, **change)) for change in changes]

    assert definition_digest(spec) == definition_digest(again)
    assert len({definition_digest(spec), *digests}) == len(changes) + 1
    assert all(len(digest) == 64 for digest in digests)


# ---- paths ------------------------------------------------------------------------------


def files(
    here: Path,
    note: Annotated[Path | None, Param("where to", min_length=2)] = None,
    many: list[Path] = [Path("a/b")],  # noqa: B006 (never changed)
    pure: PurePosixPath = PurePosixPath("c"),  # noqa: B008 (frozen)
    named: dict[str, Path] = {},  # noqa: B006 (never changed)
) -> object:
    return here, note, many, pure, named


def test_a_path_is_told_to_the_model_as_a_text_in_the_format_path() -> None:
    properties = function_tool(files).spec.parameters["properties"]

    assert isinstance(properties, Mapping)
    assert properties["here"] == {"type": "string", "format": "path"}
    assert thaw(properties["many"]) == {
        "type": "array", "items": {"type": "string"}, "format": "path", "default": ["a/b"]
    }  # fmt: skip
    assert [name for name, schema in properties.items() if cast("Any", schema)["format"] != "path"] == []


def test_a_function_gets_paths_made_of_the_decided_text() -> None:
    made = function_tool(files)
    data = made.normalise({"here": "./x//y/", "note": "zz", "named": {"k": "v"}})

    assert data == b'{"here":"./x//y/","many":["a/b"],"named":{"k":"v"},"note":"zz","pure":"c"}'
    assert made.normalise(json.loads(data)) == data
    assert made.bind(data, None)() == (Path("x/y"), Path("zz"), [Path("a/b")], PurePosixPath("c"), {"k": Path("v")})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"here": ""}, "$.here: expected a path, got an empty text"), ({"here": 3}, "$.here: 3 is not of type"),
        ({"here": None}, "$.here: null is not of type"), ({"here": "x", "many": [""]}, "expected a path, got an empty"),
        ({"here": "x", "note": "z"}, "$.note"),
    ],
)  # fmt: skip
def test_what_is_not_a_path_is_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentProblems) as refused:
        function_tool(files).normalise(arguments)

    assert says in "; ".join(refused.value.problems)


def test_a_path_in_a_union_with_anything_but_none_is_refused() -> None:
    def either(path: str | Path) -> None: ...

    with pytest.raises(TypeError, match=r"parameter 'path': type str \| pathlib\.(_local\.)?Path is not supported"):
        function_tool(either)


FLAT_TYPES = (
    str, int, bool, float, bytes, Any, Level, Path, PurePosixPath, uuid.UUID, Decimal, dt.date, dt.datetime,
    dt.timedelta, Literal["a", 1], int | None, Path | None, list[int], set[str], Annotated[int, Param(ge=1)],
    Annotated[str, Param(max_length=2)], Mapping[str, int], Point, Options,
)  # fmt: skip
FLAT_VALUES = st.one_of(
    st.text(max_size=4), st.integers(), st.booleans(),
    st.sampled_from(
        ["2020-01-01", "2020-01-01T00:00:00Z", str(uuid.UUID(int=5)), "1.5", "P1D", "YQ==", "a", 1, "\ud800"]
    ),
)  # fmt: skip


@given(st.sampled_from(FLAT_TYPES), FLAT_VALUES, st.sampled_from(["", "note", "other"]))
def test_arguments_without_inner_values_are_read_as_all_others_are(kind: Any, value: Any, more: str) -> None:
    def take(given: Any, note: str = "-", place: Path = Path("here")) -> None: ...

    take.__annotations__ = {"given": kind, "note": str, "place": Path, "return": None}
    arguments = {"given": value} | ({more: "x"} if more else {})

    def outcome() -> tuple[object, ...]:
        tool = function_tool(take)
        try:
            data = tool.normalise(arguments)
            bound: Any = tool.bind(data, None)
            return data, bound.keywords
        except ArgumentProblems as error:
            return error.problems

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pluggent_function_tools.function_tool.is_flat", lambda _: False)
        expected = outcome()
    assert outcome() == expected
