"""Whole turns of a host with this provider, against a server on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from gemini_schema import problems
from gemini_server import call, event, signed, sse, text, thought
from odd_server import OddServer, stream_answer
from pluggent_gemini.plugin import Gemini
from pluggent_hookspecs import Secret, tool
from pluggent_host import Host, Why

COUNTS = {"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 2, "totalTokenCount": 16}
ASKS = (thought("Adding."), signed(call("add", a=2, b=3), "c2ln"), call("add", a=4, b=5))

pytestmark = pytest.mark.usefixtures("patience")


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@asynccontextmanager
async def hosting(server: OddServer) -> AsyncIterator[Host]:
    plugin = Gemini(Gemini.Settings(base_url=server.url, api_key=Secret.of("key-7f3a-0123")))
    async with Host.open(model="gemini/gemini-3-flash", plugins=[plugin], tools=[add], installed=False) as host:
        yield host


def reply(*parts: Any) -> Any:
    *first, last = parts
    return stream_answer(*(sse(event(part)) for part in first), sse(event(last, ends="STOP", usage=COUNTS)))


async def test_a_turn_with_parallel_tools_goes_there_and_back() -> None:
    script = (reply(*ASKS), reply(signed(text("5 and 9."), "ZW5k")), reply(text("Bye.")))
    async with OddServer(*script) as server, hosting(server) as host, await host.session() as session:
        result = await session.say("What are 2 + 3 and 4 + 5?")
        await session.say("Thanks")

    bodies = [sent.json for sent in server.requests]
    assert (result.text, result.why) == ("5 and 9.", Why.COMPLETED)
    assert (result.usage.input, result.usage.output, result.usage.reasoning) == (20, 12, 4)
    assert [problems(body, signed=True) for body in bodies] == [[], [], []]
    reply_back = bodies[1]["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in reply_back] == [None, "c2ln", None]
    outputs = [part["functionResponse"]["response"] for part in bodies[1]["contents"][2]["parts"]]
    assert outputs == [{"output": "5"}, {"output": "9"}]
    assert bodies[2]["contents"][3]["parts"] == [signed(text("5 and 9."), "ZW5k")]


def test_a_provider_with_a_key_brings_no_library_of_google_along() -> None:
    code = (
        "import sys; from pluggent_gemini.plugin import Gemini; Gemini().provide_providers(None);"
        "print([name for name in sys.modules if name.split('.')[0] in ('google', 'httpx2', 'cryptography')])"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 (its own code)

    assert done.stdout.strip() == "[]"
