"""Providers that each break one promise, seen from both ends, and the tests that have to notice.

As broken_providers.py; these are around the provider of OpenAI, with a server of the suite's own.

As a program it runs tests and prints the outcome of each function, as JSON:

    python broken_wire_providers.py FILE::CLASS::FUNCTION …

A function that runs with several parameters has failed if it failed with one of them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, redirect_stdout
from typing import Any, ClassVar

import attrs
import pytest
from broken_providers import Around, Passing
from pluggent_hookspecs import (
    Delta,
    Finished,
    Message,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    Text,
)
from pluggent_openai.plugin import OpenAI
from pluggent_testing.wires import Made, OpenAIWire, WireConformance, WireServer, opened
from pluggent_testing.wires.server import KEY


class OnOpenAI(WireConformance):
    """A broken provider around the one of OpenAI."""

    wire = OpenAIWire()
    patience_s = 0.3
    limit_s = 1.5
    patience_of_provider_s: ClassVar[float | None] = None
    bytes_of_provider: ClassVar[int | None] = None
    broken: ClassVar[type[Passing]] = Passing
    caught_by: ClassVar[tuple[str, ...]] = ()

    def make_provider(self, server: WireServer) -> Made:
        wait_s = self.patience_of_provider_s or server.patience_s
        settings = OpenAI.Settings(
            base_url=server.url,
            api_key=Secret.of(server.key),
            connect_s=wait_s,
            first_byte_s=wait_s,
            silence_s=wait_s,
            max_response_bytes=self.bytes_of_provider or server.max_bytes,
        )
        return Around(opened(OpenAI(settings)), self.broken)


class PassesOffACutStream(Passing):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        try:
            async with aclosing(self.inner.stream(request)) as stream:
                async for batch in stream:
                    yield batch
        except ProviderError as error:
            if error.kind is not Kind.STREAM_BROKEN:
                raise
            yield (Finished(),)


class TestPassesOffACutStream(OnOpenAI):
    broken = PassesOffACutStream
    caught_by = (
        "test_a_stream_that_is_cut_between_events_is_an_error",
        "test_a_stream_that_is_cut_inside_an_event_is_an_error",
        "test_what_came_before_a_stream_broke_is_handed_on",
    )


class DropsWhatCameBeforeTheBreak(Passing):
    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        async with aclosing(self.inner.stream(request)) as stream:
            batches = [batch async for batch in stream]
        for batch in batches:
            yield batch


class TestDropsWhatCameBeforeTheBreak(OnOpenAI):
    broken = DropsWhatCameBeforeTheBreak
    caught_by = ("test_what_came_before_a_stream_broke_is_handed_on", "test_a_stream_is_handed_on_as_it_comes")


class MakesSomethingOfNothing(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except ProviderError as error:
            if error.kind is not Kind.PROTOCOL:
                raise
            return ModelResponse(Message.assistant())


class TestMakesSomethingOfNothing(OnOpenAI):
    broken = MakesSomethingOfNothing
    caught_by = ("test_what_is_no_reply_is_an_error",)


class DropsPictures(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, messages=[self._texts(message) for message in request.messages])

    def _texts(self, message: Message) -> Message:
        return attrs.evolve(message, content=[part for part in message.content if isinstance(part, Text)])


class TestDropsPictures(OnOpenAI):
    broken = DropsPictures
    caught_by = ("test_a_part_arrives_or_is_refused_by_name", "test_a_part_of_a_result_arrives_or_is_refused_by_name")


class DropsAParameter(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, parameters=attrs.evolve(request.parameters, seed=None))


class TestDropsAParameter(OnOpenAI):
    broken = DropsAParameter
    caught_by = ("test_a_parameter_arrives_or_is_refused_by_name",)


class SendsWhatBelongsToOthers(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        messages = [
            attrs.evolve(message, extra={"openai": each}) if isinstance(each, dict | type(message.extra)) else message
            for message in request.messages
            for each in [next(iter(message.extra.values()), None)]
        ]
        return attrs.evolve(request, messages=messages)


class TestSendsWhatBelongsToOthers(OnOpenAI):
    broken = SendsWhatBelongsToOthers
    caught_by = ("test_nothing_of_another_vendor_is_sent",)


class TriesAgainByItself(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except ProviderError as error:
            if not error.retryable:
                raise
            return await self.inner.complete(request)


class TestTriesAgainByItself(OnOpenAI):
    broken = TriesAgainByItself
    caught_by = ("test_one_call_is_one_request",)


class Mislabels(Passing):
    """Raises other errors than its inner provider; who inherits says which."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except ProviderError as error:
            raise self.another(error) from None

    def another(self, error: ProviderError) -> ProviderError:
        raise TypeError(f"{type(self).__name__} does not say which error: write another(self, error)")


class CallsAllUnavailable(Mislabels):
    def another(self, error: ProviderError) -> ProviderError:
        return ProviderError(Kind.UNAVAILABLE, error.message, provider=self.name, status=error.status)


class TestCallsAllUnavailable(OnOpenAI):
    broken = CallsAllUnavailable
    caught_by = ("test_refusals_of_the_server_are_errors_by_kind", "test_a_status_alone_says_what_to_do")


class CountsMilliseconds(Mislabels):
    def another(self, error: ProviderError) -> ProviderError:
        later = None if error.retry_after is None else error.retry_after * 1000
        return ProviderError(error.kind, error.message, provider=self.name, status=error.status, retry_after=later)


class TestCountsMilliseconds(OnOpenAI):
    broken = CountsMilliseconds
    caught_by = ("test_retry_after_is_told_in_seconds", "test_refusals_of_the_server_are_errors_by_kind")


class TellsTheKey(Mislabels):
    def another(self, error: ProviderError) -> ProviderError:
        return ProviderError(error.kind, f"{error.message} (asked with {KEY})", provider=self.name, status=error.status)


class TestTellsTheKey(OnOpenAI):
    broken = TellsTheKey
    caught_by = ("test_no_error_shows_the_key",)


class LogsTheKey(Passing):
    def before(self, request: ModelRequest) -> ModelRequest:
        logging.getLogger("provider").debug("asking with %s", KEY)
        return request


class TestLogsTheKey(OnOpenAI):
    broken = LogsTheKey
    caught_by = ("test_the_key_is_sent_and_neither_logged_nor_in_the_body",)


class ForgetsTheCache(Passing):
    def after(self, reply: ModelResponse) -> ModelResponse:
        usage = reply.usage
        sent = None if usage.input is None else usage.input - (usage.cached or 0)
        return attrs.evolve(reply, usage=attrs.evolve(usage, input=sent))


class TestForgetsTheCache(OnOpenAI):
    broken = ForgetsTheCache
    caught_by = ("test_a_reply_is_read_as_it_was_told",)


class RepairsArguments(Passing):
    def after(self, reply: ModelResponse) -> ModelResponse:
        calls = [attrs.evolve(call, arguments=_repaired(call.arguments)) for call in reply.message.tool_calls]
        return attrs.evolve(reply, message=attrs.evolve(reply.message, tool_calls=calls))


def _repaired(text: str) -> str:
    try:
        return json.dumps(json.loads(text))
    except ValueError:
        return "{}"


class TestRepairsArguments(OnOpenAI):
    broken = RepairsArguments
    caught_by = ("test_arguments_are_neither_parsed_nor_repaired",)


class TestWaitsForEver(OnOpenAI):
    patience_of_provider_s = 3600.0
    caught_by = ("test_a_server_that_stops_is_given_up_in_time[a stream of which some comes]",)


class TestReadsForEver(OnOpenAI):
    bytes_of_provider = 10**12
    caught_by = ("test_a_stream_without_an_end_is_given_up",)


class LeavesConnectionsOpen(Passing):
    kept: ClassVar[list[asyncio.Task[Any]]] = []

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.kept.append(asyncio.create_task(self.inner.complete(request)))
        return await asyncio.shield(self.kept[-1])


class TestLeavesConnectionsOpen(OnOpenAI):
    broken = LeavesConnectionsOpen
    patience_of_provider_s = 3600.0
    caught_by = ("test_a_cancelled_call_closes_its_connection[a whole reply of which nothing comes]",)


class TakesCancellationForATimeout(Passing):
    async def complete(self, request: ModelRequest) -> ModelResponse:
        try:
            return await self.inner.complete(request)
        except asyncio.CancelledError:
            raise ProviderError(Kind.TIMEOUT, "it took too long", provider=self.name) from None


class TestTakesCancellationForATimeout(OnOpenAI):
    broken = TakesCancellationForATimeout
    caught_by = (
        "test_the_callers_own_time_limit_counts",
        "test_a_cancelled_call_closes_its_connection[a whole reply of which some comes]",
    )


class Outcomes:
    """A pytest plugin that keeps the outcome of each function."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """Leave out the other parameters of a function that has failed."""
        return True if self.told.get(_name(item.nodeid)) == "failed" else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome."""
        name = _name(report.nodeid)
        if self.told.get(name) != "failed":
            self.told[name] = "failed" if report.failed else self.told.get(name, "") or report.outcome


def _name(nodeid: str) -> str:
    return nodeid.partition("[")[0].rpartition("/")[2]


def main() -> None:
    """Run the tests that are named on the command line."""
    outcomes = Outcomes()
    with redirect_stdout(sys.stderr):
        pytest.main(["-p", "no:cacheprovider", "-W", "ignore", "--tb=line", "-q", *sys.argv[1:]], [outcomes])
    json.dump(outcomes.told, sys.stdout)


if __name__ == "__main__":
    main()
