"""A batch of three calls, the one in the middle of which stops what is behind it."""

from __future__ import annotations

import inspect
from typing import Any

from pluggent_hookspecs import ToolContext, tool
from pluggent_testing.fakes import call

SKIPPED = (
    "This call was not run: 'gate', a call before it in the same reply, {}, and what stands behind it runs"
    " only if it succeeds. Look at that result first."
)
BATCH = (call("before"), call("gate"), call("behind"))


class Tools:
    """Three tools; ``gate`` stops what is behind it, and does what ``does`` says."""

    def __init__(self, does: Any = None, **marks: Any) -> None:
        self.ran: list[str] = []
        self.does = does
        self.marks: dict[str, Any] = {"effects": (), "stops_batch": True, **marks}

    def all(self) -> list[Any]:
        """Return ``before``, ``gate`` and ``behind``."""

        @tool(effects=())
        async def before() -> str:
            """Run."""
            self.ran.append("before")
            return "before"

        @tool(**self.marks)
        async def gate(context: ToolContext) -> Any:
            """Run, or not."""
            self.ran.append("gate")
            if isinstance(self.does, BaseException):
                raise self.does
            result = self.does(context) if callable(self.does) else self.does
            return await result if inspect.isawaitable(result) else result

        @tool(effects=("shell",))
        async def behind() -> str:
            """Run."""
            self.ran.append("behind")
            return "behind"

        return [before, gate, behind]
