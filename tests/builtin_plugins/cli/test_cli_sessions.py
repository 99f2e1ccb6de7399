"""``pluggent sessions`` on sessions that ``pluggent run`` has saved, on thousands, on damaged ones and those in use."""

import json
import os
from pathlib import Path

import pytest
from cli_support import EVIL, STEERING, Cli, nobody_reads
from pluggent_cli.commands import sessions
from pluggent_cli.completion import words as completing
from saved import save, tool_turn, turn
from transcript_file import FileTranscript


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def folder(cli: Cli) -> Path:
    return cli.state / "sessions"


def listed(cli: Cli, *words: str) -> dict[str, dict[str, object]]:
    """Return every session by its id."""
    return {one["id"]: one for one in json.loads(cli("sessions", "--json", *words).out)["sessions"]}


# ---- list -------------------------------------------------------------------------------


def test_where_nothing_was_said_nothing_is_listed(cli, folder):
    assert cli("sessions") == (0, f'no sessions in {folder}; one begins with: pluggent run "hello"\n', "")
    assert json.loads(cli("sessions", "--json").out) == {
        "store": "file", "folder": str(folder), "total": 0, "sessions": [],
    }  # fmt: skip


def test_a_session_is_listed_with_what_it_is_about(cli):
    cli("run", "--session", "trip", "weather city=Paris")
    cli("run", "--session", "trip", "weather city=Oslo")
    cli("run", "--session", "other", "hello")

    code, out, err = cli("sessions", COLUMNS="100")

    lines = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[0] == ["SESSION", "WHEN", "MODEL", "TURNS", "TOKENS", "FIRST", "WORDS"]
    assert (lines[1][0], lines[2][0], lines[2][3:5], lines[2][6:]) == (
        "other", "trip", ["offline/demo", "2"], ["weather", "city=Paris"],
    )  # fmt: skip


def test_a_narrow_terminal_has_the_first_words_below(cli, folder):
    save(folder, "s" * 60, *turn("a question of some length about nothing", ""))

    assert "    a question of some length about not…\n" in cli("sessions", COLUMNS="40").out


def test_only_the_last_ones_are_shown_unless_more_are_wanted(cli, folder):
    for number in range(25):
        save(folder, f"s{number:02}", modified_s=number)

    code, out, err = cli("sessions", "--color", "never")

    assert code == 0
    assert out.split("\n")[1].startswith("s24 ")
    assert "s04 " not in out
    assert err == "5 older ones are not shown; all: pluggent sessions --limit 0\n"
    assert list(listed(cli, "--limit", "2")) == ["s24", "s23"]
    assert len(listed(cli, "--limit", "0")) == 25


def test_damaged_sessions_and_those_in_use_are_shown_as_such(cli, folder):
    save(folder, "good", *turn("hello", "ho"))
    (folder / "bad.jsonl").write_bytes(b"\x00\xff\n")
    writer = FileTranscript(folder, "busy")
    try:
        code, out, _ = cli("sessions")
        found = listed(cli)
    finally:
        writer.close()

    assert code == 0
    assert "damaged: line 1 is not an entry" in out
    assert "in use by a process" in out
    assert {id: (one["in_use"], one["problem"]) for id, one in found.items()} == {
        "good": (False, ""), "bad": (False, "line 1 is not an entry"), "busy": (True, "it is empty"),
    }  # fmt: skip


def test_listing_thousands_reads_no_more_than_it_shows(cli, folder):
    folder.mkdir(parents=True)
    source = save(folder, "first", *turn("hello", "ho"))
    for number in range(3000):
        os.link(source, folder / f"s{number:04}.jsonl")

    document = json.loads(cli("sessions", "--json").out)

    assert (document["total"], len(document["sessions"])) == (3001, 20)


def test_listing_and_searching_import_no_third_party_package(cli, folder):
    save(folder, "s", *turn("hello", "ho"))
    for words in (["sessions"], ["sessions", "search", "hello"], ["sessions", "delete", "s", "--yes"]):
        tops = {name.partition(".")[0] for name in cli.imported(*words)}

        assert not tops & {"attr", "attrs", "pluggy", "cattrs", "msgspec", "jsonschema_rs", "asyncio"}


def test_settings_that_are_broken_hide_no_session(cli, folder):
    save(folder, "s")
    (cli.work / "pluggent.toml").write_text("= broken")

    assert list(listed(cli)) == ["s"]


# ---- show -------------------------------------------------------------------------------


def test_a_conversation_is_shown_with_calls_decisions_and_who_said_what(cli, folder):
    save(folder, "trip", *tool_turn(), *turn("bye", "bye", "t2"), system="be brief")

    code, out, err = cli("sessions", "show", "tr", TZ="UTC")

    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("trip  2 turns, 3 tokens in, 4 out, begun 1970-01-01")
    assert lines[1:3] == ["system", "  be brief"]
    assert lines[3:5][0] == ""
    assert lines[4].startswith("── t1  1970-01-01")
    assert lines[5:12] == [
        "user",
        "  what is the weather?",
        '→ weather(city="Beijing", unit="celsius")  allowed: declared pure; acme-policy changed unit',
        "← weather",
        "  17 °C",
        "assistant (scripted/m)",
        "  it is windy",
    ]


def test_a_denied_call_and_a_turn_that_failed_are_shown(cli):
    policy = 'rules = [{action = "deny", tool = "weather", tell_model = "no", tell_user = "not today"}]'
    (cli.work / "deny.toml").write_text(f"[plugins.pluggent-guard]\n{policy}\n")
    cli("run", "--session", "s", "--config", "deny.toml", "weather city=Oslo")

    out = cli("sessions", "show", "s").out

    assert "DENIED by pluggent-guard" in out
    assert "← weather denied\n" in out


def test_nothing_that_was_said_steers_the_terminal_or_passes_for_a_heading(cli, folder):
    save(folder, "s", *turn(f"a{EVIL}\nassistant\n── t9", EVIL), *tool_turn(EVIL, "t2"), system=EVIL)
    with cli.at_terminal("sessions", "show", "s", "--color", "never", columns=50) as terminal:
        done = terminal.end()

    for out in (cli("sessions", "show", "s").out, done.out):
        assert not set(out) & STEERING
        assert "  assistant\n  ── t9\n" in out
    assert max(map(len, done.out.splitlines())) <= 50


def test_a_long_line_keeps_its_margin_on_a_terminal(cli, folder):
    save(folder, "s", *turn("x" * 47 + " assistant", ""))
    with cli.at_terminal("sessions", "show", "s", columns=50) as terminal:
        done = terminal.end()

    assert f"  {'x' * 47}\n  assistant\n" in done.out


def test_a_damaged_session_is_shown_up_to_the_damage(cli, folder):
    with save(folder, "s", *turn("hello", "ho")).open("ab") as file:
        file.write(b"oops\n")

    code, out, err = cli("sessions", "show", "s")

    assert code == 1
    assert "  hello\n" in out
    assert "s.jsonl, line 7 is damaged" in err
    assert json.loads(cli("sessions", "show", "s", "--json").out)["problem"] != ""


def test_a_session_in_use_can_be_read(cli, folder):
    writer = FileTranscript(folder, "s")
    try:
        writer.append(*turn("hello", "ho"))

        assert "  hello\n" in cli("sessions", "show", "s").out
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show"], "pluggent sessions show: needs a NAME"),
        (["show", "trop"], "there is no session 'trop'; did you mean 'trip'?"),
        (["show", "t"], "'t' may be trip, trip2; write more of it"),
        (["show", "../trip"], "there is no session '../trip'"),
        (["show", "\x1b[2J"], "there is no session '\\x1b[2J'"),
        (["shw", "trip"], "did you mean 'show'?"),
        (["list", "trip"], "takes no name, got 'trip'"),
        (["search"], "needs a TEXT"),
        (["delete"], "needs an ID"),
        (["export", "trip", "--format", "xml"], "'xml' is not one of json, markdown"),
    ],
)
def test_wrong_usage_is_said(cli, folder, words, says):
    save(folder, "trip")
    save(folder, "trip2")

    code, out, err = cli("sessions", *words)

    assert (code, out) == (2, "")
    assert says in err


# ---- search -----------------------------------------------------------------------------


def test_a_text_is_found_in_every_session_with_its_surroundings(cli, folder):
    save(folder, "one", *turn("Is it raining\nin Paris?", "yes"), modified_s=2.0)
    save(folder, "two", *turn("no", f"raining{EVIL}"), modified_s=1.0)

    assert cli("sessions", "search", "RAINING") == (
        0,
        "one t1 user: Is it raining in Paris?\ntwo t1 assistant: raining\\x1b]0;title\\x07\\x9b2J\\u202e \\x00\n",
        "",
    )


def test_what_nobody_said_is_not_found(cli, folder):
    save(folder, "one", *turn("hello", "ho"))

    assert cli("sessions", "search", "xyzzy") == (0, "nothing like 'xyzzy' was said in any session\n", "")
    assert json.loads(cli("sessions", "search", "xyzzy", "--json").out) == {"found": [], "more": False, "problems": []}


def test_no_more_places_are_shown_than_wanted(cli, folder):
    save(folder, "one", *(entry for number in range(9) for entry in turn("hello", "", f"t{number}")))

    done = cli("sessions", "search", "hello", "--limit", "3", "--color", "never")

    assert len(done.out.splitlines()) == 3
    assert done.err == "there is more than these 3; all: --limit 0\n"


# ---- export -----------------------------------------------------------------------------


def test_an_export_is_a_document_with_a_version(cli):
    cli("run", "--session", "trip", "weather city=Paris")

    document = json.loads(cli("sessions", "export", "trip").out)

    assert (document["format"], document["version"], document["id"]) == ("pluggent-session", 1, "trip")
    assert [one["role"] for one in document["turns"][0]["messages"]] == ["user", "assistant", "tool", "assistant"]


def test_an_export_to_a_file_replaces_it_and_is_for_its_owner_alone(cli, folder):
    save(folder, "trip", *turn("天气", "ho"))
    file = cli.work / "trip.md"
    file.write_text("something older and longer " * 100)
    (cli.work / "link.md").symlink_to(file)

    code, out, err = cli("sessions", "export", "trip", "--format", "markdown", "-o", "link.md")

    assert (code, out, err) == (0, "", "exported trip to link.md\n")
    assert file.read_text("utf-8").startswith("# Session `trip`\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in cli.work.iterdir()) == ["link.md", "trip.md"]


def test_an_export_is_utf_8_whatever_the_locale_says_and_carries_half_characters(cli, folder):
    save(folder, "trip", *turn("天\udc80\x9b", "ho"))

    out = cli("sessions", "export", "trip", LC_ALL="C", PYTHONIOENCODING="latin-1").out

    assert "\x9b" not in out
    assert json.loads(out)["turns"][0]["messages"][0]["text"] == "天\udc80\x9b"


def test_an_export_that_cannot_be_written_is_said(cli, folder):
    save(folder, "trip")

    code, _, err = cli("sessions", "export", "trip", "-o", "no/such/folder")

    assert (code, err) == (2, "error: --output: no/such/folder cannot be written: No such file or directory\n")


def test_a_damaged_session_is_not_exported(cli, folder):
    (folder).mkdir(parents=True)
    (folder / "s.jsonl").write_bytes(b"oops\n")

    code, out, err = cli("sessions", "export", "s", "-o", "s.json")

    assert (code, out) == (1, "")
    assert "what comes before is shown by: pluggent sessions show s" in err
    assert not (cli.work / "s.json").exists()


def test_nobody_reading_an_export_is_no_fault(cli, folder):
    save(folder, "s", *turn("x" * 500_000, ""))
    with nobody_reads() as writer:
        done = cli("sessions", "export", "s", stdout=writer)

    assert (done.code, done.err) == (141, "")


# ---- delete -----------------------------------------------------------------------------


def test_sessions_are_deleted_by_their_whole_names(cli, folder):
    for id in ("a", "b", "bc"):
        save(folder, id)

    assert cli("sessions", "delete", "a", "b", "--yes") == (0, "deleted a\ndeleted b\n", "")
    assert list(listed(cli)) == ["bc"]
    assert cli("sessions", "delete", "b", "--yes").code == 2


def test_nothing_is_deleted_if_one_of_the_names_is_wrong(cli, folder):
    save(folder, "trip")

    code, _, err = cli("sessions", "delete", "trip", "trap", "../trip", "--yes")

    assert code == 2
    assert "there is no session 'trap'; did you mean 'trip'?" in err
    assert "there is no session '../trip'" in err
    assert list(listed(cli)) == ["trip"]


def test_a_session_in_use_is_kept_and_the_others_go(cli, folder):
    save(folder, "idle")
    writer = FileTranscript(folder, "busy")
    try:
        code, out, err = cli("sessions", "delete", "busy", "idle", "--yes")
    finally:
        writer.close()

    assert (code, out) == (1, "deleted idle\n")
    assert err == "error: session 'busy' is in use by another process, so it is not deleted\n"
    assert list(listed(cli)) == ["busy"]


def test_where_nobody_can_be_asked_nothing_is_deleted(cli, folder):
    save(folder, "trip")

    code, _, err = cli("sessions", "delete", "trip", stdin="y\n")

    problem = "there is no terminal to ask at; if you are sure: --yes"
    assert (code, err) == (2, f"error: pluggent sessions delete: {problem}\n")
    assert list(listed(cli)) == ["trip"]


@pytest.mark.parametrize(
    ("answer", "left"), [("y\n", []), ("yes\n", []), ("n\n", ["s"]), ("\n", ["s"]), ("\x04", ["s"])]
)
def test_at_a_terminal_the_person_decides(cli, folder, answer, left):
    save(folder, "s")
    with cli.at_terminal("sessions", "delete", "s") as terminal:
        terminal.wait_for("Delete this session for good? [y/N] ")
        terminal.type(answer)
        done = terminal.end()

    assert list(listed(cli)) == left
    assert done.code == (1 if left else 0)


def test_ctrl_c_at_the_question_deletes_nothing(cli, folder):
    save(folder, "s")
    with cli.at_terminal("sessions", "delete", "s") as terminal:
        terminal.wait_for("[y/N] ")
        terminal.type("\x03")
        done = terminal.end()

    assert done.code == 130
    assert "Traceback" not in done.out
    assert list(listed(cli)) == ["s"]


def test_the_actions_that_are_completed_are_those_that_there_are():
    assert tuple(completing.ACTIONS["sessions"]) == sessions.ACTIONS
