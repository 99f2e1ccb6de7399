"""A turn that ends at any step, killed, cancelled or on a full disk.

Nothing is lost, and nothing is done twice without asking (rules 21 and 22).
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dying
import pytest
import saved
from places import only_this_task
from pluggent_hookspecs import Message, SessionError, ToolContext, tool
from pluggent_hookspecs.errors import ToolErrorKind
from pluggent_hookspecs.messages import Role
from pluggent_host import Limits
from pluggent_host.settings import HostSettings
from pluggent_host.turns.next_step import Why
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Dispatched, Said, Settled
from pluggent_transcript.rebuild import rebuild
from policy_rules import agreeing, full_disk, hooked
from saved import FileTranscript, read
from talking import WAIT_S, assert_whole, hosting, results, shape, talking

NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
"""Which number each call of the turn writes."""


@pytest.fixture(scope="module", params=["say 1", "stream 6"])
def remains(request, tmp_path_factory):
    """Return what processes left behind that were killed, each a step later; the last one lived."""
    folder = tmp_path_factory.mktemp("killed")
    program = Path(dying.__file__)
    support = {**os.environ, "PYTHONPATH": str(Path(saved.__file__).parent)}
    command = [sys.executable, str(program), str(folder), *request.param.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=support)  # noqa: S603 (this Python)
    return [folder / number for number in done.stdout.split()]


@pytest.fixture
def killed(remains, tmp_path):
    """Return copies of it, for a test to go on with."""
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in remains]


def written(folder):
    """Return the lines of effects: (number, idempotency key) each."""
    file = folder / "effects"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(number), key) for number, key in (line.split() for line in lines)]


def entries(folder):
    path = folder / "sessions" / "s.jsonl"
    return tuple(read(path)) if path.exists() else ()


async def reopened(folder, *replies, approver=None):
    """Open the session again, say something, and return it, closed."""
    model = ScriptedModel(*replies)
    tools = dying.tools(folder / "effects", dying.Steps())
    async with (
        hosting(model=model, tools=tools, state_dir=folder, approver=approver) as host,
        await host.session("s") as session,
    ):
        before = session.history
        result = await session.say("and then?")
        assert result.why is Why.COMPLETED, result
        assert_whole(model.requests[0].messages)
        return before, session.history


def test_the_turn_was_killed_at_every_step(remains):
    assert len(remains) > 15
    *_, alive = remains
    assert sorted(number for number, _ in written(alive)) == [1, 2, 3, 4, 5]
    assert shape(rebuild(entries(alive)).messages)[-1] == "assistant all is written"


def test_no_effect_happened_that_was_not_announced_and_none_twice(remains):
    for folder in remains:
        announced = {key for entry in entries(folder) if isinstance(entry, Dispatched) for _, key, _ in entry.calls}
        numbers = [number for number, _ in written(folder)]
        assert {key for _, key in written(folder)} <= announced, folder
        assert len(set(numbers)) == len(numbers), folder


def test_what_happened_before_the_model_was_asked_is_durable_when_it_is_asked(remains):
    for folder in remains:
        file = folder / "asked"
        asked = len(file.read_text().splitlines()) if file.exists() else 0
        rebuilt = rebuild(entries(folder))
        closed = {entry.call_id for entry in rebuilt.closing if isinstance(entry, Settled)}
        roles = [message.role for message in rebuilt.messages]
        assert roles.count(Role.USER) >= min(asked, 1), folder
        assert roles.count(Role.ASSISTANT) >= asked - 1, folder
        assert not (closed & {"a", "b", "c"} if asked == 2 else asked > 2 and closed), folder


def test_a_call_that_may_have_happened_is_reported_as_unknown(remains):
    unknown = 0
    for folder in remains:
        recorded = entries(folder)
        happened = {number for number, _ in written(folder)}
        rebuilt = rebuild(recorded)
        closing = {entry.call_id: entry for entry in rebuilt.closing if isinstance(entry, Settled)}
        settled = {entry.call_id for entry in recorded if isinstance(entry, Settled)}
        for id in closing.keys() & NUMBERS.keys() - {"c"}:  # the effect of c is one of the call below it
            assert id not in settled
            is_unknown = closing[id].outcome == ToolErrorKind.OUTCOME_UNKNOWN
            unknown += is_unknown
            assert is_unknown or NUMBERS[id] not in happened, (folder, id)
        for message in rebuilt.messages:
            if NUMBERS.get(str(message.tool_call_id)) in happened:
                assert "not run" not in message.text, (folder, message.tool_call_id)
    assert unknown > 2


async def test_every_session_opens_again_with_a_whole_history(killed):
    for folder in killed:
        before, after = await reopened(folder, "fine")
        assert_whole(before)
        assert_whole(after)
        assert shape(after)[-2:] == ["user and then?", "assistant fine"]
        assert rebuild(entries(folder)).messages == after


@pytest.mark.parametrize("agreed", [False, True])
async def test_a_call_that_may_have_happened_asks_before_it_happens_again_under_a_key_of_its_own(killed, agreed):
    in_all = 0
    for folder in killed:
        unsure, before = len(rebuild(entries(folder)).unsure), Counter(number for number, _ in written(folder))
        asked = []

        await reopened(folder, *dying.REPLIES, approver=agreeing(asked, agreed))

        assert len(asked) == unsure, folder
        assert all("may already have taken effect" in str(event.asks) for event in asked)
        after, keys = zip(*written(folder), strict=True)
        assert len(set(keys)) == len(keys), folder
        refused = {number for number in NUMBERS.values() if after.count(number) == before[number]}
        assert len(refused) == (0 if agreed else unsure), folder
        in_all += unsure
    assert in_all > 2


# ---- cancelled -------------------------------------------------------------------------


async def slow(event, call_next=None):
    """Wait a trip of the loop."""
    result = await call_next() if call_next else None
    await asyncio.sleep(0)
    return result


HOOKS = ("decide_tool_call", "transform_tool_result", "decide_output", "around_tool_call")


def slow_tools(effects):
    """Return tools that wait before and after their effect, the number of which joins *effects*."""

    @tool
    async def act(n: int) -> str:
        """Act."""
        await asyncio.sleep(0)
        effects.append(n)
        await asyncio.sleep(0)
        return f"acted {n}"

    @tool(effects=())
    async def look(n: int) -> str:
        """Look."""
        await asyncio.sleep(0)
        return f"looked {n}"

    @tool(effects=())
    async def delegate(context: ToolContext, n: int) -> str:
        """Let another tool act."""
        return str((await context.call_tool("act", {"n": n})).for_model)

    @tool(effects=(), exclusive=True)
    async def alone(n: int) -> str:
        """Be alone."""
        await asyncio.sleep(0)
        return f"alone {n}"

    return [act, look, delegate, alone]


BATCH = (call("act", "a", n=1), call("look", "b", n=2), call("alone", "c", n=3), call("delegate", "d", n=4),
         call("act", "e", n=5), call("look", "f", n=6))  # fmt: skip


def batch_or_words(request):
    """Make all the calls when a person has spoken, and say something when they have results."""
    return BATCH if request.messages[-1].role == "user" else "said"


async def trips(turn, number):
    """Let *turn* go on for *number* trips of the loop, then cancel it; tell whether it had ended."""
    for _ in range(number):
        if turn.done():
            return True
        await asyncio.sleep(0)
    turn.cancel()
    await asyncio.wait((turn,), timeout=WAIT_S)
    return not turn.cancelled()


async def watched(session):
    async with session.stream("go") as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("way", ["say", "stream"])
@pytest.mark.parametrize("strict", [False, True])
async def test_a_turn_can_be_cancelled_at_every_trip_of_the_loop(way, strict):
    number, ended = 0, False
    while not ended:
        effects, asked = [], []

        async def approver(event, asked=asked):
            asked.append(event)
            await asyncio.sleep(0)
            return len(asked) < 5

        async with talking(
            *[batch_or_words] * 9, tools=slow_tools(effects), plugins=[hooked(**dict.fromkeys(HOOKS, slow))],
            approver=approver, config=HostSettings(strict=strict, fsync="off"),
        ) as session:  # fmt: skip
            turn = asyncio.create_task(watched(session) if way == "stream" else session.say("go"))
            ended = await trips(turn, number)

            assert only_this_task(), number
            assert_whole(session.history)
            rebuilt = rebuild(session.records())
            assert (rebuilt.messages, rebuilt.closing) == (session.history, ()), number
            settled = [entry for entry in session.records() if isinstance(entry, Settled)]
            sure = {int(entry.message.text.split()[1]) for entry in settled if entry.message.text.startswith("acted")}
            unsure = len(rebuilt.unsure)
            assert len(set(effects) - sure) <= unsure, number
            for message in session.history:
                if message.tool_call_id == "d" and 4 in effects:
                    assert "not run" not in message.text, number
            if not strict:
                await session.say("again")
                assert len(asked) == unsure, number
                assert_whole(session.history)
        number += 1
    assert number > 20


# ---- a full disk ------------------------------------------------------------------------


def test_a_line_that_does_not_fit_leaves_the_earlier_ones_whole(tmp_path):
    transcript = FileTranscript(tmp_path, "s")
    with full_disk() as fill:
        fill(2000)
        transcript.append(Said("t1", Message.user("small")))
        with pytest.raises(SessionError, match=rf"session 's' cannot be written: {tmp_path}/s\.jsonl: "):
            transcript.append(Said("t1", Message.user("x" * 3000)))
        transcript.append(Said("t1", Message.user("small again")))
    transcript.close()

    assert shape(rebuild(read(tmp_path / "s.jsonl")).messages) == ["user small", "user small again"]


def size(folder):
    return sum(file.stat().st_size for file in (folder / "sessions").glob("*.jsonl"))


def acting(ran):
    @tool
    async def act() -> None:
        """Act."""
        ran.append(1)

    return act


async def test_no_tool_runs_that_could_not_be_recorded(tmp_path):
    for space in range(0, 2600, 100):
        ran, folder = [], tmp_path / str(space)

        async with (
            hosting(call("act"), "x", state_dir=folder, tools=[acting(ran)]) as host,
            await host.session("s") as session,
        ):
            with full_disk() as fill:
                fill(size(folder) + space)
                try:
                    result = await session.say("go")
                except SessionError as error:
                    assert "cannot be written" in str(error)  # noqa: PT017 (both ways are fine)
                else:
                    assert result.why in {Why.COMPLETED, Why.DENIED}
            assert_whole(session.history)
        recorded = tuple(read(folder / "sessions" / "s.jsonl"))
        assert_whole(rebuild(recorded).messages)
        assert len(ran) <= len([entry for entry in recorded if isinstance(entry, Dispatched)]), space


async def test_a_result_too_big_for_the_disk_leaves_the_conversation_whole(tmp_path):
    @tool
    async def big() -> str:
        """Return much."""
        return "x" * 30_000

    async with (
        hosting(call("big"), "fine", state_dir=tmp_path, tools=[big], limits=Limits()) as host,
        await host.session("s") as session,
    ):
        with full_disk() as fill:
            fill(size(tmp_path) + 20_000)
            with pytest.raises(SessionError, match="cannot be written"):
                await session.say("go")

        assert_whole(session.history)
        assert "unknown" in results(session.history)[0]
        assert (await session.say("again")).text == "fine"
    recorded = tuple(read(tmp_path / "sessions" / "s.jsonl"))
    assert_whole(rebuild(recorded).messages)
    assert len([entry for entry in recorded if isinstance(entry, Settled)]) == 1
