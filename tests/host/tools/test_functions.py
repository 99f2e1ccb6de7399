import asyncio
import dataclasses
import datetime as dt
import enum
import functools
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import attrs
import msgspec
import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import Effect, Param, Tool, tool
from pluggent_host.tools.arguments import ArgumentProblems, Checker
from pluggent_host.tools.function_tool import definition_digest, function_tool
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


def test_a_set_is_in_order_also_beside_a_mapping_with_integer_keys():
    def pick(names: frozenset[str], seats: dict[int, str]) -> str:
        """Pick."""
        return ", ".join([*sorted(names), *seats.values()])

    names = [f"name-{number:02}" for number in range(30)]
    made = function_tool(pick)

    normal = made.normalise({"names": names[::-1], "seats": {"2": "b", "10": "a"}})

    assert msgspec.json.decode(normal)["names"] == names
    assert made.normalise(msgspec.json.decode(normal)) == normal


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


@pytest.mark.parametrize("thing", [print, int, functools.partial(print), object()])
def test_only_functions_and_bound_methods_become_tools(thing):
    with pytest.raises(TypeError, match="is not a function"):
        function_tool(thing)


def test_generators_are_refused():
    def f():
        yield 1

    async def g():
        yield 1

    for function in (f, g):
        with pytest.raises(TypeError, match="a generator cannot be a tool"):
            function_tool(function)


def test_mutable_defaults_are_fresh_for_every_call():
    def f(tags: list[str] = ["a"], places: list[Place] = [Place("Oslo")]) -> Any:  # noqa: B006, B008 (the case)
        tags.append("b")
        return tags, places

    assert call(f, {}) == call(f, {}) == (["a", "b"], [Place("Oslo")])


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
    "data", [b'{"a":1, "b":2}', b'{"b":2,"a":1}', b'{"a":1}', b'{"a":1,"b":2}', b'{"a":1,"b":', b"[]"]
)
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
