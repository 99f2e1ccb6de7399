"""A turn that waits, as its file tells it: after any line, listed, explained, exported, and answered where stored."""

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from edges_asking import STAGES, Edges, Shared
from pluggent_cli.sessions.explain import as_document as explained, explain
from pluggent_cli.sessions.export import as_document, as_markdown
from pluggent_hookspecs import Image, Text
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Approval, Why
from pluggent_testing.fakes import call
from pluggent_transcript.rebuild import rebuild
from saved import all_waiting, answer_stored, forget_sizes, read, read_session, waiting_in
from talking import assert_whole

PLAYED = STAGES | {
    "later": Edges(rounds=(1,)),
    "all": Edges(said="hm", rounds=(0, 1), tools=("write",)),
}
REPLIES: Sequence[Any] = (call("write", "1", text="a"), "ok")


@pytest.fixture(params=list(PLAYED))
async def played(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    """Return a place where a turn that waits at some of its stages has come to its end."""
    shared = Shared(tmp_path / "whole", PLAYED[request.param].anew())
    async with shared.session(*REPLIES) as session:
        result = await session.say("go")
        while result.why is Why.PAUSED:
            result = await session.resume({each.call_id: True for each in result.pending})
        assert (result.why, shared.done) == (Why.COMPLETED, ["a"])
    return shared


@pytest.fixture(params=["input", "model_call"])
def stage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lines(shared: Shared) -> list[bytes]:
    return shared.file.read_bytes().splitlines(keepends=True)


def cuts(shared: Shared) -> list[tuple[Shared, list[str], bytes]]:
    """Return a place for each line after which the process may have died, the kinds of its lines, and its text."""
    whole, places = lines(shared), []
    kinds = [json.loads(line)["t"] for line in whole]
    for length in range(1, len(whole) + 1):
        later = Shared(shared.folder.parent / f"{length}", shared.edges)
        shutil.copytree(shared.folder / "sessions", later.folder / "sessions")
        later.file.write_bytes(text := b"".join(whole[:length]))
        forget_sizes(later.file.parent)
        places.append((later, kinds[:length], text))
    return places


def requests(shared: Shared) -> tuple[Counter[str], Counter[str], int]:
    """Return how often each request to the model was approved, how often it was let go for that, and all that went."""
    answered: Counter[str] = Counter()
    used: Counter[str] = Counter()
    sent = 0
    for line in map(json.loads, lines(shared)):
        if line["t"] == "Resolved":
            answered[line["digest"]] += line["agreed"]
        elif line["t"] == "Decided" and line["decision"]["operation"] == "model_call":
            used[line["decision"]["digest"]] += line["decision"]["verdict"] == "approved"
            sent += line["decision"]["verdict"] in ("allow", "approved")
    return answered, used, sent


async def test_after_any_line_the_next_process_asks_the_model_nothing_that_was_not_approved(played: Shared):
    for later, told, _ in cuts(played):
        sent = requests(later)[-1]
        async with later.session(*REPLIES) as session:
            if session.paused:
                before = session.pending
                result = await session.resume()
                if before:
                    assert (result.why, later.asked()) == (Why.PAUSED, []), told
                    assert [each.kind for each in result.pending] == [each.kind for each in before], told
            for _ in range(2):
                if not session.paused:
                    assert_whole(session.history)
                    await session.say("and now?")
        answered, used, after = requests(later)
        assert used <= answered, told
        assert len(later.asked()) == after - sent, told


async def test_after_any_line_the_turn_can_be_brought_to_its_end_and_nothing_is_done_twice(played: Shared):
    waited = 0
    for later, told, text in cuts(played):
        written = told.count("Dispatched")
        async with later.session(*(REPLIES[1:] if b'"tool_calls"' in text else REPLIES)) as session:
            if not session.paused:
                continue
            waited += 1
            result = await session.resume()
            while result.why is Why.PAUSED:
                assert not any("may already" in each.why for each in result.pending) or written, told
                result = await session.resume({each.call_id: "may already" not in each.why for each in result.pending})
            assert result.why is Why.COMPLETED, told
            assert_whole(session.history)
            assert session.history[0].text == "go"
            assert len(later.done) + written == 1, told
    assert waited > 1


@pytest.mark.parametrize("played", ["tool_call"], indirect=True)
async def test_after_any_line_a_call_runs_for_a_recorded_approval_alone(played: Shared):
    for later, told, _ in cuts(played):
        runs = "Resolved" in told and "Dispatched" not in told
        async with later.session("ok") as session:
            if session.paused:
                result = await session.resume()
                assert result.why is (Why.COMPLETED if "Settled" in told or runs else Why.PAUSED), told
            for _ in range(2):
                assert later.done == (["a"] if runs else []), told
                await session.say("and now?")
            assert_whole(session.history)


async def test_after_every_line_the_same_waits_as_in_the_session_itself(played: Shared):
    for later, told, _ in cuts(played):
        expected = rebuild(read(later.file)).waiting
        found = waiting_in(later.file.parent, "s")
        assert (found is None) == (expected is None), told
        if found is not None and expected is not None:
            assert [each.digest for each in found.open] == [each.digest for each in expected.open], told
            assert [each.kind for each in found.calls] == [
                each.kind for each in expected.paused.pending if each.call_id not in expected.results
            ]


async def test_it_is_answered_in_the_stored_session(stage: str, tmp_path: Path):
    shared = Shared(tmp_path, STAGES[stage].anew())
    async with shared.session() as session:
        (pending,) = (await session.say("go\n\x1b[2Jnow")).pending
    folder = tmp_path / "sessions"
    (waiting,) = all_waiting(folder)
    (asked,) = waiting.open

    assert (asked.kind, asked.digest, asked.asks) == (stage, pending.digest, pending.asks)
    assert asked.arguments.encode() == pending.arguments_json
    assert "\x1b" not in asked.rendered
    assert "[2Jnow" in asked.rendered
    with pytest.raises(SessionError, match="no request gone that waits"):
        answer_stored(folder, "s", [asked.digest, "gone"], Approval(agreed=True), "me")
    answer_stored(folder, "s", [asked.digest], Approval(agreed=True, reach="always"), "terminal:eve")
    (after,) = all_waiting(folder)
    assert ([each.answer for each in after.calls], after.open) == (["approved"], ())
    async with shared.session("ok") as session:
        assert (await session.resume()).text == "ok"
        assert (await session.say("again")).why is Why.PAUSED
    assert not (folder / "approvals.json").exists()


async def test_what_waits_is_in_the_explanation_and_in_the_export(stage: str, tmp_path: Path):
    shared = Shared(tmp_path, STAGES[stage].anew())
    async with shared.session("ok") as session:
        (pending,) = (await session.say("go")).pending
        waiting = read_session(tmp_path / "sessions", "s")
        await session.resume({pending.call_id: Approval(agreed=True, reason="well")})
    over = read_session(tmp_path / "sessions", "s")

    document = as_document(waiting)["turns"][0]["pauses"][0]["pending"][0]
    assert (document["kind"], document["id"], document["digest"]) == (stage, pending.call_id, pending.digest)
    assert document["request"].encode() == pending.arguments_json
    assert f"**Waits** for an approval: `{stage}`" in as_markdown(waiting)
    told = explained(explain("s", over.turns[0]))
    assert told["pauses"][0]["pending"] == [pending.call_id]
    (operation,) = [one for one in told["operations"] if one["operation"] == stage]
    assert (operation["id"], operation["digest"]) == (pending.call_id, pending.digest)
    assert [decision["verdict"] for decision in operation["decisions"]] == ["ask", "ask", "approved"]
    assert [(each["agreed"], each["reason"]) for each in operation["answers"]] == [(True, "well")]


async def test_a_picture_is_shown_by_its_size_and_digest(tmp_path: Path):
    shared, picture = Shared(tmp_path, Edges(said="hm", changes=False)), Image(data="AAAA" * 100)
    async with shared.session() as session:
        (pending,) = (await session.say(["look", picture])).pending
    (waiting,) = all_waiting(tmp_path / "sessions")

    assert pending.rendered == "start a turn with: look and: image"
    assert "AAAA" * 100 in waiting.calls[0].arguments
    assert "AAAA" not in waiting.calls[0].rendered
    assert '"data": "400 characters, sha256 ' in waiting.calls[0].rendered
    async with shared.session("ok") as session:
        await session.resume({"t1": True})
        assert session.history[0].content == (Text("look"), picture)


async def test_an_approval_that_may_have_been_used_does_not_count_again_and_a_new_one_does(tmp_path: Path):
    shared = Shared(tmp_path, STAGES["model_call"].anew())
    async with shared.session("ok") as session:
        await session.say("go")
        await session.resume({"t1.0": True})
    whole = lines(shared)
    kinds = [json.loads(line)["t"] for line in whole]
    # The process died while the model was asked, and the old answer was written once more.
    shared.file.write_bytes(b"".join([*whole[: kinds.index("Spending")], whole[kinds.index("Resolved")]]))

    async with shared.session("ok") as session:
        assert [each.call_id for each in session.pending] == ["t1.0"]
    (waiting,) = all_waiting(tmp_path / "sessions")
    answer_stored(tmp_path / "sessions", "s", [waiting.calls[0].digest], Approval(agreed=True), "me")
    async with shared.session("ok") as session:
        assert session.pending == ()
        assert (await session.resume()).text == "ok"
