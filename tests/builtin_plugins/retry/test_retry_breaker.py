"""The circuit breaker as a state machine, and the errors of those that it does not let go."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pluggent_hookspecs import Message, ModelResponse, ProviderError, ProviderErrorKind as Kind
from pluggent_retry.circuit_breaker import (
    Closed,
    Going,
    Open,
    Outcome,
    Permit,
    Refusal,
    Servers,
    State,
    Trying,
    admit,
    settle,
)
from pluggent_retry.settings import BreakerSettings
from retrying import Time, failure

SETTINGS = BreakerSettings(failures=3, window_s=60.0, open_s=10.0)
OK = ModelResponse(Message.assistant("well"))


class Calls(RuleBasedStateMachine):
    """Calls that begin and end in any order, on a clock that goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.state: State = Closed()
        self.now = 0.0
        self.permits: list[Permit] = []
        self.dead_in_a_row = 0
        self.trial: Permit | None = None
        self.trial_since = 0.0

    @rule(seconds=st.floats(0, 15))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def a_call_begins(self) -> None:
        before = self.state
        self.state, answer = admit(self.state, SETTINGS, self.now)

        if isinstance(answer, Refusal):
            assert not isinstance(before, Closed)
            assert self.now < answer.until <= self.now + SETTINGS.open_s
            return
        if answer.trial:
            assert self.trial is None or self.now - self.trial_since >= SETTINGS.open_s, "two trials at a time"
            self.trial, self.trial_since = answer, self.now
        self.permits.append(answer)

    @precondition(lambda self: self.permits)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def a_call_ends(self, data: st.DataObject, outcome: Outcome) -> None:
        permit = self.permits.pop(data.draw(st.integers(0, len(self.permits) - 1)))
        before = self.state

        self.state = settle(before, permit, outcome, SETTINGS, self.now)

        if permit.epoch != before.epoch:
            assert self.state == before, "what began before the last change of state has no say"
            return
        if permit == self.trial:
            self.trial = None
            assert isinstance(self.state, Closed) == (outcome is Outcome.ALIVE)
        elif isinstance(self.state, Open):
            assert outcome is Outcome.DEAD

    @invariant()
    def a_closed_circuit_has_too_few_failures_to_open(self) -> None:
        if isinstance(self.state, Closed):
            assert len(self.state.failures) < SETTINGS.failures

    @invariant()
    def an_open_circuit_has_an_end(self) -> None:
        if isinstance(self.state, Open):
            assert self.state.until <= self.now + SETTINGS.open_s


TestCalls = Calls.TestCase


def after_all(*ends: tuple[float, Outcome]) -> State:
    """Return the state after calls that ended at these times like this."""
    state: State = Closed()
    for at, outcome in ends:
        state, permit = admit(state, SETTINGS, at)
        assert isinstance(permit, Permit)
        state = settle(state, permit, outcome, SETTINGS, at)
    return state


def test_failures_in_a_row_open_the_circuit() -> None:
    assert after_all((0, Outcome.DEAD), (1, Outcome.DEAD)) == Closed(0, (0, 1))
    assert after_all((0, Outcome.DEAD), (1, Outcome.DEAD), (2, Outcome.DEAD)) == Open(1, until=12.0)


def test_a_reply_in_between_begins_the_count_anew() -> None:
    ends = [(0, Outcome.DEAD), (1, Outcome.DEAD), (2, Outcome.ALIVE), (3, Outcome.DEAD)]

    assert after_all(*ends) == Closed(0, (3,))


def test_an_end_that_tells_nothing_changes_nothing() -> None:
    assert after_all((0, Outcome.DEAD), (1, Outcome.UNKNOWN)) == Closed(0, (0,))


def test_failures_far_apart_do_not_add_up() -> None:
    assert after_all((0, Outcome.DEAD), (50, Outcome.DEAD), (61, Outcome.DEAD)) == Closed(0, (50, 61))


def test_no_failures_set_means_that_it_never_opens() -> None:
    settings = BreakerSettings(failures=0)
    state: State = Closed()
    for at in range(100):
        state = settle(state, Permit(0), Outcome.DEAD, settings, at)

    assert state == Closed()


def test_calls_that_hung_through_the_outage_do_not_open_it_again() -> None:
    state: State = Trying(2, since=30.0)
    state = settle(state, Permit(2, trial=True), Outcome.ALIVE, SETTINGS, 31.0)

    for _ in range(10):
        state = settle(state, Permit(0), Outcome.DEAD, SETTINGS, 32.0)

    assert state == Closed(3)


def test_a_trial_that_hangs_lets_the_next_one_try_and_has_no_say_any_more() -> None:
    state, first = admit(Open(1, until=10.0), SETTINGS, 10.0)
    state, second = admit(state, SETTINGS, 19.0)
    state, third = admit(state, SETTINGS, 20.0)

    assert second == Refusal(20.0, trying=True)
    assert isinstance(first, Permit)
    assert isinstance(third, Permit)
    assert settle(state, first, Outcome.DEAD, SETTINGS, 21.0) == state
    assert settle(state, third, Outcome.ALIVE, SETTINGS, 21.0) == Closed(4)


# ---- servers


def opened(time: Time, server: tuple[str, str] = ("acme", "https://acme.example/v1")) -> Servers:
    """Return servers of which one has just been found dead."""
    servers = Servers(SETTINGS, time.clock)
    for _ in range(SETTINGS.failures):
        _end(servers, server, failure())
    return servers


def _end(
    servers: Servers, server: tuple[str, str], how: ProviderError | ModelResponse, *, finally_: bool = True
) -> None:
    going = servers.admit(server)
    assert isinstance(going, Going)
    with going:
        if isinstance(how, ProviderError):
            going.failed(how, finally_=finally_)
        else:
            going.answered(how)


def test_a_refusal_says_who_until_when_and_which_setting() -> None:
    time = Time()
    servers = opened(time)
    time.passed_s = 4.0

    error = servers.admit(("acme", "https://acme.example/v1"))

    assert isinstance(error, ProviderError)
    assert (error.kind, error.retry_after, error.provider) == (Kind.UNAVAILABLE, 6.0, "acme")
    assert str(error) == (
        "acme: https://acme.example/v1 failed 3 calls in a row and is left alone: not asked before"
        " 2026-11-18 11:06:50 UTC, in 6 s ([plugins.pluggent-retry.breaker])"
    )


def test_a_refusal_tells_nothing_of_other_peoples_calls() -> None:
    servers = Servers(SETTINGS, Time().clock)
    for _ in range(3):
        _end(servers, ("a", "t"), failure(message="you said: my password is swordfish"))

    assert "swordfish" not in str(servers.admit(("a", "t")))


def test_one_server_has_no_part_in_the_failures_of_another() -> None:
    servers = opened(Time())

    assert isinstance(servers.admit(("acme", "https://other.example/v1")), Going)
    assert isinstance(servers.admit(("other", "https://acme.example/v1")), Going)


def test_two_hosts_share_no_breaker() -> None:
    time = Time()
    opened(time)

    assert isinstance(Servers(SETTINGS, time.clock).admit(("acme", "https://acme.example/v1")), Going)


@pytest.mark.parametrize(
    ("error", "closes"),
    [
        (failure(Kind.BAD_REQUEST, status=400), True),
        (failure(Kind.RATE_LIMITED, status=429), True),
        (failure(Kind.AUTHENTICATION), False),  # no key: no request was made
        (failure(Kind.PROTOCOL), False),
        (failure(Kind.TIMEOUT, status=504), False),
    ],
    ids=lambda case: str(case.kind) if isinstance(case, ProviderError) else None,
)
def test_a_server_that_answers_the_trial_if_only_to_refuse_is_alive(error: ProviderError, *, closes: bool) -> None:
    time = Time()
    server = ("acme", "https://acme.example/v1")
    servers = opened(time)
    time.passed_s = 10.0

    _end(servers, server, error)
    time.passed_s = 30.0

    both = [servers.admit(server) for _ in range(2)]
    assert isinstance(both[0], Going)
    assert isinstance(both[1], Going) == closes


def test_a_trial_counts_at_once_even_if_it_would_be_repeated() -> None:
    time = Time()
    server = ("acme", "https://acme.example/v1")
    servers = opened(time)
    time.passed_s = 10.0

    _end(servers, server, failure(), finally_=False)

    assert isinstance(servers.admit(server), ProviderError)


def test_threads_at_the_same_moment_get_one_trial_between_them() -> None:
    time = Time()
    server = ("acme", "https://acme.example/v1")
    for _ in range(20):
        servers = opened(time, server)
        time.passed_s += 10.0
        barrier = threading.Barrier(8)

        def admitted(servers: Servers = servers, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(10)
            return isinstance(servers.admit(server), Going)

        with ThreadPoolExecutor(8) as pool:
            answers = [future.result(10) for future in [pool.submit(admitted) for _ in range(8)]]

        assert sum(answers) == 1
