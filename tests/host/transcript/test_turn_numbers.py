"""Numbers of turns, of which idempotency keys are made: each is given once, whatever became of a turn."""

from typing import Any

import pytest
from pluggent_hookspecs import ToolContext, tool
from pluggent_hookspecs.sessions import Line
from pluggent_host import Host
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_testing.sessions import MemorySessions


class FullDisk(MemorySessions):
    """A store whose logs cannot be written while it is ``full``."""

    full = False

    def open(self, session_id: str) -> Any:
        log: Any = super().open(session_id)
        write = log.append

        def append(*lines: Line) -> None:
            if self.full:
                raise OSError("no space left on device")
            write(*lines)

        log.append = append
        return log


async def test_a_turn_that_could_not_be_written_leaves_its_number_to_no_other():
    keys: list[str] = []

    @tool(effects=())
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    store = FullDisk()

    def host(*replies: Any) -> Any:
        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies)], installed=False, sessions=store, tools=[pay]
        )

    async with host(call("pay"), "one") as opened, await opened.session("s") as session:
        store.full = True
        with pytest.raises(OSError, match="no space"):
            await session.say("pay")
        store.full = False
        await session.say("pay")
    async with host(call("pay"), "two") as opened, await opened.session("s") as session:
        await session.say("pay again")

    assert keys == ["s.t2.0.0", "s.t3.0.0"]
