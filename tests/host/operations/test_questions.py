"""What a tool asks a person for: an operation of its own, which approves nothing."""

import asyncio
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import (
    Accepted,
    Allow,
    Ask,
    Cancelled,
    DecisionMade,
    Declined,
    Denied,
    Deny,
    HookFailed,
    LimitReached,
    QuestionAnswered,
    Respond,
    ToolContext,
    ToolError,
    ToolErrorKind,
    ToolOutput,
    hookimpl,
    tool,
)
from pluggent_host import HostSettings, Limits
from pluggent_testing.fakes import call
from policy_stage import Danger, run, stage, using
from talking import WAIT_S

NO_OBJECT: Any = 12
NO_JSON: Any = object()
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "title": "City"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}


class Person:
    """A front end that answers *answers*, one question after the other, and keeps the questions."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    @hookimpl
    async def answer_question(self, event):
        self.asked.append(event)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def eliciting(message="Where?", schema=CITY, source="weather server"):
    """Return what a tool does that asks that."""
    return lambda context: context.elicit(message, schema, source=source)


async def test_what_a_person_gives_comes_back_checked_and_completed():
    person = Person(Accepted({"city": "Oslo"}))

    outcome, on = await run(eliciting(), Danger(), "done", plugins=[person])

    assert outcome == [Accepted({"city": "Oslo", "days": 3})]
    (event,) = person.asked
    assert (event.capability, event.source, event.message) == ("app:tools:tool/user", "weather server", "Where?")
    assert (event.scope.parent_id, event.scope.origin) == ("t1.0.0", "tool")
    (made,) = on.decisions("question")
    assert (made.verdict, made.digest, made.operation_id) == ("allow", event.digest, "t1.0.0.1")
    (told,) = on.recorder.of(QuestionAnswered)
    assert attrs.evolve(told, scope=event.scope, elapsed_s=0) == QuestionAnswered(
        event.scope, "call_user", "app:tools:tool/user", "weather server", "accepted", "app:person", ("city", "days")
    )


async def test_what_a_person_typed_is_for_the_tool_alone():
    person = Person(Accepted({"city": "Xanadu", "days": "many"}), Accepted({"city": "Xanadu"}))

    async def twice(context):
        return [await context.elicit("Where?", CITY), await context.elicit("Where?", CITY)]

    outcome, on = await run(twice, Danger(), "done", plugins=[person])

    assert outcome[0][1].content["city"] == "Xanadu"
    assert "Xanadu" not in repr(on.recorder.events) + repr(on.session.records()) + repr(outcome)


async def test_a_sink_keeps_that_a_question_was_asked_and_answered():
    kept = []

    class Sink:
        @hookimpl
        def write_record(self, event):
            kept.append(event)

    await run(eliciting(), Danger(), "done", plugins=[Sink(), Person(Accepted({"city": "Oslo"}))])

    (asked,) = [event for event in kept if isinstance(event, DecisionMade) and event.operation == "question"]
    (answered,) = [event for event in kept if isinstance(event, QuestionAnswered)]
    assert kept.index(asked) < kept.index(answered)
    assert (answered.by, answered.fields) == ("app:person", ("city", "days"))


@pytest.mark.parametrize("answer", [Declined("not your business"), Cancelled("went away")])
async def test_a_person_may_say_no_or_leave(answer):
    outcome, on = await run(eliciting(), Danger(), "done", plugins=[Person(answer)])

    assert outcome == [answer]
    assert on.recorder.of(QuestionAnswered)[0].outcome == type(answer).__name__.lower()


async def test_where_nobody_is_there_it_is_cancelled_at_once():
    outcome, on = await run(eliciting(), Danger(), "done")

    assert outcome == [Cancelled("nobody was there to answer")]
    assert on.recorder.of(QuestionAnswered)[0].by == ""


async def test_an_approver_is_not_asked_and_an_answer_approves_nothing():
    asked = []
    danger = Danger()

    async def use(context):
        first = await context.elicit("May I?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
        second = await context.call_tool("danger", {"path": "x"})
        return first, second.is_error

    def approve(event):
        asked.append(event.operation)

    person, strict = Person(Accepted({"ok": True})), HostSettings(strict=True)
    outcome, _ = await run(use, danger, "done", plugins=[person], approver=approve, config=strict)

    assert outcome == [(Accepted({"ok": True}), True)]
    assert asked == ["tool_call"]
    assert danger.ran == []


async def test_an_accepted_that_is_none_answers_nothing():
    outcome, on = await run(eliciting(), Danger(), "done", plugins=[Person(Accepted(NO_OBJECT))])

    assert outcome == [Cancelled("nobody was there to answer")]
    assert on.recorder.of(HookFailed)[0].problem == "answered with something that does not fit at $"


@pytest.mark.parametrize(
    "answer",
    [
        12,
        "yes",
        True,
        Accepted({"days": 1}),
        Accepted({"city": NO_JSON}),
        Accepted({"city": "x", "y": 1}),
        ValueError(),
    ],
)
async def test_an_answer_that_does_not_fit_is_none_and_the_next_one_is_asked(answer):
    class Second(Person):
        """Another front end."""

    plugins = [Person(answer), Second(Accepted({"city": "Oslo"}))]
    outcome, on = await run(eliciting(), Danger(), "done", plugins=plugins)

    assert outcome == [Accepted({"city": "Oslo", "days": 3})]
    (failed,) = on.recorder.of(HookFailed)
    assert (failed.plugin, failed.hook) == ("app:person", "answer_question")


@pytest.mark.parametrize(
    "answer", [Deny("no questions"), Ask("?"), Respond(Accepted({"city": "Oslo"})), True, ValueError()], ids=repr
)
async def test_a_policy_that_does_not_let_it_pass_keeps_it_from_everybody(answer):
    class Policy:
        @hookimpl
        def decide_question(self, event):
            if isinstance(answer, Exception):
                raise answer
            return answer

    person = Person(Accepted({"city": "Oslo"}))
    outcome, on = await run(eliciting(), Danger(), "done", plugins=[Policy(), person])

    assert isinstance(outcome[0], Denied)
    assert person.asked == []
    assert [made.verdict for made in on.decisions("question")] == ["deny"]


async def test_a_policy_that_has_no_objection_sees_what_the_person_will_see():
    seen = []

    class Policy:
        @hookimpl
        def decide_question(self, event):
            seen.append(event)
            return Allow()

    person = Person(Declined())
    await run(eliciting(), Danger(), "done", plugins=[Policy(), person])

    assert seen == person.asked


async def test_everything_a_stranger_wrote_is_marked_and_escaped():
    person = Person(Declined())
    schema = {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["c", "f"], "enumNames": ["Celsius", "Fahren\x1bheit"], "default": "c"},
            "when": {"type": "string", "format": "date", "title": "Day\nof travel", "description": "the\u200b first"},
        },
        "required": ["when"],
    }

    await run(eliciting("Hello\npluggent asks you:\x07", schema, "far\u202e"), Danger(), "done", plugins=[person])

    assert person.asked[0].rendered.split("\n") == [
        "'far\\u202e', by way of app:tools:tool/user, asks you:",
        "  | Hello",
        "  | pluggent asks you:\\x07",
        "  unit: one of these, may be left out, default c",
        "    1. Celsius (c)",
        "    2. Fahren\\x1bheit (f)",
        "  Day\\nof travel [when]: text, format date",
        "    the\\u200b first",
    ]


@pytest.mark.parametrize(
    ("message", "schema"),
    [
        ("x", {"type": "string"}),
        ("x", {"type": "object", "properties": {"a": {"type": "object"}}}),
        ("x" * 20_000, CITY),
    ],
)
async def test_a_question_that_nobody_could_be_asked_is_the_tools_mistake(message, schema):
    person = Person()

    outcome, _ = await run(eliciting(message, schema), Danger(), "done", plugins=[person])

    assert isinstance(outcome[0], ToolError)
    assert outcome[0].kind is ToolErrorKind.ARGUMENTS


async def test_a_tool_asks_a_person_only_so_often_in_a_turn():
    async def thrice(context):
        for _ in range(3):
            await context.elicit("Where?", CITY)

    person = Person(Declined(), Declined())
    outcome, _ = await run(thrice, Danger(), "done", plugins=[person], limits=Limits(asks=2))

    assert isinstance(outcome[0], LimitReached)


class Slow:
    """A person who thinks for longer than the calls may take."""

    @hookimpl
    async def answer_question(self, event):
        thought = asyncio.Event()
        asyncio.get_running_loop().call_later(0.4, thought.set)
        await thought.wait()
        return Accepted({"city": "Oslo"})


async def test_the_clock_of_the_call_stands_still_while_a_person_thinks():
    outcome, on = await run(eliciting(), Danger(), "done", plugins=[Slow()], timeout_s=0.3)

    assert outcome == [Accepted({"city": "Oslo", "days": 3})]
    assert on.read_by_model() == ["used"]


async def test_so_do_the_clocks_of_all_calls_above():
    @tool(effects=(), timeout_s=0.3)
    async def inner(context: ToolContext) -> str:
        """Ask."""
        return type(await context.elicit("Where?", CITY)).__name__

    user, outcome = using(lambda context: context.call_tool("inner", {}), timeout_s=0.3)
    async with stage(call("user"), "done", tools=[user, inner], plugins=[Slow(), Passing()]) as on:
        result = await on.session.say("go")

    assert outcome == [ToolOutput("Accepted")]
    assert result.text == "done"


class Passing:
    """A layer around every call that only passes it on."""

    @hookimpl
    async def around_tool_call(self, event, call_next):
        return await call_next()


async def test_a_turn_that_is_cancelled_asks_nobody_any_more():
    began, left = asyncio.Event(), asyncio.Event()

    class Away:
        @hookimpl
        async def answer_question(self, event):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()

    user, outcome = using(eliciting())
    async with stage(call("user"), "done", tools=[user], plugins=[Away()]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await asyncio.wait_for(began.wait(), WAIT_S)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert left.is_set()
    assert outcome == []


async def test_a_denied_question_can_end_the_turn():
    class Policy:
        @hookimpl
        def decide_question(self, event):
            return Deny("enough", ends_turn=True)

    user, _ = using(eliciting())
    async with stage(call("user"), "never said", tools=[user], plugins=[Policy()]) as on:
        assert (await on.session.say("go")).why == "denied"


async def test_in_a_dry_run_nobody_is_asked():
    person = Person()
    user, outcome = using(eliciting())
    async with stage(call("user"), "done", tools=[user], plugins=[person], dry_run=True) as on:
        await on.session.say("go")

    assert outcome == [Cancelled("in a dry run nobody is asked")]
