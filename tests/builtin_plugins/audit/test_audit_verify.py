"""Verifying a log: whatever is done to its files is found, and where."""

import json
import os
import random
import re
from pathlib import Path

import pytest
from auditing import command, decision, edited, logs, problems, written
from hypothesis import given, settings, strategies as st
from pluggent_audit.plugin import Audit
from pluggent_audit.settings import AuditSettings
from pluggent_audit.verification import verify
from pluggent_hookspecs import ConfigError, Scope
from pluggent_hookspecs.observations import PluginStateChanged, SessionClosed, SessionOpened
from pluggent_hookspecs.secrets import Secret


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of three files: lines 1 to 8, 9 to 16, and the rest."""
    now = [0.0]
    audit = Audit(AuditSettings(folder=str(tmp_path / "audit")), clock=lambda: now[0])
    for n in range(18):
        if n in (6, 13):
            now[0] += 86_400
        audit.write_record(decision(n))
    audit.close()
    return tmp_path / "audit"


def test_a_whole_log_has_no_problem(folder):
    assert [len(path.read_bytes().splitlines()) for path in logs(folder)] == [8, 8, 7]
    assert problems(folder) == []
    assert command("verify", folder=str(folder)) == 0


def test_a_changed_line_is_found(folder):
    edited(logs(folder)[1], lambda lines: [*lines[:3], lines[3].replace(b"allow", b"deny "), *lines[4:]])

    assert problems(folder) == ["audit.000002.jsonl:4: was changed: line 13 knows it with another hash"]


def test_a_line_that_is_no_record_any_more_is_found(folder):
    edited(logs(folder)[1], lambda lines: [*lines[:3], b"x\n", *lines[4:]])

    assert problems(folder) == ["audit.000002.jsonl:4: was changed: it is not a record"]


def test_removed_lines_are_found(folder):
    edited(logs(folder)[1], lambda lines: [*lines[:3], *lines[5:]])

    assert problems(folder) == ["audit.000002.jsonl:4: lines 12 to 13 are missing before this one"]


def test_lines_cut_from_the_end_of_a_file_that_is_not_the_last_are_found(folder):
    edited(logs(folder)[0], lambda lines: lines[:-2])

    assert problems(folder) == ["audit.000002.jsonl:1: lines 7 to 8 are missing before this one"]


def test_a_doubled_line_is_found(folder):
    edited(logs(folder)[1], lambda lines: [*lines[:4], lines[2], *lines[4:]])

    assert problems(folder) == ["audit.000002.jsonl:5: is line 11 once more (audit.000002.jsonl:3)"]


def test_lines_in_another_order_are_found(folder):
    edited(logs(folder)[1], lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]])

    assert problems(folder) == ["audit.000002.jsonl:4: was moved: number 11 stands behind 12"]


def test_a_removed_file_is_found(folder):
    logs(folder)[1].unlink()

    assert problems(folder) == ["audit.000003.jsonl:1: lines 9 to 16 are missing before this one"]


def test_a_removed_first_file_is_found_unless_the_others_are_named(folder, capsys):
    logs(folder)[0].unlink()

    assert problems(folder) == ["audit.000002.jsonl:1: lines 1 to 8 are missing before this one"]
    assert command("verify", *map(str, logs(folder))) == 0
    assert "15 lines, whole" in capsys.readouterr().out


def test_a_doubled_file_is_found(folder):
    (folder / "audit.000004.jsonl").write_bytes(logs(folder)[1].read_bytes())

    assert problems(folder)[0] == ("audit.000004.jsonl:1: is line 9 once more (audit.000002.jsonl:1)")
    assert len(problems(folder)) == 8


def test_files_that_changed_places_are_found(folder):
    first, second, _ = logs(folder)
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)

    assert problems(folder)[0] == ("audit.000001.jsonl:1: is the beginning of audit.000002.jsonl, and stands elsewhere")
    assert "was moved" in problems(folder)[1]


def test_what_is_missing_at_the_end_is_found_by_the_head_beside_it(folder, capsys):
    edited(logs(folder)[2], lambda lines: lines[:-2])

    assert problems(folder) == []
    assert command("verify", folder=str(folder)) == 3
    assert "audit.head: lines 22 to 23 are missing at the end" in capsys.readouterr().out


def test_a_head_kept_elsewhere_finds_what_a_forged_head_hides(folder, capsys):
    kept = str(verify(logs(folder)).head)
    edited(logs(folder)[2], lambda lines: lines[:-2])
    (folder / "audit.head").write_bytes(verify(logs(folder)).head.encoded())

    assert command("verify", folder=str(folder)) == 0
    assert command("verify", "--head", kept, folder=str(folder)) == 3
    assert "--head: lines 22 to 23 are missing at the end" in capsys.readouterr().out


@pytest.mark.parametrize("head", [b"", b"{}", None])
def test_a_damaged_or_missing_head_is_told(head, folder, capsys):
    (folder / "audit.head").unlink()
    if head is not None:
        (folder / "audit.head").write_bytes(head)

    assert command("verify", folder=str(folder)) == 3
    assert "audit.head: " in capsys.readouterr().out


def test_without_the_key_no_chain_can_be_made_that_verifies(tmp_path, capsys):
    written(tmp_path / "audit", 3, key=Secret.of("k1"))
    where = str(tmp_path / "audit")

    assert problems(tmp_path / "audit", b"k1") == []
    assert len(problems(tmp_path / "audit")) == 5
    assert command("verify", folder=where, key=Secret.of("k1")) == 0
    assert command("verify", folder=where, key=Secret.of("k2")) == 3


@given(st.randoms(use_true_random=False), st.sampled_from(["cut", "drop", "double", "swap", "flip", "insert"]))
@settings(max_examples=120, deadline=None)
def test_no_change_before_the_last_line_goes_unseen(tmp_path_factory, draw: random.Random, how: str):
    folder = tmp_path_factory.mktemp("logs") / "audit"
    written(folder, 8, rotate_bytes=4_096)
    path = draw.choice(logs(folder))
    lines = path.read_bytes().splitlines(keepends=True)
    at = draw.randrange(len(lines))
    last = path == logs(folder)[-1] and at == len(lines) - 1
    match how:
        case "cut":
            lines = lines[:at]
        case "drop":
            del lines[at]
        case "double":
            lines.insert(draw.randrange(len(lines) + 1), lines[at])
        case "swap":
            other = (at + 1) % len(lines)
            lines[at], lines[other] = lines[other], lines[at]
        case "flip":
            where = draw.randrange(len(lines[at]) - 1)
            lines[at] = lines[at][:where] + bytes([lines[at][where] ^ 1]) + lines[at][where + 1 :]
        case _:
            lines.insert(at, b'{"n":3,"prev":"' + b"0" * 64 + b'","at":"","event":"X","record":{}}\n')
    path.write_bytes(b"".join(lines))

    found = problems(folder)
    seen_by_head = command("verify", folder=str(folder)) == 3
    assert seen_by_head
    assert found or last or how == "cut" or len(lines) == 0


def test_export_and_show_choose_records(folder, capsys):
    audit = Audit(AuditSettings(folder=str(folder)))
    audit.write_record(decision(99, verdict="deny", reason="=cmd()\x1b[2J"))
    audit.close()

    assert command("show", "--verdict", "deny", folder=str(folder)) == 0
    shown = capsys.readouterr().out
    assert "DecisionMade tool_call deny host =cmd()\\x1b[2J" in shown
    assert shown.count("\n") == 1
    assert command("export", "--verdict", "deny", "--format", "csv", folder=str(folder)) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("n,at,event,session,turn")
    assert "'=cmd()\\x1b[2J" in rows[1]
    assert command("export", "--session", "s", "--event", "DecisionMade", folder=str(folder)) == 0
    exported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(exported) == 19
    assert exported[-1]["record"]["verdict"] == "deny"
    assert command("show", "--all", "--last", "2", folder=str(folder)) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_show_leaves_out_what_opens_and_closes_and_says_so(folder, capsys):
    scope = Scope("s", "t")
    audit = Audit(AuditSettings(folder=str(folder)))
    for event in (
        SessionOpened(scope, "acme/m", (), "d"), PluginStateChanged("acme", "active"),
        PluginStateChanged("broken", "failed", "no module"), PluginStateChanged("mute", "active", "it offers nothing"),
        PluginStateChanged("acme", "closed"), SessionClosed(scope),
    ):  # fmt: skip
        audit.write_record(event)
    audit.close()

    assert command("show", folder=str(folder)) == 0
    shown, said = capsys.readouterr()
    kinds = {line.split()[3] for line in shown.splitlines()}
    assert kinds == {"DecisionMade", "PluginStateChanged"}
    assert [line.split()[4] for line in shown.splitlines() if "PluginStateChanged" in line] == ["broken", "mute"]
    assert re.fullmatch(r"\d+ records of opening and closing left out: --all shows them\n", said)
    assert command("show", "--all", folder=str(folder)) == 0
    every, said = capsys.readouterr()
    assert ("SessionOpened" in every, "LogClosed" in every, "FileBegun" in every, said) == (True, True, True, "")
    assert command("show", "--event", "SessionOpened", folder=str(folder)) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_log_that_was_opened_after_damage_says_so_among_what_is_shown(folder, capsys):
    (folder / "audit.head").write_text("damaged")
    audit = Audit(AuditSettings(folder=str(folder)))
    audit.write_record(decision(99))
    audit.close()

    assert command("show", folder=str(folder)) == 0
    assert "LogOpened" in capsys.readouterr().out


def test_mistakes_of_the_user_are_told(tmp_path):
    for words, problem in (
        (("verify",), "there is no record in"),
        (("verify", "nothing.jsonl"), "there is no such file"),
    ):
        with pytest.raises(ConfigError, match=problem):
            command(*words, folder=str(tmp_path / "none"))
    written(tmp_path / "audit", 1)
    with pytest.raises(ConfigError, match="a head is a number"):
        command("verify", "--head", "x", folder=str(tmp_path / "audit"))


def test_a_deleted_log_whose_head_remains_is_found(folder, capsys):
    one, two = (Audit(AuditSettings(folder=str(folder))) for _ in range(2))
    for audit in (one, two):
        audit.write_record(decision(1))
    for audit in (one, two):
        audit.close()
    (folder / "audit-2.000001.jsonl").unlink()

    assert command("verify", folder=str(folder)) == 3
    assert "audit-2.head: lines 1 to 4 are missing at the end" in capsys.readouterr().out


def test_a_folder_of_which_only_heads_remain_is_not_an_empty_record(folder, capsys):
    for path in logs(folder):
        path.unlink()

    assert command("verify", folder=str(folder)) == 3
    assert "audit.head: lines 1 to 23 are missing at the end" in capsys.readouterr().out


def test_a_deleted_log_and_head_are_found_by_the_logs_begun_after_them(folder, capsys):
    audits = [Audit(AuditSettings(folder=str(folder))) for _ in range(3)]
    for audit in audits:
        audit.write_record(decision(1))
    for audit in audits:
        audit.close()
    for path in folder.glob("audit-2.*"):
        path.unlink()

    assert command("verify", folder=str(folder)) == 3
    assert "audit-2.head: is missing, and later logs are not" in capsys.readouterr().out


@pytest.mark.parametrize("head", [b"", b"x" * 100, None], ids=["empty", "damaged", "removed"])
def test_a_cut_tail_with_a_damaged_head_is_told_after_the_log_was_opened_again(head: bytes | None, folder, capsys):
    edited(logs(folder)[2], lambda lines: lines[:-4])
    (folder / "audit.head").unlink() if head is None else (folder / "audit.head").write_bytes(head)

    written(folder, 1)

    assert command("verify", folder=str(folder)) == 3
    assert "whether lines were missing then cannot be said" in capsys.readouterr().out


def make_fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("make", [make_fifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("name", ["audit.000004.jsonl", "audit.head", "audit.000003.jsonl"])
def test_what_is_not_a_file_in_the_place_of_one_is_a_problem_and_nothing_waits_for_it(make, name, folder, capsys):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)

    assert command("verify", folder=str(folder)) == 3
    assert f"{name}: is not a regular file" in capsys.readouterr().out


def test_reading_what_is_not_a_file_is_refused_and_does_not_wait(folder):
    os.mkfifo(folder / "audit.000004.jsonl", 0o600)

    with pytest.raises(ConfigError, match="is not a regular file"):
        command("show", folder=str(folder))
