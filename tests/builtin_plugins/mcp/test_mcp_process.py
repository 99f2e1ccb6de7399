"""A process whose start, or whose end, is given up is not lost."""

import asyncio
import logging
import os
import sys

import pytest
from fork_server import children
from pluggent_mcp.client.process import start_process, stop
from pluggent_mcp.settings import Server

WAIT_S = 20.0
LASTING = "import signal; signal.pause()"


@pytest.mark.parametrize("rounds", range(1, 9))
async def test_a_start_that_is_given_up_leaves_no_process_and_no_warning(rounds, caplog):
    caplog.set_level(logging.WARNING)
    server = Server(command=sys.executable, args=("-c", LASTING))
    starting = asyncio.create_task(start_process(server, os.environ, f"mark{rounds}"))
    for _ in range(rounds):
        await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(WAIT_S):
        await asyncio.wait((starting,))

    assert starting.cancelled()
    assert caplog.messages == []
    assert children() == set()


async def test_a_stop_that_is_given_up_kills_at_once_and_warns_of_nothing(caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(5):
        child = await start_process(Server(command=sys.executable, args=("-c", LASTING)), os.environ, "mark")
        stopping = asyncio.create_task(stop(child, WAIT_S, "mark"))
        await asyncio.sleep(0)
        stopping.cancel()
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait((stopping,))
            await child.exited.wait()
        assert child.returncode == -9

    assert caplog.messages == []
