"""A process killed at any step of a turn: nothing is lost, nothing is done twice without asking."""

import shutil
import subprocess
import sys
from pathlib import Path

import dying
import pytest
from pluggent_host.step import Why
from pluggent_host.testing.fakes import ScriptedModel
from pluggent_host.transcript import Dispatched, Settled, rebuild
from pluggent_host.transcript_file import read
from pluggent_hookspecs.errors import ToolErrorKind
from talking import assert_whole, hosting, shape

NUMBERS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
"""Which number each call of the turn writes."""


@pytest.fixture(scope="module", params=["say", "stream"])
def remains(request, tmp_path_factory):
    """Return what processes left behind that were killed, each a step later; the last one lived."""
    folder = tmp_path_factory.mktemp("killed")
    program = Path(dying.__file__)
    done = subprocess.run(  # noqa: S603 (this very Python)
        [sys.executable, str(program), str(folder), request.param], capture_output=True, text=True, check=True
    )
    return [folder / str(number + 1) for number in range(int(done.stdout))]


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


def test_the_turn_was_killed_at_every_step(killed):
    assert len(killed) > 60
    *_, alive = killed
    assert sorted(number for number, _ in written(alive)) == [1, 2, 3, 4, 5]
    assert shape(rebuild(entries(alive)).messages)[-1] == "assistant all is written"


def test_no_effect_happened_that_was_not_announced(killed):
    for folder in killed:
        announced = {key for entry in entries(folder) if isinstance(entry, Dispatched) for _, key, _ in entry.calls}
        assert {key for _, key in written(folder)} <= announced, folder


def test_no_effect_happened_twice(killed):
    for folder in killed:
        numbers = [number for number, _ in written(folder)]
        assert len(set(numbers)) == len(numbers), folder


def test_what_happened_before_the_model_was_asked_is_durable_when_it_is_asked(killed):
    for folder in killed:
        file = folder / "asked"
        asked = len(file.read_text().splitlines()) if file.exists() else 0
        rebuilt = rebuild(entries(folder))
        closed = {entry.call_id for entry in rebuilt.closing if isinstance(entry, Settled)}
        roles = [message.role for message in rebuilt.messages]
        assert roles.count("user") >= min(asked, 1), folder
        assert roles.count("assistant") >= asked - 1, folder
        if asked > 1:
            assert not closed & {"a", "b", "c"}, folder
        if asked > 2:
            assert not closed, folder


async def test_every_session_opens_again_with_a_whole_history(killed):
    for folder in killed:
        before, after = await reopened(folder, "fine")
        assert_whole(before)
        assert_whole(after)
        assert shape(after)[-2:] == ["user and then?", "assistant fine"]
        assert rebuild(entries(folder)).messages == after


def test_a_call_that_may_have_happened_is_reported_as_unknown(killed):
    unknown = 0
    for folder in killed:
        recorded = entries(folder)
        happened = {number for number, _ in written(folder)}
        closing = {entry.call_id: entry for entry in rebuild(recorded).closing if isinstance(entry, Settled)}
        settled = {entry.call_id for entry in recorded if isinstance(entry, Settled)}
        for id, number in NUMBERS.items():
            if id not in closing or id == "c":  # the effect of c is one of the call below it
                continue
            assert id not in settled
            unknown += closing[id].outcome == ToolErrorKind.OUTCOME_UNKNOWN
            if number in happened:
                assert closing[id].outcome == ToolErrorKind.OUTCOME_UNKNOWN, (folder, id)
            if closing[id].outcome == ToolErrorKind.CANCELLED:
                assert number not in happened, (folder, id)
    assert unknown > 10


def test_no_call_is_said_not_to_have_run_whose_effect_has_happened(killed):
    for folder in killed:
        happened = {number for number, _ in written(folder)}
        for message in rebuild(entries(folder)).messages:
            if NUMBERS.get(str(message.tool_call_id)) in happened:
                assert "not run" not in message.text, (folder, message.tool_call_id)


async def test_a_call_that_may_have_happened_asks_before_it_happens_again(killed):
    in_all = 0
    for folder in killed:
        recorded = entries(folder)
        count = {number: [n for n, _ in written(folder)].count(number) for number in NUMBERS.values()}
        unsure = len(rebuild(recorded).unsure)
        asked = []

        def approver(event, asked=asked):
            asked.append(event)
            return False

        await reopened(folder, *dying.REPLIES, approver=approver)

        assert len(asked) == unsure, folder
        assert all("may already have taken effect" in str(event.asks) for event in asked)
        again = [number for number, _ in written(folder)]
        refused = {number for number in NUMBERS.values() if again.count(number) == count[number]}
        assert len(refused) == unsure, folder
        in_all += unsure
    assert in_all > 10


async def test_keys_of_effects_are_never_used_again(killed):
    for folder in killed:
        await reopened(folder, *dying.REPLIES, approver=lambda event: True)

        keys = [key for _, key in written(folder)]
        assert len(set(keys)) == len(keys), folder
