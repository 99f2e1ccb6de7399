"""What a call of an MCP server's tool costs above the SDK's bare client, and what several servers cost to start.

PYTHON tests/benchmarks/bench_mcp.py
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "builtin_plugins" / "mcp" / "support"))

from figures import row, show
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_using import PEER, Context, peer, talking, told, using
from pluggent_mcp.settings import Server

ROUNDS = 12
CALLS = 100
MOST_ABOVE = 1.10
"""Of what the SDK's client alone takes."""
DELAYS_S = tuple(tenths / 10 for tenths in range(1, 9))
"""What servers take before they start."""
MOST_ABOVE_SLOWEST = 1.5
"""Of what the slowest server alone takes; their sum is four and a half times that."""
SUPPORT = sys.path[:2]
OVER_HTTP = f"""
import asyncio, sys
sys.path[:0] = {SUPPORT!r}
from mcp_sdk import listening, made

async def main():
    async with listening(made().streamable_http_app(json_response=True)) as url:
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
SLOW = f"""
import runpy, sys, time
time.sleep({{}})
sys.argv = ["x"]
sys.path[:0] = {SUPPORT!r}
runpy.run_path({str(PEER)!r}, run_name="__main__")
"""


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
    """Compare over HTTP; the server is a process of its own, whose cost is in neither figure."""
    show("a call over HTTP", "CPU µs")
    with listening() as url:
        async with Client(url, cache=None) as client, using(web=Server(url=url)) as used:
            await client.list_tools()
            context = Context()
            bare, ours = await compared(
                lambda: client.call_tool("add", {"a": 1, "b": 2}, progress_callback=ignored),
                lambda: used.call("web__add", context, a=1, b=2),
            )
    print_compared(bare, ours)


@contextmanager
def listening() -> Generator[str]:
    """Run a server over HTTP until the block ends; yield its URL."""
    command = [sys.executable, "-c", OVER_HTTP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"{process.stdout.readline().strip()}/mcp"
        process.stdin.close()


def print_compared(bare: list[float], ours: list[float]) -> None:
    """Print both and hold ours against the goal."""
    least = row("the SDK's client alone", bare)
    row("the same through the plugin", ours, goal=round(least * MOST_ABOVE, 1))


async def print_starts() -> None:
    """Print what servers cost together that each take a time of their own to start: the slowest, not the sum."""
    slowest = max(DELAYS_S)
    show(f"servers that take {min(DELAYS_S)} to {slowest} s to start", "wall s")
    alone = row("the slowest alone", [await started((slowest,)) for _ in range(3)], 2)
    together = [await started(DELAYS_S) for _ in range(3)]
    row(f"all {len(DELAYS_S)}, {sum(DELAYS_S):.1f} s in sum", together, 2, goal=round(alone * MOST_ABOVE_SLOWEST, 2))


async def started(delays_s: tuple[float, ...]) -> float:
    """Return the seconds until servers that take *delays_s* to start have all listed their tools."""
    commands = [SLOW.format(delay_s) for delay_s in delays_s]
    servers = {f"s{number}": Server(command=sys.executable, args=("-c", code)) for number, code in enumerate(commands)}
    before = time.perf_counter()
    async with using(**servers) as used:
        took = time.perf_counter() - before
        assert not used.failures, used.failures
    return took


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
