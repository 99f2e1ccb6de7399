"""What every provider that counts tokens has to do, as tests to be inherited.

    class TestMine(CounterConformance):
        def make_counter(self):
            return opened(MyPlugin(base_url=...))

The tests need pytest and no plugin of it: each runs a story in an event loop of its own.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from pluggent_hookspecs import (
    CountsTokens,
    Message,
    ModelParameters,
    ModelRequest,
    Provider,
    ProviderError,
    ToolCall,
    ToolSpec,
)

__all__ = ["CounterConformance"]

Story: TypeAlias = Callable[[CountsTokens], Coroutine[Any, Any, None]]
PATIENCE_S = 60.0
"""How long one story may take before it counts as hanging."""

ADD = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "number"}}})
CALL = ToolCall("call_1", "add", '{"a":1}')


class CounterConformance(ABC):
    """The promises of ``pluggent_hookspecs.CountsTokens``. Inherit, and say how a provider is made."""

    model: str = "m"

    @abstractmethod
    def make_counter(self) -> AbstractAsyncContextManager[Provider]:
        """Return what opens a provider for a test, and closes it; see ``pluggent_testing.providers.opened``."""

    def told(self, story: Story) -> None:
        """Tell *story* of a provider, in an event loop of its own."""

        async def tell() -> None:
            async with asyncio.timeout(PATIENCE_S), self.make_counter() as provider:
                assert isinstance(provider, CountsTokens)
                await story(provider)

        asyncio.run(tell())

    def asked(self, *messages: Message, **more: Any) -> ModelRequest:
        """Return a request with *messages*, or with one that says hello."""
        return ModelRequest(self.model, messages or (Message.user("hello"),), **more)

    # ---- the tests -----------------------------------------------------------------------

    def test_a_count_is_a_whole_number_above_zero(self) -> None:
        async def story(counter: CountsTokens) -> None:
            count = await counter.count(self.asked())
            assert type(count) is int
            assert count > 0

        self.told(story)

    def test_what_is_longer_has_more_tokens(self) -> None:
        async def story(counter: CountsTokens) -> None:
            plain = await counter.count(self.asked())
            longer = await counter.count(self.asked(Message.user("hello " * 200)))
            turns = (Message.user("hello"), Message.assistant("Hello. What is it?"), Message.user("nothing"))
            with_system = await counter.count(self.asked(Message.system("Be brief, be kind."), Message.user("hello")))
            assert plain < min(longer, await counter.count(self.asked(*turns)), with_system)

        self.told(story)

    def test_tools_calls_and_results_are_counted(self) -> None:
        async def story(counter: CountsTokens) -> None:
            plain = await counter.count(self.asked())
            offered = await counter.count(self.asked(tools=(ADD,)))
            turns = (Message.user("hello"), Message.assistant((), (CALL,)), Message.tool(CALL, "2"))
            called = await counter.count(self.asked(*turns, tools=(ADD,)))
            assert plain < offered < called

        self.told(story)

    def test_parameters_that_change_no_token_change_no_count(self) -> None:
        async def story(counter: CountsTokens) -> None:
            parameters = ModelParameters(temperature=0.5, max_output_tokens=100, stop=("end",), seed=7, user="u")
            assert await counter.count(self.asked(parameters=parameters)) == await counter.count(self.asked())

        self.told(story)

    def test_requests_are_counted_side_by_side(self) -> None:
        async def story(counter: CountsTokens) -> None:
            counts = await asyncio.gather(*(counter.count(self.asked()) for _ in range(8)))
            assert len(set(counts)) == 1

        self.told(story)

    def test_a_cancelled_count_leaves_the_provider_as_it_was(self) -> None:
        async def story(counter: CountsTokens) -> None:
            task = asyncio.create_task(counter.count(self.asked()))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert await counter.count(self.asked()) > 0

        self.told(story)

    def test_what_cannot_be_sent_is_a_bad_request(self) -> None:
        async def story(counter: CountsTokens) -> None:
            try:
                count = await counter.count(self.asked(Message.user("a\ud83c")))
            except ProviderError as error:
                assert error.kind == "bad_request"  # noqa: PT017 (or it is counted)
            else:
                assert count > 0

        self.told(story)
