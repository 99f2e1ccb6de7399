"""The plugin: a hook around model calls, and one around embeddings."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from pluggent_hookspecs import (
    CallNext,
    ConfigError,
    EmbeddingRequestEvent,
    EmbeddingResponse,
    ModelRequestEvent,
    ModelResponse,
    PluginContext,
    ProviderError,
    hookimpl,
)

from pluggent_retry.circuit_breaker import Servers
from pluggent_retry.clock import Clock
from pluggent_retry.model_call import Asking
from pluggent_retry.settings import RetrySettings

R = TypeVar("R")


class Retry:
    """The plugin behind the entry point ``retry``.

    It repeats a model call, or an embedding, that failed in a way that passes, with exponential back-off and full
    jitter; then asks the ``fallback`` models; and remembers for its host which servers are dead.
    *clock* and *draw* (a random number from 0 up to 1) are for applications and tests that
    bring their own.

    >>> Retry(RetrySettings(attempts=2, fallback=("local/qwen3",)))
    <Retry: 2 attempts, then local/qwen3>
    """

    Settings = RetrySettings

    def __init__(
        self,
        settings: RetrySettings | None = None,
        *,
        clock: Clock | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._settings = RetrySettings() if settings is None else settings
        self._clock = Clock() if clock is None else clock
        self._draw = draw
        self._servers = Servers(self._settings.breaker, self._clock)

    @asynccontextmanager
    async def open(self, context: PluginContext) -> AsyncGenerator[None]:
        """Look the fallback models up. Raises ConfigError for a name that means nothing: now, not in the outage."""
        for model in self._settings.fallback:
            try:
                await context.model_named(model)
            except ConfigError as error:
                raise ConfigError(f"{context.plugin}: fallback", error.problems) from error
        yield

    @hookimpl
    async def around_model_call(self, event: ModelRequestEvent, call_next: CallNext[ModelResponse]) -> ModelResponse:
        """Return the reply, of whichever attempt or model. Raises the ProviderError of the model that was asked for."""
        asking = self._asking(event.provider, event.target, call_next)
        try:
            return await asking.repeatedly()
        except ProviderError as error:
            return await asking.others(event.request, error)

    @hookimpl
    async def around_embedding_call(
        self, event: EmbeddingRequestEvent, call_next: CallNext[EmbeddingResponse]
    ) -> EmbeddingResponse:
        """Return the vectors. There is no fallback: vectors of another model do not compare with these."""
        return await self._asking(event.embedder, event.target, call_next).repeatedly()

    def _asking(self, capability: str, target: str, call_next: CallNext[R]) -> Asking[R]:
        return Asking(capability, target, call_next, self._settings, self._servers, self._clock, self._draw)

    def __repr__(self) -> str:
        others = "".join(f", then {model}" for model in self._settings.fallback)
        return f"<Retry: {self._settings.attempts} attempts{others}>"
