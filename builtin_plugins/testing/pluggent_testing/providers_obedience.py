"""What comes of the parameters of a request; inherited by the classes of providers.py.

A provider may refuse a parameter. What it takes, the model at the other end keeps to; where that
one is no real model, ``obedient = False`` leaves these out.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pluggent_hookspecs import AllowedTools, ModelRequest, ModelResponse, Provider
from pluggent_host.tools.arguments import Checker

from pluggent_testing.providers_asking import Ask, Tell, both, outcome, refuses
from pluggent_testing.providers_suite import SCHEMA, Suite
from pluggent_testing.providers_values import check_reply

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
