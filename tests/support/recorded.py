"""Turns of every kind, each played in a session until its end: material for what is durable."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from pluggent_hookspecs import ProviderError, ProviderErrorKind, ToolContext, ToolError, tool
from pluggent_host import Limits, Session
from pluggent_testing.fakes import Reply, call


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=("filesystem_write",))
async def write(n: int) -> str:
    """Write a number."""
    return f"written {n}"


@tool(effects=("filesystem_write",))
async def fail(n: int) -> str:
    """Fail."""
    raise ToolError(f"failed {n}")


@tool(effects=("filesystem_write",), timeout_s=0.01)
async def hang(n: int) -> str:
    """Hang until the deadline."""
    await asyncio.Event().wait()
    return f"never {n}"


@tool(effects=())
async def delegate(context: ToolContext, n: int) -> str:
    """Let another tool write."""
    return str((await context.call_tool("write", {"n": n})).for_model)


TOOLS = [add, write, fail, hang, delegate]

_BROKEN = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
_BATCH = (
    call("write", "a", n=1), call("add", "b", a=1, b=2), call("nobody", "c"), call("write", "d", n=2),
    call("fail", "e", n=3), call("add", "f", a=1),
)  # fmt: skip
_SAME = (call("write", "x", n=1), call("write", "x", n=2), call("add", "", a=1, b=2))

SCRIPTS: dict[str, tuple[Reply, ...]] = {
    "an answer": ("hello",),
    "a tool round": (call("add", a=1, b=2), "it is 3"),
    "three rounds of one id": (*[call("write", "x", n=n) for n in range(3)], "done"),
    "a batch of everything": (_BATCH, "done"),
    "doubled ids": (_SAME, _SAME, "done"),
    "a limit": tuple(call("write", f"c{n}", n=n) for n in range(9)),
    "a provider that fails": (call("write", n=1), _BROKEN),
    "a time-out": ((call("hang", "a", n=1), call("write", "b", n=2)), "done"),
    "a nested call": (call("delegate", n=5), "done"),
}
"""What the model says in a turn of each kind."""

LIMITS = Limits(tool_rounds=4)


async def play(session: Session, kind: str) -> None:
    """Play the turn called *kind*, and one direct call after it."""
    with suppress(ProviderError):  # it is part of the play
        await session.say(f"play {kind}")
    await session.call_tool("write", {"n": 9})
