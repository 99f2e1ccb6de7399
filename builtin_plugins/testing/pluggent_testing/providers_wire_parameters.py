"""What arrives of a request's parameters at the server; inherited by WireConformance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pluggent_hookspecs import Json, Provider, ProviderError

from pluggent_testing.providers_asking import Ask, Tell, both, outcome, refuses
from pluggent_testing.providers_requests import CHOICES, PARAMETERS
from pluggent_testing.providers_wire_server import WireServer
from pluggent_testing.providers_wire_suite import WireSuite


class WireParameters(WireSuite):
    """A parameter is sent, or refused by name; none is left out in silence, and none said twice."""

    @both
    @pytest.mark.parametrize("name", PARAMETERS)
    def test_a_parameter_arrives_or_is_refused_by_name(
        self, told: Tell, server: WireServer, ask: Ask, name: str
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(**{name: PARAMETERS[name]}), ask)
            assert refuses(sent, name) or sent != without, f"{name} was left out in silence"

        told(story)

    @both
    @pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
    def test_a_choice_of_tools_arrives_or_is_refused(
        self, told: Tell, server: WireServer, ask: Ask, choice: Any
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(tool_choice=choice), ask)
            assert refuses(sent, "tool_choice", "allowed") or sent != without, "tool_choice was left out in silence"

        told(story)

    @both
    def test_extra_parameters_go_into_the_request_as_they_are(self, told: Tell, server: WireServer, ask: Ask) -> None:
        extra: Mapping[str, Json] = {"own_7f3a": {"deep": (1, 2.5, None, True, "天气")}}

        async def story(provider: Provider) -> None:
            body = await self.sent(provider, server, self.request_with(extra=extra), ask)
            assert body["own_7f3a"] == {"deep": [1, 2.5, None, True, "天气"]}

        told(story)

    @both
    def test_extra_parameters_cannot_set_what_the_provider_sets(self, told: Tell, ask: Ask) -> None:
        async def story(provider: Provider) -> None:
            for name in self.wire.own_fields:
                error = await outcome(provider, self.request_with(extra={name: "7f3a"}), ask)
                assert refuses(error, name), f"'{name}' in extra: {error}"

        told(story)

    @both
    @pytest.mark.parametrize("name", PARAMETERS)
    def test_extra_parameters_cannot_say_a_second_time_what_a_parameter_says(
        self, told: Tell, server: WireServer, ask: Ask, name: str
    ) -> None:
        async def story(provider: Provider) -> None:
            without = await self.sent(provider, server, self.request_with(), ask)
            sent = await self.sent(provider, server, self.request_with(**{name: PARAMETERS[name]}), ask)
            if isinstance(sent, ProviderError):
                pytest.skip(f"{name} is refused anyway")
            for field in {field for field in sent if field not in without or sent[field] != without[field]}:
                both_ways = self.request_with(**{name: PARAMETERS[name], "extra": {field: "7f3a"}})
                error = await outcome(provider, both_ways, ask)
                assert refuses(error, field), f"'{field}' was set by {name} and by extra: {error}"

        told(story)
