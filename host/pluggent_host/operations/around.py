"""The around hooks of one operation, laid around its execution like the skins of an onion, and its attempts.

An attempt is reserved before, settled after, and never made under a stale decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

import attrs
from pluggent_hookspecs import Value, errors

from pluggent_host.common.running import being_cancelled, comes_from_outside, said, to_its_end
from pluggent_host.hooks.caller import LATE, Caller, Deadline, Late
from pluggent_host.hooks.ledgers import Ledgers, RefusedError
from pluggent_host.operations.operation import Attempt, Operation

E = TypeVar("E")
R = TypeVar("R")
MAX_REISSUES = 3
"""How many times an operation may be replaced by another one, from within around hooks."""
STOPPING_S = 1.0
"""How long a layer that was given up may take to clean up."""

Failed = Callable[[Operation[Any, Any], str, str, str], errors.HookError]


@attrs.frozen(repr=False)
class Layer(Value):
    """One implementation and what the operator lets it do: call again, answer by itself."""

    plugin: str
    function: Callable[..., Awaitable[Any]]
    retries: bool
    answers: bool


@attrs.frozen(eq=False, repr=False)
class Around(Generic[E, R]):
    """The around hooks of one operation.

    ``innermost`` executes one attempt; ``answered`` records that a plugin answered in its
    place; ``limit_s`` is how long each layer may take of its own, what is inside not counted.
    """

    operation: Operation[E, R]
    event: E
    caller: Caller
    innermost: Callable[[], Awaitable[R]]
    answered: Callable[[str], None]
    failed: Failed
    limit_s: float
    reissue: Callable[[Any, str, Sequence[Layer]], Awaitable[R]]
    """Does another request in place of this one, inside the layers given."""
    attempts: Attempts

    async def run(self, layers: Sequence[Layer]) -> R:
        """Run *layers*, the first one outermost; return what comes out.

        Raises HookError for a layer that fails, takes too long, does not call on without the
        right to answer, or calls on again without the right to retry.
        """
        call: Callable[[], Awaitable[R]] = self.innermost
        for depth in reversed(range(len(layers))):
            call = self._wrapped(layers[depth], call, layers[depth + 1 :])
        return await call()

    def _wrapped(
        self, layer: Layer, inner: Callable[[], Awaitable[R]], below: Sequence[Layer]
    ) -> Callable[[], Awaitable[R]]:
        async def call() -> R:
            clock = Deadline(self.limit_s)

            async def again(changed: Any, model: str) -> R:
                return await self.reissue(changed, model, below)

            rest = Rest(inner, self.operation, self.attempts, clock, again, layer.retries)
            try:
                running = layer.function(self.event, rest)
                result = await self.caller.bounded(running, clock.left, stopping_s=STOPPING_S)
            except errors.PluggentError:
                raise
            except Late as error:
                raise self._blame(layer, LATE) from error
            except BaseException as error:
                if comes_from_outside(error):
                    raise
                is_cancelled = isinstance(error, asyncio.CancelledError)
                what = f"{error!r} although it was not cancelled" if is_cancelled else said(error)
                raise self._blame(layer, f"raised {what}") from error
            finally:
                rest.over = True
                if rest.running is not None:
                    await to_its_end(rest.stop(asyncio.current_task()))
            if rest.abandoned:
                raise self._blame(layer, "returned while call_next() was running")
            return self._checked(layer, rest, result)

        return call

    def _checked(self, layer: Layer, rest: Rest[R], result: Any) -> R:
        if rest.calls and result is rest.last:
            return cast("R", result)
        if self.attempts.denied is not None:
            raise self.attempts.denied  # what was denied stays denied, even if a layer has hidden it
        if rest.calls == 0 and not layer.answers:
            raise self._blame(layer, "did not call call_next(), which needs the operator's grant [grants] may_respond")
        try:
            answer = self.operation.response(result)
        except ValueError as error:
            raise self._blame(layer, str(error)) from error
        if rest.calls == 0:
            self.answered(layer.plugin)
        return answer

    def _blame(self, layer: Layer, problem: str) -> errors.HookError:
        return self.failed(self.operation, layer.plugin, self.operation.hooks.around, problem)


@attrs.define(eq=False, repr=False)
class Attempts:
    """The attempts at one operation and at what was reissued for it, in order; ``latest`` is the last of them.

    ``denied`` is why the last one was refused, if it was.
    """

    latest: Attempt | None = None
    made: int = 0
    reissues: int = 0
    denied: errors.Denied | None = None
    _failure: str = ""
    _ended: float = 0.0
    _told: bool = False

    def begin(self, operation: Operation[Any, Any], own: int) -> Attempt:
        """Return the next attempt, the *own*-th of *operation*; observers learn that it is not the first of all."""
        self.made += 1
        if self.made > 1 and not self._told:
            operation.retried(self.made, perf_counter() - self._ended, self._failure)
        self._told = False
        self.latest = Attempt(own)
        return self.latest

    def end(self, failure: str) -> None:
        """The attempt is over."""
        self._failure, self._ended = failure, perf_counter()

    def announce(self, operation: Operation[Any, Any], wait_s: float) -> None:
        """Tell observers now that another attempt follows."""
        self._told = True
        operation.retried(self.made + 1, wait_s, self._failure)

    def reissue(self) -> int:
        """Return the number of another reissue. Raises LimitReached."""
        if self.reissues >= MAX_REISSUES:
            raise errors.LimitReached("reissues", MAX_REISSUES)
        self.reissues += 1
        return self.reissues


@attrs.define(eq=False, repr=False)
class Rest(Generic[R]):
    """``call_next`` of one around implementation."""

    _inner: Callable[[], Awaitable[R]]
    _operation: Operation[Any, R]
    _attempts: Attempts
    _clock: Deadline
    _reissue: Callable[[Any, str], Awaitable[R]]
    _retries: bool = attrs.field(alias="retries")
    running: asyncio.Task[Any] | None = None
    abandoned: bool = False
    calls: int = 0
    last: R | None = None
    over: bool = False

    async def __call__(self) -> R:
        """Run the rest of the operation and return what it came to."""
        if self.calls and not self._retries:
            raise RuntimeError("call_next() a second time needs the operator's grant [grants] retriers")
        return await self._inside(self._inner)

    async def reissue(self, changed: Any, *, model: str = "") -> R:
        """Do *changed* in place of the request, as an operation of its own; return what it came to."""
        if not self._retries:
            raise RuntimeError("call_next.reissue() needs the operator's grant [grants] retriers")
        return await self._inside(lambda: self._reissue(changed, model))

    async def _inside(self, inner: Callable[[], Awaitable[R]]) -> R:
        if self.over:
            raise RuntimeError("call_next() after the hook has returned")
        if self.running is not None:
            raise RuntimeError("call_next() while one is running: one attempt at a time")
        if being_cancelled():
            # The hook swallowed its cancellation: that is not consent.
            raise asyncio.CancelledError
        self.calls += 1
        self.running = asyncio.current_task()
        self._clock.stop()
        try:
            self.last = await inner()
            self._attempts.denied = None
        except errors.Denied as error:
            self._attempts.denied = error
            raise
        finally:
            self.running = None
            self._clock.start()
        return self.last

    async def stop(self, own: asyncio.Task[Any] | None) -> None:
        """Let nothing run on that the hook has started, in a task other than its *own*, and not waited for."""
        task, self.abandoned = self.running, True
        if task is not None and task is not own:
            task.cancel()
            await asyncio.wait({task}, timeout=STOPPING_S)

    @property
    def may_repeat(self) -> bool:
        """Whether the operator lets this plugin call again, and reissue."""
        return self._retries

    @property
    def shown(self) -> bool:
        """Whether some of the last attempt was shown."""
        return self._attempts.latest is not None and self._attempts.latest.shown

    def discard(self, why: str = "") -> None:
        """Tell consumers that what they saw of the last attempt is void."""
        attempt = self._attempts.latest
        if attempt is not None and attempt.shown and attempt.on_discard is not None:
            attempt.on_discard(why)
            attempt.shown = False

    def retrying(self, wait_s: float) -> None:
        """Tell observers that another attempt follows in *wait_s* seconds."""
        if self._retries and not self.over:
            self._attempts.announce(self._operation, wait_s)


@attrs.define(eq=False, repr=False)
class Attempting(Generic[E, R]):
    """Makes attempts at one operation; every call of it is one more.

    ``confirm`` decides again where a decision has grown old; ``unpaid`` makes the error, and
    the record, of what a ledger refused.
    """

    operation: Operation[E, R]
    event: E
    attempts: Attempts
    ledgers: Ledgers | None
    confirm: Callable[[], Awaitable[None]]
    unpaid: Callable[[RefusedError], errors.Denied]
    _made: int = attrs.field(default=0, init=False)

    async def __call__(self) -> R:
        """Make the next attempt."""
        self._made += 1
        attempt, failure = self.attempts.begin(self.operation, self._made), ""
        try:
            return await self._attempt(attempt)
        except Exception as error:
            failure = str(error)
            raise
        finally:
            self.attempts.end(failure)

    async def _attempt(self, attempt: Attempt) -> R:
        if attempt.number > 1:
            await self.confirm()
        if being_cancelled():
            # A layer swallowed the cancellation: that is not consent.
            raise asyncio.CancelledError
        operation, ledgers = self.operation, self.ledgers
        cost = None if ledgers is None else operation.cost(self.event, attempt.number)
        if ledgers is None or cost is None:
            return await operation.execute(self.event, attempt)
        try:
            return await ledgers.around(cost, lambda: operation.execute(self.event, attempt))
        except RefusedError as refused:
            cost.payer.refused(refused.deny)
            raise self.unpaid(refused) from refused
