"""``-c``: the last session of this folder; ``pluggent last``: its last reply."""

import fcntl
import json
import os

import pytest
from cli_support import Done
from each_of import each_of
from screens import install_speaker


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


@pytest.fixture
def run(cli):
    """Return what runs a turn with a model that repeats what it hears."""

    def turn(*words: str) -> Done:
        return cli("run", "-m", "speaker/x", *words)

    return turn


def order(cli, *ids: str) -> None:
    """Make the sessions *ids* the last ones that were written to, the first of them last."""
    for number, id in enumerate(ids):
        os.utime(cli.state / "sessions" / f"{id}.jsonl", (2_000_000_000 - number, 2_000_000_000 - number))


def test_the_last_session_of_this_folder_goes_on_and_not_that_of_another(cli, run, tmp_path):
    for id in ("old", "here"):
        run("--session", id, f"hello {id}")
    own, cli.work = cli.work, tmp_path / "elsewhere"
    cli.work.mkdir()
    run("--session", "there", "hello there")
    order(cli, "there", "here", "old")

    there = cli.document("run", "-c", "again")
    cli.work = own
    here = cli.document("run", "-c", "again")

    assert ((there["session"], there["turn"]), (here["session"], here["turn"])) == (("there", "t2"), ("here", "t2"))
    assert here["model"] == "speaker/x"


def test_a_chat_goes_on_too(cli, run):
    run("--session", "s", "hello")

    assert cli("chat", "-c", stdin="/session\n").out.startswith("session s, 2 messages")


def test_a_session_of_somebody_else_or_without_a_word_said_is_not_picked(cli, run):
    (cli.work / "other.toml").write_text('principal = "somebody"\n')
    run("--session", "mine", "hello")
    run("--session", "theirs", "--config", "other.toml", "hello")
    cli("chat", "--session", "empty", stdin="")
    order(cli, "empty", "theirs", "mine")

    assert cli.document("run", "-c", "again")["session"] == "mine"


def test_a_damaged_session_hides_none_behind_it(cli, run):
    run("--session", "good", "hello")
    run("--session", "bad", "hello")
    (cli.state / "sessions" / "bad.jsonl").write_text("nonsense\n")
    order(cli, "bad", "good")

    assert cli.document("run", "-c", "again")["session"] == "good"


def test_many_sessions_of_other_folders_are_passed_over(cli, run, tmp_path):
    run("--session", "here", "hello")
    stored = (cli.state / "sessions" / "here.jsonl").read_text()
    for number in range(30):
        moved = stored.replace(json.dumps(os.fspath(cli.work)), json.dumps(os.fspath(tmp_path)))
        (cli.state / "sessions" / f"there{number}.jsonl").write_text(moved)
    order(cli, *(f"there{number}" for number in range(30)), "here")

    assert cli("last").out == "x heard: hello\n"


@each_of(
    ("words", "says"),
    [
        (["-c", "x"], "error: --continue: there is no session of this folder in "),
        (["-c", "x"], "; those of all folders: pluggent sessions\n"),
        (["-c", "--session", "s", "x"], "error: --continue: contradicts --session; give one of the two\n"),
        (["-c", "--no-save", "x"], "error: --continue: contradicts --no-save; give one of the two\n"),
    ],
)
def test_where_there_is_nothing_to_continue_it_is_said(run, words, says):
    done = run(*words)

    assert (done.code, done.out, says in done.err) == (2, "", True), done.err


def test_a_session_that_is_open_elsewhere_is_not_replaced_by_another(cli, run):
    run("--session", "old", "hello")
    run("--session", "open", "hello")
    order(cli, "open", "old")
    with (cli.state / "sessions" / "open.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run("-c", "x")

    assert (done.code, done.out) == (1, "")
    assert "session 'open' is in use by another process" in done.err
    assert "To begin another one, leave out -c; to continue one of the others: --session ID" in done.err


def test_what_waits_for_an_approval_is_not_withdrawn_by_chance(cli, run):
    paused = run("--session", "s", 'call send_mail {"to":"bob"}')
    done = run("-c", "x")

    assert (paused.code, done.code, done.out) == (6, 2, "")
    assert "the last session of this folder, s, waits for an approval; to continue it: pluggent resume s" in done.err
    assert "to say something instead, which withdraws it: --session s" in done.err
    assert cli("approvals").out.count("send_mail") == 1


# ---- the last reply ---------------------------------------------------------------------

ANSWER = "Two:\n\n```sh\necho 1\n```\n\n~~~ python\nprint(2)\n~~~\n\nThat is all."


@pytest.fixture
def answered(cli, run):
    (cli.work / "answer.md").write_text(ANSWER)
    run("--session", "s", "read answer.md")
    return cli


@each_of(
    ("words", "out"),
    [([], f"{ANSWER}\n"), (["s"], f"{ANSWER}\n"), (["-x"], "print(2)\n"), (["--extract", "s"], "print(2)\n")],
)
def test_the_last_reply_is_printed_once_more(answered, words, out):
    done = answered("last", *words)

    assert (done.code, done.out, done.err) == (0, out, "")


def test_the_last_reply_is_that_of_the_last_turn_that_was_not_taken_back(answered):
    answered("chat", "--session", "s", stdin="hello\n/undo\n")

    assert answered("last").out == f"{ANSWER}\n"


def test_the_last_reply_as_a_document(answered):
    assert answered.document("last", "-x") == {"session": "s", "turn": "t1", "text": ANSWER, "code": "print(2)\n"}
    assert answered.document("last", "s") == {"session": "s", "turn": "t1", "text": ANSWER}


def test_a_run_prints_the_last_code_block_alone(answered):
    done = answered("run", "-m", "speaker/x", "-x", "read answer.md")
    document = answered.document("run", "-m", "speaker/x", "-x", "read answer.md")

    assert (done.code, done.out, done.err) == (0, "print(2)\n", "")
    assert (document["code"], document["text"], document["exit_code"]) == ("print(2)\n", ANSWER, 0)


def test_what_a_terminal_shows_as_one_line_of_code_is_one_line_of_the_script(run, cli):
    # Each of these is a line break for Python, and none for a terminal or a shell.
    code = "".join(f"# harmless{sign}rm -rf ~\n" for sign in "\x0b\x0c\x1c\x85\u2028\u2029")
    (cli.work / "answer.md").write_text(f"```sh\n{code}```\n")

    done = run("-x", "read answer.md")

    assert done.code == 0
    assert len(done.out.split("\n")) == len(code.split("\n"))


def test_a_reply_without_a_code_block_prints_nothing_and_fails(run, cli):
    done = run("-x", "hello")

    assert (done.code, done.out) == (1, "")
    assert done.err == "error: the answer has no code block; to read it: pluggent last\n"
    assert cli("last", "-x").code == 1
    assert cli("last").out == "x heard: hello\n"


@each_of(
    ("words", "says"),
    [
        ([], "error: pluggent last: there is no session of this folder in "),
        (["absent"], "error: pluggent last: there is no session 'absent' in "),
        (["a", "b"], "error: pluggent last: takes one NAME, got 2. See pluggent last --help"),
    ],
)
def test_a_reply_that_is_not_there_is_said(cli, words, says):
    done = cli("last", *words)

    assert (done.code, done.out, says in done.err) == (2, "", True), done.err


def test_controls_in_a_reply_steer_no_terminal(cli, run):
    (cli.work / "evil.md").write_text("```\n\x1b]0;title\x07\n```\n")
    run("--session", "s", "read evil.md")

    shown = cli.talk("last", "-x", keys=[]).out

    assert ("\x1b]0;title" in shown, "\\x1b]0;title\\x07" in shown) == (False, True)
