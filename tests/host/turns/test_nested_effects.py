"""Nested effects happen once and are recorded; nothing happens after the call."""

import asyncio
from typing import Any

import pytest
from pluggent_hookspecs import LimitReached, Message, ToolCall, ToolContext, tool
from pluggent_host.transcript.entries import Dispatched, Said, SessionBegan, TurnBegan, rebuild
from pluggent_testing.fakes import call
from policy_stage import Danger, run, stage, using

# ---- effects once


async def test_a_nested_effect_is_dispatched_in_the_record_before_it_runs() -> None:
    seen: list[str] = []

    @tool(effects=("shell",))
    async def look() -> str:
        """Look what is recorded already."""
        seen.extend(id for entry in on.session.records() if isinstance(entry, Dispatched) for id, _, _ in entry.calls)
        return "seen"

    user, _ = using(lambda context: context.call_tool("look", {}))
    async with stage(call("user"), tools=[look, user]) as on:
        await on.session.say("go")

    assert len(seen) == 1


async def test_every_nested_call_has_a_key_of_its_own() -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    async def twice(context: ToolContext) -> None:
        keys.append(context.idempotency_key)
        await context.call_tool("key", {})
        await context.call_tool("key", {})

    user, _ = using(twice)
    async with stage((call("user", "a"), call("user", "b")), tools=[key, user]) as on:
        await on.session.say("go")

    assert len(keys) == len(set(keys)) == 6


async def test_a_nested_call_that_was_interrupted_asks_before_it_runs_again() -> None:
    ran: list[str] = []

    @tool(effects=("shell",))
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    user, _ = using(lambda context: context.call_tool("hang", {}), timeout_s=0.05)
    async with stage(call("user", "one"), call("user", "two"), tools=[hang, user]) as on:
        await on.session.say("go")

    assert ran == ["hang"]


def test_a_nested_call_that_a_crash_interrupted_is_unsure() -> None:
    outer = ToolCall("c", "user")
    entries = [
        SessionBegan("s", 0.0),
        TurnBegan("t1", 0.0),
        Said("t1", Message.user("go")),
        Said("t1", Message.assistant((), (outer,))),
        Dispatched("t1", (("t1.0.0.1", "s.t1.0.0.1", "fingerprint of the nested call"),)),
    ]

    assert rebuild(entries).unsure == {"fingerprint of the nested call"}


# ---- after the call


async def test_a_context_does_nothing_after_its_call() -> None:
    kept: list[ToolContext] = []
    danger = Danger()
    user, _ = using(lambda context: asyncio.sleep(0, kept.append(context)))

    async with stage(call("user"), tools=[*danger.tools(), user]) as on:
        await on.session.say("go")
        (context,) = kept
        for use in (
            context.call_tool("danger", {"path": "x"}),
            context.call_model("hello"),
        ):
            with pytest.raises(LimitReached):
                await use
        with pytest.raises(LimitReached):
            context.memory()
        context.progress(1.0)

    assert context.cancelled
    assert danger.ran == []
    assert len(on.model.requests) == 2


async def test_what_a_tool_left_running_calls_nothing_after_its_call() -> None:
    danger = Danger()
    tasks: list[asyncio.Task[Any]] = []
    go_on = asyncio.Event()

    async def later(context: ToolContext) -> Any:
        await go_on.wait()
        return await context.call_tool("danger", {"path": "x"})

    async def leave_behind(context: ToolContext) -> None:
        tasks.append(asyncio.create_task(later(context)))

    user, _ = using(leave_behind)
    async with stage(call("user"), tools=[*danger.tools(), user]) as on:
        await on.session.say("go")
        go_on.set()
        await asyncio.wait(tasks)

    assert tasks[0].exception() is not None
    assert danger.ran == []


async def test_a_call_that_timed_out_calls_nothing_any_more() -> None:
    danger = Danger()
    over = asyncio.Event()

    async def stubborn(context: ToolContext) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                return await context.call_tool("danger", {"path": "x"})
            finally:
                over.set()

    await run(stubborn, danger, timeout_s=0.05)

    assert over.is_set()
    assert danger.ran == []
