"""Events on their way to one consumer."""

import asyncio

import pytest
from places import only_this_task
from pluggent_hookspecs import ToolContext, tool
from pluggent_hookspecs.events import Scope
from pluggent_hookspecs.models import Finished
from pluggent_hookspecs.observations import TextShown, ToolProgressed
from pluggent_host.settings import HostSettings, Timeouts
from pluggent_host.turns.result import WAITING_EVENTS, Feed
from pluggent_testing.fakes import call
from talking import WAIT_S, Live, seen, talking, text

SCOPE = Scope()


def shown(number):
    return TextShown(SCOPE, str(number))


async def read(feed):
    return [event.text async for event in feed.events()]


async def test_events_arrive_in_order_until_the_end():
    feed = Feed()
    for number in range(3):
        feed.put(shown(number))
    feed.end()

    assert await read(feed) == ["0", "1", "2"]


async def test_a_consumer_that_came_first_is_woken():
    feed = Feed()
    reading = asyncio.create_task(read(feed))
    await asyncio.sleep(0)
    feed.put(shown(1))
    await asyncio.sleep(0)
    feed.put(shown(2))
    feed.end()

    assert await reading == ["1", "2"]


async def test_a_feed_with_room_holds_nobody_up():
    feed = Feed()
    feed.put(shown(0))

    assert not feed.full
    await asyncio.wait_for(feed.space(), WAIT_S)


async def full_feed() -> tuple[Feed, asyncio.Task[None]]:
    """Return a feed that is full, and somebody who waits for room in it."""
    feed = Feed()
    for number in range(WAITING_EVENTS):
        feed.put(shown(number))
    waiting = asyncio.create_task(feed.space())
    await asyncio.sleep(0)
    return feed, waiting


async def test_a_full_feed_waits_for_its_consumer():
    feed, waiting = await full_feed()
    assert not waiting.done()

    events = feed.events()
    for _ in range(WAITING_EVENTS):
        await anext(events)
    await waiting


async def test_the_end_sets_everybody_free():
    feed, waiting = await full_feed()
    feed.end()

    await waiting
    assert len(await read(feed)) == WAITING_EVENTS


async def test_a_consumer_that_has_gone_holds_nobody_up():
    feed, waiting = await full_feed()
    assert not waiting.done()
    feed.abandon()

    await asyncio.wait_for(waiting, WAIT_S)
    assert not feed.full


async def test_nothing_is_kept_for_a_consumer_that_has_gone():
    feed = Feed()
    feed.abandon()
    for number in range(2 * WAITING_EVENTS):
        feed.put(shown(number))

    await asyncio.wait_for(feed.space(), WAIT_S)
    feed.end()
    assert await read(feed) == []


# ---- a slow consumer --------------------------------------------------------------------


async def test_a_slow_consumer_holds_the_stream_up_instead_of_filling_the_memory():
    live = Live(*text(*"x" * 3 * WAITING_EVENTS), (Finished(),))
    async with talking(model=live) as session, session.stream("go") as events:
        for _ in range(5 * WAITING_EVENTS):
            await asyncio.sleep(0)
        assert live.given <= WAITING_EVENTS + 1

        assert len(await seen(events)) == 3 * WAITING_EVENTS


async def test_a_tool_that_tells_much_progress_does_not_fill_the_memory():
    told = asyncio.Event()

    @tool(effects=())
    async def chatty(context: ToolContext) -> str:
        """Tell much."""
        for number in range(20 * WAITING_EVENTS):
            context.progress(number)
            if number % 100 == 0:
                await asyncio.sleep(0)
        told.set()
        return ""

    async with talking(call("chatty"), "x", tools=[chatty]) as session, session.stream("go") as events:
        await asyncio.wait_for(told.wait(), WAIT_S)

        waiting = [event async for event in events if isinstance(event, ToolProgressed)]
        assert len(waiting) <= 3 * WAITING_EVENTS


async def test_a_slow_consumer_is_not_the_models_fault():
    live = Live(*text(*"x" * 2 * WAITING_EVENTS), (Finished(),))
    patient = HostSettings(timeouts=Timeouts(model_s=0.2))
    async with talking(model=live, config=patient) as session, session.stream("go") as events:
        await asyncio.sleep(0.3)  # longer than a model may take

        assert len(await seen(events)) == 2 * WAITING_EVENTS


async def test_a_consumer_that_is_cancelled_while_it_leaves_waits_for_the_end_all_the_same():
    started, cleaning, left = asyncio.Event(), asyncio.Event(), []

    @tool(effects=())
    async def hang() -> str:
        """Hang, and take a while to clean up."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            for _ in range(10):
                await asyncio.sleep(0)
            left.append(1)
        return ""

    async def consume(session):
        async with session.stream("go"):
            await started.wait()

    async with talking(call("hang"), "later", tools=[hang]) as session:
        consumer = asyncio.create_task(consume(session))
        await cleaning.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer

        assert left == [1]
        assert only_this_task()
        assert (await session.say("again")).text == "later"
