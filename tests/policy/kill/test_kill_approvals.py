"""A turn that waits for a person, killed -9 at every step: while it is said, answered, and resumed (rules 21, 22).

Nothing happens before it is approved, nothing twice on one approval, and nothing that was said,
answered or done is lost.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import dying
import pytest
import saved
from dying import REFUSED, answers, number_of, opened
from pluggent_hookspecs import ModelRequest
from pluggent_hookspecs.messages import Role
from pluggent_host import Why
from pluggent_testing.fakes import Reply, call
from pluggent_transcript.entries import Dispatched, Entry, Settled
from pluggent_transcript.pending import Paused, Resolved
from saved import read
from talking import assert_whole

PARTS = ("say", "approve", "resume", "again")


@pytest.fixture(scope="module", params=["calls", "below"])
def remains(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder, called as the turn, where the processes of all parts left what they left; the last lived."""
    folder = Path(tmp_path_factory.mktemp("killed") / request.param)
    program = [sys.executable, dying.__file__, str(folder), folder.name]
    support = {**os.environ, "PYTHONPATH": str(Path(saved.__file__).parent)}
    subprocess.run(program, check=True, timeout=120, env=support)  # noqa: S603 (this very Python)
    return folder


def left(remains: Path, *parts: str) -> list[Path]:
    """Return what each process of *parts* left, in order."""
    return [place for part in parts for place in sorted((remains / part).iterdir(), key=lambda path: int(path.name))]


def entries(place: Path) -> tuple[Entry, ...]:
    file = place / "sessions" / "s.jsonl"
    return tuple(read(file)) if file.exists() else ()


def written(place: Path) -> Counter[int]:
    """Return how often each number was written."""
    file = place / "effects"
    return Counter(map(int, file.read_text().split() if file.exists() else ()))


def approvals(place: Path) -> Counter[int]:
    """Return how often a person has agreed to each number, as the session knows it."""
    numbers: dict[str, int] = {}
    agreed: Counter[int] = Counter()
    for entry in entries(place):
        match entry:
            case Paused(pending=pending):
                numbers |= {each.digest: number_of(each) for each in pending}
            case Resolved(digest=digest, agreed=True):
                agreed[numbers[digest]] += 1
            case _:
                pass
    return agreed


def in_doubt(place: Path) -> int:
    """Return how many calls were about to run, or ran, when the process died."""
    running: set[str] = set()
    for entry in entries(place):
        match entry:
            case Dispatched(calls=calls):
                running |= {id for id, _, _ in calls}
            case Settled(call_id=id):
                running.discard(id)
            case _:
                pass
    return len(running)


def next_reply(request: ModelRequest) -> Reply:
    """Say what the model of the turn would say next."""
    if request.messages[-1].role is not Role.TOOL:
        return "fine"
    names = {each.name for message in request.messages for each in message.tool_calls}
    return call("write_freely", "e", n=4) if names == {"write", "look"} else "all is written"


async def finished(place: Path, *, agreed: bool) -> tuple[Any, list[str]]:
    """Let another process bring the turn to its end; return its result, and what it asked a person."""
    asked: list[str] = []
    async with opened(place, [next_reply] * 9, lambda: None) as host, await host.session("s") as session:
        if not session.paused:
            assert_whole(session.history)
        result = await session.resume() if session.paused else await session.say("and then?")
        while result.why is Why.PAUSED:
            asked += [each.why for each in result.pending if each.asks]
            result = await session.resume(answers(session, place, agreed=agreed))
        assert_whole(session.history)
        return result, asked


@pytest.fixture
def copied(remains: Path, tmp_path: Path) -> Path:
    """Return a copy of all of it, for a test to go on with."""
    return Path(shutil.copytree(remains, tmp_path / remains.name))


def test_every_part_was_killed_at_many_steps_and_went_on(remains: Path):
    counts = [len(left(remains, part)) for part in PARTS]

    assert counts[0] > 5
    assert counts[1] > 3
    assert counts[2] > 40
    assert counts[3] > 10
    *_, alive = left(remains, "resume")
    assert written(alive) == Counter({1, 2, 4} if remains.name == "calls" else {1, 2})


def test_nothing_was_written_before_a_person_had_agreed_and_nothing_twice_on_one_approval(remains: Path):
    for place in left(remains, *PARTS):
        agreed = approvals(place) + Counter({4: 1})
        assert written(place) <= agreed, place


def test_an_answer_that_was_given_is_in_the_session(remains: Path):
    for place in left(remains, "approve", "resume"):
        file = place / "answered"
        noted = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        answered = sum(isinstance(entry, Resolved) for entry in entries(place))
        assert answered >= len(noted), place
        assert sum(approvals(place).values()) >= sum(word == "True" for _, word in noted), place


def known(place: Path) -> dict[str, str]:
    """Return the results of calls, by their ids."""
    return {entry.call_id: entry.message.text for entry in entries(place) if isinstance(entry, Settled)}


async def test_the_next_process_brings_the_turn_to_its_end_and_changes_no_result(copied: Path):
    for place in left(copied, *PARTS[:3]):
        results, waited = known(place), any(isinstance(entry, Paused) for entry in entries(place))
        before, doubts = written(place), in_doubt(place)

        result, _ = await finished(place, agreed=True)

        assert result.why is Why.COMPLETED, place
        assert results.items() <= known(place).items(), place
        assert written(place)[REFUSED] == 0, place
        assert written(place) <= approvals(place) + Counter({4: 1}), place
        if not waited:
            assert written(place) == before, place
        elif not (doubts and copied.name == "below"):  # below a call no person can be asked
            assert {1, 2} <= written(place).keys(), place


async def test_what_may_have_happened_is_asked_about_and_does_not_happen_again_unless_a_person_says_so(copied: Path):
    in_all = 0
    for place in left(copied, "resume"):
        before, doubts = written(place), in_doubt(place)

        _, asked = await finished(place, agreed=False)

        assert max(written(place).values(), default=0) <= 1, place
        assert before <= written(place), place
        in_all += sum("may already have taken effect" in why for why in asked)
        if not doubts:
            assert asked == [], place
    assert (in_all > 2) is (copied.name == "calls")  # below a call no person can be asked


async def test_a_third_process_repeats_nothing_on_an_approval_that_was_used(copied: Path):
    for place in left(copied, "again"):
        await finished(place, agreed=False)

        assert written(place) <= approvals(place) + Counter({4: 1}), place
