"""The same host for programs without an event loop, safe to use from many threads at once.

One thread of its own runs the loop; calls from other threads wait there. Nothing is
implemented twice: every method does what the one of the same name does in Host and Session.
Event streams of a host or a session are for code with a loop.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, overload

from pluggent_hookspecs import MemoryAccess, Message, Usage
from pluggent_hookspecs.background import BatchResult
from pluggent_hookspecs.decisions import Approval
from pluggent_hookspecs.errors import SessionError
from pluggent_hookspecs.observations import Observation
from pluggent_transcript.entries import Entry
from pluggent_transcript.pending import Pending

from pluggent_host.assembly import Answerer, Approver, people
from pluggent_host.batches import HostBatches
from pluggent_host.host import Host
from pluggent_host.operations.batch import Batch
from pluggent_host.session import OfferedTool, Session
from pluggent_host.tools.selection import ToolChoice
from pluggent_host.turns.options import Content, TurnOptions
from pluggent_host.turns.result import WAITING_EVENTS, TurnResult, TurnStream

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 (the type of what a facade stands before)
P = ParamSpec("P")
ENDING_S = 30.0
"""How long a call that its caller no longer waits for may take to end, in seconds."""


class _Facade(Generic[I]):
    """An object that lives in the loop of another thread."""

    def __init__(self, loop: LoopThread, inner: I) -> None:
        self._loop = loop
        self._inner = inner


def _waiting(method: Callable[Concatenate[I, P], Awaitable[T]]) -> Callable[Concatenate[_Facade[I], P], T]:
    """Return *method* for other threads, with its signature and docstring: they wait until it is done in the loop."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        # By its name: a store has its own method, and MemoryAccess is a protocol.
        done: T = self._loop.call(lambda: getattr(self._inner, method.__name__)(*args, **options))
        return done

    return call


class SyncHost(_Facade[Host]):
    """A Host for code without an event loop; see Host for what the methods do. Safe from any thread.

    Leave its ``with`` block, or call ``close``, and everything below it is closed.

    >>> with SyncHost.open(model="offline/demo") as host:
    ...     session = host.session()
    ...     session.say("hello").why
    <Why.COMPLETED: 'completed'>
    """

    @classmethod
    def open(cls, *, approver: Approver | None = None, answerer: Answerer | None = None, **options: Any) -> SyncHost:
        """Open a host with the options of Host.open.

        An *approver* or *answerer* that is not a coroutine function may block, say for a person at a
        keyboard. Raises SessionError in a thread that runs an event loop.
        """
        asked = people(approver, answerer, in_threads=True)
        loop = LoopThread({**options, "policies": (*options.get("policies", ()), *asked)})
        return cls(loop, loop.open())

    def close(self) -> None:
        """Close every session and every plugin, and end the thread. Safe twice. Raises what closing raised."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def session(self, id: str = "", **options: Any) -> SyncSession:
        """Open a session; see Host.session for the options."""
        return SyncSession(self._loop, self._loop.call(lambda: self._inner.session(id, **options)))

    count = _waiting(Host.count)
    embed = _waiting(Host.embed)
    models = _waiting(Host.models)
    tools = _waiting(Host.tools)
    parse_plan = _waiting(Host.parse_plan)

    def tools_changed(self, *choices: ToolChoice) -> bool:
        """Say whether ``tools()`` has something new to say; see Host.tools_changed."""
        return self._loop.read(lambda: self._inner.tools_changed(*choices))

    @property
    def batches(self) -> SyncBatches:
        """Many requests that a vendor answers together, later; see HostBatches."""
        return SyncBatches(self._loop, self._loop.read(lambda: self._inner.batches))

    def memory(self, store: str = "", *, principal: str = "") -> SyncMemory:
        """Return a memory store; see Host.memory."""
        return SyncMemory(self._loop, self._loop.read(lambda: self._inner.memory(store, principal=principal)))

    @property
    def plugins(self) -> tuple[Any, ...]:
        """Every installed plugin with its state now and the reason for it."""
        return self._inner.plugins

    @property
    def chains(self) -> Any:
        """The hook chains in force."""
        return self._inner.chains


class SyncSession(_Facade[Session]):
    """A Session for code without an event loop; see Session for what the methods do."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self._inner.id

    @property
    def model(self) -> str:
        """The model, as ``provider/model``."""
        return self._inner.model

    @property
    def history(self) -> tuple[Message, ...]:
        """All messages so far."""
        return self._inner.history

    @property
    def usage(self) -> Usage:
        """What the session has used so far."""
        return self._inner.usage

    @property
    def tools(self) -> tuple[OfferedTool, ...]:
        """The tools that the model may be offered."""
        return self._inner.tools

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The requests of a paused turn that wait for an approval."""
        return self._inner.pending

    def records(self) -> tuple[Entry, ...]:
        """Return every entry of the transcript so far."""
        return self._loop.read(self._inner.records)

    @overload
    def say(self, content: Content, **options: Unpack[TurnOptions]) -> TurnResult[None]: ...
    @overload
    def say(self, content: Content, *, output: type[T], **options: Unpack[TurnOptions]) -> TurnResult[T]: ...
    @overload
    def say(self, content: Content, *, output: Any, **options: Unpack[TurnOptions]) -> TurnResult[Any]: ...
    def say(self, content: Content, *, output: Any = None, **options: Unpack[TurnOptions]) -> TurnResult[Any]:
        """Run one turn and return its result. Ctrl-C cancels the turn and keeps the session."""
        return self._loop.call(lambda: self._inner.say(content, output=output, **options))

    @overload
    def stream(self, content: Content, **options: Unpack[TurnOptions]) -> SyncTurnStream[None]: ...
    @overload
    def stream(self, content: Content, *, output: type[T], **options: Unpack[TurnOptions]) -> SyncTurnStream[T]: ...
    @overload
    def stream(self, content: Content, *, output: Any, **options: Unpack[TurnOptions]) -> SyncTurnStream[Any]: ...
    def stream(self, content: Content, *, output: Any = None, **options: Unpack[TurnOptions]) -> SyncTurnStream[Any]:
        """Run one turn and watch it: a context manager that is an iterator of events."""
        return SyncTurnStream(self._loop, lambda: self._inner.stream(content, output=output, **options))

    call_tool = _waiting(Session.call_tool)
    resume = _waiting(Session.resume)
    use = _waiting(Session.use)
    undo = _waiting(Session.undo)
    put_back = _waiting(Session.put_back)

    def stream_resume(
        self, answers: Mapping[str, bool | Approval] | None = None, *, output: Any = None
    ) -> SyncTurnStream[Any]:
        """Continue a paused turn as ``resume`` does, and watch it as with ``stream``."""
        return SyncTurnStream(self._loop, lambda: self._inner.stream_resume(answers, output=output))

    def close(self) -> None:
        """End a turn that still runs, close the session. Safe twice, and after the host."""
        with contextlib.suppress(SessionError):  # the host has closed it
            self._loop.call(self._inner.aclose)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class SyncBatches(_Facade[HostBatches]):
    """The batches of a host for code without an event loop; see HostBatches for what the methods do."""

    submit = _waiting(HostBatches.submit)
    find = _waiting(HostBatches.find)
    state = _waiting(HostBatches.state)
    cancel = _waiting(HostBatches.cancel)

    def results(self, batch: Batch, known: Iterable[str] = ()) -> Iterator[BatchResult]:
        """Yield what became of each request but *known* ones; see HostBatches.results."""
        results = self._loop.read(lambda: self._inner.results(batch, known))
        try:
            while (result := self._loop.call(lambda: anext(results, None))) is not None:
                yield result
        finally:
            self._loop.call(results.aclose)


class SyncMemory(_Facade[MemoryAccess]):
    """A memory store for code without an event loop; see MemoryAccess for what the methods do."""

    save = _waiting(MemoryAccess.save)
    get = _waiting(MemoryAccess.get)
    delete = _waiting(MemoryAccess.delete)
    list = _waiting(MemoryAccess.list)
    search = _waiting(MemoryAccess.search)


class SyncTurnStream(Generic[T]):
    """A running turn: enter it, iterate over its events, read ``result`` afterwards.

    Leaving it early cancels the turn and waits until nothing of it runs any more.
    """

    def __init__(self, loop: LoopThread, make: Callable[[], TurnStream[T]]) -> None:
        self._loop = loop
        self._make = make
        self._events: queue.SimpleQueue[Observation | None] = queue.SimpleQueue()
        self._running: Future[TurnResult[T]] | None = None
        self._space = asyncio.Event()
        self._ended = threading.Event()

    @property
    def result(self) -> TurnResult[T]:
        """The turn's result. Raises SessionError before its end, or what the turn raised."""
        if self._running is None or not self._running.done() or self._running.cancelled():
            raise SessionError("the turn has no result yet: read its events to the end first")
        return self._running.result()

    def __enter__(self) -> Self:
        if self._running is not None:
            raise SessionError("a stream is used once; call session.stream() again")
        refuse_running_loop()
        self._running = self._loop.start(self._pump)
        return self

    def __iter__(self) -> Iterator[Observation]:
        if self._running is None:
            raise SessionError("enter the stream first: with session.stream(…) as events")
        while (event := self._events.get()) is not None:
            if self._events.qsize() < WAITING_EVENTS // 2:
                self._loop.wake(self._space)
            yield event
        self._events.put(None)  # a second iteration finds the end too
        try:
            self._running.result()
        except CancelledError:
            raise SessionError("the turn was ended before its end: the stream was left, or the host closed") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()
            self._ended.wait(ENDING_S)

    async def _pump(self) -> TurnResult[T]:
        try:
            async with self._make() as events:
                async for event in events:
                    self._events.put(event)
                    if self._events.qsize() >= WAITING_EVENTS:
                        self._space.clear()
                        await self._space.wait()
            return events.result
        finally:
            self._events.put(None)
            self._ended.set()


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

    def read(self, function: Callable[[], T]) -> T:
        """Call *function* in the loop and wait for it."""

        async def run() -> T:
            return function()

        return self.call(run)

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Run an awaitable in the loop and wait for it; a KeyboardInterrupt here cancels it there."""
        refuse_running_loop()
        begun = _Begun(make)
        try:
            return self.start(begun.run).result()
        except CancelledError:
            raise SessionError("the host was closed in the middle of this call") from None
        except SessionError:
            raise
        except BaseException:
            # A KeyboardInterrupt comes anywhere, also before there is something to wait for.
            if not begun.ended.is_set():
                with contextlib.suppress(RuntimeError):  # it has closed since
                    self._loop.call_soon_threadsafe(begun.cancel)
                    begun.ended.wait(ENDING_S)
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits
            self._loop.call_soon_threadsafe(event.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 (raised in the thread that opens or closes)
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


class _Begun(Generic[T]):
    """An awaitable that another thread can cancel, whether or not it has begun."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        self.ended = threading.Event()

    async def run(self) -> T:
        try:
            self._task = asyncio.current_task()
            if self._cancelled:
                raise asyncio.CancelledError
            return await self._make()
        finally:
            self.ended.set()

    def cancel(self) -> None:
        """Cancel it; called in the loop."""
        self._cancelled = True
        if self._task is None:
            self.ended.set()
        else:
            self._task.cancel()


def _close_at_once(opened: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, Host]]) -> None:
    """The caller has given up on this host."""
    if opened.exception() is None:
        opened.result()[1].set()


def refuse_running_loop() -> None:
    """Raise SessionError in a thread that runs an event loop: to block it would be a deadlock."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SessionError("a SyncHost blocks, and this thread runs an event loop; use `Host.open(…)` and await there")
