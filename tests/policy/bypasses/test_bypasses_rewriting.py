"""Attempts to get round a policy by rewriting what it has approved."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from bypassing import Friendly, both_forms, both_orders, every_way
from pluggent_hookspecs import DecisionMade, Deny, Message, ModelParameters, Role, Text, ToolOutput, hookimpl, tool
from pluggent_testing.fakes import call
from policy_stage import Danger, either_way, reach, stage


def only(path: str, *, is_async: bool) -> object:
    """Return a policy that lets ``danger`` run with *path* alone."""

    class Policy:
        @hookimpl
        def decide_tool_call(self, event):
            return None if event.arguments.get("path", path) == path else Deny("another path")

    class AsyncPolicy:
        @hookimpl
        async def decide_tool_call(self, event):
            await asyncio.sleep(0)
            return None if event.arguments.get("path", path) == path else Deny("another path")

    return AsyncPolicy() if is_async else Policy()


@every_way
@both_orders
@both_forms
async def test_a_policy_sees_what_a_transform_made_of_the_call(is_async: bool, turned: bool, way: str) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {**event.arguments, "path": "evil"}

    class AsyncRewriter:
        @hookimpl
        async def transform_tool_call(self, event):
            await asyncio.sleep(0)
            return {**event.arguments, "path": "evil"}

    rewriter = AsyncRewriter() if is_async else Rewriter()

    seen = await reach(way, either_way(only("x", is_async=is_async), rewriter, turned=turned))

    assert seen.ran == ()


@both_orders
@both_forms
async def test_a_transform_cannot_change_its_answer_after_it_was_approved(is_async: bool, turned: bool) -> None:
    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            self.kept = dict(event.arguments)
            return self.kept

        @hookimpl
        def decide_tool_call(self, event):
            self.kept["path"] = "evil"

        @hookimpl
        async def around_tool_call(self, event, call_next):
            self.kept["path"] = "evil"
            return await call_next()

    seen = await reach("say", either_way(only("x", is_async=is_async), Rewriter(), turned=turned))

    assert seen.ran == ("x",)


def set_member(event: Any) -> None:
    event.arguments["path"] = "evil"


def edit_nested_list(event: Any) -> None:
    event.arguments["steps"].append("evil")


def edit_nested_item(event: Any) -> None:
    event.arguments["steps"][0]["do"] = "evil"


def clear(event: Any) -> None:
    event.arguments.clear()


def set_bytes(event: Any) -> None:
    event.arguments_json = b'{"path":"evil"}'


def set_view(event: Any) -> None:
    event.arguments = {"path": "evil"}


def edit_bytes(event: Any) -> None:
    event.arguments_json[0:1] = b"evil"


def edit_schema(event: Any) -> None:
    event.tool.parameters["properties"] = {}


def edit_effects(event: Any) -> None:
    event.effects.clear()


@both_orders
@pytest.mark.parametrize("place", ["decide", "around", "transform", "observe"])
@pytest.mark.parametrize(
    "edit",
    [set_member, edit_nested_list, edit_nested_item, clear, set_bytes, set_view, edit_bytes, edit_schema, edit_effects],
)
async def test_no_hook_can_edit_a_call_in_place(  # noqa: C901 (one plugin, tried in each of its hooks)
    edit: Callable[[Any], None], place: str, turned: bool
) -> None:
    ran: list[Any] = []
    refused: list[Exception] = []

    @tool(effects=("network_read",))
    async def danger(path: str, steps: list[dict[str, str]]) -> str:
        """Do it."""
        ran.append((path, steps))
        return "done"

    def try_to_edit(event: Any) -> None:
        try:
            edit(event)
        except Exception as error:  # noqa: BLE001 (whatever refuses it)
            refused.append(error)

    class Editor:
        @hookimpl
        def transform_tool_call(self, event):
            if place == "transform":
                try_to_edit(event)

        @hookimpl
        def decide_tool_call(self, event):
            if place == "decide":
                try_to_edit(event)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            if place == "around":
                try_to_edit(event)
            return await call_next()

        @hookimpl
        def observe(self, event):
            if place == "observe" and hasattr(event, "arguments_json"):
                try_to_edit(event)

    plugins = either_way(only("x", is_async=False), Editor(), turned=turned)
    asked = call("danger", path="x", steps=[{"do": "good"}])
    async with stage(asked, plugins=plugins, tools=[danger]) as on:
        await on.session.say("go")

    assert refused
    assert ran == [("x", [{"do": "good"}])]


@both_orders
async def test_the_tool_gets_values_of_its_own(turned: bool) -> None:
    kept: list[Any] = []
    ran: list[Any] = []

    class Keeper:
        @hookimpl
        def decide_tool_call(self, event):
            kept.append(event.arguments)

        @hookimpl
        async def around_tool_call(self, event, call_next):
            first = await call_next()
            await call_next()
            return first

    @tool(effects=())
    async def danger(steps: list[str]) -> str:
        """Do it."""
        ran.append(tuple(steps))
        steps.append("evil")
        return "done"

    plugins = either_way(Keeper(), Friendly(), turned=turned)
    async with stage(call("danger", steps=["good"]), plugins=plugins, tools=[danger]) as on:
        await on.session.say("go")

    assert ran == [("good",), ("good",)]
    assert kept[0] == {"steps": ("good",)}


@both_orders
@pytest.mark.parametrize("where", ["extra", "output_schema", "messages", "tools"])
async def test_a_model_request_cannot_be_edited_after_its_approval(where: str, turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_model_request(self, event):
            old = event.request
            self.kept: dict[str, Any] = {
                "extra": {"user": "good"},
                "output_schema": {"type": "object"},
                "messages": list(old.messages),
                "tools": list(old.tools),
            }
            parameters = ModelParameters(extra=self.kept["extra"], output_schema=self.kept["output_schema"])
            return attrs.evolve(old, messages=self.kept["messages"], tools=self.kept["tools"], parameters=parameters)

        @hookimpl
        async def around_model_call(self, event, call_next):
            kept = self.kept[where]
            if isinstance(kept, dict):
                kept["evil"] = True
            else:
                kept[:] = [Message.user("evil")] if where == "messages" else []
            return await call_next()

    class Policy:
        @hookimpl
        def decide_model_request(self, event):
            return None if "evil" not in repr(event) else Deny("evil")

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage("hello", plugins=plugins, tools=Danger().tools()) as on:
        await on.session.say("go")

    for request in on.model.requests:
        assert "evil" not in repr(request)
        assert len(request.tools) == 3


@both_orders
async def test_a_message_cannot_be_edited_after_its_approval(turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_input(self, event):
            self.kept: Any = [Text("good")]
            return Message(Role.USER, self.kept)

        @hookimpl
        async def around_turn(self, event, call_next):
            self.kept.append(Text(" evil"))
            return await call_next()

    class Policy:
        @hookimpl
        def decide_input(self, event):
            return Deny("evil") if "evil" in event.message.text else None

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage("hello", plugins=plugins) as on:
        await on.session.say("go")

    assert all("evil" not in message.text for request in on.model.requests for message in request.messages)


@both_orders
async def test_a_result_cannot_be_edited_after_its_release(turned: bool) -> None:
    class Editor:
        @hookimpl
        def transform_tool_result(self, event):
            self.kept: Any = [Text("good")]
            return ToolOutput(self.kept)

        @hookimpl
        def observe(self, event):
            if isinstance(event, DecisionMade) and event.operation == "tool_call_result":
                self.kept.append(Text(" evil"))

    class Policy:
        @hookimpl
        def decide_tool_result(self, event):
            return Deny("evil") if "evil" in repr(event) else None

    plugins = either_way(Policy(), Editor(), turned=turned)
    async with stage(call("quiet"), plugins=plugins, tools=Danger().tools()) as on:
        await on.session.say("go")

    assert "evil" not in on.read_by_model()[0]
