"""Programs for tests: a mark by which all processes of one are found, and the mechanisms that this machine has."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pluggent_process_engine.mechanisms import Mechanisms, find_mechanisms
from pluggent_process_engine.program import Outcome, Program
from pluggent_process_engine.running import run

WAIT_S = 30.0
"""How long a test waits for what is sure to come."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds processes that left their group")


def only(how: str) -> Mechanisms:
    """Return this machine's mechanisms without all but *how*; skips the test where that is missing."""
    found = find_mechanisms()
    if how == "bubblewrap" and not found.bubblewrap:
        pytest.skip(found.why_not)
    if how == "landlock" and not found.landlock:
        pytest.skip("this kernel has no Landlock")
    if how == "bubblewrap":
        return Mechanisms(bubblewrap=found.bubblewrap)
    if how == "landlock":
        return Mechanisms(landlock=found.landlock, netns=found.netns, why_not="not wanted")
    return Mechanisms(why_not="not wanted")


class Marked:
    """A mark in the environment of a program, by which its processes are counted."""

    def __init__(self) -> None:
        self.env = {"TEST_MARK": uuid.uuid4().hex}

    def pids(self) -> list[int]:
        """Return the living processes with the mark."""
        wanted = f"TEST_MARK={self.env['TEST_MARK']}".encode()
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _has(path, wanted)]

    async def until(self, condition: Callable[[int], bool]) -> None:
        """Wait until the number of processes fits *condition*."""
        async with asyncio.timeout(WAIT_S):
            while not condition(len(self.pids())):  # noqa: ASYNC110 (the kernel has no event for it)
                await asyncio.sleep(0.01)


def _has(process: Path, wanted: bytes) -> bool:
    with suppress(OSError):
        alive = b") Z " not in (process / "stat").read_bytes()
        return alive and wanted in (process / "environ").read_bytes().split(b"\0")
    return False


async def ran(*argv: str, cwd: Path, found: Mechanisms | None = None, **options: Any) -> tuple[Outcome, str]:
    """Run a program; return its end and its output."""
    said: list[bytes] = []
    async with asyncio.timeout(WAIT_S):
        outcome = await run(Program(argv, cwd=cwd, **options), lambda _, data: said.append(data), found=found)
    return outcome, b"".join(said).decode("utf-8", "replace")


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))
