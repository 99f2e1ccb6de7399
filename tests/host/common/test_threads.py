"""Blocking calls in daemon threads of the host's own: bounded in number, left behind when they hang."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest
from pluggent_host.common.running import Threads

name = contextvars.ContextVar("name", default="unset")


def end(threads: Threads) -> None:
    """Close the pool, and wait for threads that the test has just released."""
    threads.close()
    for thread in threading.enumerate():
        if thread.name.startswith("pluggent-"):
            thread.join(10)


@pytest.fixture
def threads():
    made = Threads()
    yield made
    end(made)


class Hang:
    """A function that says when it started and returns ``done`` when it is released."""

    def __init__(self) -> None:
        self.started, self.release, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.started.set()
        self.release.wait(10)
        self.ended.set()
        return "done"


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_returns_what_the_function_returns_from_a_daemon_thread(threads):
    """Calls one after the other share one thread."""
    thread = await threads.run(threading.current_thread)

    assert await threads.run(divmod, 7, 2) == (3, 1)
    assert thread.daemon
    assert thread.name.startswith("pluggent-")
    assert {await threads.run(threading.current_thread) for _ in range(20)} == {thread}


@pytest.mark.parametrize("error", [ValueError("no"), LookupError(), KeyboardInterrupt])
async def test_a_call_raises_what_the_function_raises(threads, error):
    def fail() -> None:
        raise error

    caught = None
    try:
        await threads.run(fail)
    except BaseException as raised:  # noqa: BLE001
        caught = raised

    assert caught is error or type(caught) is error


async def test_even_stop_iteration_reaches_the_caller(threads):
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(next, iter(()))


async def test_context_variables_go_in_and_do_not_come_out(threads):
    def visit() -> str:
        before = name.get()
        name.set("thread")
        return before

    name.set("caller")

    assert await threads.run(visit) == "caller"
    assert name.get() == "caller"


async def test_fifty_calls_run_at_once(threads):
    barrier = threading.Barrier(50)

    arrived = await asyncio.gather(*(threads.run(barrier.wait, 10) for _ in range(50)))

    assert sorted(arrived) == list(range(50))


async def test_no_more_than_the_allowed_number_runs_and_all_get_their_turn():
    threads = Threads(max_workers=3)
    lock = threading.Lock()
    inside = most = 0

    def enter(number: int) -> int:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1
        return number

    assert await asyncio.gather(*(threads.run(enter, n) for n in range(200))) == list(range(200))
    assert most <= 3
    end(threads)


async def test_a_cancelled_call_runs_on_and_is_reported_until_it_ends(threads):
    hang = Hang()
    task = asyncio.create_task(threads.run(hang, label="acme:tool/slow"))
    await threads.run(hang.started.wait, 10)
    await cancelled(task)

    assert threads.abandoned == {"acme:tool/slow"}
    hang.release.set()
    assert await threads.run(hang.ended.wait, 10)
    while threads.abandoned:  # it is taken off the list right after its work
        await threads.run(int)


async def test_a_cancelled_call_that_has_not_started_never_starts():
    threads, hang = Threads(max_workers=1), Hang()
    ran: list[str] = []

    first = asyncio.create_task(threads.run(hang))
    await asyncio.to_thread(hang.started.wait, 10)
    second = asyncio.create_task(threads.run(ran.append, "second"))
    third = asyncio.create_task(threads.run(ran.append, "third"))
    await asyncio.sleep(0)
    await cancelled(second)
    assert threads.abandoned == frozenset()
    hang.release.set()
    await asyncio.gather(first, third)

    assert ran == ["third"]
    end(threads)


async def test_calls_that_hang_give_their_place_to_others():
    threads, hangs = Threads(max_workers=2), [Hang(), Hang()]
    hanging = [asyncio.create_task(threads.run(hang)) for hang in hangs]
    await asyncio.sleep(0)
    waiting = asyncio.create_task(threads.run(str, 1))
    for hang in hangs:
        await asyncio.to_thread(hang.started.wait, 10)
    for task in hanging:
        await cancelled(task)

    assert await asyncio.wait_for(waiting, 10) == "1"
    assert await threads.run(str, 2) == "2"
    assert len(threads.abandoned) == 2
    for hang in hangs:
        hang.release.set()
    end(threads)


async def test_close_does_not_wait_and_refuses_what_has_not_started():
    threads, hang = Threads(max_workers=1), Hang()
    running = asyncio.create_task(threads.run(hang))
    await asyncio.to_thread(hang.started.wait, 10)
    waiting = asyncio.create_task(threads.run(str, 1))
    await asyncio.sleep(0)
    threads.close()
    threads.close()

    with pytest.raises(RuntimeError, match="the host is closed; this call was not started"):
        await waiting
    with pytest.raises(RuntimeError, match="the host is closed"):
        await threads.run(str, 2)
    hang.release.set()
    assert await running == "done"
    end(threads)


async def test_idle_threads_end_when_the_pool_is_closed():
    threads = Threads(name="closing")
    thread = await threads.run(threading.current_thread)

    threads.close()

    assert not thread.is_alive()


def test_one_pool_serves_several_event_loops(threads):
    async def twice() -> int:
        return await threads.run(int, "1") + await threads.run(int, "2")

    assert [asyncio.run(twice()) for _ in range(3)] == [3, 3, 3]


def test_a_loop_that_is_gone_does_not_hurt_the_thread(threads):
    release = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(threads.run(release.wait, 10))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    release.set()

    async def again() -> str:
        return await threads.run(str, 1)

    assert asyncio.run(again()) == "1"


def test_a_hung_thread_does_not_keep_the_process_alive():
    program = """
import asyncio, threading
from pluggent_host.common.running import Threads
async def main():
    task = asyncio.create_task(Threads().run(threading.Event().wait))
    await asyncio.sleep(0)
    task.cancel()
asyncio.run(main())
print("out")
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )

    assert (done.stdout, done.stderr) == ("out\n", "")
