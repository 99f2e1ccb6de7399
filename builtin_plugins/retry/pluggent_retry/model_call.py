"""One model call or embedding: its attempts. Of a model call, the other models when all of them have failed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
from pluggent_hookspecs import (
    CallNext,
    ConfigError,
    HookError,
    LimitReached,
    ModelRequest,
    PluginError,
    ProviderError,
)

from pluggent_retry.backoff import Failure, Final, Next, after
from pluggent_retry.circuit_breaker import Server, Servers
from pluggent_retry.clock import Clock
from pluggent_retry.settings import RetrySettings

R = TypeVar("R")

NOT_GRANTED = 'not tried again; to have that, write [grants] retriers = ["pluggent-retry"]'


@attrs.frozen(eq=False)
class Asking(Generic[R]):
    """Asks for the answer to one request. Other errors than ProviderError pass through: denials, failed hooks.

    ``capability`` is the id of the provider or embedder, ``target`` its address.
    """

    capability: str
    target: str
    call_next: CallNext[R]
    settings: RetrySettings
    servers: Servers
    clock: Clock
    draw: Callable[[], float]

    @property
    def provider(self) -> str:
        """The provider's name, the last word of its capability id."""
        return self.capability.rpartition("/")[2]

    # ---- the model that was asked for ----------------------------------------------------

    async def repeatedly(self) -> R:
        """Return the answer of the first attempt that has one. Raises the last one's ProviderError."""
        server = self.servers.met(self.provider, self.target)
        started, failed = self.clock.monotonic(), None
        for attempt in itertools.count(1):
            going = self.servers.admit(server)
            if isinstance(going, ProviderError):
                raise going if failed is None else _told(failed, f"not tried again: {going.message}")
            with going:
                try:
                    return going.answered(await self.call_next())
                except ProviderError as error:
                    failed = error
                    following = self._following(attempt, self.clock.monotonic() - started, error)
                    going.failed(error, finally_=isinstance(following, Final))
            await self._prepare(server, failed, following)
        raise AssertionError("attempts have an end")

    def _following(self, attempt: int, elapsed_s: float, error: ProviderError) -> Next:
        following = after(Failure(error, attempt, elapsed_s, self.call_next.shown), self.settings, self.draw())
        return following if isinstance(following, Final) or self.call_next.may_repeat else Final(NOT_GRANTED)

    async def _prepare(self, server: Server, failed: ProviderError, following: Next) -> None:
        """Wait until the next attempt may begin. Raises ProviderError if there is to be none."""
        if isinstance(following, Final):
            raise _told(failed, following.why)
        if (shut := self.servers.shut_for(server, following.wait_s)) is not None:
            raise _told(failed, f"not tried again: {shut.message}")
        self.call_next.retrying(following.wait_s)
        await self.clock.sleep(following.wait_s)
        self._discard()

    def _discard(self) -> None:
        if self.call_next.shown:
            self.call_next.discard("the reply broke off; another attempt follows")

    # ---- other models --------------------------------------------------------------------

    async def others(self, request: ModelRequest, failed: ProviderError) -> R:
        """Return the reply to *request* of the first fallback model that has one.

        Raises *failed*, with what became of them.
        """
        if failed.kind not in self.settings.fallback_on or not self.call_next.may_repeat:
            raise failed
        fates: list[str] = []
        for model in self.settings.fallback:
            if model == f"{self.provider}/{request.model}":
                continue
            if self.call_next.shown and not self.settings.repeat_shown:
                break
            try:
                return await self._other(request, model)
            except HookError:
                raise
            except (ProviderError, ConfigError, PluginError, LimitReached) as error:
                fates.append(f"{model}: {error}")
        raise _told(failed, "; ".join(fates))

    async def _other(self, request: ModelRequest, model: str) -> R:
        going = self.servers.admit(self.servers.named(model.partition("/")[0]))
        if isinstance(going, ProviderError):
            raise going
        with going:
            self._discard()
            try:
                return going.answered(await self.call_next.reissue(request, model=model))
            except ProviderError as error:
                going.failed(error, finally_=True)
                raise


def _told(error: ProviderError, why: str) -> ProviderError:
    """Return *error* with *why* it is final; *error* itself if there is nothing to say."""
    if not why:
        return error
    told = ProviderError(
        error.kind, f"{error.message}; {why}", provider=error.provider, status=error.status,
        retry_after=error.retry_after, actual=error.actual, limit=error.limit, retryable=error.retryable,
        meta=error.meta,
    )  # fmt: skip
    told.__cause__ = error
    return told
