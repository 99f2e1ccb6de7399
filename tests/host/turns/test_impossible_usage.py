"""A server reports a usage that cannot be: the call fails, and what was reserved is counted (rule 42)."""

import math
from typing import Any

import attrs
import pytest
from pluggent_hookspecs import Message, ModelResponse, ProviderError, Usage, hookimpl
from pluggent_host import Limits, Session
from talking import talking

IMPOSSIBLE = [
    Usage(input=-1, output=5), Usage(input=5, output=-10**12), Usage(input=math.nan), Usage(output=math.inf),  # type: ignore[arg-type]
    Usage(input=2.5), Usage(input=True), Usage(input="7"), Usage(input=1, cached=-1), Usage(reasoning=-1),  # type: ignore[arg-type]
    Usage(cost_usd=-0.5), Usage(cost_usd=math.nan), Usage(cost_usd=math.inf), Usage(cost_usd="1"),  # type: ignore[arg-type]
]  # fmt: skip


class Ledger:
    """Reserves for every attempt, and keeps what it is told of each."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, Usage]] = []

    @hookimpl
    def reserve(self, event: Any) -> str:
        return "held"

    @hookimpl
    def settle(self, event: Any) -> None:
        self.settled.append((event.outcome, event.usage))


def reply(usage: Usage) -> ModelResponse:
    return ModelResponse(Message.assistant("hello"), usage=usage)


async def said(session: Session, *, streamed: bool) -> None:
    """Say something, streamed or not."""
    if not streamed:
        await session.say("hi")
        return
    async with session.stream("hi") as events:
        [event async for event in events]


@pytest.mark.parametrize("usage", IMPOSSIBLE)
@pytest.mark.parametrize("streamed", [False, True])
async def test_an_impossible_usage_fails_the_call_and_books_what_was_reserved(usage: Usage, *, streamed: bool) -> None:
    ledger = Ledger()
    async with talking(reply(usage), plugins=[ledger], limits=Limits(tokens=1000, cost_usd=1.0)) as session:
        with pytest.raises(ProviderError, match=r"reports a usage that is not possible: \w+="):
            await said(session, streamed=streamed)

        # Counts that are unknown are booked as they were reserved.
        assert ledger.settled == [("failed", Usage(estimated=True))]
        assert attrs.evolve(session.usage, estimated=False) == Usage()
        assert (await session.say("again")).text == "done"


async def test_a_usage_of_zeros_and_unknowns_is_possible() -> None:
    async with talking(reply(Usage(input=0, output=None, cost_usd=0))) as session:
        assert (await session.say("hi")).text == "hello"
