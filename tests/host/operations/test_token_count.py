"""Tokens counted by vendors, through policies: nothing is sent for it that one of them denies."""

import asyncio
from typing import Any

import attrs
import pytest
from each_of import shown
from fake_plugins import Person, plugin
from pluggent_hookspecs import (
    Ask,
    ConfigError,
    DecisionMade,
    Denied,
    Deny,
    HookError,
    Message,
    ModelParameters,
    ModelRequest,
    ProviderError,
    ProviderErrorKind,
    Respond,
    ToolSpec,
)
from pluggent_host import Host, HostSettings, NoTokenCount, SyncHost
from pluggent_testing.fakes import Recorder, ScriptedModel

HELLO = Message.user("hello")
ADD = ToolSpec("add", "Adds.")


class Counting(ScriptedModel):
    """Counts letters, or does as told."""

    def __init__(self, *told: Any) -> None:
        super().__init__()
        self.counted: list[ModelRequest] = []
        self._told = list(told)

    async def count(self, request: ModelRequest) -> int:
        self.counted.append(request)
        told = self._told.pop(0) if self._told else sum(len(message.text) for message in request.messages)
        if isinstance(told, BaseException):
            raise told
        found: int = told
        return found


async def count_of(*plugins: object, messages: Any = (HELLO,), **options: Any) -> int:
    asked = {name: options.pop(name) for name in ("tools", "parameters", "principal") if name in options}
    async with Host.open(plugins=plugins, installed=False, **options) as host:
        return await host.count("scripted/m", messages, **asked)


async def test_the_vendor_counts_and_answers_nothing():
    model, given = Counting(), ModelParameters(reasoning_effort="low")

    assert await count_of(model, tools=[ADD], parameters=given) == 5
    assert model.counted == [ModelRequest("m", (HELLO,), (ADD,), given)]
    assert model.requests == []


def test_code_without_a_loop_counts_too():
    with SyncHost.open(plugins=[Counting()], installed=False) as host:
        assert host.count("scripted/m", [HELLO]) == 5


async def test_a_provider_that_never_counts_says_so():
    with pytest.raises(NoTokenCount, match="'scripted' does not count"):
        await count_of(ScriptedModel())


async def test_what_is_no_model_or_no_message_is_refused():
    async with Host.open(plugins=[Counting()], installed=False) as host:
        with pytest.raises(ConfigError):
            await host.count("nothing/m", [HELLO])
        with pytest.raises(TypeError):
            await host.count("scripted/m", ["hello"])  # type: ignore[list-item]


@pytest.mark.parametrize("answer", [Deny("no"), ValueError, "allow", Respond("words")], ids=shown)
async def test_nothing_is_sent_that_a_policy_does_not_allow(answer):
    model = Counting()

    with pytest.raises(Denied):
        await count_of(model, plugin(decide_model_request=answer))

    assert model.counted == []


@pytest.mark.parametrize("agreed", [True, False, None])
async def test_an_ask_is_put_to_an_approver(agreed):
    model, person = Counting(), Person(agreed)
    asking = count_of(model, plugin(decide_model_request=Ask("may it?")), approver=person)

    if agreed:
        assert await asking == 5
    else:
        with pytest.raises(Denied):
            await asking

    (event,) = person.asked
    assert event.operation == "count"
    assert "the last: hello" in event.rendered
    assert len(model.counted) == (1 if agreed else 0)


async def test_what_a_transform_makes_of_the_request_is_counted():
    model = Counting()
    shorter = plugin(transform_model_request=lambda event: attrs.evolve(event.request, messages=(Message.user("x"),)))

    assert await count_of(model, shorter) == 1


@pytest.mark.parametrize("tools", [(ADD,), (ToolSpec("sub"),)], ids=["another definition", "another tool"])
async def test_a_transform_cannot_add_tools(tools):
    changer = plugin("Adder", transform_model_request=lambda event: attrs.evolve(event.request, tools=tools))

    with pytest.raises(HookError, match="app:adder"):
        await count_of(Counting(), changer, tools=[ToolSpec("add", "Other.")])


async def test_a_count_is_recorded_as_one():
    recorder = Recorder()

    await count_of(Counting(), recorder, principal="ada")

    (made,) = recorder.of(DecisionMade)
    assert (made.operation, made.verdict, made.scope.principal) == ("count", "allow", "ada")


@pytest.mark.parametrize("told", [-1, "5", None, True, 1.0, RuntimeError("oh"), TimeoutError("hm")], ids=repr)
async def test_a_provider_that_breaks_its_promise_is_a_protocol_error(told):
    with pytest.raises(ProviderError, match="the plugin failed") as raised:
        await count_of(Counting(told, told))

    assert raised.value.kind == "protocol"


async def test_the_errors_of_a_provider_come_through_as_they_are():
    error = ProviderError(ProviderErrorKind.RATE_LIMITED, "slow down", provider="scripted")

    with pytest.raises(ProviderError) as raised:
        await count_of(Counting(error))

    assert raised.value is error


async def test_a_provider_that_hangs_is_given_up():
    class Hanging(Counting):
        async def count(self, request: ModelRequest) -> int:
            await asyncio.Event().wait()
            raise AssertionError

    base = HostSettings()
    with pytest.raises(ProviderError, match=r"no count within 0\.01 s"):
        await count_of(Hanging(), config=base._replace(timeouts=base.timeouts._replace(model_s=0.01)))
