"""Files of sessions that were damaged, put back, forked, or opened by mistake."""

import errno
import os
import shutil
from pathlib import Path
from typing import Literal

import pytest
from pluggent_hookspecs import Approval, Message, Usage
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_hookspecs.sessions import Line, SessionQuery
from pluggent_host import Why
from pluggent_state_files.store import FileStore
from pluggent_testing.fakes import call
from pluggent_transcript.codec import Encoder, decode, encode
from pluggent_transcript.entries import Entry, Said, SessionBegan, TurnBegan, TurnOver
from saved import Office, answer_stored

ENTRIES: tuple[Entry, ...] = (
    SessionBegan("s", 1.5, "scripted/m", '天气 "x" 🎉'),
    TurnBegan("t1", 2.5),
    Said("t1", Message.user("how much?")),
    TurnOver("t1", "completed", usage=Usage(10, 2)),
)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "state" / "sessions")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "state")


def lines(*entries: Entry) -> list[Line]:
    encoder = Encoder()
    return [encode(each, encoder) for each in entries]


def write(store: FileStore, *entries: Entry, id: str = "s") -> Path:
    log = store.open(id)
    log.append(*lines(*entries))
    log.close()
    return log.path


# ---- damage -----------------------------------------------------------------------------


def test_a_flipped_bit_is_noticed_or_changes_nothing(store: FileStore):
    path = write(store, *ENTRIES)
    whole = path.read_bytes()
    noticed = 0
    for place in range(8 * (len(whole) - 1)):  # a last line without its end is one that a crash left torn
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        problem, read = "", tuple[Entry, ...]()
        try:
            read = tuple(decode(store.read("s"), "s"))
        except SessionError as error:
            problem = str(error)
        assert "mend or remove that line" in problem if problem else read == ENTRIES, f"bit {place}"
        noticed += bool(problem)

    checksums = len(ENTRIES) * len(b',"crc":"')
    assert noticed >= 8 * (len(whole) - 1 - checksums)


def test_lines_without_a_checksum_which_an_earlier_version_wrote_are_read(store: FileStore):
    path = write(store, *ENTRIES)
    path.write_bytes(b"".join(line.data for line in lines(*ENTRIES)))
    write(store, TurnBegan("t2", 3.5))

    assert tuple(decode(store.read("s"), "s")) == (*ENTRIES, TurnBegan("t2", 3.5))


def test_a_torn_line_is_cut_off_only_when_all_of_it_is_kept_aside(store: FileStore, monkeypatch: pytest.MonkeyPatch):
    path = write(store, *ENTRIES)
    torn = b'{"t":"TurnBegan","turn_id":"' + b"t" * 100
    with path.open("ab") as file:
        file.write(torn)
    write_all, full = os.write, [False]

    def write_some(descriptor: int, data: bytes) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_all(descriptor, data[:30])

    monkeypatch.setattr(os, "write", write_some)
    full[0] = True
    with pytest.raises(SessionError, match="No space left on device"):
        store.open("s")
    assert path.read_bytes().endswith(torn)

    full[0] = False
    store.open("s").close()
    assert path.with_suffix(".torn").read_bytes() == torn
    assert tuple(decode(store.read("s"), "s")) == ENTRIES


# ---- of a newer version -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"t":"Summarised","turn_id":"t1"}\n', "line 5 is an entry 'Summarised': a newer version"),
        (b'{"t":"SessionBegan","session_id":"s","created_s":1.5,"version":2}\n', "has the format 2 and not 1: a newer"),
    ],
)  # fmt: skip
def test_what_a_newer_version_wrote_is_not_called_damaged(store: FileStore, line: bytes, says: str):
    path = write(store, *ENTRIES)
    with path.open("ab") as file:
        file.write(line)

    with pytest.raises(SessionError, match=says) as error:
        decode(store.read("s"), "s")
    assert "pip install --upgrade pluggent-host" in str(error.value)
    assert "remove" not in str(error.value)


# ---- opened by mistake, and forked ------------------------------------------------------


def test_a_session_that_was_opened_and_not_written_leaves_no_file(store: FileStore):
    store.open("empty").close()

    assert store.list(SessionQuery()).sessions == ()
    assert list(store.folder.iterdir()) == []


def test_a_session_that_this_process_has_open_itself_is_not_said_to_be_in_use_by_another(store: FileStore):
    log = store.open("s")
    log.append(*lines(*ENTRIES[:1]))

    with pytest.raises(SessionError, match="'s' is open in this process already; use that one, or close it first"):
        store.open("s")
    with pytest.raises(SessionError, match="'s' is open in this process, so it is not deleted"):
        store.delete("s")
    log.close()

    store.delete("s")


def test_after_a_fork_the_child_cannot_write_and_the_parent_still_can(store: FileStore):
    log = store.open("s")
    log.append(*lines(*ENTRIES[:1]))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "it was written"
        try:
            log.append(*lines(*ENTRIES[1:2]))
        except SessionError as error:
            said = str(error)
        log.close()
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reader, 1000).decode() == f"session 's' is in use by process {os.getpid()}, which forked this one"
    with pytest.raises(SessionError, match="open in this process already"):  # the child's close gave up no lock
        store.open("s")
    log.append(*lines(*ENTRIES[1:]))
    log.close()
    os.close(reader)
    os.close(writer)
    assert tuple(decode(store.read("s"), "s")) == ENTRIES


# ---- an older copy put back -------------------------------------------------------------


async def approved(office: Office) -> bytes:
    """Pause, approve, and return the file as it is before the call runs."""
    async with office.host(call("send", "c", to="ann")) as host, await host.session("s") as session:
        (pending,) = (await session.say("write to ann")).pending
    answer_stored(office.folder / "sessions", "s", [pending.digest], Approval(agreed=True), "terminal:ann")
    return (office.folder / "sessions" / "s.jsonl").read_bytes()


async def test_an_older_copy_of_a_session_replays_no_approval(office: Office):
    before = await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.COMPLETED
    path = office.folder / "sessions" / "s.jsonl"
    path.write_bytes(before)

    for says in ("an older copy of the session was put back", "no turn that waits"):  # no more so when it has grown
        async with office.host("done", "more " * 100) as host, await host.session("s") as session:
            with pytest.raises(SessionError, match=says):
                await session.resume()
            await session.say("what now?")
            await session.say("tell me more")
    assert office.sent == ["ann"]


async def test_fresh_approvals_hold_in_a_session_that_was_put_back(office: Office):
    before = await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        await session.resume()
    (office.folder / "sessions" / "s.jsonl").write_bytes(before)

    async with office.host(call("send", "d", to="bob"), "done") as host, await host.session("s") as session:
        (pending,) = (await session.say("write to bob")).pending
        assert (await session.resume({pending.call_id: True})).why is Why.COMPLETED
    assert office.sent == ["ann", "bob"]


@pytest.mark.parametrize("content", [None, b"", b"x", b"0" * 32 + b" 0                    0                   \n"])
async def test_where_the_mark_is_damaged_no_approval_counts(office: Office, content: bytes | None):
    await approved(office)
    marks = office.folder / "sessions" / "marks"
    marks.unlink()
    if content is not None:
        marks.write_bytes(content)

    async with office.host("done") as host, await host.session("s") as session:
        with pytest.raises(SessionError, match="no turn that waits"):
            await session.resume()
    assert office.sent == []


async def test_approvals_from_before_the_marks_were_lost_never_count_again(office: Office):
    await approved(office)
    sessions = office.folder / "sessions"
    (sessions / "marks").unlink()

    async with office.host(call("send", "d", to="bob")) as host, await host.session("s") as session:
        assert (await session.say("write to bob")).why is Why.PAUSED  # a new mark, at the place of the lost one

    assert [(line.kind, line.genuine) for line in FileStore(sessions).read("s") if line.sealed] == [
        ("Paused", False),
        ("Resolved", False),
        ("Paused", True),
    ]


async def test_no_line_that_names_another_place_hides_that_a_copy_is_older(office: Office):
    before = await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        await session.resume()
    path = office.folder / "sessions" / "s.jsonl"
    elsewhere = before.splitlines(keepends=True)[-1].replace(b'"mark":0', b'"mark":75')
    path.write_bytes(before + elsewhere)
    log = FileStore(path.parent).open("s")
    log.append(*lines(TurnBegan("later", 3.5)) * 1000)
    log.close()

    assert [line for line in FileStore(path.parent).read("s") if line.genuine] == []


@pytest.mark.parametrize("fsync", ["off", "effects"])
async def test_a_session_whose_file_is_replaced_while_it_is_open_runs_nothing_more(
    office: Office, fsync: Literal["off", "effects"]
):
    """A program that synchronises folders may do that, and whoever opens the new file may run what was approved."""
    before = await approved(office)
    path = office.folder / "sessions" / "s.jsonl"
    async with (
        office.host("done", fsync=fsync) as host,
        await host.session("s") as session,
    ):
        path.rename(path.with_name("aside"))
        path.write_bytes(before)
        path.chmod(0o600)
        async with office.host("done") as other, await other.session("s") as again:
            with pytest.raises(SessionError, match="another writer has taken it over"):
                await session.resume()
            assert (await again.resume()).why is Why.COMPLETED
    assert office.sent == ["ann"]


async def test_marks_that_others_can_write_are_refused(office: Office):
    await approved(office)
    marks = office.folder / "sessions" / "marks"
    marks.chmod(0o666)

    async with office.host("done") as host:
        with pytest.raises(ConfigError, match="marks: is open to others"):
            await host.session("s")
        async with await host.session("new") as session:
            assert (await session.say("hello")).why is Why.COMPLETED  # it needs no mark yet
    async with office.host(call("send", "c", to="bob")) as host, await host.session("new") as session:
        with pytest.raises(SessionError, match="marks: is open to others"):
            await session.say("write to bob")
    assert office.sent == []


async def test_an_older_copy_of_a_deleted_session_replays_no_approval(office: Office):
    before = await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        await session.resume()
    FileStore(office.folder / "sessions").delete("s")
    (office.folder / "sessions" / "s.jsonl").write_bytes(before)
    (office.folder / "sessions" / "s.jsonl").chmod(0o600)

    async with office.host("done") as host, await host.session("s") as session:
        with pytest.raises(SessionError, match="an older copy of the session was put back"):
            await session.resume()
    assert office.sent == ["ann"]


async def test_a_writer_that_reads_nothing_does_not_make_an_older_copy_genuine(office: Office):
    before = await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        await session.resume()
    (office.folder / "sessions" / "s.jsonl").write_bytes(before)
    store = FileStore(office.folder / "sessions")
    log = store.open("s")
    log.append(*lines(TurnBegan("later", 3.5)) * 1000)
    log.close()

    assert [line for line in store.read("s") if line.genuine] == []


async def test_the_marks_of_many_sessions_are_kept_apart(office: Office):
    for id in ("one", "two"):
        async with office.host(call("send", "c", to=id)) as host, await host.session(id) as session:
            assert (await session.say("write")).why is Why.PAUSED
    for id in ("one", "two"):
        async with office.host("done") as host, await host.session(id) as session:
            assert (await session.resume({"c": True})).why is Why.COMPLETED

    marks = (office.folder / "sessions" / "marks").read_bytes().splitlines()
    assert [int(mark.split()[2]) > 0 for mark in marks] == [True, True]
    assert office.sent == ["one", "two"]


async def test_a_whole_folder_that_was_copied_elsewhere_still_waits(office: Office, tmp_path: Path):
    await approved(office)
    shutil.copytree(office.folder, tmp_path / "moved")
    moved = Office(tmp_path / "moved")

    async with moved.host("done") as host, await host.session("s") as session:
        assert (await session.resume()).why is Why.COMPLETED
    assert moved.sent == ["ann"]


async def test_a_deleted_session_leaves_nothing(office: Office):
    await approved(office)
    async with office.host("done") as host, await host.session("s") as session:
        await session.resume()

    FileStore(office.folder / "sessions").delete("s")
    assert not list((office.folder / "sessions").glob("s.*"))
