"""A pause counts only as pluggent wrote it into this session: what was changed, copied or never sealed does not run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edges_asking import PAUSING, Edges, Shared
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host import Approval, SyncHost, Why
from pluggent_host.approvals.pending import Paused
from pluggent_host.transcript.entries import Settled, TurnOver
from pluggent_testing.fakes import ScriptedModel, call
from talking import assert_whole
from transcript_file import FileTranscript, all_waiting, answer_stored, read, waiting_in

STAGES = {
    "input": Edges(said="hm"),
    "model_call": Edges(rounds=(0,)),
    "tool_call": Edges(tools=("write",)),
}
NO_SEAL = "the pause has no seal"
UNFIT = "the seal of the pause does not fit"


async def pause(folder: Path, stage: str = "tool_call") -> Shared:
    """Return a place where the session ``s`` waits; from now on no policy asks about anything."""
    shared = Shared(folder, STAGES[stage].anew())
    async with shared.host(call("look"), call("write", "1", text="bob")) as host, await host.session("s") as session:
        assert (await session.say("pay bob")).why is Why.PAUSED
    shared.edges = Edges()
    shared.done.clear()
    return shared


def file(shared: Shared) -> Path:
    return shared.folder / "sessions" / "s.jsonl"


def edit(shared: Shared, change: Callable[[dict[str, Any]], object]) -> None:
    """Let *change* edit the pause in place."""
    *lines, last = file(shared).read_text().splitlines(keepends=True)
    paused = json.loads(last)
    change(paused)
    file(shared).write_text("".join([*lines, json.dumps(paused, separators=(",", ":")) + "\n"]))


def other_request(paused: dict[str, Any]) -> None:
    """Have another one paid, by a request whose digest is not looked at, or fits."""
    pending = paused["pending"][0]
    pending["arguments_json"] = pending["arguments_json"].replace("bob", "eve")
    pending["digest"] = ""


def without_seal(paused: dict[str, Any]) -> None:
    paused.pop("seal", None)


def other_seal(paused: dict[str, Any]) -> None:
    paused["seal"] = "0" * 64


def without_limits(paused: dict[str, Any]) -> None:
    paused["terms"]["limits"] = {}
    paused["counted"] = {}


@pytest.mark.parametrize(
    ("change", "why"),
    [(other_request, UNFIT), (without_seal, NO_SEAL), (other_seal, UNFIT), (without_limits, UNFIT)],
)
@pytest.mark.parametrize("stage", list(STAGES))
async def test_a_pause_that_somebody_changed_does_not_run_and_the_session_goes_on(
    tmp_path: Path, stage: str, change: Callable[[dict[str, Any]], object], why: str
):
    shared = await pause(tmp_path, stage)
    edit(shared, change)

    async with shared.host("fine") as host, await host.session("s") as session:
        assert (session.paused, session.pending) == (False, ())
        assert_whole(session.history)
        with pytest.raises(SessionError, match=f"no turn that waits.*{file(shared)}, line .*{why}"):
            await session.resume()
        with pytest.raises(SessionError, match=why):
            async with session.stream_resume() as events:
                [event async for event in events]
        assert (shared.done, shared.asked()) == ([], [])
        assert (await session.say("and now?")).text == "fine"
        assert_whole(session.history)
    assert shared.done == []
    over = [entry for entry in read(file(shared)) if isinstance(entry, TurnOver)]
    assert [entry.why for entry in over] == ["denied", "completed"]
    assert why in over[0].detail


async def test_the_calls_of_a_changed_pause_are_denied_and_what_had_its_result_keeps_it(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    calls = (call("look", "0"), call("write", "1", text="bob"))
    async with shared.host(calls) as host, await host.session("s") as session:
        await session.say("earlier")
    edit(shared, other_request)

    async with shared.host("fine") as host, await host.session("s") as session:
        seen, denied = session.history[-2:]
        assert (seen.text, seen.is_error) == ("seen", False)
        assert denied.is_error
        assert denied.text.startswith("Denied: this call waited for an approval, and what waited was not as pluggent")
        assert str(tmp_path) not in denied.text  # a model has no use for it
    settled = [entry for entry in read(file(shared)) if isinstance(entry, Settled)]
    assert [(entry.call_id, entry.outcome) for entry in settled] == [("0", ""), ("1", "denied")]


async def test_an_answer_to_a_pause_that_was_changed_is_none(tmp_path: Path):
    shared = await pause(tmp_path)
    (waiting,) = all_waiting(tmp_path / "sessions")
    answer_stored(tmp_path / "sessions", "s", [waiting.open[0].digest], Approval(agreed=True), "me")
    *lines, paused, answer = file(shared).read_text().splitlines(keepends=True)
    file(shared).write_text("".join([*lines, paused.replace("bob", "eve"), answer]))

    async with shared.host("fine") as host, await host.session("s") as session:
        assert not session.paused
        await session.say("and now?")
    assert shared.done == []


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_changed_pause_is_listed_with_what_is_wrong_and_answered_by_nobody(tmp_path: Path, agreed: bool):
    shared = await pause(tmp_path)
    (waiting,) = all_waiting(tmp_path / "sessions")
    edit(shared, other_request)
    before = file(shared).read_bytes()

    (found,) = all_waiting(tmp_path / "sessions")
    assert (found.session, found.turn, found.calls) == ("s", "t1", ())
    assert f"s.jsonl, line {len(before.splitlines())}: {UNFIT}" in found.problem
    assert found.problem.endswith("say again what is still wanted: pluggent run --session s")
    with pytest.raises(SessionError, match=UNFIT):
        answer_stored(tmp_path / "sessions", "s", [waiting.open[0].digest], Approval(agreed=agreed), "me")
    assert file(shared).read_bytes() == before


def key(folder: Path) -> Path:
    return folder / "sessions" / "approvals.json.key"


def _made_anew(folder: Path) -> None:
    key(folder).write_bytes(b"x" * 32)


def _gone(folder: Path) -> None:
    key(folder).unlink()


@pytest.mark.parametrize("spoil", [_made_anew, _gone])
async def test_without_the_key_it_was_sealed_with_a_pause_does_not_run(tmp_path: Path, spoil: Callable[[Path], None]):
    shared = await pause(tmp_path)
    spoil(tmp_path)

    (found,) = all_waiting(tmp_path / "sessions")
    assert "the key that seals was made anew" in found.problem
    async with shared.host("fine") as host, await host.session("s") as session:
        with pytest.raises(SessionError, match=UNFIT):
            await session.resume()
        assert (await session.say("and now?")).text == "fine"
    assert shared.done == []


async def test_a_key_that_others_can_read_keeps_the_session_from_opening(tmp_path: Path):
    shared = await pause(tmp_path)
    key(tmp_path).chmod(0o644)

    with pytest.raises(ConfigError, match="is open to others"):
        list(all_waiting(tmp_path / "sessions"))
    async with shared.host("fine") as host:
        with pytest.raises((ConfigError, SessionError), match="is open to others"):
            await host.session("s")


async def test_a_pause_does_not_come_along_into_another_session_or_folder(tmp_path: Path):
    shared = await pause(tmp_path / "here")
    shutil.copy(file(shared), file(shared).with_name("t.jsonl"))
    (tmp_path / "there" / "sessions").mkdir(parents=True, mode=0o700)
    shutil.copy(file(shared), tmp_path / "there" / "sessions" / "s.jsonl")

    assert [one.session for one in all_waiting(tmp_path / "here" / "sessions") if one.problem] == ["t"]
    found = waiting_in(tmp_path / "there" / "sessions", "s")
    assert found is not None
    assert UNFIT in found.problem
    async with shared.host() as host, await host.session("t") as session:
        assert not session.paused
    async with shared.host() as host, await host.session("s") as session:
        assert session.paused


async def test_with_its_key_a_copied_folder_goes_on_where_it_was(tmp_path: Path):
    shared = await pause(tmp_path / "here")
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    shared.folder = tmp_path / "there"

    async with shared.host("fine") as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert shared.done == ["bob"]


async def test_a_changed_pause_does_not_bring_back_the_one_before_it(tmp_path: Path):
    shared = Shared(tmp_path, Edges(said="hm", tools=("write",)))
    async with shared.host(call("write", "1", text="bob")) as host, await host.session("s") as session:
        await session.say("go")
        assert (await session.resume({"t1": True})).why is Why.PAUSED
    shared.edges = Edges()
    edit(shared, other_request)

    async with shared.host("fine") as host, await host.session("s") as session:
        assert not session.paused
    assert list(all_waiting(tmp_path / "sessions")) == []  # to open it was to end its turn
    assert shared.done == []


async def test_a_session_whose_old_pauses_are_over_goes_on_without_their_seals(tmp_path: Path):
    shared = await pause(tmp_path)
    async with shared.host("fine") as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.COMPLETED
        history = session.history
    lines = [json.loads(line) for line in file(shared).read_text().splitlines()]
    for line in lines:
        line.pop("seal", None)
    file(shared).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    async with shared.host("well") as host, await host.session("s") as session:
        assert session.history == history
        with pytest.raises(SessionError, match=r"no turn that waits for a person$"):
            await session.resume()
        assert (await session.say("more")).text == "well"


async def test_a_call_that_may_have_happened_is_not_said_to_be_denied(tmp_path: Path):
    shared = await pause(tmp_path)
    async with shared.host("fine") as host, await host.session("s") as session:
        await session.resume()
    whole = file(shared).read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["t"] for line in whole]
    whole[kinds.index("Paused")] = whole[kinds.index("Paused")].replace("bob", "eve")
    file(shared).write_text("".join(whole[: kinds.index("Dispatched") + 1]))  # the process died there

    async with shared.host() as host, await host.session("s") as session:
        assert "Whether it took effect is unknown" in session.history[-1].text


def test_a_sync_host_is_told_the_same(tmp_path: Path):
    def host(*replies: Any, asks: bool) -> SyncHost:
        edges = Edges(said="hm" if asks else "")
        return SyncHost.open(
            model="scripted/m", plugins=[ScriptedModel(*replies), edges], installed=False, state_dir=tmp_path,
            config=PAUSING,
        )  # fmt: skip

    with host(asks=True) as opened, opened.session("s") as session:
        assert session.say("pay bob").why is Why.PAUSED
    path = tmp_path / "sessions" / "s.jsonl"
    path.write_text(path.read_text().replace("pay bob", "pay eve"))

    with host("fine", asks=False) as opened, opened.session("s") as session:
        with pytest.raises(SessionError, match=UNFIT):
            session.resume()
        assert session.say("and now?").text == "fine"
        assert [message.text for message in session.history] == ["and now?", "fine"]


async def test_no_other_line_is_sealed_but_answers_and_pauses(tmp_path: Path):
    shared = await pause(tmp_path)
    async with shared.host("fine") as host, await host.session("s") as session:
        await session.resume()

    told = [json.loads(line) for line in file(shared).read_text().splitlines()]
    assert {line["t"] for line in told if "seal" in line} == {"Paused"}
    transcript = FileTranscript(tmp_path / "sessions", "s")
    assert [entry.void for entry in transcript.entries() if isinstance(entry, Paused)] == [""]
    transcript.close()


async def test_a_turn_whose_pause_cannot_be_sealed_ends_with_what_is_to_be_done(tmp_path: Path):
    shared = Shared(tmp_path, Edges(tools=("write",)))
    async with shared.host(call("write", "1", text="bob"), "fine") as host, await host.session("s") as session:
        key(tmp_path).write_bytes(b"x" * 32)
        key(tmp_path).chmod(0o644)
        with pytest.raises(ConfigError, match=r"is open to others .*chmod 0600"):
            await session.say("pay bob")
        assert not session.paused
        key(tmp_path).chmod(0o600)
        assert (await session.say("and now?")).text == "fine"
        assert_whole(session.history)
    assert shared.done == []
