"""Attempts to have an approval count that nobody gave here: forged, copied, brought back, or given from inside."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from approving_support import mailing, pause, requests
from attack_place import Workplace
from pluggent_hookspecs import Approval
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host.approvals import process_marker
from pluggent_host.approvals.standing import Standing
from pluggent_state_files.seals import SealedRecords
from pluggent_testing.fakes import call
from transcript_file import FileStanding as Approvals, FileTranscript, all_waiting, answer_stored

STANDS = Standing("a:tool/b", "d", (("guard", "why"),), ("v",), {}, "", "", "", "terminal:ann", 1.0, "always")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


# ---- lines of sessions ---------------------------------------------------------------------


@pytest.mark.parametrize("seal", [None, "", 0, [], {}, "\ud800", "x" * 64, "\u0660" * 64])
def test_a_seal_that_is_none_seals_nothing_and_breaks_nothing(tmp_path: Path, seal: object):
    transcript = FileTranscript(tmp_path, "s")
    transcript.append(STANDS)
    plain = json.loads((tmp_path / "s.jsonl").read_text())
    (tmp_path / "s.jsonl").write_text(json.dumps({**plain, "seal": seal}) + "\n")
    kept = Approvals(tmp_path)
    kept.keep(STANDS)
    records = json.loads((tmp_path / "approvals.json").read_text())
    records["records"][0]["seal"] = seal
    (tmp_path / "approvals.json").write_text(json.dumps(records))

    assert (transcript.entries(), kept.all(), len(kept.problems())) == ((), (), 1)
    transcript.close()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("capability", "a:tool/c"), ("definition", "e"), ("asks", []), ("identities", ["w"]), ("where", {"x": "**"}),
        ("workspace", "/"), ("by", "key:boss"), ("at_s", 2.0), ("reach", "session"), ("more", 1), ("t", "Resolved"),
    ],
)  # fmt: skip
def test_every_part_of_an_approval_is_under_its_seal(tmp_path: Path, part: str, value: object):
    transcript = FileTranscript(tmp_path, "s")
    transcript.append(STANDS)
    assert transcript.entries() == (STANDS,)
    plain = json.loads((tmp_path / "s.jsonl").read_text())
    (tmp_path / "s.jsonl").write_text(json.dumps({**plain, part: value}) + "\n")

    try:
        counted = transcript.entries()
    except SessionError:  # as another kind of entry it is damaged
        counted = ()
    transcript.close()
    assert counted == ()


@pytest.mark.parametrize("other", ["t", "S", "s.", "s-", "ss"])
def test_an_approval_does_not_come_along_into_a_session_of_another_name(tmp_path: Path, other: str):
    one = FileTranscript(tmp_path, "s")
    one.append(STANDS)
    one.close()
    (tmp_path / "s.jsonl").rename(tmp_path / f"{other}.jsonl")
    moved = FileTranscript(tmp_path, other)

    assert moved.entries() == ()
    moved.close()


@pytest.mark.parametrize("id", ["\u0455", "s\n", "s\u200b", ".s", "s/../s", "s\0", "\uff53", "", "s" * 101])
def test_no_session_has_a_name_that_only_looks_like_another(tmp_path: Path, id: str):
    with pytest.raises(SessionError):
        FileTranscript(tmp_path, id)
    assert list(tmp_path.iterdir()) == []


def test_a_session_of_the_same_name_in_another_folder_has_another_key(tmp_path: Path):
    lines: list[bytes] = []
    for folder in ("one", "two"):
        transcript = FileTranscript(tmp_path / folder, "s")
        transcript.append(STANDS)
        transcript.close()
        lines.append((tmp_path / folder / "s.jsonl").read_bytes())
    (tmp_path / "two" / "s.jsonl").write_bytes(lines[0] + lines[1])
    transcript = FileTranscript(tmp_path / "two", "s")

    assert transcript.entries() == (STANDS,)
    transcript.close()


# ---- the key ---------------------------------------------------------------------------


def _remove(key: Path) -> None:
    key.unlink()


def _swap(key: Path) -> None:
    key.write_bytes(b"\0" * 32)


def _empty(key: Path) -> None:
    key.write_bytes(b"")


def _longer(key: Path) -> None:
    key.write_bytes(key.read_bytes() + b"x")


@pytest.mark.parametrize("spoil", [_remove, _swap, _empty, _longer])
def test_without_its_key_nothing_that_was_approved_counts_and_what_is_new_does(
    tmp_path: Path, spoil: Callable[[Path], None]
):
    kept = Approvals(tmp_path)
    kept.keep(STANDS)
    spoil(tmp_path / "approvals.json.key")

    assert kept.all() == ()
    assert len(kept.problems()) == 1
    kept.keep(STANDS)
    assert kept.all() == (STANDS,)


def _open_to_others(key: Path) -> None:
    key.chmod(0o640)


def _link(key: Path) -> None:
    key.rename(key.with_name("elsewhere"))
    key.symlink_to(key.with_name("elsewhere"))


def _folder(key: Path) -> None:
    key.unlink()
    key.mkdir()


def _open_folder(key: Path) -> None:
    key.parent.chmod(0o777)


@pytest.mark.parametrize("spoil", [_open_to_others, _link, _folder, _open_folder])
def test_a_key_that_somebody_else_may_have_is_not_relied_on(tmp_path: Path, spoil: Callable[[Path], None]):
    kept = Approvals(tmp_path / "sessions")
    kept.keep(STANDS)
    spoil(tmp_path / "sessions" / "approvals.json.key")

    with pytest.raises(ConfigError):
        kept.all()
    with pytest.raises(ConfigError):
        kept.keep(STANDS)


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path):
    (tmp_path / "approvals.json.lock").symlink_to(tmp_path / "made")

    with pytest.raises(ConfigError, match="cannot be written"):
        Approvals(tmp_path).keep(STANDS)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"records": 5}', '{"records": "abc"}', '{"records": {"a": 1}}', "[" * 100_000, "\0",
             '{"records": [null, 1, [], {}, {"about": {}, "seal": ""}]}'],
)  # fmt: skip
def test_a_file_of_rubbish_approves_nothing_and_can_be_written_again(tmp_path: Path, text: str):
    kept = Approvals(tmp_path)
    kept.keep(STANDS)
    (tmp_path / "approvals.json").write_text(text)

    assert kept.all() == ()
    assert kept.problems()
    kept.keep(STANDS)
    assert kept.all() == (STANDS,)


def test_two_processes_that_keep_approvals_at_once_lose_none(tmp_path: Path):
    source = """
import sys, attrs
from pathlib import Path
from pluggent_host.approvals.standing import Approvals, Standing
from pluggent_state_files.store import FileApprovals
for number in range(20):
    stands = Standing(sys.argv[2], str(number), (("g", "w"),), ("v",), {}, "", "", "", "key:a", 1.0, "always")
    Approvals(FileApprovals(Path(sys.argv[1]))).keep(stands)
"""
    command = [sys.executable, "-c", source, str(tmp_path)]
    started = [subprocess.Popen([*command, name]) for name in ("a", "b")]  # noqa: S603 (our own interpreter)

    assert [process.wait(30) for process in started] == [0, 0]
    assert len(Approvals(tmp_path).all()) == 40


def test_a_record_of_one_kind_is_none_of_another(tmp_path: Path):
    records = SealedRecords(tmp_path / "approvals.json")
    records.put("hooks", STANDS.id, lambda _: {"capability": "a:tool/b"})

    assert Approvals(tmp_path).all() == ()
    assert Approvals(tmp_path).problems() == ()


# ---- answers to what waits ---------------------------------------------------------------


async def test_a_second_answer_to_one_request_is_none(place: Workplace):
    paused = await place.pause(call("write", text="x"))
    folder, (pending,) = place.folder / "sessions", paused.pending
    answer_stored(folder, "s", [pending.digest], Approval(agreed=False), "terminal:ann")

    with pytest.raises(SessionError, match="no request"):
        answer_stored(folder, "s", [pending.digest], Approval(agreed=True), "terminal:bob")
    async with place.open("fine") as on:
        with pytest.raises(SessionError, match="no call waits"):
            await on.session.resume({pending.call_id: True})
        await on.session.resume()
    assert place.done == []


@pytest.mark.parametrize("how", ["undo", "say"])
async def test_an_answer_to_a_turn_that_was_withdrawn_comes_too_late(place: Workplace, how: str):
    paused = await place.pause(call("write", text="x"))
    async with place.open("fine", call("write", text="x")) as on:
        await (on.session.undo() if how == "undo" else on.session.say("never mind"))

    with pytest.raises(SessionError, match="no turn that waits"):
        answer_stored(place.folder / "sessions", "s", [paused.pending[0].digest], Approval(agreed=True), "terminal:ann")
    assert place.done == []


async def test_a_sealed_answer_is_no_answer_to_the_same_call_of_a_later_turn(place: Workplace):
    paused = await place.pause(call("write", text="x"))
    answer_stored(place.folder / "sessions", "s", [paused.pending[0].digest], Approval(agreed=True), "terminal:ann")
    (answer,) = place.lines("Resolved")
    async with place.open() as on:
        await on.session.undo()
    await place.pause(call("write", text="x"))
    place.append(answer)
    async with place.open("fine") as on:
        result = await on.session.resume()

    assert len(result.pending) == 1
    assert place.done == []


async def test_an_approval_of_what_was_undone_leaves_nothing_for_always_unless_it_was_given(place: Workplace):
    paused = await place.pause(call("write", text="x"))
    session = Approval(agreed=True, reach="session")
    answer_stored(place.folder / "sessions", "s", [paused.pending[0].digest], session, "terminal:ann")
    async with place.open(call("write", text="y")) as on:
        await on.session.undo()
        again = await on.session.say("go")

    assert len(again.pending) == 1
    assert place.done == []


# ---- from inside ---------------------------------------------------------------------------


def test_marks_come_and_go_in_any_order_and_others_stay():
    own, environ = str(os.getpid()), {process_marker.INSIDE: "77"}
    one, two = process_marker.marked(environ), process_marker.marked(environ)
    one.__enter__()
    two.__enter__()
    assert environ == {process_marker.INSIDE: f"77,{own},{own}"}
    one.__exit__(None, None, None)
    assert environ == {process_marker.INSIDE: f"77,{own}"}
    two.__exit__(None, None, None)

    assert environ == {process_marker.INSIDE: "77"}
    assert process_marker.is_inside(environ)


@pytest.mark.parametrize("mark", ["1,", ",1", "x", " ", "0", "1,1", "-1"])
def test_any_mark_but_the_own_is_one_of_a_host_above(mark: str):
    assert process_marker.is_inside({process_marker.INSIDE: mark})
    assert process_marker.is_inside({process_marker.INSIDE: f"{os.getpid()},{mark}"})


def test_a_process_below_one_that_has_a_host_open_is_inside_of_it_with_hosts_of_its_own_too():
    with process_marker.marked():
        source = (
            "from pluggent_host.approvals.process_marker import is_inside, marked\n"
            "with marked(): print(is_inside())\nprint(is_inside())"
        )
        command = [sys.executable, "-c", source]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True)  # noqa: S603 (ours)
        assert not process_marker.is_inside()
    assert done.stdout.split() == ["True", "True"]


KEY = "k" * 40


def test_a_key_under_two_names_or_of_a_folder_that_nobody_trusts_approves_for_nobody(tmp_path: Path):
    cli = mailing(tmp_path)
    digest = pause(cli, "bob")
    own = f"sha256:{hashlib.sha256(KEY.encode()).hexdigest()}"
    (tmp_path / "keys.toml").write_text(f'[approvers]\nintern = "{own}"\nfinance = "{own}"\n')
    (cli.work / "pluggent.toml").write_text(f'[approvers]\nboss = "{own}"\n')
    given = ("approvals", "approve", "s", digest, "--key", "env:KEY")

    by_two = cli(*given, "--config", str(tmp_path / "keys.toml"), KEY=KEY)
    by_folder = cli(*given, KEY=KEY)

    assert (by_two.code, by_folder.code) == (2, 2)
    assert "is the key of intern and finance" in by_two.err
    assert "is not the key of any approver" in by_folder.err
    assert list(requests(cli).values()) == [digest]


# ---- what a person is shown --------------------------------------------------------------


@pytest.mark.parametrize(
    "character", "\u3164\u115f\u1160\uffa0\u034f\ufe0f\u180b\u180f\u17b4\u2800\U000e0101\u200b\u00ad\u2060\u061c"
)
async def test_two_requests_that_differ_never_look_alike_by_what_cannot_be_seen(place: Workplace, character: str):
    paused = await place.pause(call("write", text=f"a{character}b"))
    await place.pause(call("write", text="ab"), id="t")
    (shown,), (other,) = (one.calls for one in all_waiting(place.folder / "sessions"))

    assert character not in paused.pending[0].rendered
    assert shown.rendered != other.rendered
    assert (shown.rendered + other.rendered).isascii()
