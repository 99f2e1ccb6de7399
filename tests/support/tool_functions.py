"""Functions as tools, for the tests of what is read from them and of how they are called."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pytest
from pluggent_hookspecs import Param
from pluggent_host.tools.arguments import ArgumentProblems
from pluggent_host.tools.function_tool import function_tool


class Unit(enum.StrEnum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@attrs.frozen
class Place:
    """Where it is."""

    city: Annotated[str, "name of the city"]
    days: Annotated[int, Param("how long", ge=1, le=7)] = 1
    title: str = ""


@dataclasses.dataclass
class Trip:
    stops: list[Place] = dataclasses.field(default_factory=list)


def call(function: Callable[..., Any], value: dict[str, Any], context: Any = None) -> Any:
    """Call *function* as a tool with *value* and return its result."""
    made = function_tool(function)
    return made.bind(made.normalise(value), context)()


def problems(function: Callable[..., Any], value: dict[str, Any]) -> tuple[str, ...]:
    """Return what is wrong with *value* as the arguments of *function*."""
    with pytest.raises(ArgumentProblems) as caught:
        function_tool(function).normalise(value)
    return caught.value.problems
