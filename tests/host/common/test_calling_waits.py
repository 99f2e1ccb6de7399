"""Waiting for what runs in a task of its own: woken when it ends, however it ends."""

import asyncio

import pytest
from pluggent_host.common.threads import Threads
from pluggent_host.hooks.caller import Caller, Late

LONG_S = 60.0


@pytest.fixture
async def caller():
    threads = Threads()
    made = Caller(threads)
    yield made
    await made.close(1.0)
    threads.close()


async def ended(awaitable):
    """Return what *awaitable* comes to; it takes a moment, never as long as a limit is believed."""
    async with asyncio.timeout(0.9):
        return await awaitable


async def test_a_value_that_comes_later_is_returned(caller):
    async def later():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "value"

    assert await ended(caller.bounded(later(), lambda: LONG_S)) == "value"


async def test_an_error_that_comes_later_is_raised(caller):
    async def later():
        await asyncio.sleep(0)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await ended(caller.bounded(later(), lambda: LONG_S))


async def test_a_task_that_cancels_itself_wakes_whoever_waits(caller):
    async def own():
        own_task = asyncio.current_task()
        assert own_task is not None
        asyncio.get_running_loop().call_soon(own_task.cancel)
        await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await ended(caller.bounded(own(), lambda: LONG_S))


async def test_a_task_that_somebody_else_cancels_at_once_wakes_whoever_waits(caller):
    me = asyncio.current_task()

    def cancel_others():
        for task in asyncio.all_tasks() - {me}:  # where tasks do not start eagerly, before its first step
            task.cancel()

    async def hangs():
        await asyncio.Event().wait()

    asyncio.get_running_loop().call_soon(cancel_others)
    with pytest.raises(asyncio.CancelledError):
        await ended(caller.bounded(hangs(), lambda: LONG_S))


async def test_what_is_late_is_cancelled_and_left(caller):
    cancelled = asyncio.Event()

    async def hangs():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Late):
        await ended(caller.bounded(hangs(), iter((0.01, 0.0)).__next__))
    await ended(cancelled.wait())

    assert cancelled.is_set()
