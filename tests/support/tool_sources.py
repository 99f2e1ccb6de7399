"""Sources of tools for tests: each is asked, fails, hangs or changes as it is told."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pluggent_hookspecs import ToolOutput, ToolSpec, hookimpl


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
