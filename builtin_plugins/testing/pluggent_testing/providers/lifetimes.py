"""What a provider promises about time: side by side, given up, cancelled, in another event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from pluggent_function_tools.arguments import Checker
from pluggent_hookspecs import AllowedTools, ModelRequest, ModelResponse, Provider

from pluggent_testing.providers.asking import (
    Ask,
    Tell,
    both,
    new_tasks,
    no_more_sockets_than,
    outcome,
    provided,
    refuses,
    sockets,
    streamed,
    tasks,
    whole,
)
from pluggent_testing.providers.suite import SCHEMA, Maker, Suite
from pluggent_testing.providers.values import calls_of, check_reply

MANY = 24
TURNS_OF_THE_LOOP = (0, 1, 2, 3, 5, 8, 20)
"""When a call is cancelled: after so many turns of the event loop."""


class Lifetimes(Suite):
    """Nothing is mixed up, nothing is left behind."""

    @both
    def test_requests_side_by_side_are_not_mixed_up(self, told: Tell, ask: Ask) -> None:
        wanted = [("weather", {"city": f"Town {number}"}) for number in range(MANY)]
        requests = [self.request_for_calls([each]) for each in wanted]

        async def story(provider: Provider) -> None:
            replies = await asyncio.gather(*(ask(provider, request) for request in requests))
            assert [calls_of(reply) for reply in replies] == [[each] for each in wanted]

        told(story)

    def test_whole_and_streamed_requests_run_side_by_side(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            asks = (whole, streamed) * 4
            for reply in await asyncio.gather(*(ask(provider, self.request()) for ask in asks)):
                check_reply(reply)

        told(story)

    @both
    def test_a_call_leaves_no_task_behind(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            before = tasks()
            await ask(provider, self.request())
            assert await new_tasks(before) == []

        told(story)

    def test_a_closed_provider_leaves_no_task_behind(self, maker: Maker) -> None:
        async def story() -> None:
            before = tasks()
            async with provided(maker()) as provider:
                await provider.complete(self.request())
                await streamed(provider, self.request())
            assert await new_tasks(before) == []

        asyncio.run(asyncio.wait_for(story(), self.limit_s))

    def test_a_stream_that_is_closed_early_leaves_nothing_behind(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            await streamed(provider, self.request())
            before, open_before = tasks(), sockets()
            for batches in (0, 1, 2):
                stream = provider.stream(self.request())
                for _ in range(batches):
                    await anext(stream, None)
                await stream.aclose()
            assert await new_tasks(before) == []
            assert await no_more_sockets_than(open_before), "a stream that was closed has left its socket open"
            check_reply(await streamed(provider, self.request()))

        told(story)

    def test_a_stream_can_be_closed_twice(self, told: Tell) -> None:
        async def story(provider: Provider) -> None:
            stream = provider.stream(self.request())
            await anext(stream)
            await stream.aclose()
            await stream.aclose()

        told(story)

    @both
    def test_a_cancelled_call_is_cancelled_and_leaves_nothing_behind(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            await ask(provider, self.request())
            before, open_before = tasks(), sockets()
            for turns in TURNS_OF_THE_LOOP:
                await cancelled_after(turns, provider, ask, self)
            assert await new_tasks(before) == []
            assert await no_more_sockets_than(open_before), "a call that was cancelled has left its socket open"
            check_reply(await ask(provider, self.request()))

        told(story)

    def test_a_provider_works_in_a_second_event_loop(self, maker: Maker) -> None:
        if not self.many_loops:
            pytest.skip("this provider belongs to one event loop")
        made = maker()

        async def story() -> None:
            async with provided(made) as provider:
                for ask in (whole, streamed):
                    check_reply(await asyncio.wait_for(ask(provider, self.request()), self.limit_s))

        asyncio.run(story())
        if asyncio.iscoroutine(made):
            pytest.skip("make_provider is async: each loop gets a provider of its own")
        asyncio.run(story())


async def cancelled_after(turns: int, provider: Provider, ask: Ask, suite: Suite) -> None:
    """Cancel a call after some turns of the loop; fail if it does not take note of that."""

    async def run() -> ModelResponse:
        return await ask(provider, suite.request())

    call = asyncio.create_task(run())
    for _ in range(turns):
        await asyncio.sleep(0)
    if not call.cancel():
        await call
        return
    with contextlib.suppress(asyncio.CancelledError):
        await call
    assert call.cancelled(), f"a call that was cancelled after {turns} turns of the loop has not ended so"


FEW_TOKENS = 16


class Obedience(Suite):
    """Parameters that were taken are kept to."""

    async def _taken(self, provider: Provider, request: ModelRequest, ask: Ask, name: str) -> ModelResponse | None:
        """Return the reply, None if the parameter called *name* was refused."""
        if not self.obedient:
            pytest.skip("the model at the other end keeps to nothing")
        answer = await outcome(provider, request, ask)
        if isinstance(answer, ModelResponse):
            return check_reply(answer)
        assert refuses(answer, name), f"this does not name {name}: {answer}"
        return None

    def _calling(self, **parameters: Any) -> ModelRequest:
        wanted = self.request_for_calls([("weather", {"city": "Rome"}), ("add", {"a": 2, "b": 3})])
        return self.request(*wanted.messages, tools=wanted.tools, parameters=self.request_with(**parameters).parameters)

    @both
    def test_tools_that_are_forbidden_are_not_called(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            reply = await self._taken(provider, self._calling(tool_choice="none"), ask, "tool_choice")
            assert reply is None or not reply.message.tool_calls

        told(story)

    @both
    @pytest.mark.parametrize("choice", ["add", AllowedTools(("add",)), AllowedTools(("add",), required=True)])
    def test_no_other_tool_than_the_allowed_one_is_called(self, told: Tell, ask: Ask, choice: Any) -> None:
        async def story(provider: Provider) -> None:
            reply = await self._taken(provider, self._calling(tool_choice=choice), ask, "tool_choice")
            assert reply is None or {call.name for call in reply.message.tool_calls} <= {"add"}

        told(story)

    @both
    def test_a_tool_that_has_to_be_called_is_called(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            reply = await self._taken(provider, self._calling(tool_choice="required"), ask, "tool_choice")
            assert reply is None or reply.message.tool_calls

        told(story)

    @both
    def test_calls_come_one_by_one_where_that_is_wanted(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            request = self._calling(parallel_tool_calls=False)
            reply = await self._taken(provider, request, ask, "parallel_tool_calls")
            assert reply is None or len(reply.message.tool_calls) <= 1

        told(story)

    @both
    def test_a_reply_is_no_longer_than_it_may_be(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            request = self.request_with(max_output_tokens=FEW_TOKENS)
            reply = await self._taken(provider, request, ask, "max_output_tokens")
            assert reply is None or (reply.usage.output or 0) <= FEW_TOKENS

        told(story)

    @both
    def test_a_reply_ends_before_what_stops_it(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            reply = await self._taken(provider, self.request_with(stop=("o", "l")), ask, "stop")
            assert reply is None or not set("ol") & set(reply.message.text)

        told(story)

    @both
    def test_a_reply_by_a_schema_follows_it(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            request = self.request("Name a town.", parameters=self.request_with(output_schema=SCHEMA).parameters)
            reply = await self._taken(provider, request, ask, "output_schema")
            assert reply is None or not Checker(SCHEMA).problems(msgspec.json.decode(reply.message.text))

        told(story)
