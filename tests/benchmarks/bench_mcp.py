"""What a call of an MCP server's tool costs above the SDK's bare client, and what several servers cost to start.

PYTHON tests/benchmarks/bench_mcp.py
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from figures import row, show
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_sdk import listening, made
from mcp_sessions import talking
from mcp_using import PEER, Context, peer, told, using
from pluggent_mcp.settings import Server

ROUNDS = 12
CALLS = 100
MOST_ABOVE = 1.10
"""Of what the SDK's client alone takes."""


def main() -> None:
    """Print the tables."""
    asyncio.run(print_pipe())
    asyncio.run(print_http())
    asyncio.run(print_starts())


async def print_pipe() -> None:
    """Compare over a pipe, with a server that costs next to nothing."""
    show("a call over a pipe", "CPU µs")
    parameters = StdioServerParameters(command=sys.executable, args=[str(PEER)])
    async with Client(parameters, mode="legacy", cache=None) as client, using(one=peer()) as used:
        await client.list_tools()
        context = Context()
        bare, ours = await compared(
            lambda: client.call_tool("echo", {"text": "x"}, progress_callback=ignored),
            lambda: used.call("one__echo", context, text="x"),
        )
    print_compared(bare, ours)
    async with talking({"one": told(effects={"*": []})}) as session:
        hosted, _ = await compared(lambda: session.call_tool("one__echo", {"text": "x"}), nothing)
    row("in a host, with all its policies and records", hosted)


async def print_http() -> None:
    """Compare over HTTP; the server is in this process, so that its cost is in both figures."""
    show("a call over HTTP, with the server's own part", "CPU µs")
    async with (
        listening(made().streamable_http_app(json_response=True)) as url,
        Client(f"{url}/mcp", cache=None) as client,
        using(web=Server(url=f"{url}/mcp")) as used,
    ):
        await client.list_tools()
        context = Context()
        bare, ours = await compared(
            lambda: client.call_tool("add", {"a": 1, "b": 2}, progress_callback=ignored),
            lambda: used.call("web__add", context, a=1, b=2),
        )
    print_compared(bare, ours)


def print_compared(bare: list[float], ours: list[float]) -> None:
    """Print both and hold ours against the goal."""
    least = row("the SDK's client alone", bare)
    row("the same through the plugin", ours, goal=round(least * MOST_ABOVE, 1))


async def print_starts() -> None:
    """Print what servers that take half a second to start cost together."""
    show("servers that take half a second each to start", "wall s")
    code = "import runpy, sys, time; time.sleep(0.5); sys.argv = ['x']; runpy.run_path({!r}, run_name='__main__')"
    command = Server(command=sys.executable, args=("-c", code.format(str(PEER))))
    for count in (1, 8):
        values: list[float] = []
        for _ in range(3):
            before = time.perf_counter()
            async with using(**{f"s{number}": command for number in range(count)}) as used:
                values.append(time.perf_counter() - before)
                assert not used.failures
        row(f"{count} at once", values, 2)


async def compared(
    first: Callable[[], Awaitable[object]], second: Callable[[], Awaitable[object]]
) -> tuple[list[float], list[float]]:
    """Return the CPU microseconds of one of each, measured in turn: what slows one slows the other."""
    figures: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS + 1):
        for work, values in zip((first, second), figures, strict=True):
            before = time.process_time()
            for _ in range(CALLS):
                await work()
            if number:  # the first is for warming up
                values.append(1e6 * (time.process_time() - before) / CALLS)
    return figures


async def ignored(progress: float, total: float | None, message: str | None) -> None:
    """Take no notice of progress."""


async def nothing() -> Any:
    """Do nothing."""


if __name__ == "__main__":
    main()
