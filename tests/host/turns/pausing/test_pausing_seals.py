"""A pause counts only as pluggent wrote it into this session: what was changed, copied or never sealed does not run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edges_asking import STAGES, Edges, Shared
from pluggent_hookspecs import ModelParameters
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host import Approval, Why
from pluggent_testing.fakes import call
from pluggent_transcript.entries import Settled, TurnOver
from pluggent_transcript.pending import Paused
from saved import FileTranscript, all_waiting, answer_stored, read, waiting_in
from talking import assert_whole

NO_SEAL = "the pause has no seal"
UNFIT = "the seal of the pause does not fit"


async def pause(folder: Path, stage: str = "tool_call") -> Shared:
    """Return a place where the session ``s`` waits; from now on no policy asks about anything."""
    shared = Shared(folder, STAGES[stage].anew())
    async with shared.session(call("look"), call("write", "1", text="bob")) as session:
        assert (await session.say("pay bob")).why is Why.PAUSED
    shared.edges = Edges()
    shared.done.clear()
    return shared


def edit(shared: Shared, change: Callable[[dict[str, Any]], object]) -> None:
    """Let *change* edit the pause in place."""
    *lines, last = shared.file.read_text().splitlines(keepends=True)
    paused = json.loads(last)
    change(paused)
    shared.file.write_text("".join([*lines, json.dumps(paused, separators=(",", ":")) + "\n"]))


def other_request(paused: dict[str, Any]) -> None:
    """Have another one paid, by a request whose digest is not looked at, or fits."""
    pending = paused["pending"][0]
    pending["arguments_json"] = pending["arguments_json"].replace("bob", "eve")
    pending["digest"] = ""


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another request": (other_request, UNFIT),
    "no seal": (lambda paused: paused.pop("seal"), NO_SEAL),
    "another seal": (lambda paused: paused.update(seal="0" * 64), UNFIT),
    "no limits": (lambda paused: (paused["terms"].update(limits={}), paused.update(counted={})), UNFIT),
}


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("stage", STAGES)
async def test_a_pause_that_was_changed_does_not_run_and_the_session_goes_on(tmp_path: Path, stage: str, changed: str):
    shared, (change, why) = await pause(tmp_path, stage), CHANGES[changed]
    edit(shared, change)

    async with shared.session("fine") as session:
        assert (session.paused, session.pending) == (False, ())
        assert_whole(session.history)
        with pytest.raises(SessionError, match=f"no turn that waits.*{shared.file}, line .*{why}"):
            await session.resume()
        with pytest.raises(SessionError, match=why):
            async with session.stream_resume() as events:
                [event async for event in events]
        assert (shared.done, shared.asked()) == ([], [])
        assert (await session.say("and now?")).text == "fine"
        assert_whole(session.history)
    assert shared.done == []
    over = [entry for entry in read(shared.file) if isinstance(entry, TurnOver)]
    assert [entry.why for entry in over] == ["denied", "completed"]
    assert why in over[0].detail


async def test_the_calls_of_a_changed_pause_are_denied_and_what_had_its_result_keeps_it(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    async with shared.session((call("look", "0"), call("write", "1", text="bob"))) as session:
        await session.say("earlier")
    edit(shared, other_request)

    async with shared.session("fine") as session:
        seen, denied = session.history[-2:]
        assert (seen.text, seen.is_error, denied.is_error) == ("seen", False, True)
        assert denied.text.startswith("Denied: this call waited for an approval, and what waited was not as pluggent")
        assert str(tmp_path) not in denied.text  # a model has no use for it
    settled = [entry for entry in read(shared.file) if isinstance(entry, Settled)]
    assert [(entry.call_id, entry.outcome) for entry in settled] == [("0", ""), ("1", "denied")]


@pytest.mark.parametrize("forged", [False, True])
async def test_an_agreement_that_was_written_into_a_later_pause_does_not_count(tmp_path: Path, forged: bool):
    shared = Shared(tmp_path, Edges(said="hm", tools=("write",)))
    async with shared.session(call("write", "1", text="bob")) as session:
        await session.say("go")
        assert (await session.resume({"t1": True})).why is Why.PAUSED
    if forged:
        edit(shared, lambda paused: paused["terms"]["agreed"].update(by="boss"))

    async with shared.session("done") as session:
        if forged:  # and the pause before it does not come back
            assert not session.paused
            with pytest.raises(SessionError, match=UNFIT):
                await session.resume({"1": True})
        else:
            assert (await session.resume({"1": True})).why is Why.COMPLETED
    assert list(all_waiting(tmp_path / "sessions")) == []
    assert shared.done == ([] if forged else ["bob"])


@pytest.mark.parametrize("stage", ["input", "tool_call"])
async def test_an_answer_does_not_count_for_a_pause_that_was_changed_after_it(tmp_path: Path, stage: str):
    shared = await pause(tmp_path, stage)
    (waiting,) = all_waiting(tmp_path / "sessions")
    answer_stored(tmp_path / "sessions", "s", [waiting.open[0].digest], Approval(agreed=True), "me")
    lines = shared.file.read_text().splitlines(keepends=True)
    shared.file.write_text("".join(line.replace("bob", "eve") if '"seal":' in line else line for line in lines))

    async with shared.session("fine") as session:
        assert not session.paused
        with pytest.raises(SessionError, match=UNFIT):
            await session.resume()
        assert shared.asked() == []
        await session.say("and now?")
    assert shared.done == []


async def test_a_changed_pause_is_listed_with_what_is_wrong_and_cannot_be_answered(tmp_path: Path):
    shared = await pause(tmp_path)
    (waiting,) = all_waiting(tmp_path / "sessions")
    edit(shared, other_request)
    before = shared.file.read_bytes()

    (found,) = all_waiting(tmp_path / "sessions")
    assert (found.session, found.turn, found.calls) == ("s", "t1", ())
    assert f"s.jsonl, line {len(before.splitlines())}: {UNFIT}" in found.problem
    assert found.problem.endswith("say again what is still wanted: pluggent run --session s")
    for agreed in (True, False):
        with pytest.raises(SessionError, match=UNFIT):
            answer_stored(tmp_path / "sessions", "s", [waiting.open[0].digest], Approval(agreed=agreed), "me")
    assert shared.file.read_bytes() == before


def key(folder: Path) -> Path:
    return folder / "sessions" / "approvals.json.key"


@pytest.mark.parametrize("gone", [False, True])
async def test_without_the_key_it_was_sealed_with_a_pause_does_not_run(tmp_path: Path, gone: bool):
    shared = await pause(tmp_path)
    if gone:
        key(tmp_path).unlink()
    else:
        key(tmp_path).write_bytes(b"x" * 32)

    (found,) = all_waiting(tmp_path / "sessions")
    assert "the key that seals was made anew" in found.problem
    async with shared.session("fine") as session:
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


async def test_a_turn_whose_pause_cannot_be_sealed_ends_with_what_to_do(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    async with shared.session(call("write", "1", text="bob"), "fine") as session:
        key(tmp_path).write_bytes(b"x" * 32)
        key(tmp_path).chmod(0o644)
        with pytest.raises(ConfigError, match=r"is open to others .*chmod 0600"):
            await session.say("pay bob")
        assert not session.paused
        key(tmp_path).chmod(0o600)
        assert (await session.say("and now?")).text == "fine"
        assert_whole(session.history)
    assert shared.done == []


async def test_a_pause_does_not_come_along_into_another_session_or_folder_except_with_its_key(tmp_path: Path):
    shared, there = await pause(tmp_path / "here"), tmp_path / "there" / "sessions"
    shutil.copytree(tmp_path / "here", tmp_path / "whole")
    shutil.copy(shared.file, shared.file.with_name("t.jsonl"))
    there.mkdir(parents=True, mode=0o700)
    shutil.copy(shared.file, there / "s.jsonl")

    assert [one.session for one in all_waiting(tmp_path / "here" / "sessions") if one.problem] == ["t"]
    found = waiting_in(there, "s")
    assert found is not None
    assert UNFIT in found.problem
    async with shared.session(name="t") as session:
        assert not session.paused
    async with shared.session() as session:
        assert session.paused
    shared.folder = tmp_path / "whole"
    async with shared.session("fine") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert shared.done == ["bob"]


async def test_only_pauses_are_sealed_in_a_turn_and_one_that_is_over_needs_its_seal_no_more(tmp_path: Path):
    shared = await pause(tmp_path)
    async with shared.session("fine") as session:
        assert (await session.resume()).why is Why.COMPLETED
        history = session.history
    lines = [json.loads(line) for line in shared.file.read_text().splitlines()]
    transcript = FileTranscript(tmp_path / "sessions", "s")
    assert [entry.void for entry in transcript.entries() if isinstance(entry, Paused)] == [""]
    transcript.close()
    assert {line["t"] for line in lines if line.pop("seal", None)} == {"Paused"}
    shared.file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    async with shared.session("well") as session:
        assert session.history == history
        with pytest.raises(SessionError, match=r"no turn that waits for a person$"):
            await session.resume()
        assert (await session.say("more")).text == "well"


async def test_a_call_that_may_have_happened_is_not_said_to_be_denied(tmp_path: Path):
    """Policy 35."""
    shared = await pause(tmp_path)
    async with shared.session("fine") as session:
        await session.resume()
    whole = shared.file.read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["t"] for line in whole]
    whole[kinds.index("Paused")] = whole[kinds.index("Paused")].replace("bob", "eve")
    shared.file.write_text("".join(whole[: kinds.index("Dispatched") + 1]))  # the process died there

    async with shared.session() as session:
        assert "Whether it took effect is unknown" in session.history[-1].text


@pytest.mark.parametrize("own", [{}, {"x-tenant": "blue-7f3a"}], ids=["lost", "given again"])
async def test_values_of_headers_are_not_stored_with_a_turn_that_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, own: dict[str, str]
):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    given = ModelParameters(headers={"x-tenant": "blue-7f3a"}, temperature=0.5)
    async with shared.session(call("write", "1", text="bob")) as session:
        assert (await session.say("pay bob", parameters=given)).why is Why.PAUSED
    stored = shared.file.read_text()

    async with shared.host("done") as host, await host.session("s", parameters=ModelParameters(headers=own)) as session:
        result = await session.resume({each.call_id: True for each in session.pending})

    (asked,) = shared.model.requests
    assert "blue-7f3a" not in stored
    assert result.why is Why.COMPLETED
    assert (asked.parameters.headers, asked.parameters.temperature) == (own, 0.5)
    assert ("goes on without the headers x-tenant" in caplog.text) == (not own)


async def test_in_the_process_in_which_a_turn_waits_it_keeps_its_headers(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["tool_call"].anew())
    given = ModelParameters(headers={"x-tenant": "blue-7f3a"})
    async with shared.session(call("write", "1", text="bob"), "done") as session:
        waits = await session.say("pay bob", parameters=given)
        await session.resume({each.call_id: True for each in waits.pending})

    assert [dict(request.parameters.headers) for request in shared.model.requests] == [{"x-tenant": "blue-7f3a"}] * 2
