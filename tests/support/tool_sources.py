"""Sources of tools that are asked, fail, hang or change as a test says, and functions as tools."""

import asyncio
import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import attrs
import pytest
from pluggent_function_tools.arguments import ArgumentProblems
from pluggent_function_tools.function_tool import function_tool
from pluggent_hookspecs import Param, ToolOutput, ToolSpec, hookimpl


class Named:
    """A tool called *name*; *says* is what it does, in its definition and in its results."""

    def __init__(self, name: str, says: str = "fine") -> None:
        self.spec = ToolSpec(name, says, effects=())
        self.calls = 0

    async def call(self, arguments: Any, context: Any) -> ToolOutput:
        self.calls += 1
        return ToolOutput(f"{self.spec.name} is {self.spec.description}")


class Listed:
    """A source of *tools*: names, Tool objects, or an error that it raises. ``asked`` counts."""

    def __init__(self, *tools: Any, **attributes: Any) -> None:
        self.gives: Sequence[Any] = tools
        self.asked = 0
        vars(self).update(attributes)

    async def tools(self) -> list[Any]:
        self.asked += 1
        for each in self.gives:
            if isinstance(each, BaseException):
                raise each
        return [Named(each) if isinstance(each, str) else each for each in self.gives]


class Changing(Listed):
    """A source whose tools change: ``now`` says what they are from then on."""

    revision = 0

    def now(self, *tools: Any) -> None:
        self.gives = tools
        self.revision += 1


class Meeting(Listed):
    """Sources that answer only when *number* of them are being asked at once."""

    def __init__(self, barrier: asyncio.Barrier, *tools: Any) -> None:
        super().__init__(*tools)
        self._barrier = barrier

    async def tools(self) -> list[Any]:
        await self._barrier.wait()
        return await super().tools()


class Hanging(Listed):
    """A source that never answers, and takes no notice of being cancelled until *let_go* is set."""

    def __init__(self, *tools: Any, **attributes: Any) -> None:
        super().__init__(*tools, **attributes)
        self.let_go = asyncio.Event()

    async def tools(self) -> list[Any]:
        self.asked += 1
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return []


class Brings:
    """A plugin in code that offers *things*."""

    def __init__(self, *things: Any) -> None:
        self.things = things

    @hookimpl
    def provide_tools(self, event: object) -> list[Any]:
        return list(self.things)


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
