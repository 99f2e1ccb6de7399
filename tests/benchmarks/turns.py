"""What a turn costs beside the same request sent by hand, and what a tool call costs with more and more policies."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2 as httpx
from calls import Nothing, add
from figures import row, show
from pluggent_hookspecs import Message, Secret
from pluggent_host import Host
from pluggent_openai.plugin import OpenAI
from pluggent_retry.plugin import Retry

ROUNDS = 7
PRIOR = 2000
CALLS = 50
KEY = "not-a-secret"
ROLES = ("user", "assistant")


def main() -> None:
    """Print both tables."""
    os.environ["BENCHMARK_KEY"] = KEY
    with server() as url:
        asyncio.run(print_turns(url))
        asyncio.run(print_tool_calls(url))


@contextmanager
def server() -> Iterator[str]:
    """Run the server in a process of its own, so that its time is not counted."""
    program = Path(__file__).with_name("server.py")
    with subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.stdin.close()


async def print_turns(url: str) -> None:
    """Compare a turn with the bare request, without and with a long history."""
    show("one turn, no tools", "CPU ms")
    pairs = [(f"question {number} about something", f"answer {number}, about as long") for number in range(PRIOR // 2)]
    for prior, said in ((0, []), (PRIOR, pairs)):
        async with httpx.AsyncClient() as client:
            plain = [{"role": role, "content": text} for pair in said for role, text in zip(ROLES, pair, strict=True)]
            await measure(f"bare httpx2, {prior} prior messages", partial(bare_turn, client, url, plain), 20)
        history = tuple(message for user, ours in said for message in (Message.user(user), Message.assistant(ours)))
        async with host(url, "plain") as opened:
            await measure(f"pluggent, {prior} prior messages", partial(turn, opened, history), 20)


async def print_tool_calls(url: str) -> None:
    """Print what one more call of a tool costs; the rest of the turn is subtracted."""
    show(f"one tool call (a turn with {CALLS + 1}, minus a turn with 1)", "CPU µs")
    for count in (0, 1, 10):
        policies = [Nothing() for _ in range(count)]
        async with host(url, "calls-1", policies) as one, host(url, f"calls-{CALLS + 1}", policies) as many:
            first = [await cost(partial(turn, one), 10) for _ in range(ROUNDS)]
            all_of_them = [await cost(partial(turn, many), 10) for _ in range(ROUNDS)]
        row(f"{count} policies", [1000 * (each - min(first)) / CALLS for each in all_of_them])


def host(url: str, model: str, policies: list[Nothing] | None = None):
    """Return a host that is to be opened, with a provider and retries and nothing else that happens to be installed."""
    plugins = [OpenAI(OpenAI.Settings(base_url=url, api_key=Secret("env:BENCHMARK_KEY"))), Retry()]
    return Host.open(model=f"openai/{model}", tools=[add], plugins=plugins, policies=policies or [], installed=False)


async def bare_turn(client: httpx.AsyncClient, url: str, prior: list[dict[str, str]]) -> None:
    """Send what a turn sends, and read the answer."""
    body = {"model": "plain", "messages": [*prior, {"role": "user", "content": "and now?"}]}
    answer = await client.post(f"{url}/chat/completions", json=body, headers={"Authorization": f"Bearer {KEY}"})
    assert json.loads(answer.content)["choices"][0]["message"]["content"] == "ok"


async def turn(opened: Host, history: tuple[Message, ...] = ()) -> None:
    """Say one thing in a session of its own."""
    session = await opened.session(history=history)
    assert (await session.say("and now?")).text == "ok"
    await session.aclose()


async def measure(name: str, work: Callable[[], Awaitable[None]], times: int) -> None:
    """Print what one *work* costs."""
    await cost(work, 3)
    row(name, [await cost(work, times) for _ in range(ROUNDS)], digits=2)


async def cost(work: Callable[[], Awaitable[None]], times: int) -> float:
    """Return the CPU milliseconds of one *work*, as the mean of several *times*."""
    before = time.process_time()
    for _ in range(times):
        await work()
    return 1000 * (time.process_time() - before) / times
