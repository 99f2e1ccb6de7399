"""The rules of votes, through an open host. Numbers are those of the rules: 2, 3, 5, 6."""

from typing import Any

import pytest
from naming import shown
from pluggent_hookspecs import ANSWERS, ApprovalEvent, Ask, Deny, Respond, ToolOutput, hookimpl
from pluggent_testing.fakes import call
from policy_rules import ASKS, DANGER, both_orders, deciding, yes
from policy_stage import Danger, either_way, in_order, reach, results, stage

# ---- rule 2: the default is a vote


async def test_the_hosts_default_stands_among_the_votes() -> None:
    seen = await reach("say", effects=())

    (made,) = [made for made in seen.decisions if made.operation == "tool_call"]
    assert [(vote.plugin, vote.verdict) for vote in made.votes] == [("host", "allow")]


async def test_only_an_answered_approval_satisfies_an_ask() -> None:
    assert (await reach("say", config=ASKS)).ran == ()
    assert (await reach("say", config=ASKS, approver=lambda _: None)).ran == ()
    assert (await reach("say", config=ASKS, approver=lambda _: False)).ran == ()
    assert (await reach("say", config=ASKS, approver=yes)).ran == ("x",)


async def test_an_unanswered_ask_ends_the_turn_and_says_what_was_needed() -> None:
    danger = Danger()

    async with stage(call("danger", path="x"), "never said", tools=danger.tools(), config=ASKS) as on:
        result = await on.session.say("go")

    assert result.why == "denied"
    assert "danger" in result.detail
    assert danger.ran == []


@pytest.mark.parametrize("answer", ["yes", 1, "True", {"approved": True}, object()], ids=shown)
async def test_an_approver_that_does_not_say_true_approves_nothing(answer: Any) -> None:
    assert (await reach("say", config=ASKS, approver=lambda _: answer)).ran == ()


async def test_an_approver_that_fails_approves_nothing() -> None:
    def fails(event: ApprovalEvent) -> bool:
        raise RuntimeError("the terminal is gone")

    assert (await reach("say", config=ASKS, approver=fails)).ran == ()


async def test_a_refusal_is_final_and_the_next_approver_is_not_asked() -> None:
    """Rule 16."""
    asked: list[str] = []

    class No:
        @hookimpl
        def resolve_approval(self, event):
            asked.append("no")
            return False

    class Yes:
        @hookimpl
        async def resolve_approval(self, event):
            asked.append("yes")
            return True

    seen = await reach("say", in_order(No(), Yes()), config=ASKS)

    assert (seen.ran, asked) == ((), ["no"])


async def test_an_approver_that_has_no_opinion_or_fails_leaves_it_to_the_next() -> None:
    class Silent:
        @hookimpl
        def resolve_approval(self, event):
            return None

    class Broken:
        @hookimpl
        async def resolve_approval(self, event):
            raise RuntimeError

    class Yes:
        @hookimpl
        async def resolve_approval(self, event):
            return True

    assert (await reach("say", in_order(Silent(), Broken(), Yes()), config=ASKS)).ran == ("x",)


async def test_the_approver_reads_the_frozen_arguments_escaped_and_whole() -> None:
    """Rules 10 and 17: what a person sees is made by the host from the frozen bytes."""
    asked: list[ApprovalEvent] = []
    evil = "a\u202eb\u200b\x1b[31m\n" + "x" * 5000

    class Rewriter:
        @hookimpl
        def transform_tool_call(self, event):
            return {"path": evil}

    await reach("say", [Rewriter()], config=ASKS, approver=asked.append)

    (event,) = asked
    assert all(character.isprintable() or character == "\n" for character in event.rendered)
    assert "x" * 5000 in event.rendered
    assert DANGER in event.rendered
    assert event.capability == DANGER


# ---- rule 3


async def test_two_different_answers_deny_and_name_both_plugins() -> None:
    plugins = in_order(deciding("decide_tool_call", Respond("one")), deciding("decide_tool_call", Respond("two")))

    seen = await reach("say", plugins)

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert seen.ran == ()
    assert made.verdict == "deny"
    assert "a_decider" in made.by
    assert "b_decider" in made.by


async def test_a_deny_can_end_the_turn() -> None:
    async with stage(
        call("danger", path="x"), "never said", plugins=[deciding("decide_tool_call", Deny("no", ends_turn=True))],
        tools=Danger().tools(),
    ) as on:  # fmt: skip
        result = await on.session.say("go")

    assert result.why == "denied"
    assert len(on.model.requests) == 1
    assert results(on.session.history) == ["Denied: no"]


@both_orders
async def test_a_deny_ends_the_turn_if_any_policy_says_so(turned: bool) -> None:
    first, last = deciding("decide_tool_call", Deny("no")), deciding("decide_tool_call", Deny("stop", ends_turn=True))

    async with stage(
        call("danger", path="x"), plugins=either_way(first, last, turned=turned), tools=Danger().tools()
    ) as on:
        assert (await on.session.say("go")).why == "denied"


async def test_a_denied_result_can_end_the_turn() -> None:
    plugins = [deciding("decide_tool_result", Deny("no", ends_turn=True))]

    async with stage(call("quiet"), "never said", plugins=plugins, tools=Danger().tools()) as on:
        result = await on.session.say("go")

    assert result.why == "denied"
    assert len(on.model.requests) == 1


async def test_a_response_passes_the_result_hooks() -> None:
    class Redactor:
        @hookimpl
        def transform_tool_result(self, event):
            return ToolOutput("redacted")

    seen = await reach("say", [deciding("decide_tool_call", Respond("secret")), Redactor()])

    assert seen.told == ("redacted",)


async def test_a_response_to_a_model_request_is_the_reply_and_nothing_is_sent() -> None:
    async with stage("from the model", plugins=[deciding("decide_model_request", Respond("from a plugin"))]) as on:
        result = await on.session.say("go")

    assert (result.text, on.model.requests) == ("from a plugin", [])


async def test_a_response_to_an_input_ends_the_turn_with_it() -> None:
    async with stage("from the model", plugins=[deciding("decide_input", Respond("from a plugin"))]) as on:
        result = await on.session.say("go")

    assert (result.why, result.text, on.model.requests) == ("completed", "from a plugin", [])
    assert [message.text for message in on.session.history] == ["go", "from a plugin"]


# ---- rule 5: the table


ELSEWHERE = ("decide_question", "decide_memory_read", "decide_memory_write")
"""Hooks that a plain turn does not fire; memory and questions have tests of their own."""
FIRED = [hook for hook in ANSWERS if hook not in ELSEWHERE]


@pytest.mark.parametrize("hook", FIRED)
@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), Respond(object()), True, "allow"], ids=shown)
async def test_every_decide_hook_stops_what_it_decides(hook: str, answer: object) -> None:
    """Anything but allow or a usable respond, nobody being there to ask, stops the operation."""
    danger = Danger(effects=())
    plugins = [deciding(hook, answer)]

    async with stage(call("danger", path="x"), "the last words", plugins=plugins, tools=danger.tools()) as on:
        result = await on.session.say("go")

    happened = {
        "decide_input": bool(on.model.requests),
        "decide_model_request": bool(on.model.requests),
        "decide_model_response": bool(danger.ran),
        "decide_tool_call": bool(danger.ran),
        "decide_tool_result": "did x" in repr(on.session.history),
        "decide_output": "the last words" in repr((result, on.session.history)),
    }
    assert not happened[hook]


@pytest.mark.parametrize("hook", FIRED)
async def test_every_decide_hook_can_be_answered_by_a_person(hook: str) -> None:
    danger = Danger(effects=())
    plugins = [deciding(hook, Ask("may I?"))]

    async with stage(
        call("danger", path="x"), "the last words", plugins=plugins, tools=danger.tools(), approver=yes
    ) as on:
        result = await on.session.say("go")

    assert (danger.ran, result.text) == (["x"], "the last words")
    assert "approved" in [made.verdict for made in on.decisions()]


# ---- rule 6: two texts


async def test_the_model_and_the_person_are_told_different_things() -> None:
    deny = Deny("try something else", tell_user="the operator forbids it")
    seen = await reach("say", [deciding("decide_tool_call", deny)])

    made = next(made for made in seen.decisions if made.operation == "tool_call")
    assert seen.told == ("Denied: try something else",)
    assert made.reason == "the operator forbids it"


async def test_a_person_whose_message_is_denied_reads_the_text_for_people() -> None:
    deny = Deny("for the model", tell_user="for the person")

    async with stage(plugins=[deciding("decide_input", deny)]) as on:
        result = await on.session.say("go")

    assert "for the person" in f"{result.text} {result.detail}"
    assert "for the model" not in f"{result.text} {result.detail}"
