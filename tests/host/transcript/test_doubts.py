"""A call that may have happened stays doubtful on every way out of its turn (policy 35).

A model of what really happened is compared with what a session knows of it: a turn pauses, is approved and resumed,
and its process is killed after any line that it has written; then people leave or continue it in every possible way.
"""

import asyncio
import hashlib
import itertools
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pluggent_hookspecs import Ask, ToolCallEvent, ToolContext, hookimpl, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Approval, Host, HostSettings
from pluggent_host.session import Session
from pluggent_testing.fakes import Reply, ScriptedModel, call
from pluggent_transcript.pending import Pending
from pluggent_transcript.rebuild import rebuild
from saved import answer_stored, forget_sizes, read
from talking import assert_whole

DOUBT = "may already have taken effect"
NUMBERS = (1, 2)
REPLIES: dict[str, Reply] = {
    "calls": (call("write", "a", n=1), call("look", "b"), call("write", "c", n=2)),
    "below": (call("delegate", "a", n=1), call("delegate", "c", n=2)),
}
FINGERPRINTS = {hashlib.sha256(b'app:tools:tool/write\0{"n":%d}' % n).hexdigest(): n for n in NUMBERS}


class Asks:
    """Asks about everything that the model itself writes."""

    @hookimpl
    def decide_tool_call(self, event: ToolCallEvent) -> Ask | None:
        asked = event.tool.name in ("write", "delegate") and not event.scope.parent_id
        return Ask("it writes") if asked else None


@attrs.define
class World:
    """A folder of sessions, and what really happened: numbers that may have been written, numbers that were."""

    folder: Path
    maybe: set[int] = attrs.field(factory=set[int])
    written: set[int] = attrs.field(factory=set[int])
    ran: list[int] = attrs.field(factory=list[int])

    @property
    def file(self) -> Path:
        return self.folder / "sessions" / "s.jsonl"

    def lines(self) -> list[bytes]:
        return self.file.read_bytes().splitlines(keepends=True)

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines()]

    def host(self, *replies: Reply) -> Any:
        @tool
        def write(n: int) -> str:
            """Write a number."""
            self.ran.append(n)
            return f"written {n}"

        @tool(effects=())
        async def delegate(context: ToolContext, n: int) -> str:
            """Let another tool write."""
            return str((await context.call_tool("write", {"n": n})).for_model)

        @tool(effects=())
        def look() -> str:
            """Look."""
            return "seen"

        model = ScriptedModel(*replies, *["fine"] * 9)
        return Host.open(
            model="scripted/m", plugins=[model, Asks()], tools=[write, delegate, look], installed=False,
            state_dir=self.folder, config=HostSettings(on_ask="pause", fsync="off"),
        )  # fmt: skip

    def copy(self, folder: Path) -> "World":
        shutil.copytree(self.folder, folder)
        return World(folder, set(self.maybe), set(self.written))

    def killed_after(self, length: int, before: int) -> None:
        """Forget all but the first *length* lines, as if the process that found *before* of them had ended there."""
        self.file.write_bytes(b"".join(self.lines()[:length]))
        forget_sizes(self.file.parent)
        running: dict[str, int] = {}
        for entry in self.entries()[before:]:
            if entry["t"] == "Dispatched":
                running |= {id: FINGERPRINTS[fingerprint] for id, _, fingerprint in entry["calls"]}
            elif entry["t"] == "Settled" and entry["call_id"] in running:
                number = running.pop(entry["call_id"])
                assert f"written {number}" in json.dumps(entry["message"]), entry
                self.written.add(number)
                self.maybe.discard(number)
        self.maybe |= set(running.values())


def yes(pending: tuple[Pending, ...]) -> dict[str, bool]:
    return {each.call_id: True for each in pending}


async def say(session: Session) -> None:
    await session.say("something else")


async def deny(session: Session) -> None:
    if session.paused:
        await session.resume({each.call_id: False for each in session.pending})


async def undo(session: Session) -> None:
    await session.undo()


async def resume(session: Session) -> None:
    if session.paused:
        await session.resume()


async def approve(session: Session) -> None:
    """Agree to all that is asked, twice: what the end of a process made doubtful is a new question."""
    for _ in range(2):
        if session.paused:
            await session.resume(yes(session.pending))


async def reopen(session: Session) -> None:
    """Only look at it."""


WAYS: dict[str, Callable[[Session], Awaitable[None]]] = {
    way.__name__: way for way in (say, deny, undo, resume, approve, reopen)
}


async def leave(world: World, way: str) -> tuple[int, int]:
    """Let a new process take *way*; return how many lines there were before and after."""
    before = len(world.lines())
    doubtful = set(world.maybe)
    asked: set[int] = set()
    async with world.host() as host, await host.session("s") as session:
        await WAYS[way](session)
        if not session.paused:
            assert_whole(session.history)
    after = world.entries()
    last_pause = max((i for i, entry in enumerate(after[:before]) if entry["t"] == "Paused"), default=before)
    for number, entry in enumerate(after[last_pause:], last_pause):
        if entry["t"] == "Paused":
            asked |= {
                json.loads(each["arguments_json"])["n"] for each in entry["pending"] if DOUBT in str(each["asks"])
            }
        told = number >= before and entry["t"] == "Settled" and "written" not in str(entry)
        if told and entry["message"].get("name") == "write" and number_of(after, entry["call_id"]) in doubtful:
            assert entry["outcome"] == "outcome_unknown", (way, entry)
            assert "unknown" in str(entry["message"]), (way, entry)
    # Below a call there is no person to be asked, so nothing may run there.
    assert set(world.ran) & doubtful <= asked, (way, world.ran, doubtful, asked)
    return before, len(after)


def number_of(entries: list[dict[str, Any]], call_id: str) -> int:
    """Return what the call of the paused reply writes."""
    calls = [each for entry in entries if entry["t"] == "Said" for each in entry["message"].get("tool_calls", ())]
    return next(int(json.loads(each["arguments"])["n"]) for each in calls if each["id"] == call_id)


async def probe(world: World, told: object, *, below: bool) -> None:
    """Let a model of a later process make every call again: what may have happened, and nothing else, is in doubt."""
    replies = [call("write", f"z{number}", n=number) for number in NUMBERS]
    async with world.host(replies[0], "fine", *replies[1:]) as host, await host.session("s") as session:
        for number in NUMBERS:
            result = await session.say("write it")
            (pending,) = result.pending
            # Of an effect below a call that is to be run anew the session cannot know that it will not happen again.
            known = number in world.maybe or (below and number in world.written)
            assert number not in world.maybe or DOUBT in pending.why, (told, number)
            assert known or DOUBT not in pending.why, (told, number)
            await session.resume({f"z{number}": False})


@pytest.fixture(scope="module", params=list(REPLIES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def places(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield folders that no other test uses."""
    root = tmp_path_factory.mktemp(kind)
    return (root / str(number) for number in itertools.count())


@pytest.fixture(scope="module")
def resumed(kind: str, places: Iterator[Path]) -> tuple[World, int]:
    """Return a world in which all was approved and came to its end, and how many lines it had while it waited."""
    world = World(next(places))

    async def play() -> int:
        async with world.host(REPLIES[kind]) as host, await host.session("s") as session:
            paused = await session.say("go")
            waiting = len(world.lines())
            await session.resume(yes(paused.pending))
            return waiting

    waiting = asyncio.run(play())
    assert sorted(world.ran) == list(NUMBERS)
    return world, waiting


@pytest.mark.parametrize("way", WAYS)
async def test_what_may_have_happened_is_doubtful_whatever_is_done_after_a_kill_at_any_line(
    way: str, kind: str, resumed: tuple[World, int], places: Iterator[Path]
):
    whole, waiting = resumed
    doubtful = 0
    for length in range(waiting, len(whole.lines()) + 1):
        world = World(whole.copy(next(places)).folder)
        world.killed_after(length, 0)
        doubtful += bool(world.maybe)

        before, after = await leave(world, way)

        world.killed_after(after, before)
        await probe(world, (way, length), below=kind == "below")
    assert doubtful > 1


@settings(
    max_examples=60, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    first=st.integers(0, 30), steps=st.lists(st.tuples(st.sampled_from(sorted(WAYS)), st.integers(0, 30)), max_size=4)
)
async def test_what_may_have_happened_is_doubtful_after_any_number_of_kills(
    first: int, steps: list[tuple[str, int]], kind: str, resumed: tuple[World, int], places: Iterator[Path]
):
    whole, waiting = resumed
    world = World(whole.copy(next(places)).folder)
    world.killed_after(waiting + first % (len(whole.lines()) - waiting + 1), 0)
    for way, lost in steps:
        world.ran.clear()
        before, after = await leave(world, way)
        world.killed_after(after - lost % (after - before + 1), before)
    world.ran.clear()
    await probe(world, (first, steps), below=kind == "below")


async def test_an_approval_from_outside_does_not_answer_a_doubt_that_it_was_not_asked_about(
    resumed: tuple[World, int], kind: str, places: Iterator[Path]
):
    whole, waiting = resumed
    refused = 0
    for length in range(waiting, len(whole.lines()) + 1):
        world = World(whole.copy(next(places)).folder)
        world.killed_after(length, 0)
        left = rebuild(read(world.file)).waiting
        for each in () if left is None else left.open:
            doubtful = kind == "calls" and json.loads(each.arguments_json)["n"] in world.maybe
            refused += doubtful
            with pytest.raises(SessionError, match=DOUBT) if doubtful else nullcontext():
                answer_stored(world.file.parent, "s", [each.digest], Approval(agreed=True), "ann")
            if doubtful:
                answer_stored(world.file.parent, "s", [each.digest], Approval(agreed=False), "ann")
    assert (refused > 1) is (kind == "calls")


async def test_a_doubt_that_is_part_of_what_waits_can_be_answered_from_outside(
    resumed: tuple[World, int], kind: str, places: Iterator[Path]
):
    whole, waiting = resumed
    answered = 0
    for length in range(waiting, len(whole.lines()) + 1):
        world = World(whole.copy(next(places)).folder)
        world.killed_after(length, 0)
        before, after = await leave(world, "resume")  # which asks about it
        world.killed_after(after, before)
        doubtful = set(world.maybe)
        left = rebuild(read(world.file)).waiting
        for each in () if left is None else left.open:
            answer_stored(world.file.parent, "s", [each.digest], Approval(agreed=True), "ann")
            answered += DOUBT in each.why

        await leave(world, "resume")

        assert world.ran.count(1) <= 1, length
        assert kind == "below" or doubtful <= set(world.ran), length
    assert (answered > 1) is (kind == "calls")
