"""What waits in stored sessions: read cheaply, the same as a session itself would say, and answered there."""

from pathlib import Path
from typing import Any

import pytest
from pluggent_cli.sessions.pending import SHORT, named
from pluggent_hookspecs import Message, tool
from pluggent_hookspecs.errors import SessionError
from pluggent_host import Approval, Host, HostSettings, Why
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import WARNING, Said
from pluggent_transcript.rebuild import rebuild
from saved import FileTranscript, all_waiting, answer_stored, forget_sizes, read, waiting_in

YES = Approval(agreed=True)


@tool(effects=("messaging",))
def write(text: str) -> str:
    """Write."""
    return f"wrote {text}"


def host(folder: Path, *replies: Any) -> Any:
    return Host.open(
        model="scripted/m", plugins=[ScriptedModel(*replies)], tools=[write], installed=False, state_dir=folder,
        config=HostSettings(on_ask="pause", strict=True),
    )  # fmt: skip


async def paused(folder: Path, *texts: str) -> tuple[Path, Any]:
    """Let session ``s`` pause with these calls, and return the folder of sessions and what waits there."""
    calls = tuple(call("write", str(number), text=text) for number, text in enumerate(texts, 1))
    async with host(folder, calls) as opened:
        await (await opened.session("s")).say("go")
    (waiting,) = all_waiting(folder / "sessions")
    return folder / "sessions", waiting


def digests(waiting: Any) -> list[str] | None:
    return None if waiting is None else [each.digest for each in waiting.open]


async def test_after_every_line_of_a_session_the_same_waits_as_in_the_session_itself(tmp_path):
    calls = (call("write", "1", text="a"), call("write", "2", text="b"))
    async with host(tmp_path, calls, "done", call("write", "3", text="c")) as opened:
        session = await opened.session("s")
        await session.say("go")
        await session.resume({"1": True})
        await session.resume({"2": False})
        await session.say("again")
        await session.undo()
    folder = tmp_path / "sessions"
    file = folder / "s.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    forget_sizes(folder)

    waited = 0
    for length in range(1, len(whole) + 1):
        file.write_bytes(b"".join(whole[:length]))
        expected = digests(rebuild(read(file)).waiting)
        assert digests(waiting_in(folder, "s")) == expected, length
        waited += expected is not None
    assert waited > len(calls)


async def test_an_answer_in_the_stored_session_is_heeded_when_it_is_resumed(tmp_path):
    folder, waiting = await paused(tmp_path, "a")
    (asked,) = waiting.open

    (answered,) = answer_stored(folder, "s", [asked.digest], YES, "terminal:eve")
    with pytest.raises(SessionError, match="that waits"):
        answer_stored(folder, "s", [asked.digest], Approval(agreed=False), "terminal:eve")
    (after,) = all_waiting(folder)

    assert answered.call_id == "1"
    assert [(each.answer, each.by) for each in after.calls] == [("approved", "terminal:eve")]
    async with host(tmp_path, "done") as opened:
        session = await opened.session("s")
        result = await session.resume()
        assert (result.why, session.history[2].text) == (Why.COMPLETED, "wrote a")


async def test_all_of_several_answers_are_kept_or_none(tmp_path):
    folder, waiting = await paused(tmp_path, "a", "b")

    with pytest.raises(SessionError, match="no request gone that waits"):
        answer_stored(folder, "s", [waiting.calls[0].digest, "gone"], YES, "me")
    assert list(all_waiting(folder)) == [waiting]


def test_no_session_is_made_by_answering_in_one_that_is_not_there(tmp_path):
    with pytest.raises(SessionError, match="session 's' cannot be read"):
        answer_stored(tmp_path, "s", ["d"], YES, "me")
    assert list(tmp_path.iterdir()) == []


async def test_a_call_is_named_by_its_id_or_enough_of_its_request(tmp_path):
    _, waiting = await paused(tmp_path, "a")
    (asked,) = waiting.calls

    assert named(waiting.calls, "1") == named(waiting.calls, asked.digest[:SHORT]) == (asked,)
    assert named(waiting.calls, asked.digest[: SHORT - 1]) == named(waiting.calls, "") == ()


async def test_a_warning_to_the_model_alone_does_not_end_the_waiting(tmp_path):
    folder, waiting = await paused(tmp_path, "a")
    transcript = FileTranscript(folder, "s")
    transcript.append(Said("t1", Message.user("little is left"), WARNING))
    rebuilt = rebuild(transcript.entries()).waiting
    transcript.close()

    assert digests(waiting_in(folder, "s")) == digests(rebuilt) == digests(waiting)
