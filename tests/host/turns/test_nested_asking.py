"""A model call of a tool that a person has to agree to first, whatever the policies allow."""

from typing import Any

import pytest
from pluggent_hookspecs import (
    Allow,
    Denied,
    Deny,
    Image,
    Message,
    ModelParameters,
    ProviderError,
    ProviderErrorKind,
    ToolCall,
    hookimpl,
)
from pluggent_host import Limits
from pluggent_testing.fakes import ScriptedModel, call
from policy_stage import Danger, run, stage, using

WHY = "the server 'far' asks for a summary"


class Person:
    """An approver that answers *says*, and keeps what was put to it."""

    def __init__(self, *says: bool | None) -> None:
        self.says = list(says)
        self.asked: list[Any] = []

    async def __call__(self, event: Any) -> bool | None:
        self.asked.append(event)
        return self.says.pop(0)


async def test_a_person_who_agrees_lets_the_call_through():
    person = Person(True)

    outcome, on = await run(
        lambda context: context.call_model("sum it up", ask=WHY), Danger(), "a summary", approver=person
    )

    assert outcome[0].message.text == "a summary"
    ((asker, question),) = person.asked[0].asks
    assert question == f"'app:tools', for its tool 'user', wants to ask the model: {WHY}"
    assert (asker, person.asked[0].operation, person.asked[0].reach) == ("host:doubt", "model_call", "once")
    assert [made.verdict for made in on.decisions("model_call")] == ["allow", "ask", "approved", "allow"]


@pytest.mark.parametrize("person", [Person(False), Person(None), None], ids=["no", "silent", "nobody"])
async def test_without_somebody_who_agrees_nothing_is_sent(person):
    outcome, on = await run(lambda context: context.call_model("sum it up", ask=WHY), Danger(), "done", approver=person)

    assert isinstance(outcome[0], Denied)
    assert all("sum it up" not in repr(request) for request in on.model.requests)


async def test_a_policy_that_allows_takes_no_persons_place():
    class Generous:
        @hookimpl
        def decide_model_request(self, event):
            return Allow("always")

    outcome, _ = await run(
        lambda context: context.call_model("sum it up", ask=WHY), Danger(), "done", plugins=[Generous()]
    )

    assert isinstance(outcome[0], Denied)


async def test_a_policy_that_denies_is_not_outvoted_by_a_person():
    person = Person(True)

    class Strict:
        @hookimpl
        def decide_model_request(self, event):
            return Deny("no") if event.scope.origin == "tool" else None

    outcome, _ = await run(
        lambda context: context.call_model("sum it up", ask=WHY), Danger(), "done", plugins=[Strict()], approver=person
    )

    assert isinstance(outcome[0], Denied)
    assert person.asked == []


async def test_what_a_person_refused_is_not_put_to_him_again_in_this_turn():
    person = Person(False, True)

    async def twice(context):
        outcomes = []
        for _ in range(2):
            try:
                await context.call_model("sum it up", ask=WHY)
            except Denied as error:
                outcomes.append(error.reason)
        return outcomes

    outcome, _ = await run(twice, Danger(), "done", approver=person)

    assert len(person.asked) == 1
    assert outcome[0][1] == "a person has already refused exactly this model call"


async def test_a_tool_asks_a_person_only_so_often_in_a_turn():
    person = Person(True, True)

    async def thrice(context):
        for number in range(3):
            await context.call_model(f"question {number}", ask=WHY)

    outcome, _ = await run(thrice, Danger(), "a", "b", "done", approver=person, limits=Limits(asks=2))

    assert isinstance(outcome[0], Denied)
    assert outcome[0].reason == "this turn has asked a person too often"


async def test_the_person_reads_the_whole_conversation_with_everything_invisible_escaped():
    person = Person(True)
    conversation = [Message.user("one\ntwo\x1b[2J"), Message.assistant("three"), Message.user((Image(data="AAAA"),))]

    await run(
        lambda context: context.call_model(
            conversation, system="be\u202eshort", parameters=ModelParameters(max_output_tokens=9), ask=WHY
        ),
        Danger(),
        "fine",
        approver=person,
    )

    assert person.asked[0].rendered.split("\n") == [
        "ask m at memory:, at most 9 tokens back:",
        "system | be\\u202eshort",
        "user | one",
        "user | two\\x1b[2J",
        "assistant | three",
        "user | [image]",
    ]


async def test_the_model_gets_the_conversation_and_the_parameters_as_given():
    conversation = [Message.user("one"), Message.assistant("two"), Message.user("three")]

    _, on = await run(
        lambda context: context.call_model(conversation, parameters=ModelParameters(max_output_tokens=9)),
        Danger(),
        "four",
    )

    assert on.model.requests[1].messages == tuple(conversation)
    assert on.model.requests[1].parameters.max_output_tokens == 9


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([], "there is no message in it"),
        ([Message.system("obey")], "a message of role system"),
        ([Message.assistant("x", tool_calls=(ToolCall("1", "danger", "{}"),))], "with calls of tools"),
        (["text"], "expected text or messages, got str"),
    ],
)
async def test_a_conversation_that_is_none_is_the_tools_mistake(prompt, says):
    outcome, _ = await run(lambda context: context.call_model(prompt), Danger(), "done")

    assert isinstance(outcome[0], ValueError | TypeError)
    assert says in str(outcome[0])


async def test_another_model_in_its_place_needs_the_same_agreement():
    class Other(ScriptedModel):
        name = "other"

    class Fallback:
        @hookimpl
        async def around_model_call(self, event, call_next):
            try:
                return await call_next()
            except ProviderError:
                return await call_next.reissue(event.request, model="other/small")

    person, other = Person(True, False), Other("from the other")
    user, outcome = using(lambda context: context.call_model("sum it up", ask=WHY))
    down = ProviderError(ProviderErrorKind.UNAVAILABLE, "down")
    async with stage(call("user"), down, "done", tools=[user], plugins=[other, Fallback()], approver=person) as on:
        await on.session.say("go")

    assert isinstance(outcome[0], Denied)
    assert len(person.asked) == 2
    assert other.requests == []
