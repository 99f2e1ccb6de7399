"""Every transition of the pure core, one by one and in long random stories."""

from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pluggent_hookspecs.messages import Usage
from pluggent_host.settings import Limits
from pluggent_host.tools.results import Outcome
from pluggent_host.turns.step import (
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


# ---- one transition each ----------------------------------------------------------------


def test_a_turn_starts_by_asking_the_model():
    assert after()[1] == AskModel(0)


def test_a_reply_without_calls_completes_the_turn():
    assert after(Replied(()))[1] == Done(Why.COMPLETED)


def test_a_reply_with_calls_runs_them_in_their_order():
    calls = (("b", "2"), ("a", "1"))

    assert after(Replied(calls))[1] == RunTools(("b", "a"), 0)


def test_results_go_back_to_the_model_in_the_next_round():
    assert after(Replied(CALL), ToolsSettled(RESULT))[1] == AskModel(1)


def test_calls_carry_the_round_of_their_reply():
    assert after(Replied(CALL), ToolsSettled(RESULT), Replied(CALL))[1] == RunTools(("c1",), 1)


@pytest.mark.parametrize("why", list(Why))
def test_stopping_ends_the_turn_for_the_reason_given(why):
    assert after(Stopped(why, "because"))[1] == Done(why, "because")


def test_stopping_closes_the_calls_that_are_open():
    calls = (("a", "1"), ("b", "2"))

    assert after(Replied(calls), Stopped(Why.CANCELLED))[1] == Done(Why.CANCELLED, close=("a", "b"))


def test_settled_calls_are_not_closed_again():
    assert after(Replied(CALL), ToolsSettled(RESULT), Stopped(Why.FAILED))[1] == Done(Why.FAILED)


def test_unanswered_asks_end_the_turn_and_are_named():
    effect = after(Replied(CALL), ToolsSettled(RESULT, unanswered=("'rm' needs approval", "'mv' too")))[1]

    assert effect == Done(Why.DENIED, "'rm' needs approval; 'mv' too")


def test_a_policy_can_end_the_turn():
    effect = after(Replied(CALL), ToolsSettled((Outcome("c1", "no", denied=True, ends_turn=True),)))[1]

    assert effect == Done(Why.DENIED, "a policy ended the turn")


def test_a_call_that_waits_for_the_person_ends_the_turn():
    assert after(Replied(CALL), ToolsSettled((Outcome("c1", "?", waits=True),)))[1] == Done(Why.WAITING)


def test_a_turn_is_handled_if_every_call_has_served_the_person():
    assert after(Replied(CALL), ToolsSettled((Outcome("c1", "", handled=True),)))[1] == Done(Why.HANDLED)


def test_a_turn_is_not_handled_if_one_call_has_not():
    outcomes = (Outcome("c1", "", handled=True), Outcome("c2", ""))

    assert after(Replied((*CALL, ("c2", "add 2"))), ToolsSettled(outcomes))[1] == AskModel(1)


def test_waiting_for_the_person_comes_before_being_handled():
    outcome = Outcome("c1", "", handled=True, waits=True)

    assert after(Replied(CALL), ToolsSettled((outcome,)))[1] == Done(Why.WAITING)


@pytest.mark.parametrize("event", [Started(), Replied(()), ToolsSettled(()), Stopped(Why.FAILED)])
def test_nothing_happens_after_the_end(event):
    state, _ = after(Replied(()))

    with pytest.raises(ValueError, match="the turn is over"):
        step(state, event)


# ---- limits -----------------------------------------------------------------------------


def test_no_model_call_at_all_is_a_possible_limit():
    effect = after(limits=Limits(model_calls=0))[1]

    assert effect == Done(Why.LIMIT, "limit 'model_calls' reached (0)", "model_calls")


def test_model_calls_are_counted():
    effect = rounds("a", "b", limits=Limits(model_calls=2))

    assert effect == Done(Why.LIMIT, "limit 'model_calls' reached (2)", "model_calls")


def test_the_last_model_call_may_still_complete_the_turn():
    assert after(Replied(CALL), ToolsSettled(RESULT), Replied(()), limits=Limits(model_calls=2))[1] == Done(
        Why.COMPLETED
    )


def test_tool_rounds_are_counted_and_the_open_calls_closed():
    effect = after(
        Replied(CALL), ToolsSettled(RESULT), Replied((("c2", "x"), ("c3", "y"))), limits=Limits(tool_rounds=1)
    )[1]

    assert effect == Done(Why.LIMIT, "limit 'tool_rounds' reached (1)", "tool_rounds", ("c2", "c3"))


def test_no_tool_round_at_all_is_a_possible_limit():
    effect = after(Replied(CALL), limits=Limits(tool_rounds=0))[1]

    assert effect == Done(Why.LIMIT, "limit 'tool_rounds' reached (0)", "tool_rounds", ("c1",))


OVERSPENT = [
    ("wall_s", Limits(wall_s=2.5), spent(2.5)),
    ("tokens", Limits(tokens=10), spent(input=6, output=4)),
    ("cost_usd", Limits(cost_usd=0.5), spent(cost_usd=0.5)),
]


@pytest.mark.parametrize(("name", "limits", "so_far"), OVERSPENT)
def test_what_is_spent_before_the_tools_keeps_them_from_running(name, limits, so_far):
    effect = after(Replied(CALL, so_far), limits=limits)[1]

    assert (effect.why, effect.limit, effect.close) == (Why.LIMIT, name, ("c1",))


@pytest.mark.parametrize(("name", "limits", "so_far"), OVERSPENT)
def test_what_is_spent_after_the_tools_keeps_the_model_from_being_asked(name, limits, so_far):
    effect = after(Replied(CALL), ToolsSettled(RESULT, spent=so_far), limits=limits)[1]

    assert (effect.why, effect.limit, effect.close) == (Why.LIMIT, name, ())


@pytest.mark.parametrize(("name", "limits", "so_far"), OVERSPENT)
def test_a_whole_answer_counts_even_if_it_was_expensive(name, limits, so_far):
    assert after(Replied((), so_far), limits=limits)[1] == Done(Why.COMPLETED)


def test_a_little_less_than_the_limit_is_fine():
    limits = Limits(wall_s=2.5, tokens=10, cost_usd=0.5)
    so_far = spent(2.499, input=9, cost_usd=0.499)

    effect = after(Replied(CALL, so_far), ToolsSettled(RESULT, spent=so_far), limits=limits)[1]

    assert effect == AskModel(1, warning=NEARLY_SPENT.format("time"))


def test_unknown_usage_and_cost_reach_no_limit():
    limits = Limits(tokens=1, cost_usd=0.01)

    assert after(Replied(CALL, spent()), ToolsSettled(RESULT), limits=limits)[1] == AskModel(1)


def test_as_many_asks_as_the_limit_are_allowed_and_one_more_ends_the_turn():
    limits = Limits(asks=2)
    two = (Replied(CALL), ToolsSettled(RESULT, asks=2))

    assert after(*two, limits=limits)[1] == AskModel(1)
    assert after(*two, Replied(CALL), ToolsSettled(RESULT, asks=1), limits=limits)[1].limit == "asks"


def test_as_many_denials_as_the_limit_are_allowed_and_one_more_ends_the_turn():
    limits = Limits(denials=1)
    denied = Outcome("", "no", denied=True)

    assert rounds("a", limits=limits, outcome=denied) == AskModel(1)
    assert rounds("a", "b", limits=limits, outcome=denied).limit == "denials"


# ---- the loop guard ---------------------------------------------------------------------


def test_the_same_call_with_the_same_result_is_repeated_three_times_at_most():
    assert rounds("a", "a", limits=Limits(repeats=3)) == AskModel(2)
    assert rounds("a", "a", "a", limits=Limits(repeats=3)).limit == "repeats"


def test_two_calls_in_turn_are_going_in_circles_too():
    assert rounds("a", "b", "a", "b", "a", limits=Limits(repeats=3)) == AskModel(5)
    assert rounds("a", "b", "a", "b", "a", "b", limits=Limits(repeats=3)).limit == "repeats"


def test_a_different_call_in_between_is_progress():
    assert rounds("a", "a", "x", "a", "a", limits=Limits(repeats=3)) == AskModel(5)


def test_a_different_result_is_progress():
    events = []
    for number in range(5):
        events += [Replied(CALL), ToolsSettled((Outcome("c1", f"result {number}"),))]

    assert after(*events, limits=Limits(repeats=2))[1] == AskModel(5)


def test_the_ids_of_calls_are_no_progress():
    events = [
        event for id in ("x", "y", "z") for event in (Replied(((id, "add 1"),)), ToolsSettled((Outcome(id, "one"),)))
    ]

    assert after(*events, limits=Limits(repeats=3))[1].limit == "repeats"


def test_the_order_of_calls_in_a_reply_is_no_progress():
    outcomes = (Outcome("1", "r"), Outcome("2", "r"))
    events = [
        event
        for calls in ((("1", "a"), ("2", "b")), (("1", "b"), ("2", "a")), (("1", "a"), ("2", "b")))
        for event in (Replied(calls), ToolsSettled(outcomes))
    ]

    assert after(*events, limits=Limits(repeats=3))[1].limit == "repeats"


def test_the_loop_guard_can_be_switched_off():
    assert rounds(*"aaaaaaa", limits=Limits(repeats=0)) == AskModel(7)


def test_one_repeat_allowed_means_the_first_call_ends_the_turn():
    assert rounds("a", limits=Limits(repeats=1)).limit == "repeats"


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


@given(limits=limits_.map(lambda limits: limits._replace(model_calls=6)), data=st.data())
def test_a_model_that_never_stops_is_stopped(limits, data):
    state, effect = step(State(limits), Started())
    for _ in range(2 * limits.model_calls + 1):
        if isinstance(effect, AskModel):
            state, effect = step(state, Replied((("c", data.draw(st.sampled_from("xyz"))),)))
        elif isinstance(effect, RunTools):
            state, effect = step(state, ToolsSettled((Outcome("c", data.draw(st.sampled_from("rs"))),)))

    assert isinstance(effect, Done)
    assert effect.why is Why.LIMIT


def test_a_step_changes_nothing_in_place():
    before = State(Limits())

    step(before, Started())

    assert before == State(Limits())
