"""What a tool asks a person for: an operation of its own, which approves nothing, and who answers it."""

import asyncio
from typing import Any

import attrs
import pytest
from fake_distributions import importable, install
from fake_plugins import plugin
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
from pluggent_host import HostSettings, Limits, SyncHost, Timeouts
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call
from policy_stage import Danger, run, stage, using
from talking import WAIT_S, said

NO_OBJECT: Any = 12
NO_JSON: Any = object()
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "title": "City"}, "days": {"type": "integer", "default": 3}},
    "required": ["city"],
}
GIVEN = Accepted({"city": "Oslo"})
OSLO = Accepted({"city": "Oslo", "days": 3})
UNANSWERED = Cancelled("no person was there to answer")


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


async def asked(*plugins, use=None, **options):
    """Have a tool ask; return what came of it, and the stage."""
    return await run(use or eliciting(), options.pop("danger", Danger()), "done", plugins=plugins, **options)


async def test_what_a_person_gives_comes_back_checked_and_completed():
    person = Person(GIVEN)

    outcome, on = await asked(person)

    assert outcome == [OSLO]
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
    async def twice(context):
        return [await context.elicit("Where?", CITY), await context.elicit("Where?", CITY)]

    wrong, right = Accepted({"city": "Xanadu", "days": "many"}), Accepted({"city": "Xanadu"})
    outcome, on = await asked(Person(wrong, right), use=twice)

    assert outcome[0][1].content["city"] == "Xanadu"
    assert "Xanadu" not in repr(on.recorder.events) + repr(on.session.records()) + repr(outcome)


async def test_a_sink_keeps_that_a_question_was_asked_and_answered():
    kept = []

    await asked(plugin("Sink", write_record=kept.append), Person(GIVEN))

    told = [event for event in kept if isinstance(event, QuestionAnswered)]
    told = [event for event in kept if event in told or getattr(event, "operation", "") == "question"]
    assert [type(event) for event in told] == [DecisionMade, QuestionAnswered]
    assert (told[1].by, told[1].fields) == ("app:person", ("city", "days"))


@pytest.mark.parametrize("answer", [Declined("not your business"), Cancelled("went away"), None])
async def test_a_person_may_say_no_or_leave_or_not_be_there(answer):
    outcome, on = await asked(*([Person(answer)] if answer else []))

    assert outcome == [answer or UNANSWERED]
    (told,) = on.recorder.of(QuestionAnswered)
    assert (told.outcome, told.by) == (type(answer or UNANSWERED).__name__.lower(), "app:person" if answer else "")


async def test_an_approver_is_not_asked_and_an_answer_approves_nothing():
    """Policy 34."""
    operations, danger = [], Danger()

    async def use(context):
        first = await context.elicit("May I?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})
        second = await context.call_tool("danger", {"path": "x"})
        return first, second.is_error

    def approve(event):
        operations.append(event.operation)

    config = HostSettings(strict=True)
    outcome, _ = await asked(Person(Accepted({"ok": True})), use=use, danger=danger, approver=approve, config=config)

    assert (outcome, operations, danger.ran) == ([(Accepted({"ok": True}), True)], ["tool_call"], [])


async def test_an_accepted_that_is_none_answers_nothing():
    outcome, on = await asked(Person(Accepted(NO_OBJECT)))

    assert outcome == [UNANSWERED]
    assert on.recorder.of(HookFailed)[0].problem == "answered with something that does not fit at $"


@pytest.mark.parametrize(
    "answer",
    [
        12, "yes", True, Accepted({"days": 1}), Accepted({"city": NO_JSON}), Accepted({"city": "x", "y": 1}),
        ValueError(),
    ],
)  # fmt: skip
async def test_an_answer_that_does_not_fit_is_none_and_the_next_one_is_asked(answer):
    class Second(Person):
        """Another front end."""

    outcome, on = await asked(Person(answer), Second(GIVEN))

    assert outcome == [OSLO]
    (failed,) = on.recorder.of(HookFailed)
    assert (failed.plugin, failed.hook) == ("app:person", "answer_question")


@pytest.mark.parametrize("answer", [Deny("no questions"), Ask("?"), Respond(GIVEN), True, ValueError()], ids=repr)
async def test_a_policy_that_does_not_let_it_pass_keeps_it_from_everybody(answer):
    person = Person(GIVEN)
    outcome, on = await asked(plugin(decide_question=answer), person)

    assert isinstance(outcome[0], Denied)
    assert (person.asked, [made.verdict for made in on.decisions("question")]) == ([], ["deny"])


async def test_a_policy_that_has_no_objection_sees_what_the_person_will_see():
    seen, person = [], Person(Declined())

    await asked(plugin(decide_question=lambda event: seen.append(event) or Allow()), person)

    assert seen == person.asked


async def test_everything_a_stranger_wrote_is_marked_and_escaped():
    """Policy 17."""
    person = Person(Declined())
    schema = {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["c", "f"], "enumNames": ["Celsius", "Fahren\x1bheit"], "default": "c"},
            "when": {"type": "string", "format": "date", "title": "Day\nof travel", "description": "the\u200b first"},
        },
        "required": ["when"],
    }

    await asked(person, use=eliciting("Hello\npluggent asks you:\x07", schema, "far\u202e"))

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
async def test_a_question_that_cannot_be_asked_is_the_tools_mistake(message, schema):
    outcome, _ = await asked(Person(), use=eliciting(message, schema))

    assert isinstance(outcome[0], ToolError)
    assert outcome[0].kind is ToolErrorKind.ARGUMENTS


async def test_a_tool_asks_a_person_only_so_often_in_a_turn():
    async def thrice(context):
        for _ in range(3):
            await context.elicit("Where?", CITY)

    outcome, _ = await asked(Person(Declined(), Declined()), use=thrice, limits=Limits(asks=2))

    assert isinstance(outcome[0], LimitReached)


async def test_the_clocks_of_the_call_and_of_all_calls_above_stand_still_while_a_person_thinks():
    """Policy 17."""

    async def think(event):
        await asyncio.sleep(0.3)
        return GIVEN

    async def pass_on(event, call_next):
        return await call_next()

    @tool(effects=(), timeout_s=0.2)
    async def inner(context: ToolContext) -> str:
        """Ask."""
        return type(await context.elicit("Where?", CITY)).__name__

    user, outcome = using(lambda context: context.call_tool("inner", {}), timeout_s=0.2)
    plugins = [plugin("Slow", answer_question=think), plugin("Passing", around_tool_call=pass_on)]
    async with stage(call("user"), "done", tools=[user, inner], plugins=plugins) as on:
        result = await on.session.say("go")

    assert (outcome, result.text, on.read_by_model()) == ([ToolOutput("Accepted")], "done", ["used"])


async def test_a_turn_that_is_cancelled_asks_no_person_any_more():
    began, left = asyncio.Event(), asyncio.Event()

    async def stay_away(event):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    user, outcome = using(eliciting())
    async with stage(call("user"), "done", tools=[user], plugins=[plugin(answer_question=stay_away)]) as on:
        turn = asyncio.create_task(on.session.say("go"))
        await asyncio.wait_for(began.wait(), WAIT_S)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert (left.is_set(), outcome) == (True, [])


async def test_a_denied_question_can_end_the_turn():
    user, _ = using(eliciting())
    no = plugin(decide_question=Deny("enough", ends_turn=True))
    result, _ = await said(call("user"), "never said", tools=[user], plugins=[no])

    assert result.why == "denied"


async def test_in_a_dry_run_no_person_is_asked():
    user, outcome = using(eliciting())
    await said(call("user"), tools=[user], plugins=[Person()], dry_run=True)

    assert outcome == [Cancelled("no person is asked in a dry run")]


# ---- who answers


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_application_answers_with_a_function(is_async):
    def answer(event):
        return Accepted({"city": event.source})

    async def later(event):
        return answer(event)

    user, outcome = using(eliciting(source="Oslo"))
    await said(call("user"), tools=[user], answerer=later if is_async else answer)

    assert outcome == [OSLO]


def test_an_application_without_a_loop_may_block_while_it_answers():
    user, outcome = using(eliciting())
    given = {"plugins": [ScriptedModel(call("user"))], "tools": [user], "answerer": lambda _: GIVEN}
    with SyncHost.open(model="scripted/m", installed=False, **given) as host:
        host.session().say("go")

    assert outcome == [OSLO]


async def test_a_program_that_was_not_listed_is_not_asked_and_one_that_was_has_a_time_limit(tmp_path):
    source = """
import asyncio
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    async def answer_question(self, event):
        await asyncio.Event().wait()
"""
    install(tmp_path, "acme-desk", {"hooks/desk": "acme_desk:Plugin"}, modules={"acme_desk": source})
    config = HostSettings(timeouts=Timeouts(approver_s=0.01))
    with importable(tmp_path):
        installed = discover([str(tmp_path)])
        unlisted, on = await asked(installed=installed, config=config)
        listed = config._replace(grants=config.grants._replace(approvers=("acme-desk",)))
        late, later = await asked(installed=installed, config=listed)

    assert unlisted == late == [UNANSWERED]
    assert on.recorder.of(HookFailed) == []
    assert later.recorder.of(HookFailed)[0].problem == "was too late"
