"""A paused turn that goes on can be watched, as any other can."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_hookspecs import Ask, DecisionMade, TextShown, ToolFinished, ToolStarted, TurnEnded, hookimpl, tool
from pluggent_hookspecs.errors import ProviderError, ProviderErrorKind, SessionError
from pluggent_host import Approval, HostSettings, Session, SyncHost, Why
from pluggent_testing.fakes import ScriptedModel, call
from talking import assert_whole, hosting, results, shape, talking

PAUSING = HostSettings(on_ask="pause")


class Asks:
    """Asks about every call."""

    @hookimpl
    def decide_tool_call(self, event: Any) -> Ask:
        return Ask("may I?")


@tool(effects=())
def write(text: str) -> str:
    """Write."""
    return f"wrote {text}"


def options(**more: Any) -> dict[str, Any]:
    return {"tools": [write], "config": PAUSING, **more, "plugins": [Asks(), *more.get("plugins", ())]}


async def seen(session: Session, answers: dict[str, bool | Approval] | None = None) -> tuple[list[Any], Any]:
    async with session.stream_resume(answers) as events:
        told = [event async for event in events]
    return told, events.result


async def test_the_text_comes_while_the_turn_goes_on() -> None:
    async with talking(call("write", "1", text="a"), "one two three", **options()) as session:
        await session.say("go")
        told, result = await seen(session, {"1": True})

    assert "".join(event.text for event in told if isinstance(event, TextShown)) == "one two three"
    assert len([event for event in told if isinstance(event, TextShown)]) > 1
    assert (result.why, result.text) == (Why.COMPLETED, "one two three")


async def test_everything_that_happens_is_told_in_order() -> None:
    async with talking(call("write", "1", text="a"), "ok", **options()) as session:
        await session.say("go")
        told, _ = await seen(session, {"1": True})

    kinds = (DecisionMade, ToolStarted, ToolFinished, TurnEnded)
    names = [type(event).__name__ for event in told if isinstance(event, kinds)]
    assert names[-1] == "TurnEnded"
    assert names.index("ToolStarted") < names.index("ToolFinished") < names.index("TurnEnded")
    assert {event.scope.origin for event in told} == {"resume"}


async def test_a_turn_that_pauses_again_has_the_pause_as_its_result() -> None:
    async with talking((call("write", "1", text="a"), call("write", "2", text="b")), "ok", **options()) as session:
        await session.say("go")
        _, paused = await seen(session, {"1": True})
        _, done = await seen(session, {"2": True})

        assert_whole(session.history)
    assert (paused.why, [each.call_id for each in paused.pending]) == (Why.PAUSED, ["2"])
    assert done.text == "ok"


async def test_it_can_be_watched_in_another_process_than_that_in_which_it_began(tmp_path: Path) -> None:
    async with hosting(call("write", "1", text="a"), **options(state_dir=tmp_path)) as host:
        await (await host.session("s")).say("go")
    async with hosting("done", **options(state_dir=tmp_path)) as host, await host.session("s") as session:
        _, result = await seen(session, {"1": True})

        assert results(session.history) == ["wrote a"]
    assert result.text == "done"


async def test_where_no_turn_waits_the_stream_says_so() -> None:
    async with talking(**options()) as session:
        with pytest.raises(SessionError, match="no turn that waits"):
            await seen(session)


async def test_an_answer_to_a_call_that_waits_for_none_is_an_error_of_the_stream() -> None:
    async with talking(call("write", "1", text="a"), **options()) as session:
        await session.say("go")
        with pytest.raises(SessionError, match="no call waits under 'x'"):
            await seen(session, {"x": True})

        assert session.paused


async def test_leaving_the_stream_early_cancels_the_turn_and_leaves_the_conversation_whole() -> None:
    model = ScriptedModel(call("write", "1", text="a"), "one two three " * 100)
    async with talking(model=model, **options()) as session:
        await session.say("go")
        async with session.stream_resume({"1": True}) as events:
            async for event in events:
                if isinstance(event, TextShown):
                    break

        assert_whole(session.history)
        assert (session.paused, shape(session.history)[2]) == (False, "tool wrote a")
        assert (await session.say("still there?")).why is Why.COMPLETED


async def test_a_resumed_turn_that_fails_raises_at_the_end_of_its_events() -> None:
    async with talking(
        call("write", "1", text="a"), ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), **options()
    ) as session:
        await session.say("go")
        with pytest.raises(ProviderError, match="down"):
            await seen(session, {"1": True})

        assert_whole(session.history)


async def test_while_it_is_watched_no_other_turn_begins() -> None:
    async with talking(call("write", "1", text="a"), "ok", **options()) as session:
        await session.say("go")
        async with session.stream_resume({"1": True}) as events:
            async for _ in events:
                with pytest.raises(SessionError, match="in the middle of a turn"):
                    await session.resume()
                break

        assert_whole(session.history)


def test_a_program_without_a_loop_can_watch_it_too() -> None:
    given = options()
    plugins = [*given.pop("plugins"), ScriptedModel(call("write", "1", text="a"), "one two")]
    with SyncHost.open(model="scripted/m", plugins=plugins, installed=False, **given) as host:
        session = host.session()
        paused = session.say("go")
        with session.stream_resume({paused.pending[0].call_id: True}) as events:
            told = list(events)

        assert "".join(event.text for event in told if isinstance(event, TextShown)) == "one two"
        assert events.result.why is Why.COMPLETED
