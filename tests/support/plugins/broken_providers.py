"""Providers that each break one promise, seen from one end, and the tests that have to notice.

Not collected by itself: test_provider_conformance.py runs these classes in a process of its own.
``caught_by`` names the tests that must fail, with one case of them where the others take long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Any, ClassVar, cast

import attrs
from pluggent_hookspecs import (
    Delta,
    Finished,
    ListsModels,
    Message,
    ModelInfo,
    ModelRequest,
    ModelResponse,
    Provider,
    ProviderError,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from pluggent_offline.grammar import Call, render
from pluggent_offline.plugin import Offline
from pluggent_testing.providers import Made, ProviderConformance, Wanted, opened
from pluggent_testing.wires.server import KEY


class Passing:
    """Passes everything on to *inner*; who inherits breaks one thing."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def target(self) -> str:
        return self.inner.target

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return self.after(await self.inner.complete(self.before(request)))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        async with aclosing(self.inner.stream(self.before(request))) as stream:
            async for batch in stream:
                yield [changed for delta in batch for changed in self.each(delta)]

    async def list_models(self) -> Sequence[ModelInfo]:
        assert isinstance(self.inner, ListsModels)
        return await self.inner.list_models()

    def before(self, request: ModelRequest) -> ModelRequest:
        return request

    def after(self, reply: ModelResponse) -> ModelResponse:
        return reply

    def each(self, delta: Delta) -> Sequence[Delta]:
        return (delta,)


class Around:
    """The context manager that gives the broken provider around a whole one, the same each time."""

    def __init__(self, whole: AbstractAsyncContextManager[Provider], broken: type[Passing]) -> None:
        self._whole = whole
        self._broken = broken
        self._made: Passing | None = None

    async def __aenter__(self) -> Provider:
        inner = await self._whole.__aenter__()
        self._made = self._made or self._broken(inner)
        self._made.inner = inner
        return self._made

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._whole.__aexit__(kind, error, trace)


class OnOffline(ProviderConformance):
    """A broken provider around the offline one."""

    deterministic = True
    any_model = True
    secrets = (KEY,)
    limit_s = 5.0
    broken: ClassVar[type[Passing]] = Passing
    caught_by: ClassVar[tuple[str, ...]] = ()

    def make_provider(self) -> Made:
        return Around(opened(Offline()), self.broken)

    def ask_for_calls(self, *rounds: Sequence[Wanted]) -> Message:
        return Message.user(render([[Call(name, arguments) for name, arguments in calls] for calls in rounds]))


# ---- what they break -------------------------------------------------------------------


class ForgetsFinished(Passing):
    def each(self, delta: Delta) -> Sequence[Delta]:
        return () if isinstance(delta, Finished) else (delta,)


class TestForgetsFinished(OnOffline):
    broken = ForgetsFinished
    caught_by = ("test_finished_comes_last_and_once", "test_a_reply_in_words_has_some")


class FinishesTwice(Passing):
    def each(self, delta: Delta) -> Sequence[Delta]:
        return (delta, delta) if isinstance(delta, Finished) else (delta,)


class TestFinishesTwice(OnOffline):
    broken = FinishesTwice
    caught_by = ("test_finished_comes_last_and_once",)


class GoesOnAfterTheEnd(Passing):
    def each(self, delta: Delta) -> Sequence[Delta]:
        return (delta, TextDelta("and another thing")) if isinstance(delta, Finished) else (delta,)


class TestGoesOnAfterTheEnd(OnOffline):
    broken = GoesOnAfterTheEnd
    caught_by = ("test_finished_comes_last_and_once", "test_a_whole_and_a_streamed_reply_agree")


class SwallowsCancellation(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            for _ in range(4):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            pass
        return await self.inner.complete(request)


class TestSwallowsCancellation(OnOffline):
    broken = SwallowsCancellation
    caught_by = ("test_a_cancelled_call_is_cancelled_and_leaves_nothing_behind",)


class LeaksATask(Passing):
    kept: ClassVar[list[asyncio.Task[Any]]] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.kept.append(asyncio.create_task(asyncio.sleep(3600)))
        return await self.inner.complete(request)


class TestLeaksATask(OnOffline):
    broken = LeaksATask
    caught_by = ("test_a_call_leaves_no_task_behind", "test_a_closed_provider_leaves_no_task_behind")


class RaisesKeyError(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        cast("dict[str, str]", {})[
            request.messages[0].role if request.messages else "no role"
        ] if not request.messages else 0
        return request


class TestRaisesKeyError(OnOffline):
    broken = RaisesKeyError
    caught_by = ("test_a_conversation_is_answered_or_refused",)


class NamesNoRole(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except ProviderError as error:
            raise ProviderError(error.kind, error.message) from error


class TestNamesNoRole(OnOffline):
    broken = NamesNoRole
    caught_by = ("test_a_parameter_is_honoured_or_refused_by_name",)


class RefusesInRiddles(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except ProviderError as error:
            raise ProviderError(error.kind, "something is not right", provider=self.name) from error


class TestRefusesInRiddles(OnOffline):
    broken = RefusesInRiddles
    caught_by = ("test_a_parameter_is_honoured_or_refused_by_name",)


class ForgetsWhoAsked(Passing):
    request: ModelRequest

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.request = request
        await asyncio.sleep(0)
        return await self.inner.complete(self.request)


class TestForgetsWhoAsked(OnOffline):
    broken = ForgetsWhoAsked
    caught_by = ("test_requests_side_by_side_are_not_mixed_up",)


class MixesUpArguments(Passing):
    def after(self, reply: ModelResponse) -> ModelResponse:
        calls = reply.message.tool_calls
        turned = (*calls[1:], *calls[:1])
        mixed = tuple(attrs.evolve(call, arguments=other.arguments) for call, other in zip(calls, turned, strict=True))
        return attrs.evolve(reply, message=attrs.evolve(reply.message, tool_calls=mixed))


class TestMixesUpArguments(OnOffline):
    broken = MixesUpArguments
    caught_by = ("test_calls_side_by_side_keep_their_arguments", "test_whole_and_streamed_calls_agree")


class RepeatsIds(Passing):
    def each(self, delta: Delta) -> Sequence[Delta]:
        if not isinstance(delta, ToolCallDelta):
            return (delta,)
        half = len(delta.arguments) // 2
        return (
            attrs.evolve(delta, arguments=delta.arguments[:half]),
            attrs.evolve(delta, arguments=delta.arguments[half:]),
        )


class TestRepeatsIds(OnOffline):
    broken = RepeatsIds
    caught_by = ("test_finished_comes_last_and_once_after_calls",)


class ChangesTheRequest(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        object.__setattr__(request, "tools", ())
        return request


class TestChangesTheRequest(OnOffline):
    broken = ChangesTheRequest
    caught_by = ("test_a_request_is_left_as_it_was",)


class ShowsTheKey(Passing):
    def __repr__(self) -> str:
        return f"<ShowsTheKey {KEY}>"


class TestShowsTheKey(OnOffline):
    broken = ShowsTheKey
    caught_by = ("test_no_secret_is_shown",)


class ShowsAQuery(Passing):
    @property
    def target(self) -> str:
        return "https://example.org/v1?key=secret"


class TestShowsAQuery(OnOffline):
    broken = ShowsAQuery
    caught_by = ("test_the_target_is_a_place_without_user_query_and_fragment",)


class HandsOutDicts(Passing):
    def after(self, reply: ModelResponse) -> ModelResponse:
        object.__setattr__(reply, "extra", {"a": [1]})
        return reply


class TestHandsOutDicts(OnOffline):
    broken = HandsOutDicts
    caught_by = ("test_a_reply_is_frozen_and_read_only",)


class BelongsToOneLoop(Passing):
    loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await self.inner.complete(request)


class TestBelongsToOneLoop(OnOffline):
    broken = BelongsToOneLoop
    caught_by = ("test_a_provider_works_in_a_second_event_loop",)


class AwaitsItsStream(Passing):
    async def stream(self, request: ModelRequest) -> Any:  # type: ignore[override]  # the mistake under test
        return self.inner.stream(request)


class TestAwaitsItsStream(OnOffline):
    broken = AwaitsItsStream
    caught_by = ("test_a_stream_is_an_async_generator",)


class CountsBelowZero(Passing):
    def after(self, reply: ModelResponse) -> ModelResponse:
        return attrs.evolve(reply, usage=Usage(input=-1))


class TestCountsBelowZero(OnOffline):
    broken = CountsBelowZero
    caught_by = ("test_a_reply_in_words_has_some",)


class CallsWhatIsForbidden(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, parameters=attrs.evolve(request.parameters, tool_choice="auto"))


class TestCallsWhatIsForbidden(OnOffline):
    broken = CallsWhatIsForbidden
    caught_by = ("test_tools_that_are_forbidden_are_not_called", "test_no_other_tool_than_the_allowed_one_is_called")


class ListsTwice(Passing):
    async def list_models(self) -> Sequence[ModelInfo]:
        return (ModelInfo("demo"), ModelInfo("demo"))


class TestListsTwice(OnOffline):
    broken = ListsTwice
    caught_by = ("test_models_that_are_listed_can_be_told_apart",)
