"""The around hooks of one operation, laid around its execution like the skins of an onion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

import attrs
from pluggent_hookspecs import errors

from pluggent_host.calling import LATE, Caller, Late, being_cancelled, said
from pluggent_host.clock import Deadline
from pluggent_host.operation import Attempt, Operation

E = TypeVar("E")
R = TypeVar("R")
STOPPING_S = 1.0
"""How long a layer that was given up may take to clean up."""

Failed = Callable[[Operation[Any, Any], str, str, str], errors.HookError]


@attrs.frozen
class Layer:
    """One implementation and what the operator lets it do: call again, answer by itself."""

    plugin: str
    function: Callable[..., Awaitable[Any]]
    retries: bool
    answers: bool


@attrs.frozen(eq=False)
class Around(Generic[E, R]):
    """The around hooks of one operation.

    ``innermost`` executes one attempt; ``answered`` records that a plugin answered in its
    place; ``limit_s`` is how long each layer may take of its own, what is inside not counted.
    """

    operation: Operation[E, R]
    event: E
    caller: Caller
    innermost: Callable[[Attempt], Awaitable[R]]
    answered: Callable[[str], None]
    failed: Failed
    limit_s: float
    reissue: Callable[[Any, str, Sequence[Layer]], Awaitable[R]]
    """Does another request in place of this one, inside the layers given."""

    async def run(self, layers: Sequence[Layer]) -> R:
        """Run *layers*, the first one outermost; return what comes out.

        Raises HookError for a layer that fails, takes too long, does not call on without the
        right to answer, or calls on again without the right to retry.
        """
        current = Current(self.innermost)
        call: Callable[[], Awaitable[R]] = current.execute
        for depth in reversed(range(len(layers))):
            call = self._wrapped(layers[depth], call, current, layers[depth + 1 :])
        return await call()

    def _wrapped(
        self, layer: Layer, inner: Callable[[], Awaitable[R]], current: Current[R], below: Sequence[Layer]
    ) -> Callable[[], Awaitable[R]]:
        async def call() -> R:
            clock = Deadline(self.limit_s)

            async def again(changed: Any, model: str) -> R:
                return await self.reissue(changed, model, below)

            rest = Rest(inner, current, clock, again, retries=layer.retries)
            try:
                running = layer.function(self.event, rest)
                result = await self.caller.bounded(running, clock.left, stopping_s=STOPPING_S)
            except (errors.PluggentError, KeyboardInterrupt):
                raise
            except Late as error:
                raise self._blame(layer, LATE) from error
            except asyncio.CancelledError as error:
                if being_cancelled():
                    raise
                raise self._blame(layer, f"raised {error!r} although nobody cancelled") from error
            except BaseException as error:
                raise self._blame(layer, f"raised {said(error)}") from error
            finally:
                rest.over = True
            return self._checked(layer, rest, result)

        return call

    def _checked(self, layer: Layer, rest: Rest[R], result: Any) -> R:
        if rest.calls and result is rest.last:
            return cast("R", result)
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


class Current(Generic[R]):
    """The attempt that is being made, or was made last."""

    def __init__(self, innermost: Callable[[Attempt], Awaitable[R]]) -> None:
        self._innermost = innermost
        self._failure = ""
        self._ended = 0.0
        self.attempt: Attempt | None = None

    async def execute(self) -> R:
        """Make another attempt."""
        if self.attempt is None:
            self.attempt = Attempt(1)
        else:
            self.attempt = Attempt(self.attempt.number + 1, self._failure, perf_counter() - self._ended)
        try:
            return await self._innermost(self.attempt)
        except Exception as error:
            self._failure = str(error)
            raise
        finally:
            self._ended = perf_counter()


class Rest(Generic[R]):
    """``call_next`` of one around implementation."""

    def __init__(
        self,
        inner: Callable[[], Awaitable[R]],
        current: Current[R],
        clock: Deadline,
        reissue: Callable[[Any, str], Awaitable[R]],
        *,
        retries: bool,
    ) -> None:
        self._inner = inner
        self._current = current
        self._clock = clock
        self._reissue = reissue
        self._retries = retries
        self.calls = 0
        self.last: R | None = None
        self.over = False

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
        if being_cancelled():
            # The hook swallowed its cancellation: that is no consent.
            raise asyncio.CancelledError
        self.calls += 1
        self._clock.stop()
        try:
            self.last = await inner()
        finally:
            self._clock.start()
        return self.last

    @property
    def shown(self) -> bool:
        """Whether somebody has seen some of the current attempt."""
        return self._current.attempt is not None and self._current.attempt.shown

    def discard(self, why: str = "") -> None:
        """Tell consumers that what they saw of the current attempt is void."""
        attempt = self._current.attempt
        if attempt is not None and attempt.shown and attempt.on_discard is not None:
            attempt.on_discard(why)
            attempt.shown = False
