"""What becomes of reservations and settlements whose host no longer waits, or whose file is locked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from budgets import Lent, Time, locked, model_call, refusal, reserve, settings, settle, tool_call, total
from pluggent_budget.ledger_thread import LedgerError
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import Limit
from pluggent_hookspecs import ConfigError, Deny, Scope, Usage

PER_DAY = Limit(per=("principal", "day"), tokens=1000)
PER_TURN = Limit(per=("turn",), tokens=1000)
WAIT_S = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


async def left(budget: Budget, most: int = 1000) -> int:
    """Return how many tokens can still be reserved; leaves nothing reserved."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        held = await reserve(budget, model_call(middle))
        if isinstance(held, Deny):
            high = middle - 1
        else:
            low = middle
            await settle(budget, model_call(), held, Usage(0, 0))
    return low


async def test_a_reservation_that_is_cancelled_while_it_waits_holds_nothing(path: Path) -> None:
    budget = Budget(settings(PER_DAY, PER_TURN, path=str(path)))
    async with budget.open(Lent()):
        with locked(path):
            waiting = asyncio.ensure_future(reserve(budget, model_call(400)))
            await asyncio.sleep(0.02)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        assert await left(budget) == 1000
        assert total(path, "held_tokens") == 0


async def test_one_that_was_made_but_not_received_is_given_back(path: Path) -> None:
    budget = Budget(settings(PER_DAY, PER_TURN, path=str(path)))
    async with budget.open(Lent()):
        for turns in range(6):  # of the loop, after which the host is cancelled
            waiting = asyncio.ensure_future(reserve(budget, model_call(100)))
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait((waiting,))
            if not waiting.cancelled():  # it was quicker
                await settle(budget, model_call(), waiting.result(), Usage(0, 0))

        assert await left(budget) == 1000


@pytest.mark.parametrize(("lost", "rest"), [("booked", 600), ("released", 1000)])
@pytest.mark.parametrize("limit", [PER_DAY, PER_TURN])
async def test_one_that_the_host_has_forgotten_counts_as_lost_in_the_end(
    path: Path, limit: Limit, lost: str, rest: int
) -> None:
    time = Time()
    budget = Budget(settings(limit, path=str(path), lost=lost, expires_s=600.0), clock=time.clock)
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(400))
        assert await left(budget) == 600

        time.now += 601.0
        time.ticks += 601.0

        assert await left(budget) == rest
        await settle(budget, model_call(400), held, Usage(30, 20))
        assert await left(budget) == 950


async def test_a_settlement_whose_host_is_cancelled_is_booked_all_the_same(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path)))
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(400))
        with locked(path):
            settling = asyncio.ensure_future(settle(budget, model_call(), held, Usage(10, 20)))
            await asyncio.sleep(0)
            settling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await settling

    assert (total(path), total(path, "held_tokens")) == (30, 0)


async def test_while_the_ledger_is_locked_nothing_is_allowed_and_nothing_is_lost(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path), busy_s=0.05))
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(400))
        with locked(path):
            told = await refusal(budget, model_call(100))
            with pytest.raises(LedgerError, match="database is locked"):
                await settle(budget, model_call(), held, Usage(10, 20))
            again = await refusal(budget, model_call(100))

        assert "cannot be told: the ledger" in told
        assert "database is locked" in told
        assert "database is locked" in again
        assert await left(budget) == 970


async def test_what_could_not_be_written_before_the_end_is_written_at_the_end(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path), busy_s=0.0))
    async with budget.open(Lent()):
        held = await reserve(budget, model_call(400))
        with locked(path), pytest.raises(LedgerError):
            await settle(budget, model_call(), held, Usage(10, 20))

    assert (total(path), total(path, "held_tokens")) == (30, 0)


async def test_the_loop_goes_on_while_the_ledger_is_locked(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path), busy_s=0.3))
    async with budget.open(Lent()):
        with locked(path):
            waiting = asyncio.ensure_future(reserve(budget, model_call(100)))
            turns = 0
            while not waiting.done():
                turns += 1
                await asyncio.sleep(0.005)

    assert isinstance(await waiting, Deny)
    assert turns > 10


async def test_two_hundred_sessions_at_once_hold_no_more_than_there_is(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path)))
    async with budget.open(Lent()):
        answers = await asyncio.gather(*(reserve(budget, model_call(30)) for _ in range(200)))

        granted = [answer for answer in answers if not isinstance(answer, Deny)]
        assert len(granted) == 33
        await asyncio.gather(*(settle(budget, model_call(), held, Usage(30, 0)) for held in granted))
        assert await left(budget) == 10


async def test_a_ledger_outside_the_life_of_its_host_allows_nothing(path: Path) -> None:
    budget = Budget(settings(PER_DAY, path=str(path)))

    before = await refusal(budget, model_call(1))
    async with budget.open(Lent()):
        pass
    after = await refusal(budget, model_call(1))

    assert "the plugin is used outside the lifetime of its host" in before
    assert before == after


async def test_a_ledger_that_cannot_be_opened_says_so_and_leaves_no_thread() -> None:
    budget = Budget(settings(PER_DAY, path="/dev/null"))

    with pytest.raises(ConfigError, match="is not a regular file"):
        async with budget.open(Lent()):
            pass


def test_two_hosts_of_one_process_share_the_file_and_not_the_memory(path: Path) -> None:
    async def spend(count: int) -> tuple[int, int]:
        budget = Budget(settings(PER_DAY, PER_TURN, path=str(path)))
        async with budget.open(Lent()):
            held = await reserve(budget, model_call(count))
            await settle(budget, model_call(), held, Usage(count, 0))
            return total(path), await left(budget)

    assert [asyncio.run(spend(300)), asyncio.run(spend(300))] == [(300, 700), (600, 400)]


# ---- answers -----------------------------------------------------------------------------


async def test_without_limits_nothing_is_reserved() -> None:
    budget = Budget()

    assert await reserve(budget, model_call(10**9)) is None


async def test_a_refusal_says_which_limit_what_was_used_what_is_left_and_when_it_begins_anew() -> None:
    time = Time(86400.0 * 20_000 + 3600)
    limit = Limit(per=("principal", "day"), tokens=1000)
    budget = Budget(settings(limit, path=":memory:", zone="Europe/Berlin"), clock=time.clock)
    first, second = [await reserve(budget, model_call(400)) for _ in range(2)]
    await settle(budget, model_call(), first, Usage(450, 50))

    answer = await reserve(budget, model_call(150))

    assert answer == Deny(
        "This was not done: the limit of tokens per principal and day does not allow it: of 1,000 tokens, 500 used,"
        " 400 reserved for calls that are running, 100 left; this call may need 150. It begins anew at"
        " 2024-10-05 00:00 (Europe/Berlin). Do not try it again; answer with what you have.",
        tell_user=(
            "The limit of tokens per principal and day (principal ann, day 2024-10-04) does not allow this: of 1,000"
            " tokens, 500 used, 400 reserved for calls that are running, 100 left; this call may need 150. It begins"
            " anew at 2024-10-05 00:00 (Europe/Berlin)."
        ),
    )
    await settle(budget, model_call(), second, Usage(0, 0))


async def test_a_day_that_is_over_begins_anew() -> None:
    time = Time()
    budget = Budget(settings(Limit(per=("day",), tool_calls=1), path=":memory:"), clock=time.clock)
    await settle(budget, tool_call(), await reserve(budget, tool_call()))
    assert "of 1 tool call, 1 used" in await refusal(budget, tool_call())

    time.now += 86400.0

    assert isinstance(await reserve(budget, tool_call()), int)


async def test_time_that_is_used_up_refuses_the_next_call() -> None:
    time = Time()
    budget = Budget(settings(Limit(per=("turn",), wall_s=10.0)), clock=time.clock)
    await settle(budget, tool_call(), await reserve(budget, tool_call()), s=10.5)

    told = await refusal(budget, model_call(1))

    assert "of 10 s, 10.5 s used, 0 s taken by calls that are running, 0 s left. It ends with this turn." in told


# ---- what attempts cost ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "outcome", "silent", "tokens"),
    [
        (Usage(300, 20), "done", "free", 320),
        (Usage(300, 20, estimated=True), "cancelled", "free", 320),
        (Usage(), "done", "free", 500),  # a server that tells no usage: all that was reserved
        (Usage(input=7), "done", "free", 107),
        (Usage(output=7), "done", "free", 407),
        (Usage(), "failed", "free", 0),
        (Usage(), "failed", "reserved", 500),
        (Usage(300, 5), "failed", "free", 305),
        (Usage(-5, -5), "done", "free", 0),
    ],
)
async def test_what_is_booked_is_what_was_used_as_far_as_it_is_known(
    usage: Usage, outcome: str, silent: str, tokens: int
) -> None:
    limit = Limit(per=("session",), tokens=10_000)
    budget = Budget(settings(limit, silent_failures=silent))
    event = model_call(400, output=100)

    await settle(budget, event, await reserve(budget, event), usage, outcome)

    assert 10_000 - await left(budget, 10_000) == tokens


async def test_a_request_without_a_limit_of_its_own_reserves_the_configured_one() -> None:
    budget = Budget(settings(Limit(per=("turn",), tokens=1000), default_output_tokens=500, input_factor=2.0))

    assert "this call may need 1,002" in await refusal(budget, model_call(251, output=None))


async def test_money_is_reserved_at_the_dearest_and_settled_at_what_it_was() -> None:
    limit = Limit(per=("turn",), cost_usd=0.01)
    event = model_call(1000, output=500, model="openai/gpt-5")
    budget = Budget(settings(limit))

    held = await reserve(budget, event)
    assert "this call may need $0.00625" in await refusal(budget, event)
    await settle(budget, event, held, Usage(1000, 100, cached=800))

    assert "$0.00135 used" in await refusal(budget, model_call(10**6, model="openai/gpt-5"))


async def test_what_a_vendor_bills_goes_before_what_is_reckoned() -> None:
    budget = Budget(settings(Limit(per=("turn",), cost_usd=0.01)))
    event = model_call(1000, output=500, model="openai/gpt-5")

    await settle(budget, event, await reserve(budget, event), Usage(1000, 100, cost_usd=0.0042))

    assert "$0.0042 used" in await refusal(budget, model_call(10**6, model="openai/gpt-5"))


async def test_a_model_without_a_price_is_refused_where_money_is_limited_unless_the_operator_says_otherwise() -> None:
    money, event = Limit(per=("turn",), cost_usd=0.5), model_call(1000, model="local/qwen")

    told = await refusal(Budget(settings(money)), event)
    free = await reserve(Budget(settings(money, unknown_price="free")), event)
    priced = await refusal(Budget(settings(money, unknown_price={"input": 1000, "output": 0})), event)
    elsewhere = await reserve(Budget(settings(Limit(per=("turn",), tokens=5000))), event)
    narrowed = await reserve(Budget(settings(Limit(per=("turn",), cost_usd=1, where={"model": "openai/*"}))), event)

    assert "local/qwen has no price, and the limit per turn is in dollars" in told
    assert 'unknown_price = "free"' in told
    assert not isinstance(free, Deny)
    assert "this call may need $1.00" in priced
    assert not isinstance(elsewhere, Deny)
    assert narrowed is None


async def test_names_from_outside_reach_a_refusal_without_their_control_characters() -> None:
    event = model_call(5, scope=Scope(principal="ann\x1b[2J\u202e" + "x" * 500))
    budget = Budget(settings(Limit(per=("principal",), tokens=1), path=":memory:"))

    told = await refusal(budget, event)

    assert r"principal ann\x1b[2J\u202exxx" in told
    assert len(told) < 400
