"""The plugin in front of a real provider and a real server on loopback that is odd, broken or busy."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from odd_server import (
    CLOSE,
    LEAVE,
    RESET,
    STREAM_HEAD,
    Answer,
    OddServer,
    event,
    http_chunk,
    json_answer,
    stream_answer,
)
from openai_server import DONE, KEY, chunk, completion
from pluggent_hookspecs import (
    Discarded,
    ModelCalled,
    ModelRetried,
    ProviderError,
    ProviderErrorKind as Kind,
    Secret,
    TextShown,
    Usage,
)
from pluggent_host import Host
from pluggent_host.session import Session
from pluggent_openai.plugin import OpenAI
from pluggent_retry.plugin import Retry
from pluggent_testing.fakes import Recorder
from retrying import Time

HELLO = json_answer(completion({"content": "Hello."}))
STREAMED = stream_answer(
    event(chunk({"content": "Hel"})), event(chunk({"content": "lo."})), event(chunk({}, "stop")), DONE
)
BROKEN_LATE: Answer = (STREAM_HEAD, http_chunk(event(chunk({"content": "one "}))), CLOSE)
BROKEN_EARLY: Answer = (STREAM_HEAD, http_chunk(event(chunk({"role": "assistant"}))), CLOSE)
COUNTED = {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}


def busy(status: int = 429, **headers: str) -> Answer:
    """Return a refusal with these headers."""
    return json_answer({"error": {"message": "busy"}}, status, {k.replace("_", "-"): v for k, v in headers.items()})


@asynccontextmanager
async def session_at(
    url: str, time: Time, recorder: Recorder | None = None, **settings: Any
) -> AsyncGenerator[Session]:
    """Open a session with a model of the server at *url*."""
    retry = Retry(Retry.Settings(**settings), clock=time.clock, draw=lambda: 0.5)
    openai = OpenAI(OpenAI.Settings(base_url=url, api_key=Secret.of(KEY), connect_s=5.0, first_byte_s=10.0))
    plugins = [retry, openai, recorder or Recorder()]
    async with (
        Host.open(model="openai/m", plugins=plugins, installed=False) as host,
        await host.session() as session,
    ):
        yield session


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"retry_after": "7"}, [7.5]),
        ({"retry_after": "0.25"}, [0.75]),
        ({"retry_after_ms": "250"}, [0.75]),
        ({"retry_after": "soon"}, [0.5]),
        ({"retry_after": "-1"}, [0.5]),
        ({"retry_after": "nan"}, [0.5]),
        ({"retry_after": "Thu, 01 Jan 1970 00:00:00 GMT"}, [0.5]),
        ({}, [0.5]),
    ],
    ids=str,
)
async def test_a_busy_server_is_asked_again_when_it_wants_to_be(headers: dict[str, str], waits: list[float]) -> None:
    time = Time()
    async with OddServer(busy(429, **headers), HELLO) as server, session_at(server.url, time) as session:
        result = await session.say("hello")

    assert result.text == "Hello."
    assert time.waits == waits


async def test_a_date_is_waited_for() -> None:
    time = Time()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    async with OddServer(busy(retry_after=date), HELLO) as server, session_at(server.url, time) as session:
        result = await session.say("hello")

    assert result.text == "Hello."
    assert 20 < time.waits[0] <= 31


async def test_a_busy_server_that_wants_no_other_try_is_left_alone() -> None:
    time = Time()
    wanted = busy(x_should_retry="false", retry_after="1")
    async with OddServer(wanted) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("hello")

    assert (caught.value.kind, time.waits, len(server.requests)) == (Kind.RATE_LIMITED, [], 1)


async def test_a_server_that_wants_another_try_gets_it() -> None:
    time = Time()
    scripted = busy(400, x_should_retry="true"), HELLO
    async with OddServer(*scripted) as server, session_at(server.url, time) as session:
        assert (await session.say("hello")).text == "Hello."

    assert len(time.waits) == 1


async def test_an_error_that_is_told_at_last_says_what_its_answer_said() -> None:
    time = Time()
    wanted = busy(retry_after="3600", x_request_id="req_7f3a")
    async with OddServer(wanted) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("hello")

    assert caught.value.meta is not None
    assert caught.value.meta.request_id == "req_7f3a"


async def test_an_hour_is_told_and_not_waited_for() -> None:
    time = Time()
    async with OddServer(busy(retry_after="3600")) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError, match="429: busy; not tried again: the server wants 3,600 s") as caught:
            await session.say("hello")

    assert (caught.value.retry_after, caught.value.status, time.waits) == (3600.0, 429, [])


@pytest.mark.parametrize("status", [500, 502, 503, 529])
async def test_a_server_with_a_fault_of_its_own_is_asked_again(status: int) -> None:
    time = Time()
    async with OddServer(busy(status), busy(status), HELLO) as server, session_at(server.url, time) as session:
        result = await session.say("hello")

    assert result.text == "Hello."
    assert len({request.body for request in server.requests}) == 1, "byte for byte the same request"
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 402])
async def test_a_server_that_says_no_is_not_asked_again(status: int) -> None:
    time = Time()
    async with OddServer(busy(status)) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError):
            await session.say("hello")

    assert (len(server.requests), time.waits) == (1, [])


def free_port() -> int:
    """Return a closed port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def test_a_server_that_is_not_there_is_told_after_all_attempts() -> None:
    time = Time()
    async with session_at(f"http://127.0.0.1:{free_port()}/v1", time) as session:
        with pytest.raises(ProviderError, match=r"tried 4 times in 3\.5 s") as caught:
            await session.say("hello")

    assert caught.value.kind is Kind.UNAVAILABLE


async def test_a_server_that_comes_up_while_the_call_waits_is_reached() -> None:
    port = free_port()
    server = OddServer(HELLO, port=port)

    class Starting(Time):
        async def _sleep(self, seconds: float) -> None:
            if len(self.waits) == 1:
                await server.__aenter__()
            await super()._sleep(seconds)

    time = Starting()
    try:
        async with session_at(f"http://127.0.0.1:{port}/v1", time) as session:
            result = await session.say("hello")
    finally:
        await server.__aexit__(None, None, None)

    assert result.text == "Hello."
    assert len(time.waits) == 2


async def test_a_connection_that_is_reset_is_made_again() -> None:
    time = Time()
    async with OddServer((RESET,), HELLO) as server, session_at(server.url, time) as session:
        assert (await session.say("hello")).text == "Hello."


async def text_of(session: Session) -> list[str | None]:
    """Return what a streamed turn shows, None where it is taken back."""
    async with session.stream("hello") as events:
        return [
            event.text if isinstance(event, TextShown) else None
            async for event in events
            if isinstance(event, TextShown | Discarded)
        ]


async def test_a_stream_that_breaks_before_its_first_text_is_begun_again() -> None:
    time = Time()
    async with OddServer(BROKEN_EARLY, STREAMED) as server, session_at(server.url, time) as session:
        assert await text_of(session) == ["Hel", "lo."]


async def test_a_stream_that_breaks_after_its_first_text_is_not() -> None:
    time = Time()
    async with OddServer(BROKEN_LATE) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError, match="repeat_shown = false") as caught:
            await text_of(session)

        assert caught.value.kind is Kind.STREAM_BROKEN
        assert session.history[-1].text == "one "


async def test_it_is_where_the_operator_wants_that_and_the_text_is_taken_back() -> None:
    time = Time()
    async with (
        OddServer(BROKEN_LATE, STREAMED) as server,
        session_at(server.url, time, repeat_shown=True) as session,
    ):
        assert await text_of(session) == ["one ", None, "Hel", "lo."]
        assert [message.text for message in session.history] == ["hello", "Hello."]


async def test_what_failed_attempts_used_is_counted() -> None:
    time, recorder = Time(), Recorder()
    counted = http_chunk(event({**chunk({"content": ""}), **COUNTED}))
    broken: Answer = (STREAM_HEAD, counted, CLOSE)
    async with (
        OddServer(broken, stream_answer(event({**chunk({"content": "x"}, "stop"), **COUNTED}), DONE)) as server,
        session_at(server.url, time, recorder) as session,
        session.stream("hello") as events,
    ):
        [event async for event in events]

    assert [called.usage for called in recorder.of(ModelCalled)] == [Usage(14, 6)]
    assert [retried.attempt for retried in recorder.of(ModelRetried)] == [2]


async def test_cancelling_in_the_wait_leaves_no_connection_in_use() -> None:
    time = Time(hold=True)
    async with OddServer(busy(503), HELLO) as server, session_at(server.url, time) as session:
        running = asyncio.create_task(session.say("hello"))
        await asyncio.wait_for(time.asleep.wait(), 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 10)

        assert (await asyncio.wait_for(session.say("hello"), 10)).text == "Hello."
        assert len(server.requests) == 2


async def test_cancelling_the_second_attempt_closes_its_connection() -> None:
    time = Time()
    async with OddServer(busy(503), (LEAVE,)) as server, session_at(server.url, time) as session:
        running = asyncio.create_task(session.say("hello"))
        async with asyncio.timeout(10):
            while len(server.requests) < 2:
                server.asked.clear()
                await server.asked.wait()
        running.cancel()

        await asyncio.wait_for(server.left.wait(), 10)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(running, 10)


async def test_the_key_is_in_no_message_of_ours() -> None:
    time = Time()
    refusal = json_answer({"error": {"message": f"busy, {KEY}"}}, 503)
    async with OddServer(*[refusal] * 4) as server, session_at(server.url, time) as session:
        with pytest.raises(ProviderError) as caught:
            await session.say("hello")

    assert KEY not in str(caught.value)
