"""The around hooks of one operation, laid around its execution like the skins of an onion."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import attrs
from pluggent_hookspecs import errors

from pluggent_host.calling import being_cancelled
from pluggent_host.operation import Attempt, Operation

E = TypeVar("E")
R = TypeVar("R")

Failed = Callable[[Operation[Any, Any], str, str, str], errors.HookError]


@attrs.frozen
class Layer:
    """One implementation and what the operator lets it do: call again, answer by itself."""

    plugin: str
    function: Callable[..., Awaitable[Any]]
    retries: bool
    answers: bool


async def around(
    operation: Operation[E, R],
    event: E,
    layers: Sequence[Layer],
    innermost: Callable[[Attempt], Awaitable[R]],
    failed: Failed,
) -> R:
    """Run *layers*, the first one outermost, around *innermost*; return what comes out.

    Raises HookError for a layer that fails, does not call on without the right to answer, or
    calls on again without the right to retry.
    """
    onion = _Onion(operation, event, failed, innermost)
    call: Callable[[], Awaitable[R]] = onion.execute
    for layer in reversed(layers):
        call = onion.wrapped(layer, call)
    return await call()


class _Onion(Generic[E, R]):
    def __init__(
        self,
        operation: Operation[E, R],
        event: E,
        failed: Failed,
        innermost: Callable[[Attempt], Awaitable[R]],
    ) -> None:
        self._operation = operation
        self._event = event
        self._failed = failed
        self._innermost = innermost
        self.attempt: Attempt | None = None

    async def execute(self) -> R:
        self.attempt = Attempt(1 if self.attempt is None else self.attempt.number + 1)
        return await self._innermost(self.attempt)

    def wrapped(self, layer: Layer, inner: Callable[[], Awaitable[R]]) -> Callable[[], Awaitable[R]]:
        async def call() -> R:
            rest = Rest(inner, self, retries=layer.retries)
            try:
                result = await layer.function(self._event, rest)
            except errors.PluggentError:
                raise
            except asyncio.CancelledError as error:
                if being_cancelled():
                    raise
                raise self._blame(layer, f"raised {error!r} although nobody cancelled") from error
            except Exception as error:
                raise self._blame(layer, f"raised {type(error).__name__}: {error}") from error
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
            return self._operation.response(result)
        except ValueError as error:
            raise self._blame(layer, str(error)) from error

    def _blame(self, layer: Layer, problem: str) -> errors.HookError:
        return self._failed(self._operation, layer.plugin, self._operation.hooks.around, problem)


class Rest(Generic[R]):
    """``call_next`` of one around implementation."""

    def __init__(self, inner: Callable[[], Awaitable[R]], onion: _Onion[Any, R], *, retries: bool) -> None:
        self._inner = inner
        self._onion = onion
        self._retries = retries
        self.calls = 0
        self.last: R | None = None
        self.over = False

    async def __call__(self) -> R:
        """Run the rest of the operation and return what it came to."""
        if self.over:
            raise RuntimeError("call_next() after the hook has returned")
        if self.calls and not self._retries:
            raise RuntimeError("call_next() a second time needs the operator's grant [grants] retriers")
        self.calls += 1
        self.last = await self._inner()
        return self.last

    @property
    def shown(self) -> bool:
        """Whether somebody has seen some of the current attempt."""
        return self._onion.attempt is not None and self._onion.attempt.shown

    def discard(self, why: str = "") -> None:
        """Tell consumers that what they saw of the current attempt is void."""
        attempt = self._onion.attempt
        if attempt is not None and attempt.shown and attempt.on_discard is not None:
            attempt.on_discard(why)
            attempt.shown = False
