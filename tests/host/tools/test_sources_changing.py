"""A source whose tools change while a session is open: the next round is offered the new ones, under policy."""

import asyncio

from pluggent_hookspecs import ToolSpec, hookimpl
from pluggent_host.settings import HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from talking import hosting, results, talking
from tool_sources import Brings, Changing, Named


def offers(model):
    """Return the names of the tools that each request to *model* offered."""
    return [sorted(tool.name for tool in request.tools) for request in model.requests]


def changing(source, *tools):
    """Return a tool that changes what *source* has, from then on; what stands behind it waits for it."""

    class Changer(Named):
        def __init__(self, name):
            super().__init__(name)
            self.spec = ToolSpec(name, "fine", effects=(), exclusive=True)

        async def call(self, arguments, context):
            source.now(*tools)
            return await super().call(arguments, context)

    return Changer("change")


async def test_the_next_round_is_offered_the_tools_that_there_are_now():
    source = Changing("old")
    model = ScriptedModel(call("change"), call("new"), "done")
    async with talking(model=model, tools=[changing(source, "new")], plugins=[Brings(source)]) as session:
        await session.say("go")

        assert offers(model) == [["change", "old"], ["change", "new"], ["change", "new"]]
        assert results(session.history) == ["change is fine", "new is fine"]
        assert {tool.name for tool in session.tools} == {"change", "new"}
    assert source.asked == 2


async def test_a_call_of_a_tool_that_was_not_offered_in_this_round_is_unknown():
    source = Changing("old")
    replies = (call("change"), call("new")), "done"
    async with talking(*replies, tools=[changing(source, "new")], plugins=[Brings(source)]) as session:
        await session.say("go")

        assert "there is no tool 'new'" in results(session.history)[1]


async def test_a_tool_whose_definition_changed_since_the_offer_is_not_run():
    changed = Named("old", "something else")
    first = Named("old")
    source = Changing(first)

    class Meanwhile:
        """A policy that takes its time, while the server changes what its tool does."""

        @hookimpl
        async def decide_tool_call(self, event):
            source.now(changed)

    model = ScriptedModel(call("old"), "done")
    async with talking(model=model, plugins=[Brings(source)], policies=[Meanwhile()]) as session:
        await session.say("go")

        assert results(session.history) == [
            "Error: 'old' has changed since it was offered, or is gone, so it was not run. Look at the tools again."
        ]
        assert model.requests[1].tools[0].description == "something else"
    assert (first.calls, changed.calls) == (0, 0)


async def test_a_source_that_says_it_changed_and_gives_the_same_tools_disturbs_no_call():
    source = Changing(Named("old"))
    replies = (call("change"), call("old")), "done"
    async with talking(*replies, tools=[changing(source, Named("old"))], plugins=[Brings(source)]) as session:
        await session.say("go")

        assert results(session.history) == ["change is fine", "old is fine"]


async def test_a_tool_that_was_approved_before_it_changed_is_not_run():
    changed, first = Named("old", "something else"), Named("old")
    source = Changing(first)

    async def approve(event):
        source.now(changed)
        return True

    config = HostSettings(effects={"app:brings:tool/old": ("shell",)})
    async with talking(call("old"), "x", plugins=[Brings(source)], approver=approve, config=config) as session:
        await session.say("go")

        assert results(session.history)[0].startswith("Error: 'old' has changed since it was offered")
    assert (first.calls, changed.calls) == (0, 0)


async def test_a_source_that_is_gone_when_it_is_asked_again_loses_its_tools_and_the_turn_goes_on():
    source = Changing("old", required=True)
    model = ScriptedModel(call("change"), call("old"), "done")
    async with talking(model=model, tools=[changing(source, OSError("gone"))], plugins=[Brings(source)]) as session:
        result = await session.say("go")

        assert result.text == "done"
        assert offers(model)[1:] == [["change"], ["change"]]


async def test_names_that_the_model_has_seen_stay_with_their_tools():
    early, late = Changing("find"), Changing()
    model = ScriptedModel("one", call("find"), "two")
    plugins = [Brings(early), type("Other", (Brings,), {})(late)]
    async with talking(model=model, plugins=plugins) as session:
        await session.say("first")
        late.now(Named("find", "an impostor"))
        await session.say("second")

        assert {tool.name: tool.capability for tool in session.tools} == {
            "find": "app:brings:tool/find", "app_other_find": "app:other:tool/find",
        }  # fmt: skip
        assert results(session.history) == ["find is fine"]


async def test_a_tool_called_by_hand_is_the_one_that_is_there_now():
    source = Changing("old")
    async with talking(plugins=[Brings(source)]) as session:
        source.now("new")

        output = await session.call_tool("new", {})

        assert output.for_model == "new is fine"


async def test_two_sessions_that_see_a_change_at_once_ask_once():
    source = Changing("old")
    async with (
        hosting("a", "b", plugins=[Brings(source)]) as host,
        await host.session() as one,
        await host.session() as other,
    ):
        source.now("new")
        await asyncio.gather(one.say("x"), other.say("y"))

        assert {tool.name for tool in one.tools} == {tool.name for tool in other.tools} == {"new"}
    assert source.asked == 2


async def test_a_name_that_a_source_took_later_stays_with_it_when_an_earlier_one_comes_to_have_it_too():
    early, late = Changing(), Changing(Named("find", "mine"))
    async with talking("a", "b", plugins=[Brings(Named("plain"), early, late)]) as session:
        early.now(Named("find", "yours"))
        await session.say("x")
        assert {tool.name: tool.spec.description for tool in session.tools}["find"] == "mine"

        late.now()
        await session.say("y")
        assert {tool.name: tool.spec.description for tool in session.tools}["find"] == "yours"


async def test_a_choice_by_name_keeps_meaning_the_tool_that_it_meant():
    early, late = Changing("find"), Changing()
    plugins = [Brings(early), type("Other", (Brings,), {})(late)]
    async with hosting("a", plugins=plugins) as host, await host.session(tools=["find"]) as session:
        late.now(Named("find", "an impostor"))
        await session.say("x")

        assert [tool.capability for tool in session.tools if tool.name == "find"] == ["app:brings:tool/find"]


async def test_a_call_whose_source_is_gone_is_refused_and_the_turn_goes_on():
    source = Changing("old")
    replies = (call("change"), call("old")), "done"

    async with talking(*replies, tools=[changing(source, OSError("gone"))], plugins=[Brings(source)]) as session:
        result = await session.say("go")

        assert result.text == "done"
        assert "or is gone, so it was not run" in results(session.history)[1]


async def test_nothing_is_asked_again_while_nothing_changes():
    source = Changing("old")
    replies = call("old"), call("old", n=1), "done"
    async with talking(*replies, plugins=[Brings(source)]) as session:
        await session.say("go")
        await session.say("again")

    assert source.asked == 1
