"""``pluggent sessions`` on sessions that ``pluggent run`` has saved, on thousands, on damaged ones and those in use."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_support import EVIL, STEERING, Cli, without_reader
from each_of import each_of
from pluggent_cli.commands import sessions
from pluggent_cli.completion import words as completing
from saved import FileTranscript, save, tool_turn, turn


@pytest.fixture
def folder(cli: Cli) -> Path:
    return cli.state / "sessions"


def listed(cli: Cli, *words: str) -> dict[str, dict[str, object]]:
    """Return every session by its id."""
    return {one["id"]: one for one in cli.document("sessions", *words)["sessions"]}


@contextmanager
def in_use(folder: Path, id: str) -> Generator[FileTranscript]:
    """Keep a session open as its writer does."""
    writer = FileTranscript(folder, id)
    try:
        yield writer
    finally:
        writer.close()


# ---- list -------------------------------------------------------------------------------


def test_without_sessions_nothing_is_listed(cli, folder):
    assert cli("sessions") == (0, f'no sessions in {folder}; one begins with: pluggent run "hello"\n', "")
    assert cli.document("sessions") == {"store": "file", "folder": str(folder), "total": 0, "sessions": []}


def test_a_session_is_listed_with_what_it_is_about(cli, folder):
    cli("run", "--session", "trip", "weather city=Paris")
    cli("run", "--session", "trip", "weather city=Oslo")
    save(folder, "other", *turn("hello", ""))

    head, other, trip = [line.split() for line in cli("sessions", COLUMNS="100").out.splitlines()]

    assert head == ["SESSION", "WHEN", "MODEL", "TURNS", "TOKENS", "FIRST", "WORDS"]
    assert (other[0], trip[0], trip[3:5], trip[6:]) == (
        "other", "trip", ["offline/demo", "2"], ["weather", "city=Paris"],
    )  # fmt: skip


def test_a_narrow_terminal_has_the_first_words_below(cli, folder):
    save(folder, "s" * 60, *turn("a question of some length about nothing", ""))

    assert "    a question of some length about not…\n" in cli("sessions", COLUMNS="40").out


def test_only_the_last_ones_are_shown_unless_more_are_wanted(cli, folder):
    for number in range(25):
        save(folder, f"s{number:02}", modified_s=number)

    code, out, err = cli("sessions", "--color", "never")

    assert (code, out.split("\n")[1].startswith("s24 "), "s04 " in out) == (0, True, False)
    assert err == "5 older ones are not shown; all: pluggent sessions --limit 0\n"
    assert list(listed(cli, "--limit", "2")) == ["s24", "s23"]
    assert len(listed(cli, "--limit", "0")) == 25


def test_damaged_sessions_and_those_in_use_are_shown_as_such(cli, folder):
    save(folder, "good", *turn("hello", "ho"))
    (folder / "bad.jsonl").write_bytes(b"\x00\xff\n")
    with in_use(folder, "busy"):
        code, out, _ = cli("sessions")
        found = listed(cli)

    assert (code, "damaged: line 1 is not an entry" in out, "in use by a process" in out) == (0, True, True)
    assert {id: (one["in_use"], one["problem"]) for id, one in found.items()} == {
        "good": (False, ""), "bad": (False, "line 1 is not an entry"), "busy": (True, "it is empty"),
    }  # fmt: skip


def test_listing_thousands_reads_no_more_than_it_shows(cli, folder):
    source = save(folder, "first", *turn("hello", "ho"))
    for number in range(3000):
        os.link(source, folder / f"s{number:04}.jsonl")

    document = cli.document("sessions")

    assert (document["total"], len(document["sessions"])) == (3001, 20)


@each_of("words", ["sessions search hello", "sessions delete s --yes"])
def test_searching_and_deleting_import_no_third_party_package(cli, folder, words):
    save(folder, "s", *turn("hello", "ho"))
    tops = {name.partition(".")[0] for name in cli.imported(*words.split())}

    assert not tops & {"attr", "attrs", "pluggy", "cattrs", "msgspec", "jsonschema_rs", "asyncio"}


def test_settings_that_are_broken_hide_no_session(cli, folder):
    save(folder, "s")
    (cli.work / "pluggent.toml").write_text("= broken")

    assert list(listed(cli)) == ["s"]


# ---- show -------------------------------------------------------------------------------


def test_a_conversation_is_shown_with_calls_decisions_and_who_said_what(cli, folder):
    save(folder, "trip", *tool_turn(), *turn("bye", "bye", "t2"), system="be brief")

    code, out, err = cli("sessions", "show", "tr", TZ="UTC")

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].startswith("trip  2 turns, 3 tokens in, 4 out, begun 1970-01-01")
    assert lines[1:4] == ["system", "  be brief", ""]
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


def test_a_denied_call_is_shown(cli):
    policy = 'rules = [{action = "deny", tool = "weather", tell_model = "no", tell_user = "not today"}]'
    (cli.work / "deny.toml").write_text(f"[plugins.pluggent-guard]\n{policy}\n")
    cli("run", "--session", "s", "--config", "deny.toml", "weather city=Oslo")

    out = cli("sessions", "show", "s").out

    assert ("DENIED by pluggent-guard" in out, "← weather denied\n" in out) == (True, True)


def test_nothing_that_was_said_steers_the_terminal_or_passes_for_a_heading(cli, folder):
    long = "x" * 47 + " assistant"
    save(folder, "s", *turn(f"a{EVIL}\nassistant\n── t9\n{long}", EVIL), *tool_turn(EVIL, "t2"), system=EVIL)
    done = cli.talk("sessions", "show", "s", "--color", "never", keys=[], columns=50)

    for out in (cli("sessions", "show", "s").out, done.out):
        assert not set(out) & STEERING
        assert "  assistant\n  ── t9\n" in out
    assert f"  {'x' * 47}\n  assistant\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 50


def test_a_damaged_session_is_shown_up_to_the_damage(cli, folder):
    with save(folder, "s", *turn("hello", "ho")).open("ab") as file:
        file.write(b"oops\n")

    code, out, err = cli("sessions", "show", "s")

    assert (code, "  hello\n" in out, "s.jsonl, line 7 is damaged" in err) == (1, True, True)
    assert cli.document("sessions", "show", "s")["problem"] != ""


@each_of(
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
        (["delete", "trip", "trap", "../trip", "--yes"], "there is no session 'trap'; did you mean 'trip'?"),
        (["delete", "trip", "trap", "../trip", "--yes"], "there is no session '../trip'"),
        (["delete", "trip"], "sessions delete: there is no terminal to ask at; if you are sure: --yes\n"),
        (["export", "trip", "--format", "xml"], "'xml' is not one of json, markdown"),
        (["export", "trip", "-o", "no/such"], "--output: no/such cannot be written: No such file or directory\n"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_deleted(cli, folder, words, says):
    if not folder.exists():
        save(folder, "trip")
        save(folder, "trip2")

    code, out, err = cli("sessions", *words, stdin="y\n")

    assert (code, out, says in err) == (2, "", True), err
    assert {*listed(cli)} == {"trip", "trip2"}


# ---- search -----------------------------------------------------------------------------


def test_a_text_is_found_in_every_session_with_its_surroundings(cli, folder):
    save(folder, "one", *turn("Is it raining\nin Paris?", "yes"), modified_s=2.0)
    save(folder, "two", *turn("no", f"raining{EVIL}"), modified_s=1.0)

    found = "one t1 user: Is it raining in Paris?\ntwo t1 assistant: raining\\x1b]0;title\\x07\\x9b2J\\u202e \\x00\n"
    assert cli("sessions", "search", "RAINING") == (0, found, "")
    done = cli("sessions", "search", "RAINING", "--limit", "1", "--color", "never")
    assert (done.out, done.err) == (found.partition("two")[0], "there is more than these 1; all: --limit 0\n")


def test_what_was_not_said_is_not_found(cli, folder):
    save(folder, "one", *turn("hello", "ho"))

    assert cli("sessions", "search", "xyzzy") == (0, "nothing like 'xyzzy' was said in any session\n", "")
    assert cli.document("sessions", "search", "xyzzy") == {"found": [], "more": False, "problems": []}


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

    done = cli("sessions", "export", "trip", "--format", "markdown", "-o", "link.md")

    assert done == (0, "", "exported trip to link.md\n")
    assert file.read_text("utf-8").startswith("# Session `trip`\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in cli.work.iterdir()) == ["link.md", "trip.md"]


def test_an_export_is_utf_8_whatever_the_locale_says_and_carries_lone_surrogates(cli, folder):
    save(folder, "trip", *turn("天\udc80\x9b", "ho"))

    out = cli("sessions", "export", "trip", LC_ALL="C", PYTHONIOENCODING="latin-1").out

    assert "\x9b" not in out
    assert json.loads(out)["turns"][0]["messages"][0]["text"] == "天\udc80\x9b"


def test_a_damaged_session_is_not_exported(cli, folder):
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_bytes(b"oops\n")

    code, out, err = cli("sessions", "export", "s", "-o", "s.json")

    assert (code, out, (cli.work / "s.json").exists()) == (1, "", False)
    assert "what comes before is shown by: pluggent sessions show s" in err


def test_an_export_without_a_reader_is_no_fault(cli, folder):
    save(folder, "s", *turn("x" * 500_000, ""))
    with without_reader() as writer:
        done = cli("sessions", "export", "s", stdout=writer)

    assert (done.code, done.err) == (141, "")


# ---- delete -----------------------------------------------------------------------------


def test_sessions_are_deleted_by_their_whole_names_but_for_one_in_use(cli, folder):
    for id in ("a", "b", "bc"):
        save(folder, id)

    assert cli("sessions", "delete", "a", "b", "--yes") == (0, "deleted a\ndeleted b\n", "")
    assert cli("sessions", "delete", "b", "--yes").code == 2
    save(folder, "busy")
    with in_use(folder, "busy"):
        done = cli("sessions", "delete", "busy", "bc", "--yes")

    kept = "error: session 'busy' is in use by another process, so it is not deleted\n"
    assert (done, list(listed(cli))) == ((1, "deleted bc\n", kept), ["busy"])


@each_of(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1), ("\x03", 130)])
def test_at_a_terminal_the_person_decides(cli, folder, answer, code):
    save(folder, "s")
    done = cli.talk("sessions", "delete", "s", keys=["Delete this session for good? [y/N] ", answer])

    assert (done.code, list(listed(cli)), "Traceback" in done.out) == (code, ["s"] if code else [], False)
    (folder / "s.jsonl").unlink(missing_ok=True)


def test_the_actions_that_are_completed_are_those_of_the_command():
    assert tuple(completing.ACTIONS["sessions"]) == sessions.ACTIONS
