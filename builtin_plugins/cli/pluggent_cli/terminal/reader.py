"""Reads from a descriptor without holding the event loop, and without a thread that stays. POSIX only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading

PASTE_S = 0.05
"""What a terminal sends within this time was pasted, not typed."""
_BLOCK = 65_536


async def read_some(descriptor: int, within_s: float | None = None) -> bytes:
    """Return the next bytes of *descriptor*.

    ``b""`` at its end, for a terminal that is gone, and if nothing comes *within_s* seconds.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    wake, waker = os.pipe()

    def settle(data: bytes) -> None:
        if not answer.done():
            answer.set_result(data)

    def read() -> None:
        data = b""
        with contextlib.suppress(OSError):
            ready, _, _ = select.select([descriptor, wake], [], [], within_s)
            data = os.read(descriptor, _BLOCK) if ready == [descriptor] else b""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the reader is gone
            loop.call_soon_threadsafe(settle, data)

    # A thread and select(), not add_reader(): kqueue does not take a terminal, epoll no file.
    thread = threading.Thread(target=read, name="pluggent-reading", daemon=True)
    thread.start()
    try:
        return await answer
    finally:
        os.close(waker)  # wakes the thread if it still waits
        thread.join()
        os.close(wake)
