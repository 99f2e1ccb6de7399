"""What follows a failed attempt, and how long the wait is."""

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind
from pluggent_retry.backoff import Again, Failure, Final, after, ceiling_s
from pluggent_retry.settings import RetrySettings

RETRYABLE = [kind for kind in Kind if ProviderError(kind, "").retryable]
seconds = st.floats(0, 86_400)
drawn = st.floats(0, 1, exclude_max=True)
attempts = st.one_of(st.integers(1, 200), st.integers(1, 10**400))


def failed(attempt: int = 1, elapsed_s: float = 0.0, kind: Kind = Kind.UNAVAILABLE, **facts: Any) -> Failure:
    return Failure(ProviderError(kind, "no", **facts), attempt, elapsed_s)


@given(attempts, seconds, seconds, drawn)
def test_no_wait_is_negative_or_above_the_cap(attempt: int, base_s: float, cap_s: float, draw: float) -> None:
    settings = RetrySettings(attempts=10**401, base_s=base_s, cap_s=cap_s, budget_s=86_400)

    following = after(failed(attempt), settings, draw)

    assert isinstance(following, Again)
    assert 0 <= following.wait_s <= cap_s


@given(attempts, st.one_of(st.just(0.0), st.floats(0.001, 86_400)), seconds)
def test_the_longest_wait_doubles_until_the_cap(attempt: int, base_s: float, cap_s: float) -> None:
    settings = RetrySettings(base_s=base_s, cap_s=cap_s)

    first, then = ceiling_s(attempt, settings), ceiling_s(attempt + 1, settings)

    assert then == min(2 * first, cap_s) or first == cap_s


@given(st.integers(1, 20), st.floats(0, 60), drawn)
def test_a_server_is_not_asked_before_it_wants_to_be(attempt: int, retry_after: float, draw: float) -> None:
    settings = RetrySettings(attempts=100)

    following = after(failed(attempt, kind=Kind.RATE_LIMITED, retry_after=retry_after), settings, draw)

    assert isinstance(following, Again)
    assert retry_after <= following.wait_s <= retry_after + ceiling_s(attempt, settings)


@given(st.integers(1, 20), st.floats(0, 1000), st.one_of(st.none(), st.floats(0, 60)), seconds, drawn)
def test_no_attempt_begins_after_the_budget(
    attempt: int, elapsed_s: float, retry_after: float | None, budget_s: float, draw: float
) -> None:
    settings = RetrySettings(attempts=100, budget_s=budget_s)

    following = after(failed(attempt, elapsed_s, retry_after=retry_after), settings, draw)

    assert isinstance(following, Final) or elapsed_s + following.wait_s <= budget_s


@given(st.floats(allow_nan=True, allow_infinity=True), drawn)
def test_whatever_a_provider_gives_as_retry_after_is_survived(retry_after: float, draw: float) -> None:
    following = after(failed(retry_after=retry_after), RetrySettings(), draw)

    assert isinstance(following, Final) == (retry_after > 60)
    assert isinstance(following, Final) or 0 <= following.wait_s <= 61


@pytest.mark.parametrize("nonsense", [math.nan, -1.0, -math.inf])
def test_a_retry_after_without_sense_counts_as_none(nonsense: float) -> None:
    assert after(failed(retry_after=nonsense), RetrySettings(), 0.5) == Again(0.5)


@pytest.mark.parametrize("kind", Kind)
def test_the_error_itself_says_whether_another_try_makes_sense(kind: Kind) -> None:
    assert isinstance(after(failed(kind=kind), RetrySettings(), 0.5), Again) == (kind in RETRYABLE)


def test_a_failure_that_stands_at_once_needs_no_words() -> None:
    assert after(failed(kind=Kind.REFUSED), RetrySettings(), 0.5) == Final()
    assert after(failed(), RetrySettings(attempts=1), 0.5) == Final()


def test_the_last_attempt_says_how_many_there_were() -> None:
    assert after(failed(4, 7.25), RetrySettings(), 0.5) == Final("tried 4 times in 7.2 s")


def test_a_wait_that_is_too_long_is_told_with_both_numbers() -> None:
    following = after(failed(kind=Kind.RATE_LIMITED, retry_after=3600.0), RetrySettings(), 0.5)

    assert isinstance(following, Final)
    assert "3,600 s" in following.why
    assert "retry_after_cap_s = 60 " in following.why


def test_a_budget_that_is_used_up_is_told() -> None:
    following = after(failed(2, 179.9), RetrySettings(), 0.5)

    assert following == Final("tried 2 times; no attempt begins later than budget_s = 180 allows")


@pytest.mark.parametrize("repeat_shown", [False, True])
def test_shown_text_is_repeated_only_where_that_is_set(*, repeat_shown: bool) -> None:
    shown = Failure(ProviderError(Kind.STREAM_BROKEN, "no"), 1, 0.0, shown=True)

    following = after(shown, RetrySettings(repeat_shown=repeat_shown), 0.5)

    assert isinstance(following, Again) == repeat_shown
