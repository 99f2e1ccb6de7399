"""Events on their way to one consumer."""

import asyncio

from pluggent_host.feed import WAITING_EVENTS, Feed
from pluggent_hookspecs.events import Scope, TextShown
from talking import WAIT_S

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

    await asyncio.wait_for(feed.room(), WAIT_S)


async def test_a_full_feed_waits_for_its_consumer():
    feed = Feed()
    for number in range(WAITING_EVENTS):
        feed.put(shown(number))
    waiting = asyncio.create_task(feed.room())
    await asyncio.sleep(0)
    assert not waiting.done()

    events = feed.events()
    for _ in range(WAITING_EVENTS):
        await anext(events)
    await waiting


async def test_the_end_sets_everybody_free():
    feed = Feed()
    for number in range(WAITING_EVENTS):
        feed.put(shown(number))
    waiting = asyncio.create_task(feed.room())
    await asyncio.sleep(0)
    feed.end()

    await waiting
    assert len(await read(feed)) == WAITING_EVENTS


async def test_a_consumer_that_has_gone_holds_nobody_up():
    feed = Feed()
    for number in range(WAITING_EVENTS):
        feed.put(shown(number))
    waiting = asyncio.create_task(feed.room())
    await asyncio.sleep(0)
    feed.abandon()

    await waiting


async def test_nothing_is_kept_for_a_consumer_that_has_gone():
    feed = Feed()
    feed.abandon()
    for number in range(2 * WAITING_EVENTS):
        feed.put(shown(number))

    await asyncio.wait_for(feed.room(), WAIT_S)
    feed.end()
    assert await read(feed) == []
