"""A process whose start is given up is not lost."""

import asyncio
import logging
import os
import sys

import pytest
from pluggent_mcp.process import started
from pluggent_mcp.settings import Server

WAIT_S = 20.0
LASTING = "import signal; signal.pause()"


@pytest.mark.parametrize("rounds", range(1, 9))
async def test_a_start_that_is_given_up_leaves_no_process_and_no_warning(rounds, caplog):
    caplog.set_level(logging.WARNING)
    server = Server(command=sys.executable, args=("-c", LASTING))
    starting = asyncio.create_task(started(server, os.environ, f"mark{rounds}"))
    for _ in range(rounds):
        await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(WAIT_S):
        await asyncio.wait((starting,))

    assert starting.cancelled()
    assert caplog.messages == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222 (it does not wait)
