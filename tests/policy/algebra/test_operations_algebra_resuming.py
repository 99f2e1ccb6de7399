"""Whatever policies say before and after a pause: what then runs is what a person agreed to (rules 11 and 16)."""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attacks import PAUSING
from hypothesis import HealthCheck, assume, example, given, settings, strategies as st
from pluggent_hookspecs import Allow, Ask, Deny, tool
from pluggent_host import Why
from pluggent_testing.fakes import call
from policy_rules import hooked
from policy_stage import stage

DANGER = "app:tools:tool/danger"
NAMES = ("A", "M", "Z")
HERE_FIRST = st.sampled_from([None, None, Allow(), Ask("one"), Ask("two")])
HERE_LATER = st.sampled_from([None, None, Allow(), Ask("one"), Ask("two"), Deny("no"), ValueError("broken"), "rubbish"])
Votes = Mapping[str, object]


def asked(votes: Votes, *, host_asks: bool) -> set[tuple[str, str]]:
    """Return who asks what."""
    asks = {(name, vote.tell_user) for name, vote in votes.items() if isinstance(vote, Ask)}
    lifted = any(isinstance(vote, Allow) for vote in votes.values())
    return asks | ({("host", "shell")} if host_asks and not lifted else set())


def expected(before: Votes, after: Votes, answer: bool | None, *, host_asks: bool) -> str:
    """Return what the rules say: run, denied or paused. The model of the property."""
    if answer is False or any(not isinstance(vote, Allow | Ask | None) for vote in after.values()):
        return "denied"
    now = asked(after, host_asks=host_asks)
    agreed = answer is True and now <= asked(before, host_asks=host_asks)
    return "run" if agreed or not now else "paused"


def voting(name: str, vote: object) -> object:
    def decide(event: object) -> object:
        if isinstance(vote, BaseException):
            raise vote
        return vote

    return hooked(name=name, decide_tool_call=decide)


def voters(votes: Votes) -> list[object]:
    return [voting(name, vote) for name, vote in votes.items()]


async def came_of(
    folder: Path, before: Votes, after: Votes, answer: bool | None, ran: list[str], *, host_asks: bool
) -> str:
    """Pause under *before*, resume under *after* in another host; return what came of it."""

    @tool(effects=())
    def danger() -> str:
        """Do it."""
        ran.append("danger")
        return "did it"

    config = PAUSING._replace(effects={DANGER: ("shell",)} if host_asks else {}, fsync="off")
    given: dict[str, Any] = {"tools": [danger], "config": config, "state_dir": folder, "id": "s"}
    async with stage(call("danger"), plugins=voters(before), **given) as on:
        paused = await on.session.say("go")
    assert (paused.why, ran) == (Why.PAUSED, [])
    async with stage("done", plugins=voters(after), **given) as on:
        result = await on.session.resume({} if answer is None else {paused.pending[0].call_id: answer})
        if result.why is Why.PAUSED:
            return "paused"
        return "run" if on.read_by_model() == ["did it"] else "denied"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resuming")


@given(
    before=st.dictionaries(st.sampled_from(NAMES), HERE_FIRST),
    after=st.dictionaries(st.sampled_from(NAMES), HERE_LATER),
    answer=st.sampled_from([True, True, False, None]),
    host_asks=st.booleans(),
)
@example(before={"A": Ask("one")}, after={"A": Ask("one")}, answer=True, host_asks=False)
@example(before={"A": Ask("one")}, after={"M": Ask("one")}, answer=True, host_asks=False)
@example(before={"A": Ask("one")}, after={}, answer=False, host_asks=False)
@example(before={"A": Ask("one"), "M": Allow()}, after={"A": Ask("one")}, answer=True, host_asks=True)
@example(before={"A": Ask("one"), "M": Ask("two")}, after={"M": Ask("two")}, answer=True, host_asks=True)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_what_runs_after_a_pause_is_what_a_person_agreed_to(
    folder: Path, before: Votes, after: Votes, answer: bool | None, host_asks: bool
) -> None:
    assume(asked(before, host_asks=host_asks))
    shutil.rmtree(folder, ignore_errors=True)
    ran: list[str] = []

    came = asyncio.run(came_of(folder, before, after, answer, ran, host_asks=host_asks))

    assert came == expected(before, after, answer, host_asks=host_asks)
    assert ran == (["danger"] if came == "run" else [])
