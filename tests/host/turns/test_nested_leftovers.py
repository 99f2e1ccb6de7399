"""What a tool has begun below its call ends with the call, and asks nobody any more."""

import asyncio

import pytest
from pluggent_hookspecs import LimitReached, MemoryItem, ToolContext, hookimpl, tool
from policy_stage import Store
from talking import WAIT_S, hosting

LEFT = []
"""Tasks that a tool has left behind; emptied by each test."""


class Slow:
    """A policy that decides about one tool when it is told to."""

    def __init__(self):
        self.deciding = asyncio.Event()
        self.go_on = asyncio.Event()

    @hookimpl
    async def decide_tool_call(self, event):
        if event.tool.name == "light":
            self.deciding.set()
            await self.go_on.wait()

    @hookimpl
    async def decide_memory_write(self, event):
        self.deciding.set()
        await self.go_on.wait()


@pytest.fixture
def left():
    LEFT.clear()
    return LEFT


@tool(effects=("shell",))
def light() -> str:
    """Light a lamp."""
    raise AssertionError("it ran after the call that wanted it")


@tool(effects=())
async def leaver(context: ToolContext) -> str:
    """Begin another call, and leave."""
    LEFT.append(asyncio.create_task(context.call_tool("light", {}), name="left"))
    await asyncio.sleep(0)
    return "gone"


@tool(effects=())
async def forgetful(context: ToolContext) -> str:
    """Begin to remember something, and leave."""
    memory = context.memory()
    LEFT.append(asyncio.create_task(memory.save([MemoryItem("n", "k", "v")]), name="left"))
    LEFT.append(memory)
    await asyncio.sleep(0)
    return "gone"


async def test_a_call_that_is_left_behind_is_cancelled_before_anybody_is_asked(left):
    policy, asked = Slow(), []

    def approve(event):
        asked.append(event.capability)
        return True

    async with (
        hosting(tools=[leaver, light], policies=[policy], strict=True, approver=approve) as host,
        await host.session() as session,
    ):
        assert (await session.call_tool("leaver", {})).for_model == "gone"
        policy.go_on.set()
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait(left)

    assert [task.cancelled() for task in left] == [True]
    assert asked == []


async def test_memory_that_was_lent_is_lent_for_the_call_alone(left):
    policy, store = Slow(), Store()
    async with (
        hosting(tools=[forgetful], policies=[policy], plugins=[store]) as host,
        await host.session() as session,
    ):
        assert (await session.call_tool("forgetful", {})).for_model == "gone"
        policy.go_on.set()
        saving, memory = left
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait((saving,))
        with pytest.raises(LimitReached):
            await memory.get("n", "k")

    assert saving.cancelled()
    assert store.calls == []
