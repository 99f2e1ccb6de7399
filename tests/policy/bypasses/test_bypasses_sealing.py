"""Attempts to have an approval count that no person gave here: forged, copied, brought back, or given from inside."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacks import Workplace
from cli_support import mailing, pause, requests
from each_of import each_of
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host import Limits
from pluggent_host.common import process_marker
from pluggent_state_files.seals import SealedRecords
from pluggent_testing.fakes import call
from pluggent_transcript.standing import Standing
from saved import FileStanding as Approvals, FileTranscript, all_waiting

STANDS = Standing("a:tool/b", "d", (("guard", "why"),), ("v",), {}, "", "", "", "terminal:ann", 1.0, "always")
WRITE = call("write", text="x")


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def counted(folder: Path, session: str = "s") -> Any:
    """Return what of a session counts; nothing if it is damaged."""
    transcript = FileTranscript(folder, session)
    try:
        return transcript.entries()
    except SessionError:
        return ()
    finally:
        transcript.close()


def stored(folder: Path) -> Path:
    """Write an approval into the session ``s``, and return its file."""
    transcript = FileTranscript(folder, "s")
    transcript.append(STANDS)
    transcript.close()
    assert counted(folder) == (STANDS,)
    return folder / "s.jsonl"


def kept(folder: Path) -> Approvals:
    """Return approvals for always, of which there is one."""
    made = Approvals(folder)
    made.keep(STANDS)
    return made


# ---- lines of sessions


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("capability", "a:tool/c"), ("definition", "e"), ("asks", []), ("identities", ["w"]), ("where", {"x": "**"}),
        ("workspace", "/"), ("by", "key:boss"), ("at_s", 2.0), ("reach", "session"), ("more", 1), ("t", "Resolved"),
        *(("seal", seal) for seal in (None, "", 0, [], {}, "\ud800", "x" * 64, "\u0660" * 64)),
    ],
    ids=ascii,
)  # fmt: skip
def test_every_part_of_an_approval_is_under_its_seal(tmp_path: Path, part: str, value: object):
    file = stored(tmp_path)
    file.write_text(json.dumps({**json.loads(file.read_text()), part: value}) + "\n")
    approvals = kept(tmp_path)
    records = json.loads((tmp_path / "approvals.json").read_text())
    place = records["records"][0] if part == "seal" else records["records"][0]["about"]
    place[part] = value
    (tmp_path / "approvals.json").write_text(json.dumps(records))

    assert (counted(tmp_path), approvals.all(), len(approvals.problems())) == ((), (), 1)


@each_of("id", ["\u0455", "s\n", "s\u200b", ".s", "s/../s", "s\0", "\uff53", "", "s" * 101, ".", "..", "../s", "/s",
                "a/b", "a\\b", "-s", "a b", "é", "~"])  # fmt: skip
def test_no_session_has_a_name_that_only_looks_like_another_or_like_a_path(tmp_path: Path, id: str):
    with pytest.raises(SessionError, match="session id"):
        FileTranscript(tmp_path, id)
    assert [*tmp_path.iterdir()] == []


def test_a_session_of_the_same_name_in_another_folder_has_another_key(tmp_path: Path):
    one, two = stored(tmp_path / "one"), stored(tmp_path / "two")
    two.write_bytes(one.read_bytes() + two.read_bytes())

    assert counted(tmp_path / "two") == (STANDS,)


# ---- the key

SPOILT: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "swapped": lambda key: key.write_bytes(b"\0" * 32),
    "empty": lambda key: key.write_bytes(b""),
    "longer": lambda key: key.write_bytes(key.read_bytes() + b"x"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_without_its_key_nothing_that_was_approved_counts_and_what_is_new_does(
    tmp_path: Path, spoil: Callable[[Path], object]
):
    approvals = kept(tmp_path)
    spoil(tmp_path / "approvals.json.key")

    assert (approvals.all(), len(approvals.problems())) == ((), 1)
    approvals.keep(STANDS)
    assert approvals.all() == (STANDS,)


def _link(key: Path) -> None:
    key.rename(key.with_name("elsewhere"))
    key.symlink_to(key.with_name("elsewhere"))


def _folder(key: Path) -> None:
    key.unlink()
    key.mkdir()


OPEN: dict[str, Callable[[Path], None]] = {
    "open to others": lambda key: key.chmod(0o640),
    "in a folder open to others": lambda key: key.parent.chmod(0o777),
    "a link": _link,
    "a folder": _folder,
}


@pytest.mark.parametrize("spoil", OPEN.values(), ids=OPEN)
def test_a_key_that_another_user_may_have_is_not_relied_on(tmp_path: Path, spoil: Callable[[Path], None]):
    approvals = kept(tmp_path / "sessions")
    spoil(tmp_path / "sessions" / "approvals.json.key")

    with pytest.raises(ConfigError):
        approvals.all()
    with pytest.raises(ConfigError):
        approvals.keep(STANDS)


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path: Path):
    (tmp_path / "approvals.json.lock").symlink_to(tmp_path / "made")

    with pytest.raises(ConfigError, match="cannot be written"):
        Approvals(tmp_path).keep(STANDS)
    assert not (tmp_path / "made").exists()


@each_of(
    "text", ["", "[]", "{}", '{"records": 5}', '{"records": "abc"}', '{"records": {"a": 1}}', "[" * 100_000, "\0",
             '{"records": [null, 1, [], {}, {"about": {}, "seal": ""}]}'],
)  # fmt: skip
def test_a_file_of_rubbish_approves_nothing_and_can_be_written_again(tmp_path: Path, text: str):
    approvals = kept(tmp_path)
    (tmp_path / "approvals.json").write_text(text)

    assert approvals.all() == ()
    assert approvals.problems()
    approvals.keep(STANDS)
    assert approvals.all() == (STANDS,)


def test_two_processes_that_keep_approvals_at_once_lose_none(tmp_path: Path):
    source = """
import sys
from pathlib import Path
from pluggent_transcript.standing import Approvals, Standing
from pluggent_state_files.store import FileApprovals
for number in range(20):
    stands = Standing(sys.argv[2], str(number), (("g", "w"),), ("v",), {}, "", "", "", "key:a", 1.0, "always")
    Approvals(FileApprovals(Path(sys.argv[1])), at_once=True).keep(stands)
"""
    command = [sys.executable, "-c", source, str(tmp_path)]
    started = [subprocess.Popen([*command, name]) for name in ("a", "b")]  # noqa: S603 (our own interpreter)

    assert [process.wait(30) for process in started] == [0, 0]
    assert len(Approvals(tmp_path).all()) == 40


def test_a_record_of_one_kind_is_none_of_another(tmp_path: Path):
    SealedRecords(tmp_path / "approvals.json").put("hooks", STANDS.id, lambda _: {"capability": "a:tool/b"})

    approvals = Approvals(tmp_path)
    assert (approvals.all(), approvals.problems()) == ((), ())


# ---- answers to what waits


async def test_a_second_answer_to_one_request_is_none(place: Workplace):
    paused = await place.pause(WRITE)
    place.store_answer(paused, agreed=False)

    with pytest.raises(SessionError, match="no request"):
        place.store_answer(paused)
    async with place.open("fine") as on:
        with pytest.raises(SessionError, match="no call waits"):
            await on.session.resume({paused.pending[0].call_id: True})
        await on.session.resume()
    assert place.done == []


@pytest.mark.parametrize("how", ["undo", "say"])
async def test_an_answer_to_a_turn_that_was_withdrawn_comes_too_late(place: Workplace, how: str):
    paused = await place.pause(WRITE)
    async with place.open("fine", WRITE) as on:
        await (on.session.undo() if how == "undo" else on.session.say("never mind"))

    with pytest.raises(SessionError, match="no turn that waits"):
        place.store_answer(paused)
    assert place.done == []


async def test_a_sealed_answer_is_no_answer_to_the_same_call_of_a_later_turn(place: Workplace):
    place.store_answer(await place.pause(WRITE))
    (answer,) = place.lines("Resolved")
    async with place.open() as on:
        await on.session.undo()
    await place.pause(WRITE)
    place.append(answer)

    result, _ = await place.resume("fine", answer=None)

    assert (len(result.pending), place.done) == (1, [])


# ---- from inside


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


@each_of("mark", ["1,", ",1", "x", " ", "0", "1,1", "-1"])
def test_any_mark_but_the_own_is_one_of_a_host_above(mark: str):
    assert process_marker.is_inside({process_marker.INSIDE: mark})
    assert process_marker.is_inside({process_marker.INSIDE: f"{os.getpid()},{mark}"})


def test_a_process_below_one_that_has_a_host_open_is_inside_of_it_with_hosts_of_its_own_too():
    source = (
        "from pluggent_host.common.process_marker import is_inside, marked\n"
        "with marked(): print(is_inside())\nprint(is_inside())"
    )
    with process_marker.marked():
        command = [sys.executable, "-c", source]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=30, check=True)  # noqa: S603 (ours)
        assert not process_marker.is_inside()
    assert done.stdout.split() == ["True", "True"]


KEY = "k" * 40


def test_a_key_under_two_names_or_of_an_untrusted_folder_approves_nothing(tmp_path: Path):
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
    assert [*requests(cli).values()] == [digest]


# ---- what a person is shown


async def test_two_requests_that_differ_never_look_alike_by_what_cannot_be_seen(place: Workplace):
    """Rule 17."""
    hidden = "\u3164\u115f\u1160\uffa0\u034f\ufe0f\u180b\u180f\u17b4\u2800\U000e0101\u200b\u00ad\u2060\u061c"
    calls = (call("write", str(n), text=f"a{each}b") for n, each in enumerate(["", *hidden]))
    await place.pause(*calls, limits=Limits(asks=99))

    shown = [each.rendered for one in all_waiting(place.folder / "sessions") for each in one.calls]
    assert all(each.isascii() for each in shown)
    assert len(set(shown)) == len(hidden) + 1
