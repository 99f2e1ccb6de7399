"""The rule of what a model is offered: rule 9."""

from typing import Any

import attrs
import pytest
from naming import shown
from pluggent_hookspecs import HookError, Role, ToolCall, hookimpl
from pluggent_testing.fakes import call
from policy_rules import both_orders
from policy_stage import Danger, either_way, reach, stage

# ---- rule 9: what is offered


async def test_a_tool_that_was_not_offered_is_unknown_even_if_it_exists() -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def select_tools(self, event):
            return [spec.name for spec in event.tools if spec.name != "danger"]

    async with stage(call("danger", path="x"), plugins=[Narrow()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == []
    assert "there is no tool 'danger'" in on.read_by_model()[0]
    assert "danger" not in {spec.name for spec in on.model.requests[0].tools}


async def test_a_request_transform_can_take_a_tool_away_and_the_call_of_it_is_unknown() -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=tuple(s for s in event.request.tools if s.name != "danger"))

    async with stage(call("danger", path="x"), plugins=[Narrow()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == []
    assert "there is no tool 'danger'" in on.read_by_model()[0]


@both_orders
async def test_what_one_transform_took_away_another_cannot_bring_back(turned: bool) -> None:
    danger = Danger()

    class Narrow:
        @hookimpl
        def transform_model_request(self, event):
            self.all = event.request.tools
            return attrs.evolve(event.request, tools=())

    narrow = Narrow()

    class Widen:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=getattr(narrow, "all", event.request.tools))

    async with stage(
        call("danger", path="x"), plugins=either_way(narrow, Widen(), turned=turned), tools=danger.tools()
    ) as on:
        if turned:
            await on.session.say("go")
        else:
            with pytest.raises(HookError, match="only be narrowed"):
                await on.session.say("go")

    assert danger.ran == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: attrs.evolve(spec, description="harmless"),
        lambda spec: attrs.evolve(spec, parameters={"type": "object"}),
        lambda spec: attrs.evolve(spec, effects=()),
        lambda spec: attrs.evolve(spec, name="other"),
        lambda spec: attrs.evolve(spec, idempotent=True),
    ],
    ids=["description", "parameters", "effects", "name", "idempotent"],
)
async def test_a_transform_that_edits_a_definition_is_refused_and_named(edit: Any) -> None:
    class Editor:
        @hookimpl
        def transform_model_request(self, event):
            return attrs.evolve(event.request, tools=tuple(edit(spec) for spec in event.request.tools))

    async with stage("hello", plugins=[Editor()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:editor"):
            await on.session.say("go")

    assert on.model.requests == []


@pytest.mark.parametrize("selected", [["danger", "unknown"], ["unknown"], "danger", 7, [1], [["danger"]]], ids=shown)
async def test_a_selection_of_tools_that_are_not_there_fails_the_turn_and_names_the_plugin(selected: Any) -> None:
    class Selector:
        @hookimpl
        def select_tools(self, event):
            return selected

    async with stage("hello", plugins=[Selector()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:selector"):
            await on.session.say("go")

    assert on.model.requests == []


async def test_a_selection_that_fails_while_it_is_read_fails_the_turn_and_names_the_plugin() -> None:
    class Selector:
        @hookimpl
        def select_tools(self, event):
            return (1 / 0 for _ in event.tools)

    async with stage("hello", plugins=[Selector()], tools=Danger().tools()) as on:
        with pytest.raises(HookError, match="app:selector"):
            await on.session.say("go")


async def test_the_offer_of_one_round_does_not_bind_the_next() -> None:
    danger = Danger(effects=())

    class OnlyFirst:
        rounds = 0

        @hookimpl
        def select_tools(self, event):
            self.rounds += 1
            return None if self.rounds == 1 else ["quiet"]

    first, second = call("danger", "one", path="1"), call("danger", "two", path="2")
    async with stage(first, second, plugins=[OnlyFirst()], tools=danger.tools()) as on:
        await on.session.say("go")

    assert danger.ran == ["1"]


async def test_a_transform_of_a_call_cannot_name_another_tool() -> None:
    """It changes arguments only: a key ``name`` is an argument, and this tool has none."""

    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"name": "quiet", "arguments": {}}

    assert (await reach("say", [Rewriter()])).ran == ()


async def test_every_call_of_a_reply_has_an_id_of_its_own() -> None:
    calls = (ToolCall("call_0_1", "quiet"), ToolCall("", "quiet"), ToolCall("x", "quiet"), ToolCall("x", "quiet"))

    async with stage(calls, tools=Danger().tools()) as on:
        await on.session.say("go")

    ids = [message.tool_call_id for message in on.session.history if message.role is Role.TOOL]
    assert len(set(ids)) == 4
