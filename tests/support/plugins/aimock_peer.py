"""Starts the mock of model servers that others wrote: npm @copilotkit/aimock."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Delta, ModelRequest, Provider, ProviderError, TextDelta

LONG = " ".join(f"word{number}" for number in range(60))
OK = {"content": "x"}
ODD_FIXTURES = [
    {"match": {"userMessage": "tell"}, "response": {"content": LONG}},
    {"match": {"userMessage": "limited", "sequenceIndex": 0}, "response": {
        "error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7}},
    {"match": {"userMessage": "limited"}, "response": {"content": "At last."}},
    {"match": {"userMessage": "malformed"}, "response": OK, "chaos": {"malformedRate": 1}},
    {"match": {"userMessage": "hang up"}, "response": OK, "chaos": {"disconnectRate": 1}},
    {"match": {"userMessage": "slow"}, "response": {"content": LONG}, "latency": 20000},
]  # fmt: skip
"""What it does whatever API it is asked by."""


@contextmanager
def aimock_at_work(peers: Path, folder: Path, fixtures: Sequence[Any]) -> Generator[str]:
    """Run it with *fixtures* and give its URL; skip the test if it is not installed in *peers*."""
    program = peers / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    node = shutil.which("node")
    if node is None or not program.is_file():
        pytest.skip(f"node or {program} is not there: npm install --prefix {peers} @copilotkit/aimock")
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
    command = [node, str(program), "--port", "0", "--fixtures", str(file), "--strict"]
    quiet = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet) as process:
        try:
            yield _address(process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "listening on " in line:
            return line.rpartition("listening on ")[2].strip()
    pytest.fail("aimock did not start: " + "".join(said))


def text_of(found: Sequence[Delta]) -> str:
    """Return the text in *found*."""
    return "".join(delta.text for delta in found if isinstance(delta, TextDelta))


async def cut_short(provider: Provider, asked: ModelRequest) -> tuple[str, ProviderError]:
    """Return the text that came before a stream broke, and what was raised then."""
    came: list[Delta] = []

    async def read() -> None:
        async for batch in provider.stream(asked):
            came.extend(batch)

    with pytest.raises(ProviderError) as caught:
        await read()
    return text_of(came), caught.value


def journal(url: str) -> list[Any]:
    """Return the requests that came, as the mock understood them; the last one last."""
    with urllib.request.urlopen(f"{url}/__aimock/journal", timeout=10) as answer:  # noqa: S310 (loopback)
        said: Any = json.loads(answer.read())
    found: list[Any] = said.get("entries", said) if hasattr(said, "get") else said
    return found
