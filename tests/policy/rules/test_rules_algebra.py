"""The rules of votes and of around hooks, through an open host: rules 1 to 6."""

import contextlib
from typing import Any

import pytest
from each_of import each_of, shown
from places import hanging_once
from pluggent_hookspecs import (
    ANSWERS,
    ApprovalEvent,
    Ask,
    Deny,
    HookError,
    ProviderError,
    ProviderErrorKind,
    Respond,
    Role,
    ToolOutput,
    TurnEnded,
)
from pluggent_testing.fakes import call
from policy_rules import ASKS, DANGER, agreeing, both_orders, deciding, hooked, twice, yes
from policy_stage import Danger, Stage, either_way, in_order, reach, results, said, stage

GO = call("danger", path="x")


async def turn(*plugins: object, ends: str = "never said", **options: Any) -> tuple[Stage, Any, list[str]]:
    """Return the stage and the result of a turn in which the model calls ``danger``, and what ran."""
    danger = Danger(options.pop("effects", None))
    on, result = await said(GO, ends, plugins=[*plugins], tools=danger.tools(), **options)
    return on, result, danger.ran


# ---- rule 2: the default is a vote


async def test_the_hosts_default_stands_among_the_votes():
    seen = await reach("say", effects=())

    (made,) = [made for made in seen.decisions if made.operation == "tool_call"]
    assert [(vote.plugin, vote.verdict) for vote in made.votes] == [("host", "allow")]


def fails(event: ApprovalEvent) -> bool:
    raise RuntimeError("the terminal is gone")


@each_of("approver", [None, fails, *(lambda _, answer=answer: answer for answer in
                                     (None, False, "yes", 1, "True", {"approved": True}, object()))])  # fmt: skip
async def test_only_an_answered_approval_satisfies_an_ask(approver: Any):
    assert (await reach("say", config=ASKS, approver=approver)).ran == ()


async def test_an_approval_of_a_person_satisfies_an_ask():
    assert (await reach("say", config=ASKS, approver=yes)).ran == ("x",)


async def test_an_unanswered_ask_ends_the_turn_and_says_what_was_needed():
    _, result, ran = await turn(config=ASKS)

    assert (result.why, ran) == ("denied", [])
    assert "danger" in result.detail


async def test_a_refusal_is_final_and_the_next_approver_is_not_asked():
    """Rule 16."""
    asked: list[str] = []

    def approver(name: str, answer: bool) -> object:
        return hooked(resolve_approval=lambda _: [asked.append(name), answer][1], is_async=answer)

    seen = await reach("say", in_order(approver("no", answer=False), approver("yes", answer=True)), config=ASKS)

    assert (seen.ran, asked) == ((), ["no"])


async def test_an_approver_that_has_no_opinion_or_fails_leaves_it_to_the_next():
    silent, agrees = hooked(resolve_approval=None), hooked(resolve_approval=True, is_async=True)

    seen = await reach("say", in_order(silent, hooked(resolve_approval=fails, is_async=True), agrees), config=ASKS)

    assert seen.ran == ("x",)


async def test_the_approver_reads_the_frozen_arguments_escaped_and_whole():
    """Rules 10 and 17: what a person sees is made by the host from the frozen bytes."""
    asked: list[ApprovalEvent] = []
    evil = "a\u202eb\u200b\x1b[31m\n" + "x" * 5000

    await reach("say", [hooked(transform_tool_call={"path": evil})], config=ASKS, approver=asked.append)

    (event,) = asked
    assert all(character.isprintable() or character == "\n" for character in event.rendered)
    assert "x" * 5000 in event.rendered
    assert DANGER in event.rendered
    assert event.capability == DANGER


# ---- rule 3: respond, and denials that end the turn


async def test_two_different_answers_deny_and_name_both_plugins():
    plugins = in_order(*(deciding("decide_tool_call", Respond(text)) for text in ("one", "two")))

    seen = await reach("say", plugins)

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert (seen.ran, made.verdict) == ((), "deny")
    assert "a_decider" in made.by
    assert "b_decider" in made.by


@each_of("hook", ["decide_tool_call", "decide_tool_result"])
async def test_a_deny_can_end_the_turn(hook: str):
    on, result, _ = await turn(deciding(hook, Deny("no", ends_turn=True)), effects=())

    assert (result.why, len(on.model.requests)) == ("denied", 1)
    assert hook == "decide_tool_result" or results(on.session.history) == ["Denied: no"]


@both_orders
async def test_a_deny_ends_the_turn_if_any_policy_says_so(turned: bool):
    first, last = (deciding("decide_tool_call", Deny("no", ends_turn=ends)) for ends in (False, True))

    assert (await turn(*either_way(first, last, turned=turned)))[1].why == "denied"


async def answers(event: object, call_next: object) -> ToolOutput:
    return ToolOutput("secret")


async def replaces(event: object, call_next: Any) -> ToolOutput:
    await call_next()
    return ToolOutput("secret")


@each_of(
    "plugin", [deciding("decide_tool_call", Respond("secret")), hooked(around_tool_call=answers),
               hooked(around_tool_call=replaces)],
)  # fmt: skip
async def test_what_a_plugin_gives_for_a_result_passes_the_result_hooks(plugin: object):
    """Rules 3 and 4."""
    redactor = hooked(name="Redactor", transform_tool_result=ToolOutput("redacted"))

    assert (await reach("say", [plugin, redactor])).told == ("redacted",)


async def test_a_response_to_a_model_request_is_the_reply_and_nothing_is_sent():
    on, result = await said("from the model", plugins=[deciding("decide_model_request", Respond("from a plugin"))])

    assert (result.text, on.model.requests) == ("from a plugin", [])


async def test_a_response_to_an_input_ends_the_turn_with_it():
    on, result = await said("from the model", plugins=[deciding("decide_input", Respond("from a plugin"))])

    assert (result.why, result.text, on.model.requests) == ("completed", "from a plugin", [])
    assert [message.text for message in on.session.history] == ["go", "from a plugin"]


# ---- rule 4: around


async def test_an_around_that_answers_is_recorded_as_a_respond():
    seen = await reach("say", [hooked(name="Around", around_tool_call=answers)])

    assert seen.told == ("secret",)
    assert ("respond", "app:around") in [(made.verdict, made.by) for made in seen.decisions]


TWICE, ONCE = ("x", "x"), ("x",)


@pytest.mark.parametrize(
    ("stale", "answers", "ran"),
    [
        (True, (None, Deny("no longer")), ONCE), (True, (None, Ask("still?")), ONCE),
        (True, (None, Respond("cached")), ONCE), (True, (None, "no decision"), ONCE), (True, (None,), TWICE),
        (False, (None, Deny("no longer")), TWICE),
    ],
    ids=shown,
)  # fmt: skip
async def test_a_retrier_gets_a_new_decision_when_the_old_one_is_stale(
    stale: bool, answers: tuple[object, ...], ran: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    if stale:
        monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)

    seen = await reach("say", [hooked(around_tool_call=twice), deciding("decide_tool_call", *answers)])

    assert seen.ran == ran


@pytest.mark.parametrize(("last", "ran"), [("may I?", TWICE), ("may I really?", ONCE)])
async def test_an_approval_holds_for_every_attempt_at_the_same_request_and_for_no_new_ask(
    last: str, ran: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    """Rules 4 and 11: an approval answers exactly the asks recorded, and no person is asked for an attempt."""
    monkeypatch.setattr("pluggent_host.operations.pipeline.STALE_S", -1.0)
    asked: list[ApprovalEvent] = []
    first = Ask("may I?")  # decided, decided again after the approval, and then for another attempt

    plugins = [hooked(around_tool_call=twice), deciding("decide_tool_call", first, first, Ask(last))]
    seen = await reach("say", plugins, approver=agreeing(asked))

    assert (seen.ran, len(asked)) == (ran, 1)


@pytest.mark.parametrize(("effects", "runs"), [(None, 1), (("network_read",), 2), ((), 2)], ids=repr)
async def test_a_retrier_repeats_a_call_of_unknown_outcome_only_if_it_changes_nothing(
    effects: tuple[str, ...] | None, runs: int
):
    """Rule 21: never twice without asking."""
    hang, ran = hanging_once(effects)

    async def retries(event: object, call_next: Any) -> Any:
        output = await call_next()
        return await call_next() if output.is_error else output

    on, _ = await said(call("hang"), plugins=[hooked(around_tool_call=retries)], tools=[hang])

    assert ran == ["hang"] * runs
    assert runs == 1 or on.read_by_model() == ["done"]


@pytest.mark.parametrize("reply", ["one", ProviderError(ProviderErrorKind.REFUSED, "no")], ids=["replies", "fails"])
async def test_an_around_turn_that_answers_after_the_turn_adds_no_second_one(reply: Any):
    async def around(event: object, call_next: Any) -> str:
        with contextlib.suppress(ProviderError):
            await call_next()
        return "other words"

    async with stage(reply, plugins=[hooked(around_turn=around)]) as on:
        with pytest.raises(HookError, match="the result of a turn cannot be replaced"):
            await on.session.say("go")

    assert [message.text for message in on.session.history if message.role is Role.USER] == ["go"]
    assert len(on.recorder.of(TurnEnded)) == 1


# ---- rule 5: the table

ELSEWHERE = (
    "decide_question", "decide_memory_read", "decide_memory_write", "decide_embedding_request",
    "decide_embedding_response",
)  # fmt: skip
"""Hooks that a plain turn does not fire; memory and questions have tests of their own."""
every_hook = pytest.mark.parametrize("hook", [hook for hook in ANSWERS if hook not in ELSEWHERE])


@every_hook
@each_of("answer", [Deny("no"), Ask("?"), Respond(object()), True, "allow"])
async def test_every_decide_hook_stops_what_it_decides(hook: str, answer: object):
    """Anything but allow or a usable respond, with no person to ask, stops the operation."""
    on, result, ran = await turn(deciding(hook, answer), ends="the last words", effects=())

    happened = {
        "decide_input": bool(on.model.requests),
        "decide_model_request": bool(on.model.requests),
        "decide_model_response": bool(ran),
        "decide_tool_call": bool(ran),
        "decide_tool_result": "did x" in repr(on.session.history),
        "decide_output": "the last words" in repr((result, on.session.history)),
    }
    assert not happened[hook]


@every_hook
async def test_every_decide_hook_can_be_answered_by_a_person(hook: str):
    on, result, ran = await turn(deciding(hook, Ask("may I?")), ends="the last words", effects=(), approver=yes)

    assert (ran, result.text) == (["x"], "the last words")
    assert "approved" in [made.verdict for made in on.decisions()]


# ---- rule 6: two texts


async def test_the_model_and_the_person_are_told_different_things():
    seen = await reach("say", [deciding("decide_tool_call", Deny("for the model", tell_user="for the person"))])

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert seen.told == ("Denied: for the model",)
    assert made.reason == "for the person"


async def test_a_person_whose_message_is_denied_reads_the_text_for_people():
    on, result = await said(plugins=[deciding("decide_input", Deny("for the model", tell_user="for the person"))])

    assert (result.why, result.detail) == ("denied", "for the person")
    assert "for the model" not in result.text
    assert (on.model.requests, on.session.history) == ([], ())
