"""Transcripts on disk: torn, damaged, held by others, under wrong names."""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from each_of import each_of
from pluggent_hookspecs import Message, ModelResponse, SessionError, Usage
from pluggent_hookspecs.messages import ToolCall
from pluggent_testing.fakes import ScriptedModel
from pluggent_transcript.entries import Said, SessionBegan, TurnBegan, TurnOver
from pluggent_transcript.rebuild import rebuild
from saved import LIMITS, SCRIPTS, TOOLS, FileTranscript, play, read
from talking import assert_whole, hosting, shape

ENTRIES = (
    SessionBegan("s", 1.5, "scripted/m", "be short"),
    TurnBegan("t1", 2.5),
    Said("t1", Message.user("天气\n🎉\u2028")),
    TurnOver("t1", "completed", usage=Usage(1, 2)),
)


def written(folder, *entries, id="s"):
    """Write a transcript of *entries* and return its path."""
    transcript = FileTranscript(folder, id)
    transcript.append(*entries)
    transcript.close()
    return transcript.path


def reopened(folder, id="s"):
    """Return the entries of a transcript as opening it finds them."""
    transcript = FileTranscript(folder, id)
    try:
        return transcript.entries()
    finally:
        transcript.close()


def test_what_was_appended_is_read_again_without_a_lock_and_by_the_owner_alone(tmp_path):
    transcript = FileTranscript(tmp_path / "deep" / "sessions", "s")
    transcript.append(*ENTRIES)

    assert tuple(read(transcript.path)) == ENTRIES
    transcript.close()
    path = transcript.path
    assert reopened(path.parent) == ENTRIES
    assert [json.loads(line)["t"] for line in path.read_bytes().splitlines()] == [
        type(each).__name__ for each in ENTRIES
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_session_continues_where_it_stopped(tmp_path):
    async with hosting("one", state_dir=tmp_path, system="be short") as host, await host.session("s") as session:
        await session.say("a")
    model = ScriptedModel("two")
    async with hosting(model=model, state_dir=tmp_path) as host, await host.session("s") as session:
        assert (session.usage, session.model) == (Usage(10, 5), "scripted/m")
        result = await session.say("b")

        assert result.turn_id == "t2"
        assert shape(model.requests[0].messages) == ["system be short", "user a", "assistant one", "user b"]


ODD_CALL = ModelResponse(Message.assistant((), (ToolCall("c\udc00", "add\udc00", '{"a":"\udc00"}'),)))


@pytest.mark.parametrize("reply", ["a lone \ud83d", "\x00\x1b", "\u2028\u2029\x85\r\n", "a" * 300_000, ODD_CALL])
async def test_strange_characters_survive_in_a_session(tmp_path, reply):
    async with hosting(reply, "x", state_dir=tmp_path, tools=TOOLS) as host, await host.session("s") as session:
        await session.say("go")
        held = session.history
    async with hosting("fine", state_dir=tmp_path) as host, await host.session("s") as session:
        assert session.history == held
        assert_whole(held)
        assert (await session.say("again")).text == "fine"


def test_a_file_cut_anywhere_keeps_its_whole_lines_and_sets_the_rest_aside(tmp_path):
    data = written(tmp_path, *ENTRIES).read_bytes()

    for length in range(len(data) + 1):
        path = tmp_path / "cut.jsonl"
        path.write_bytes(data[:length])
        whole = data[:length].rfind(b"\n") + 1
        entries = reopened(tmp_path, "cut")
        assert entries == ENTRIES[: data[:whole].count(b"\n")]
        assert path.read_bytes() == data[:whole]
        torn = tmp_path / "cut.torn"
        assert (torn.read_bytes() if torn.exists() else b"") == data[whole:length]
        torn.unlink(missing_ok=True)


@pytest.mark.parametrize(("entries", "torn"), [(ENTRIES, 200_000), ((), 70_000)], ids=["after lines", "alone"])
def test_a_long_torn_line_is_set_aside_whole_and_private(tmp_path, entries, torn):
    path = written(tmp_path, *entries)
    with path.open("ab") as file:
        file.write(b"x" * torn)

    assert reopened(tmp_path) == entries
    aside = tmp_path / "s.torn"
    assert aside.read_bytes() == b"x" * torn
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_a_second_torn_line_does_not_replace_the_first(tmp_path):
    path = written(tmp_path, *ENTRIES)
    for torn in (b"first", b"second"):
        path.write_bytes(path.read_bytes() + torn)
        reopened(tmp_path)

    kept = b"".join(file.read_bytes() for file in sorted(tmp_path.glob("s*torn*")))
    assert (b"first" in kept, b"second" in kept) == (True, True)


@pytest.mark.parametrize("kind", SCRIPTS)
async def test_a_session_cut_after_any_line_opens_whole_and_continues(tmp_path, kind):
    async with (
        hosting(*SCRIPTS[kind], state_dir=tmp_path, tools=TOOLS, limits=LIMITS) as host,
        await host.session("s") as session,
    ):
        await play(session, kind)
    lines = (tmp_path / "sessions" / "s.jsonl").read_bytes().splitlines(keepends=True)
    model = ScriptedModel(*["on we go"] * (len(lines) + 1))
    async with hosting(model=model, state_dir=tmp_path, tools=TOOLS) as host:
        for length in range(len(lines) + 1):
            (tmp_path / "sessions" / f"cut{length}.jsonl").write_bytes(b"".join(lines[:length]))
            async with await host.session(f"cut{length}") as session:
                assert_whole(session.history)
                assert (await session.say("and?")).text == "on we go"
                assert_whole(model.requests[-1].messages)
                held, usage = session.history, session.usage
            after = rebuild(read(tmp_path / "sessions" / f"cut{length}.jsonl"))
            assert (after.messages, after.usage, after.closing) == (held, usage, ())


@pytest.mark.parametrize(
    "line", [b"", b"garbage", b"{}", b"[]", b"null", b'{"t":"No thing"}', b'{"t":"Said"}', b"\xff\xfe", b"\x00" * 50,
             b'{"t":"Said","turn_id":"t","message":{"type":"Message","role":"king"}}', b'{"t":["Said"]}',
             b"[" * 50_000]
)  # fmt: skip
def test_a_damaged_line_in_the_middle_is_named(tmp_path, line):
    path = written(tmp_path, *ENTRIES)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], line, *lines[2:]]))

    with pytest.raises(SessionError, match=r"s\.jsonl, line 2 is damaged"):
        tuple(read(path))


async def test_a_damaged_session_is_not_opened_and_not_changed(tmp_path):
    path = written(tmp_path / "sessions", *ENTRIES)
    path.write_bytes(path.read_bytes() + b"garbage\n")
    before = path.read_bytes()
    async with hosting(state_dir=tmp_path) as host:
        with pytest.raises(SessionError, match="line 5 is damaged"):
            await host.session("s")
        assert path.read_bytes() == before
        with pytest.raises(SessionError, match="line 5 is damaged"):  # the lock was given up
            await host.session("s")


def test_fields_of_a_newer_version_are_passed_over(tmp_path):
    path = written(tmp_path, ENTRIES[0])
    path.write_bytes(path.read_bytes().rstrip().removesuffix(b"}") + b',"news":1}\n')

    assert reopened(tmp_path) == ENTRIES[:1]


def other_process(code, folder):
    """Run *code*, in which F is FileTranscript and folder is *folder*."""
    head = "import os, sys, pathlib\nfrom pluggent_state_files.session_log import FileLog as F\n"
    return subprocess.run(  # noqa: S603 (this very Python)
        [sys.executable, "-c", f"{head}folder = pathlib.Path(sys.argv[1])\n{code}", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_second_writer_in_another_process_is_refused(tmp_path):
    transcript = FileTranscript(tmp_path, "s")
    transcript.append(*ENTRIES)

    other = other_process("F(folder, 's')", tmp_path)

    assert "SessionError: session 's' is in use by another" in other.stderr
    assert transcript.entries() == ENTRIES
    transcript.close()


def test_a_closed_transcript_is_free_even_if_a_child_still_holds_the_file(tmp_path):
    code = """
transcript = F(folder, "s")
wait, go = os.pipe()
if os.fork() == 0:
    os.close(go)
    os.read(wait, 1)  # until the parent ends
    os._exit(0)
transcript.close()
F(folder, "s").close()
"""
    done = other_process(code, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_transcript_says_so(tmp_path):
    transcript = FileTranscript(tmp_path, "s")
    transcript.close()
    transcript.close()

    with pytest.raises(SessionError, match="session 's' is closed"):
        transcript.append(*ENTRIES)
    with pytest.raises(SessionError, match="session 's' is closed"):
        transcript.force()


async def test_an_impossible_name_is_refused_before_anything_happens(tmp_path):
    async with hosting(state_dir=tmp_path) as host:
        with pytest.raises(SessionError, match="session id"):
            await host.session("../s")


@each_of("id", ["a", "A.b-c_1", "a..b", "a" * 100, "9"])
def test_ordinary_names_are_fine(tmp_path, id):
    assert written(tmp_path, *ENTRIES, id=id).name == f"{id}.jsonl"


@pytest.mark.parametrize("name", ["s.jsonl", "s.torn"])
def test_a_link_is_not_followed_by_lines_nor_by_torn_bytes(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    (tmp_path / name).symlink_to(elsewhere)
    if name == "s.torn":
        (tmp_path / "s.jsonl").write_bytes(b"torn")

    with (
        pytest.raises(SessionError, match="cannot be opened")
        if name == "s.jsonl"
        else contextlib.suppress(SessionError)
    ):
        reopened(tmp_path)
    assert elsewhere.read_text() == "precious"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_not_a_file_or_a_folder_is_refused(tmp_path, make):
    make(tmp_path / "s.jsonl")
    (tmp_path / "sessions").write_text("")

    for folder in (tmp_path, tmp_path / "sessions"):
        with pytest.raises(SessionError, match="cannot be opened"):
            FileTranscript(folder, "s")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which not even root can write")
def test_a_folder_that_cannot_be_written_is_refused():
    with pytest.raises(SessionError, match=r"session 's' cannot be opened: /proc/self/fdinfo/s\.jsonl"):
        FileTranscript(Path("/proc/self/fdinfo"), "s")


async def test_sessions_are_written_while_others_are(tmp_path):
    async with hosting(*["x"] * 20, state_dir=tmp_path) as host:
        sessions = [await host.session(f"s{n}") for n in range(10)]
        await asyncio.gather(*(session.say("hi") for session in sessions))

        for session in sessions:
            path = tmp_path / "sessions" / f"{session.id}.jsonl"
            assert rebuild(read(path)).messages == session.history
