"""What a call costs ``pluggent mcp serve`` over HTTP, beside a server of the SDK's own with the same tool. Linux alone.

PYTHON tests/benchmarks/bench_serving.py
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import row, show
from mcp import Client

ROUNDS = 12
CALLS = 100
MOST_ABOVE = 1.5
"""Of what the SDK's own server takes."""
OURS = "pluggent[mcp]"
PROTOCOLS = {"2025-11-25": "legacy", "2026-07-28": "auto"}
POLICIES = ("audit", "budget", "guard", "office-hours", "permissions", "redact")
"""What ``pluggent[mcp]`` does not bring along: audit writes three lines a call, redact looks into all texts."""
OWN = """
import asyncio, sys, uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("own")

@server.tool()
async def weather(city: str) -> str:
    "Say how the weather is in a city."
    return f"{city}: 21 degrees, sunny"

async def main():
    config = uvicorn.Config(server.streamable_http_app(), port=0, log_level="error")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.01)
    print(f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/mcp", flush=True)
    await task

asyncio.run(main())
"""


def main() -> None:
    """Print the table."""
    if sys.platform != "linux":
        print("\nserved calls: the CPU time of another process is known on Linux alone")
        return
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        for protocol, mode in PROTOCOLS.items():
            show(f"a served call over HTTP, {protocol}", "CPU µs")
            asyncio.run(print_served(mode, Path(scratch)))


async def print_served(mode: str, scratch: Path) -> None:
    """Compare the three servers, asked in turn."""
    pluggent = [str(Path(sys.executable).with_name("pluggent"))]
    serve = ["mcp", "serve", "--http", "127.0.0.1:0", "--token", "none", "--tools", "weather"]
    commands = {
        "the SDK's own server": [sys.executable, "-c", OWN],
        OURS: [*pluggent, "--without", ",".join(f"pluggent-{each}" for each in POLICIES), *serve],
        "the same with all policy plugins, audit and redact at work": [*pluggent, *serve],
    }
    figures: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serving(command, scratch)) for name, command in commands.items()}
        for number in range(ROUNDS + 1):
            for name, (url, pid) in servers.items():
                spent = await cost(url, pid, mode)
                if number:  # the first is for warming up
                    figures[name].append(spent)
    own, *ours = figures
    most = round(row(own, figures[own]) * MOST_ABOVE, 1)
    for name in ours:
        row(name, figures[name], goal=most if name == OURS else None)


async def cost(url: str, pid: int, mode: str) -> float:
    """Return the CPU microseconds of the process *pid* for one call."""
    async with Client(url, mode=mode, cache=None) as client:
        await client.call_tool("weather", {"city": "Paris"})
        before = time.clock_gettime(_clock_of(pid))
        for _ in range(CALLS):
            await client.call_tool("weather", {"city": "Paris"})
        return 1e6 * (time.clock_gettime(_clock_of(pid)) - before) / CALLS


def _clock_of(pid: int) -> int:
    """Return the id of the CPU clock of the process *pid*; see clock_getcpuclockid(3)."""
    return (~pid << 3) | 2


@contextmanager
def serving(command: Sequence[str], scratch: Path) -> Generator[tuple[str, int]]:
    """Run a server until the block ends; yield its URL and its pid."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(scratch), "PLUGGENT_STATE_DIR": str(scratch / "state")}
    with subprocess.Popen(
        command, cwd=scratch, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            while "http://" not in (line := process.stdout.readline()):
                assert line, "it ended before it listened"
            url = next(word for word in line.split() if word.startswith("http://"))
            yield url.rstrip(".,;"), process.pid
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
