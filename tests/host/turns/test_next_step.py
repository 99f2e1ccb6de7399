"""Every transition of a turn, one by one and in long random stories."""

from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pluggent_hookspecs.messages import Usage
from pluggent_host.turns.next_step import (
    LAST_ROUND,
    NEARLY_SPENT,
    AskModel,
    Done,
    Replied,
    RunTools,
    Spent,
    Started,
    State,
    Stopped,
    ToolsSettled,
    Why,
    step,
)
from pluggent_transcript.limits import Limits
from pluggent_transcript.pending import Outcome

CALL = (("c1", "add 1"),)
RESULT = (Outcome("c1", "one"),)


def after(*events, limits=None) -> tuple[State, Any]:
    """Return the state and the last effect after Started and *events*."""
    state, effect = step(State(limits or Limits()), Started())
    for event in events:
        state, effect = step(state, event)
    return state, effect


def rounds(*signatures, limits, outcome=None) -> Any:
    """Return the effect after one round for each signature; the result is always the same one."""
    events = []
    for number, signature in enumerate(signatures):
        id = f"c{number}"
        settled = attrs.evolve(outcome or Outcome("", "same"), call_id=id)
        events += [Replied(((id, signature),)), ToolsSettled((settled,))]
    return after(*events, limits=limits)[1]


def spent(elapsed_s=0.0, **usage):
    return Spent(elapsed_s, Usage(**usage))


def settled(*outcomes, **more):
    return ToolsSettled(outcomes, **more)


# ---- one transition each ----------------------------------------------------------------

BOTH = Replied((("b", "2"), ("a", "1")))
ONE = Replied(CALL)
TRANSITIONS = {
    "a turn starts by asking the model": ((), AskModel(0)),
    "a reply without calls completes it": ((Replied(()),), Done(Why.COMPLETED)),
    "a reply with calls runs them in their order": ((BOTH,), RunTools(("b", "a"), 0)),
    "results go back to the model in the next round": ((ONE, ToolsSettled(RESULT)), AskModel(1)),
    "calls carry the round of their reply": ((ONE, ToolsSettled(RESULT), ONE), RunTools(("c1",), 1)),
    "stopping closes the calls that are open": (
        (BOTH, Stopped(Why.CANCELLED)), Done(Why.CANCELLED, close=("b", "a")),
    ),
    "settled calls are not closed again": ((ONE, ToolsSettled(RESULT), Stopped(Why.FAILED)), Done(Why.FAILED)),
    "unanswered asks end it and are named": (
        (ONE, ToolsSettled(RESULT, unanswered=("'rm' needs approval", "'mv' too"))),
        Done(Why.DENIED, "'rm' needs approval; 'mv' too"),
    ),
    "a policy can end it": (
        (ONE, settled(Outcome("c1", "no", denied=True, ends_turn=True))), Done(Why.DENIED, "a policy ended the turn"),
    ),
    "a call that waits for the person ends it": ((ONE, settled(Outcome("c1", "?", waits=True))), Done(Why.WAITING)),
    "it is handled if every call has served the person": (
        (ONE, settled(Outcome("c1", "", handled=True))), Done(Why.HANDLED),
    ),
    "it is not handled if one call has not": (
        (BOTH, settled(Outcome("b", "", handled=True), Outcome("a", ""))), AskModel(1),
    ),
    "waiting comes before being handled": (
        (ONE, settled(Outcome("c1", "", handled=True, waits=True))), Done(Why.WAITING),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TRANSITIONS)
def test_each_event_has_its_effect(what):
    events, effect = TRANSITIONS[what]

    assert after(*events)[1] == effect


@pytest.mark.parametrize("why", list(Why))
def test_stopping_ends_the_turn_for_the_reason_given(why):
    assert after(Stopped(why, "because"))[1] == Done(why, "because")


@pytest.mark.parametrize("event", [Started(), Replied(()), ToolsSettled(()), Stopped(Why.FAILED)])
def test_nothing_happens_after_the_end(event):
    state, _ = after(Replied(()))

    with pytest.raises(ValueError, match="the turn is over"):
        step(state, event)


# ---- limits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "limits", "effect"),
    [
        ((), Limits(model_calls=0), Done(Why.LIMIT, "limit 'model_calls' reached (0)", "model_calls")),
        (
            (ONE, ToolsSettled(RESULT), Replied((("c2", "b"),)), settled(Outcome("c2", "same"))),
            Limits(model_calls=2),
            Done(Why.LIMIT, "limit 'model_calls' reached (2)", "model_calls"),
        ),
        ((ONE, ToolsSettled(RESULT), Replied(())), Limits(model_calls=2), Done(Why.COMPLETED)),
        (
            (ONE, ToolsSettled(RESULT), BOTH),
            Limits(tool_rounds=1),
            Done(Why.LIMIT, "limit 'tool_rounds' reached (1)", "tool_rounds", ("b", "a")),
        ),
        (
            (ONE,),
            Limits(tool_rounds=0),
            Done(Why.LIMIT, "limit 'tool_rounds' reached (0)", "tool_rounds", ("c1",)),
        ),
    ],
)
def test_model_calls_and_tool_rounds_are_counted_and_open_calls_closed(events, limits, effect):
    assert after(*events, limits=limits)[1] == effect


OVERSPENT = [
    ("wall_s", Limits(wall_s=2.5), spent(2.5)),
    ("tokens", Limits(tokens=10), spent(input=6, output=4)),
    ("cost_usd", Limits(cost_usd=0.5), spent(cost_usd=0.5)),
]


@pytest.mark.parametrize(("name", "limits", "so_far"), OVERSPENT)
def test_what_is_spent_keeps_tools_and_the_model_from_running_and_a_whole_answer_counts(name, limits, so_far):
    before_tools = after(Replied(CALL, so_far), limits=limits)[1]
    after_tools = after(ONE, ToolsSettled(RESULT, spent=so_far), limits=limits)[1]

    assert (before_tools.why, before_tools.limit, before_tools.close) == (Why.LIMIT, name, ("c1",))
    assert (after_tools.why, after_tools.limit, after_tools.close) == (Why.LIMIT, name, ())
    assert after(Replied((), so_far), limits=limits)[1] == Done(Why.COMPLETED)


def test_a_little_less_than_the_limit_is_fine():
    limits = Limits(wall_s=2.5, tokens=10, cost_usd=0.5)
    so_far = spent(2.499, input=9, cost_usd=0.499)

    effect = after(Replied(CALL, so_far), ToolsSettled(RESULT, spent=so_far), limits=limits)[1]

    assert effect == AskModel(1, warning=NEARLY_SPENT.format("time"))


@pytest.mark.parametrize(("limits", "what"), [(Limits(tokens=10), "token budget"), (Limits(cost_usd=0.5), "money")])
def test_four_fifths_of_tokens_or_cost_are_a_warning(limits, what):
    before, at = (
        after(Replied(CALL), ToolsSettled(RESULT, spent=spent(input=tokens, cost_usd=tokens / 20)), limits=limits)[1]
        for tokens in (7, 8)
    )

    assert (before, at) == (AskModel(1), AskModel(1, warning=NEARLY_SPENT.format(what)))


@pytest.mark.parametrize(("model_calls", "warning"), [(2, LAST_ROUND), (3, "")])
def test_the_last_model_call_comes_with_a_warning(model_calls, warning):
    assert after(ONE, ToolsSettled(RESULT), limits=Limits(model_calls=model_calls))[1] == AskModel(1, warning=warning)


def test_unknown_usage_and_cost_reach_no_limit():
    limits = Limits(tokens=1, cost_usd=0.01)

    assert after(Replied(CALL, spent()), ToolsSettled(RESULT), limits=limits)[1] == AskModel(1)


def test_as_many_asks_and_denials_as_the_limit_are_allowed_and_one_more_ends_the_turn():
    two, denied = (ONE, ToolsSettled(RESULT, asks=2)), Outcome("", "no", denied=True)

    assert after(*two, limits=Limits(asks=2))[1] == AskModel(1)
    assert after(*two, ONE, ToolsSettled(RESULT, asks=1), limits=Limits(asks=2))[1].limit == "asks"
    assert rounds("a", limits=Limits(denials=1), outcome=denied) == AskModel(1)
    assert rounds("a", "b", limits=Limits(denials=1), outcome=denied).limit == "denials"


# ---- the loop guard ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signatures", "repeats", "ends"),
    [
        ("aa", 3, False), ("aaa", 3, True), ("ababa", 3, False), ("ababab", 3, True), ("aaxaa", 3, False),
        ("aaaaaaa", 0, False), ("a", 1, True),
    ],
)  # fmt: skip
def test_the_same_call_with_the_same_result_is_repeated_as_often_as_the_limit_at_most(signatures, repeats, ends):
    """A different call in between is progress, unless it comes in turn; no repeats switches the guard off."""
    effect = rounds(*signatures, limits=Limits(repeats=repeats))

    assert effect.limit == "repeats" if ends else effect == AskModel(len(signatures))


def test_a_different_result_is_progress():
    events = [event for n in range(5) for event in (ONE, settled(Outcome("c1", f"result {n}")))]

    assert after(*events, limits=Limits(repeats=2))[1] == AskModel(5)


def test_the_order_of_calls_in_a_reply_is_no_progress():
    replies = ((("1", "a"), ("2", "b")), (("1", "b"), ("2", "a")), (("1", "a"), ("2", "b")))
    events = [event for calls in replies for event in (Replied(calls), settled(Outcome("1", "r"), Outcome("2", "r")))]

    assert after(*events, limits=Limits(repeats=3))[1].limit == "repeats"


# ---- stories ----------------------------------------------------------------------------

few = st.none() | st.integers(0, 6)
limits_ = st.builds(
    Limits,
    model_calls=st.integers(0, 6),
    tool_rounds=st.integers(0, 6),
    wall_s=few,
    tokens=few,
    cost_usd=few,
    repeats=st.integers(0, 3),
    asks=st.integers(0, 3),
    denials=st.integers(0, 3),
)
calls_ = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), unique_by=lambda call: call[0], max_size=3)
usages = st.builds(Usage, input=st.none() | st.integers(0, 3), cost_usd=st.none() | st.integers(0, 3))
spending = st.builds(Spent, st.integers(0, 5), usages)
flags = st.fixed_dictionaries(
    {}, optional={name: st.booleans() for name in ("denied", "ends_turn", "handled", "waits")}
)


class AnyTurn(RuleBasedStateMachine):
    """Plays the world of a turn: answers each effect with an event that fits it, or stops."""

    @initialize(limits=limits_)
    def begin(self, limits):
        self.limits = limits
        self.open = set()
        self.closed = []
        self.model_calls = self.tool_rounds = self.asks = self.denials = 0
        self.take(Started(), State(limits))

    def take(self, event, state=None):
        self.state, self.effect = step(state or self.state, event)
        if isinstance(self.effect, AskModel):
            assert self.effect.round == self.model_calls
            self.model_calls += 1
        if isinstance(self.effect, RunTools):
            self.tool_rounds += 1

    @precondition(lambda self: isinstance(self.effect, AskModel))
    @rule(calls=calls_, so_far=spending)
    def reply(self, calls, so_far):
        self.open = {id for id, _ in calls}
        self.take(Replied(tuple(calls), so_far))

    @precondition(lambda self: isinstance(self.effect, RunTools))
    @rule(data=st.data(), asks=st.integers(0, 2), unanswered=st.booleans(), so_far=spending)
    def settle(self, data, asks, unanswered, so_far):
        assert isinstance(self.effect, RunTools)
        ids = self.effect.call_ids
        outcomes = tuple(Outcome(id, data.draw(st.sampled_from("rs")), **data.draw(flags)) for id in ids)
        self.asks += asks
        self.denials += sum(outcome.denied for outcome in outcomes)
        self.open = set()
        self.take(ToolsSettled(outcomes, ("x",) if unanswered else (), asks, so_far))

    @precondition(lambda self: not isinstance(self.effect, Done))
    @rule(why=st.sampled_from([Why.CANCELLED, Why.DENIED, Why.FAILED]))
    def stop(self, why):
        self.take(Stopped(why))

    @precondition(lambda self: isinstance(self.effect, Done))
    @rule(event=st.sampled_from([Started(), Replied(()), ToolsSettled(()), Stopped(Why.FAILED)]))
    def go_on_after_the_end(self, event):
        with pytest.raises(ValueError, match="the turn is over"):
            step(self.state, event)

    @invariant()
    def limits_hold(self):
        assert self.model_calls <= self.limits.model_calls
        assert self.tool_rounds <= self.limits.tool_rounds
        if isinstance(self.effect, AskModel):
            assert self.asks <= self.limits.asks
            assert self.denials <= self.limits.denials

    @invariant()
    def the_end_closes_exactly_the_open_calls(self):
        if isinstance(self.effect, Done):
            assert set(self.effect.close) == self.open
            assert self.state.done
            assert (self.effect.limit != "") == (self.effect.why is Why.LIMIT)
        else:
            assert not self.state.done

    @invariant()
    def tools_run_only_for_the_calls_of_the_reply(self):
        if isinstance(self.effect, RunTools):
            assert set(self.effect.call_ids) == self.open


TestAnyTurn = AnyTurn.TestCase
TestAnyTurn.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None
)  # a turn of six rounds ends earlier


@given(limits=limits_.map(lambda limits: limits._replace(model_calls=6)), data=st.data())
def test_a_model_that_never_stops_is_stopped(limits, data):
    before = State(limits)
    state, effect = step(before, Started())
    for _ in range(2 * limits.model_calls + 1):
        if isinstance(effect, AskModel):
            state, effect = step(state, Replied((("c", data.draw(st.sampled_from("xyz"))),)))
        elif isinstance(effect, RunTools):
            state, effect = step(state, ToolsSettled((Outcome("c", data.draw(st.sampled_from("rs"))),)))

    assert isinstance(effect, Done)
    assert effect.why is Why.LIMIT
    assert before == State(limits), "a step changes nothing in place"
