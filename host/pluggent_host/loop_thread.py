"""A thread that runs an event loop with one host in it, for callers in other threads."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from pluggent_hookspecs.errors import SessionError

from pluggent_host.host import Host

T = TypeVar("T")
ENDING_S = 30.0
"""How long a call that its caller no longer waits for may take to end, in seconds."""


class LoopThread:
    """A thread with an event loop, in which one host is open."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._opened: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Host]] = Future()
        self._closed: Future[None] = Future()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name="pluggent-loop", daemon=True)

    def open(self) -> Host:
        refuse_running_loop()
        self._thread.start()
        try:
            self._loop, self._stop, host = self._opened.result()
        except KeyboardInterrupt:
            self._opened.add_done_callback(_close_at_once)
            raise
        # A program may end without closing; its plugins are closed all the same.
        atexit.register(self.close)
        return host

    def close(self) -> None:
        atexit.unregister(self.close)
        if os.getpid() != self._process:
            return  # a fork has no thread of its parent's; the parent closes what is its own
        if not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it has closed since
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._closed.result()

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the loop and wait for it; a KeyboardInterrupt here cancels it there."""
        refuse_running_loop()
        ended = threading.Event()

        async def run() -> T:
            try:
                return await make()
            finally:
                ended.set()

        running = self.start(run)
        try:
            return running.result()
        except CancelledError:
            raise SessionError("the host was closed in the middle of this call") from None
        except BaseException:
            if running.cancel():
                ended.wait(ENDING_S)
            raise

    def start(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine in the loop."""
        if os.getpid() != self._process:
            raise SessionError("this host was opened before a fork; open one in each process")
        if self._stop.is_set() or self._loop.is_closed():
            raise SessionError("the host is closed; open another one with SyncHost.open(…)")
        coroutine = make()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # it has closed since
            coroutine.close()
            raise SessionError("the host is closed; open another one with SyncHost.open(…)") from None

    def wake(self, event: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(event.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 (handed to whoever opens or closes)
            if self._opened.done():
                self._closed.set_exception(error)
            else:
                self._opened.set_exception(error)
        else:
            self._closed.set_result(None)

    async def _main(self) -> None:
        async with Host.open(**self._options) as host:
            stop = asyncio.Event()
            self._opened.set_result((asyncio.get_running_loop(), stop, host))
            await stop.wait()


def _close_at_once(opened: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Host]]) -> None:
    """Nobody waits for this host any more."""
    if opened.exception() is None:
        opened.result()[1].set()


def refuse_running_loop() -> None:
    """Raise SessionError in a thread that runs an event loop: to block it would be a deadlock."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SessionError("a SyncHost blocks, and this thread runs an event loop; use `Host.open(…)` and await there")
