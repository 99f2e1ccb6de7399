"""What the slash commands of a chat do at a terminal."""

import sys
from pathlib import Path

import pytest
from cli_support import Cli
from each_of import each_of
from screens import CTRL_C, CTRL_D, QUESTION, chat, chatted, install_speaker, sent

MAIL = 'call send_mail {"to":"bob"}'
BACK = "\x7f"


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


def editor(cli: Cli, source: str) -> str:
    """Return the command of an editor that runs *source*, with the file as ``file``."""
    path = cli.work / "editor.py"
    path.write_text(f"import os, pathlib, sys\nfile = pathlib.Path(sys.argv[1])\n{source}\n")
    return f"{sys.executable} {path}"


# ---- /edit ------------------------------------------------------------------------------

LOOK = """
mode, folder = oct(file.stat().st_mode & 0o777), oct(file.parent.stat().st_mode & 0o777)
pathlib.Path("seen.txt").write_text(f"{mode} {folder} {file.read_text()}|{file}")
file.write_text("better\\nwords\\n")
"""


@each_of(("keys", "before"), [(["/edit\r"], "first"), (["/edit some words\r"], "some words")])
def test_what_was_edited_is_in_the_line_to_be_sent(cli, keys, before):
    chatted(cli, "first\r", "x heard: first", *keys, "better", "", "words", "\r",
            "x heard: better\nwords", CTRL_D, VISUAL=editor(cli, LOOK), EDITOR="false")  # fmt: skip

    about, _, path = (cli.work / "seen.txt").read_text().partition("|")
    assert about == f"0o600 0o700 {before}"
    assert not Path(path).parent.exists()


def test_the_line_itself_is_edited_by_a_key(cli):
    chatted(cli, "typed\x18\x05", "words", "\r", "x heard: better\nwords", CTRL_D, VISUAL=editor(cli, LOOK))

    assert "0o700 typed|" in (cli.work / "seen.txt").read_text()


@each_of(
    ("source", "said"),
    [
        ("sys.exit(3)", "ended with code 3;"),
        ("file.write_text(' \\n')", "the text is empty, so there is nothing to send"),
        ("file.unlink()", "has left no file"),
    ],
)
def test_an_editor_that_fails_or_leaves_nothing_sends_nothing(cli, source, said):
    done = chatted(cli, "/edit words\r", said, "next\r", "x heard: next", CTRL_D, VISUAL=editor(cli, source))

    assert (done.code, "Traceback" in done.out) == (0, False)


def test_an_editor_that_is_not_there_is_named(cli):
    done = chatted(cli, "/edit\r", "no-such-editor cannot be started: No such file", CTRL_D, VISUAL="no-such-editor")

    assert done.code == 0


def test_ctrl_c_belongs_to_the_editor_while_it_runs(cli):
    source = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
print("editing", flush=True)
signal.sigwait([signal.SIGINT])
file.write_text("after ctrl-c")
"""
    done = chatted(
        cli, "/edit\r", "editing\n", CTRL_C, "after ctrl-c", "\r", "x heard: after ctrl-c", CTRL_D,
        VISUAL=editor(cli, source),
    )  # fmt: skip

    assert done.code == 0


@each_of("environ", [{}, {"EDITOR": "as named"}])
def test_on_a_dumb_terminal_only_a_named_editor_is_used_and_return_sends(cli, environ):
    if environ:
        keys = ("/edit\n", "Return sends this", "\n", "x heard: better\nwords")
        environ = {"EDITOR": editor(cli, LOOK)}
    else:
        keys = ("/edit\n", "set EDITOR to an editor for such")
    done = chatted(cli, *keys, CTRL_D, TERM="dumb", VISUAL="false", **environ)

    assert done.code == 0


# ---- /retry -----------------------------------------------------------------------------


def test_the_last_message_is_said_again_to_another_model_too(cli):
    keys = ("one\r", "x heard: one", "two\r", "x heard: two", "/retry\r", "again: two", "", "x heard: two")
    done = chatted(cli, *keys, "/retry -m speaker/y\r", "y heard: two", "/session\r", ", 4 messages, model speaker/y",
                   CTRL_D)  # fmt: skip

    assert done.code == 0


def test_a_model_that_is_not_there_takes_nothing_back(cli):
    keys = ("one\r", "x heard: one", "/retry -m nowhere/y\r", "nowhere", "/session\r", ", 2 messages, model speaker/x")

    assert chatted(cli, *keys, CTRL_D).code == 0


def test_what_tools_have_done_is_said_before_the_message_is_said_again(cli):
    keys = (f"{MAIL}\r", QUESTION, "y\r", "The tool said: sent to bob", "/retry\r",
            "what was done stays done: send_mail", "", "again: call send_mail", "", QUESTION, "n, once is enough\r",
            "Denied: a person refused this: once is enough")  # fmt: skip

    assert (chatted(cli, *keys, CTRL_D).code, sent(cli)) == (0, ["bob"])


# ---- /cost and the line below -----------------------------------------------------------


def test_cost_names_tokens_and_money_and_the_line_below_does_too(cli):
    keys = ("", "speaker/x", "one\r", "x heard: one", "", "speaker/x · 15 tokens · $0.2500", "/cost\r")
    shown = ("this session: 10 tokens in, 5 out; 0.2500 US dollars", "", "last turn: 10 tokens in, 5 out; 0.2500 US")

    assert chatted(cli, *keys, *shown, CTRL_D).code == 0


def test_nothing_of_the_line_below_is_left_when_a_line_is_sent(cli):
    with chat(cli) as terminal:
        terminal.exchange("one\r", "x heard: one")
        sent_line = terminal.shown[: terminal.shown.index("x heard")]

    assert "\x1b[J" in sent_line[sent_line.rindex("speaker/x") :]


# ---- /approve ---------------------------------------------------------------------------


@pytest.fixture
def paused(cli: Cli) -> Cli:
    """Return a command in whose session ``s`` a mail waits."""
    assert cli("chat", "-m", "speaker/x", "--session", "s", stdin=f"{MAIL}\n", PLUGGENT_ON_ASK="pause").code == 6
    return cli


@each_of(
    ("answer", "said", "mails"),
    [("y\r", "The tool said: sent to bob", ["bob"]), ("n, later\r", "Denied: a person refused this: later", [])],
)
def test_what_waits_is_answered_here_whatever_the_settings_say_about_asking(tmp_path, answer, said, mails):
    folder = tmp_path / str(len(mails))
    folder.mkdir()
    cli = Cli(folder)
    install_speaker(cli.site)
    assert cli("chat", "-m", "speaker/x", "--session", "s", stdin=f"{MAIL}\n", PLUGGENT_ON_ASK="pause").code == 6
    keys = ["A turn waits for an approval. /approve", "", "1 waiting for approval: /approve", "/approve\r", QUESTION,
            answer, said, "/approve\r", "nothing waits for an approval", CTRL_D]  # fmt: skip
    cli.talk("chat", "--session", "s", keys=keys, PLUGGENT_ON_ASK="pause")

    assert sent(cli) == mails


def test_each_of_several_calls_that_wait_is_answered_by_itself(cli):
    mails = "send_mail to=ann & send_mail to=bob & send_mail to=cat"
    assert cli("chat", "--session", "s", stdin=f"{mails}\n", PLUGGENT_ON_ASK="pause").code == 6
    keys = ["3 waiting for approval", "/approve\r", QUESTION, "y\r", QUESTION, "n, bob is\raway today\r",
            QUESTION, "y\r", "send_mail: sent to cat", CTRL_D]  # fmt: skip
    done = cli.talk("chat", "--session", "s", keys=keys)

    assert sent(cli) == ["ann", "cat"]
    assert "Denied: a person refused this: bob is away today\n" in done.out


def test_a_question_that_is_interrupted_leaves_the_call_waiting(paused):
    keys = ["/approve asks", "/approve c1\r", QUESTION, CTRL_C, "the conversation continues", "",
            "1 waiting for approval", "/approve no\r", "no call 'no' waits; these do: c1", CTRL_D]  # fmt: skip
    done = paused.talk("chat", "--session", "s", keys=keys)

    assert (done.code, sent(paused)) == (0, [])


def test_a_process_that_a_host_has_started_approves_nothing(paused):
    done = paused.talk("chat", "--session", "s", keys=["/approve asks", "/approve\r", "cannot be given from inside",
                       CTRL_D], PLUGGENT_INSIDE="1")  # fmt: skip

    assert sent(paused) == []
    assert done.code == 0
