"""Budgets in real turns: what is refused, what the model reads, and what broken and cancelled calls cost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from budgets import locked, settings, total
from openai_server import (
    DONE,
    GO,
    LEAVE,
    RESET,
    STREAM_HEAD,
    Answer,
    OddServer,
    chunk,
    completion,
    event,
    http_chunk,
    json_answer,
    plugin_at,
    stream_answer,
)
from places import Again
from pluggent_budget.messages import NOTE
from pluggent_budget.plugin import Budget
from pluggent_budget.settings import Limit
from pluggent_hookspecs import (
    Message,
    ModelParameters,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    Role,
    TextShown,
    ToolContext,
    ToolFinished,
    Usage,
    tool,
)
from pluggent_host import Host, Why
from pluggent_testing.fakes import Recorder, ScriptedModel, call

PER_DAY = Limit(per=("principal", "day"), tokens=100_000)
WAIT_S = 30


@asynccontextmanager
async def hosted(*plugins: Any, model: str = "scripted/m", **options: Any) -> AsyncIterator[Host]:
    async with asyncio.timeout(WAIT_S), Host.open(model=model, plugins=plugins, installed=False, **options) as host:
        yield host


async def until_text(stream: Any) -> None:
    """Read *stream* until something of the reply is shown."""
    async for shown in stream:
        if isinstance(shown, TextShown):
            return


async def until_the_end(stream: Any) -> None:
    async for _ in stream:
        pass


def results(request: ModelRequest) -> list[str]:
    """Return what tools have answered so far."""
    return [message.text for message in request.messages if message.role is Role.TOOL]


def used(input: int, output: int, text: str = "done") -> ModelResponse:
    """Return a reply that used so much."""
    return ModelResponse(Message.assistant(text), usage=Usage(input, output))


@tool(effects=())
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


# ---- limits ------------------------------------------------------------------------------


async def test_a_turn_that_has_used_up_its_tokens_ends_and_says_which_limit() -> None:
    model = ScriptedModel(call("add", a=1, b=2), "never said")
    budget = Budget(settings(Limit(per=("turn",), tokens=60), default_output_tokens=20))
    async with hosted(model, budget, tools=[add]) as host:
        result = await (await host.session()).say("hi")

    assert result.why == "denied"
    assert "of 60 tokens, 15 used, 0 reserved for calls that are running, 45 left" in result.detail
    assert "It ends with this turn." in result.detail
    assert len(model.requests) == 1


async def test_the_next_turn_has_tokens_of_its_own_and_the_session_has_not() -> None:
    model = ScriptedModel("one", "two", "three", "four")
    limits = (Limit(per=("turn",), tokens=40), Limit(per=("session",), tokens=50))
    async with hosted(model, Budget(settings(*limits, default_output_tokens=10, warn_at=0.0))) as host:
        session, other = await host.session(), await host.session()
        said = [await session.say("hi") for _ in range(4)]
        elsewhere = await other.say("hi")

    assert [result.why for result in said] == ["completed", "completed", "completed", "denied"]
    assert "tokens per session" in said[-1].detail
    assert elsewhere.why == "completed"


async def test_a_tool_call_above_the_limit_is_told_to_the_model_and_the_turn_goes_on() -> None:
    model = ScriptedModel((call("add", "1", a=1, b=2), call("add", "2", a=3, b=4)), "that is all")
    recorder = Recorder()
    async with hosted(model, recorder, Budget(settings(Limit(per=("turn",), tool_calls=1))), tools=[add]) as host:
        result = await (await host.session()).say("hi")

    first, second = results(model.requests[1])
    assert result.text == "that is all"
    assert first == "3"
    assert "the limit of tool calls per turn does not allow it: of 1 tool call" in second
    assert "answer with what you have" in second
    assert [event.ran for event in recorder.of(ToolFinished)].count(True) == 1


async def test_a_limit_for_one_tool_leaves_the_others_alone() -> None:
    @tool(effects=())
    def double(a: int) -> int:
        """Double."""
        return 2 * a

    limit = Limit(per=("turn",), where={"tool": "*:tool/add"}, tool_calls=0)
    model = ScriptedModel((call("add", a=1, b=2), call("double", a=4)), "done")
    async with hosted(model, Budget(settings(limit)), tools=[add, double]) as host:
        await (await host.session()).say("hi")

    refused, done = results(model.requests[1])
    assert "tool calls per turn (for tool *:tool/add)" in refused
    assert done == "8"


async def test_calls_below_a_tool_count_too() -> None:
    @tool(effects=())
    async def twice(context: ToolContext) -> str:
        """Add twice."""
        results = [await context.call_tool("add", {"a": 1, "b": number}) for number in range(2)]
        return " | ".join(str(result.for_model) for result in results)

    model = ScriptedModel(call("twice"), "done")
    async with hosted(model, Budget(settings(Limit(per=("turn",), tool_calls=2))), tools=[add, twice]) as host:
        await (await host.session()).say("hi")

    (told,) = results(model.requests[1])
    assert "the limit of tool calls per turn does not allow it: of 2 tool calls, 1 used, 1 reserved" in told


async def test_every_attempt_is_a_call_of_its_own() -> None:
    busy = ProviderError(ProviderErrorKind.RATE_LIMITED, "busy")
    budget = Budget(settings(Limit(per=("session",), model_calls=3)))
    async with hosted(ScriptedModel(busy, "done", "more"), Again(), budget) as host:
        session = await host.session()
        said = [(await session.say("hi")).why for _ in range(3)]

    assert said == ["completed", "completed", "denied"]


async def test_limits_of_money_and_months_hold_across_hosts(tmp_path: Path) -> None:
    async def say() -> Any:
        limit = Limit(per=("model", "month"), cost_usd=0.003)
        price = {"input": 100.0, "output": 100.0}
        budget = Budget(settings(limit, path=str(tmp_path / "l.db"), unknown_price=price, default_output_tokens=10))
        async with hosted(ScriptedModel("done"), budget) as host:
            return await (await host.session()).say("hi")

    assert [(await say()).why for _ in range(3)] == ["completed", "completed", "denied"]
    assert "of $0.003, $0.003 used" in (await say()).detail


# ---- side by side ------------------------------------------------------------------------


@pytest.mark.parametrize("in_file", [False, True])
async def test_two_hundred_sessions_side_by_side_overshoot_nothing(tmp_path: Path, in_file: bool) -> None:
    hold = asyncio.Event()
    model = ScriptedModel(*["done"] * 200, hold=hold)
    path = str(tmp_path / "l.db") if in_file else ":memory:"
    budget = Budget(settings(Limit(per=("day",), tokens=1000), path=path, default_output_tokens=40, warn_at=0.0))
    async with hosted(model, budget) as host:
        sessions = [await host.session() for _ in range(200)]
        turns = [asyncio.ensure_future(session.say("hello there, how are you?")) for session in sessions]
        while sum(turn.done() for turn in turns) + len(model.requests) < 200:  # noqa: ASYNC110 (no event says so)
            await asyncio.sleep(0.001)
        running = len(model.requests)
        hold.set()
        results = await asyncio.gather(*turns)

    assert running == 1000 // (40 + len("hello there, how are you?") // 4)
    assert [result.why for result in results].count(Why.COMPLETED) == running
    if in_file:
        assert (total(tmp_path / "l.db"), total(tmp_path / "l.db", "held_tokens")) == (running * 15, 0)


# ---- broken and cancelled ----------------------------------------------------------------


async def test_a_turn_that_is_cancelled_in_the_middle_of_a_stream_books_what_had_come(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    model = ScriptedModel("word " * 1000)
    async with hosted(model, Budget(settings(PER_DAY, path=str(path)))) as host:
        session = await host.session()
        async with session.stream("hello" * 40) as stream:
            await until_text(stream)
        assert model.streams == 0

    assert total(path, "held_tokens") == 0
    assert 50 <= total(path) < 1000


async def test_a_turn_that_is_cancelled_while_the_model_is_silent_books_the_question(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    model = ScriptedModel("never", hold=asyncio.Event())
    async with hosted(model, Budget(settings(PER_DAY, path=str(path)))) as host:
        turn = asyncio.ensure_future((await host.session()).say("hello" * 40))
        await model.asked.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    assert (total(path), total(path, "held_tokens"), total(path, "model_calls")) == (50, 0, 1)


async def test_a_stream_that_breaks_books_what_had_come(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    model = ScriptedModel("word " * 100, cut=50)
    async with (
        hosted(model, Budget(settings(PER_DAY, path=str(path)))) as host,
        (await host.session()).stream("hello" * 40) as stream,
    ):
        with pytest.raises(ProviderError):
            await until_the_end(stream)

    assert total(path, "held_tokens") == 0
    assert 100 <= total(path) <= 115


HELLO = event(chunk({"content": "Hello " * 20}))
USAGE = {"prompt_tokens": 70, "completion_tokens": 11, "total_tokens": 81}


@pytest.mark.parametrize(
    ("answer", "booked"),
    [
        (stream_answer(HELLO, event(chunk({}, "stop", usage=USAGE)), DONE), 81),
        (stream_answer(HELLO, event(chunk({}, "stop")), DONE), 50 + 4096),  # no usage told: what was reserved
        ((STREAM_HEAD, http_chunk(HELLO), RESET), 80),
        ((STREAM_HEAD, http_chunk(HELLO + event(chunk({"content": "x"}, usage=USAGE))), RESET), 81),
        ((RESET,), 0),
        (json_answer({"error": {"message": "slow down"}}, 429), 0),
    ],
    ids=["whole", "no usage", "cut", "cut after usage", "hung up", "busy"],
)
async def test_what_a_real_server_sends_is_what_is_booked(tmp_path: Path, answer: Answer, booked: int) -> None:
    path = tmp_path / "l.db"
    async with OddServer(answer) as server:
        plugin, _ = plugin_at(server.url)
        budget = Budget(settings(PER_DAY, path=str(path)))
        async with (
            hosted(plugin, budget, model="openai/m") as host,
            (await host.session()).stream("hello" * 40) as stream,
        ):
            with contextlib.suppress(ProviderError):
                await until_the_end(stream)

    assert (total(path), total(path, "held_tokens")) == (booked, 0)


async def test_a_server_that_is_left_in_the_middle_costs_what_it_had_sent(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with OddServer((STREAM_HEAD, http_chunk(HELLO), LEAVE)) as server:
        plugin, _ = plugin_at(server.url)
        async with hosted(plugin, Budget(settings(PER_DAY, path=str(path))), model="openai/m") as host:
            session = await host.session()
            async with session.stream("hello" * 40) as stream:
                await until_text(stream)
            await server.left.wait()

    assert (total(path), total(path, "held_tokens")) == (80, 0)


async def test_while_a_real_server_thinks_its_reservation_stands(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    reply = json_answer(completion({"content": "Hello"}, usage=USAGE))
    async with OddServer((GO, *reply)) as server:
        plugin, _ = plugin_at(server.url)
        async with hosted(plugin, Budget(settings(PER_DAY, path=str(path))), model="openai/m") as host:
            session = await host.session(parameters=ModelParameters(max_output_tokens=300))
            turn = asyncio.ensure_future(session.say("hello" * 40))
            await server.asked.wait()
            assert (total(path), total(path, "held_tokens")) == (0, 350)
            server.go.set()
            await turn

    assert (total(path), total(path, "held_tokens")) == (81, 0)


async def test_a_locked_ledger_ends_the_turn_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with hosted(ScriptedModel("never"), Budget(settings(PER_DAY, path=str(path), busy_s=0.05))) as host:
        session = await host.session()
        with locked(path):
            refused = await session.say("hi")
        after = await session.say("hi")

    assert refused.why == "denied"
    assert "database is locked" in refused.detail
    assert after.why == "completed"


# ---- what the model is told --------------------------------------------------------------


@pytest.mark.parametrize("in_file", [False, True])
async def test_the_model_is_told_once_most_is_used_and_the_conversation_does_not_keep_it(
    tmp_path: Path, in_file: bool
) -> None:
    model = ScriptedModel(used(100, 100), used(600, 100), used(1, 1))
    path = str(tmp_path / "l.db") if in_file else ":memory:"
    limit = Limit(per=("principal", "day"), tokens=1100)
    async with hosted(model, Budget(settings(limit, path=path, default_output_tokens=5))) as host:
        session = await host.session()
        for _ in range(3):
            await session.say("hi")

    notes = [[message for message in request.messages if NOTE in message.text] for request in model.requests]
    assert [len(found) for found in notes] == [0, 0, 1]
    (note,) = notes[2]
    assert model.requests[2].messages[-1] is note
    assert note.role is Role.USER
    assert note.text.startswith(f"[{NOTE} 900 of 1,100 tokens per principal and day are used up, 200 left.")
    assert note.text.endswith("Come to an end in time.]")
    assert "ann" not in note.text


@pytest.mark.parametrize("off", [{"warn_at": 0.0}, {"limit": 0.0}])
async def test_an_operator_can_switch_the_note_off(off: dict[str, float]) -> None:
    model = ScriptedModel(used(950, 0), "done")
    limit = Limit(per=("session",), tokens=1100, warn_at=off.get("limit"))
    budget = Budget(settings(limit, default_output_tokens=5, warn_at=off.get("warn_at", 0.8)))
    async with hosted(model, budget) as host:
        session = await host.session()
        await session.say("hi")
        await session.say("hi")

    assert not any(NOTE in message.text for request in model.requests for message in request.messages)


@pytest.mark.parametrize(("send", "asked"), [(True, [77, 12]), (False, [None, 12])])
async def test_the_reserved_length_is_sent_with_the_request_if_the_operator_wants(
    send: bool, asked: list[int | None]
) -> None:
    model = ScriptedModel("one", "two")
    budget = Budget(settings(Limit(per=("turn",), tokens=1000), default_output_tokens=77, send_default=send))
    async with hosted(model, budget) as host:
        await (await host.session()).say("hi")
        await (await host.session(parameters=ModelParameters(max_output_tokens=12))).say("hi")

    assert [request.parameters.max_output_tokens for request in model.requests] == asked
