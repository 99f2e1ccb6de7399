"""A conversation at a real terminal: what a person types, sees, and comes back to."""

import json
import os
import stat
from pathlib import Path

import pytest
from cli_support import Cli
from each_of import each_of
from screens import CTRL_C, CTRL_D, GREETING, QUESTION, chat, chatted, install_speaker, sent

PASTE = "\x1b[200~{}\x1b[201~"
MAIL = 'call send_mail {"to":"bob"}'


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


@pytest.fixture
def words(cli: Cli) -> Path:
    """Return a pipe whose writing end decides what the model says to ``read words``."""
    path = cli.work / "words"
    os.mkfifo(path)
    return path


def history(cli: Cli) -> list[str]:
    file = cli.state / "chat-history"
    lines = file.read_text().splitlines() if file.exists() else []
    return [line[1:] for line in lines if line.startswith("+")]


# ---- messages ---------------------------------------------------------------------------


def test_messages_are_answered_until_the_person_leaves(cli):
    keys = (
        "hello\r",
        "x heard: hello",
        "fail\r",
        "speaker: the model is \\x1b[2Jout of order",
        "",
        "fail",
        CTRL_C,
        "",
        "again\r",
    )
    done = chatted(cli, *keys, "x heard: again", CTRL_D, arguments=["--session", "s"])

    assert (done.code, "Traceback" in done.out) == (0, False)
    assert done.out.count("continue: pluggent chat --session s)") == 1


@each_of("leave", ["/quit\r", "/exit\r", CTRL_D])
def test_there_are_many_ways_to_leave(cli, leave):
    done = chatted(cli, leave)

    assert (done.code, "session: " in done.out) == (0, False)  # nothing was said


@each_of("keys", [PASTE.format("one\rtwo\rthree") + "\r", "one\x1b\rtwo\x1b\rthree\r", "one\\\rtwo\\\rthree\r"])
def test_several_lines_are_one_message(cli, keys):
    done = chatted(cli, keys, "x heard: one\ntwo\nthree", CTRL_D)

    assert (done.code, done.out.count("x heard:")) == (0, 1)


def test_two_hundred_pasted_lines_are_one_message(cli):
    lines = [f"line {number} with ünïcode 漢字" for number in range(200)]
    pasted = PASTE.format("\r".join(lines))
    chatted(cli, pasted, "", "\r", "x heard: line 0 ", "", "line 199 with", CTRL_D, arguments=["--session", "s"])

    said = [json.loads(line) for line in (cli.state / "sessions" / "s.jsonl").read_text().splitlines()]
    (message,) = [entry["message"] for entry in said if entry["t"] == "Said" and entry["message"]["role"] == "user"]
    assert message["content"][0]["text"] == "\n".join(lines)


def test_what_is_typed_while_a_turn_runs_is_said_when_it_is_over(cli, words):
    with chat(cli) as terminal:
        terminal.type("read words\r")
        with words.open("w") as model:  # opened by both: the turn runs
            terminal.type("typed ahead\r" + PASTE.format("two\rlines") + "\r")
            model.write("The *answer*.")
        terminal.exchange("", "The ", "", "x heard: typed ahead", "", "x heard: two\nlines")

    assert "typed ahead" not in terminal.shown[: terminal.shown.index("The ")]


def test_a_resumed_conversation_begins_with_its_last_exchange(cli):
    (cli.work / "answer.md").write_text("One\n\nTwo\n\n" + "more\n\n" * 9)
    cli("chat", "-m", "speaker/x", "--session", "s", stdin="first\nread answer.md\n")

    with cli.at_terminal("chat", "--session", "s", "--color", "never") as terminal:
        shown = terminal.then("lines)")

    assert shown.endswith(
        "Ctrl-D leaves.\n> read answer.md\n  One\n  Two\n  more\n  more\n  more\n  more\n  … (5 more lines)"
    )


# ---- approvals --------------------------------------------------------------------------


def test_an_approval_is_asked_for_below_what_the_model_has_said(cli):
    with chat(cli) as terminal:
        terminal.type(f"then {MAIL}\r")
        shown = terminal.then(QUESTION)
        assert sent(cli) == []
        terminal.exchange("y\r", "sent to bob", "", "The tool said: sent to bob")

    assert shown.index("Let me ") < shown.index("I will call a tool") < shown.index("needs approval")
    assert shown.index("needs approval") < shown.index("A person has to approve this:")
    assert sent(cli) == ["bob"]


def test_what_was_typed_before_the_question_is_no_answer(cli, words):
    with chat(cli) as terminal:
        terminal.type("read words\r")
        with words.open("w"):
            terminal.type(f"{MAIL}\ry\ry\r")
        terminal.exchange("", QUESTION, "n\r", "REFUSED by you", "", "The tool said")

    assert sent(cli) == []


def test_an_answer_can_be_mistyped_and_mended(cli):
    chatted(cli, f"{MAIL}\r", QUESTION, "n\x7fy\r", "approved by you", "x\r", "x heard: x", CTRL_D)

    assert sent(cli) == ["bob"]


def test_a_turn_that_waits_for_an_approval_is_resumed(cli):
    paused = cli("chat", "-m", "speaker/x", "--session", "s", stdin=f"{MAIL}\n", PLUGGENT_ON_ASK="pause")
    assert (paused.code, "paused: 1 call waiting for an approval" in paused.err) == (6, True)

    cli.talk("chat", "--session", "s", keys=[
        "A turn waits for an approval. /approve asks you here, a message withdraws it.", "/resume\r",
        QUESTION, "y\r", "The tool said: sent to bob", "/resume\r", "no turn waits for an approval", CTRL_D,
    ])  # fmt: skip
    assert sent(cli) == ["bob"]


# ---- commands ---------------------------------------------------------------------------


def test_commands_and_their_arguments_are_completed(cli):
    (cli.work / "a picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    done = chatted(
        cli, "/at", "/attach", "\t a p", "a picture.png", "\t\r", "1  image (8 bytes) a picture.png",
        "look\r", "x heard: look ['Image']", "look\r", "x heard: look", CTRL_D,
    )  # fmt: skip

    assert (done.code, history(cli)[-1]) == (0, "look")


def test_a_note_that_comes_while_a_line_is_typed_leaves_the_line_alone(cli, words):
    noisy = """
import asyncio, logging
from pluggent_hookspecs import hookimpl, tool

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [later]

tasks = []

@tool(effects=())
async def later() -> str:
    '''Warn when there is something in a pipe.'''
    async def warn():
        await asyncio.to_thread(lambda: open("words").read())
        logging.getLogger("pluggent.acme").warning("something has\\x1b happened")
    tasks.append(asyncio.create_task(warn()))
    return "soon"
"""
    cli.plugin("acme-noisy", noisy)
    with chat(cli) as terminal:
        terminal.exchange("call later\r", "The tool said: soon", "half a ", "half a")
        words.write_text("now")
        terminal.exchange("", "warning: something has\\x1b happened", "line\r", "x heard: half a line", CTRL_D)
        done = terminal.end()

    assert (done.code, history(cli)) == (0, ["call later", "half a line"])


# ---- what is remembered -----------------------------------------------------------------


def test_what_was_typed_comes_back_in_the_next_chat_but_for_what_is_private(cli):
    chatted(cli, "remembered\r secret\r", "x heard: remembered", "", "x heard: secret", CTRL_D)
    assert history(cli) == ["remembered"]
    assert stat.S_IMODE((cli.state / "chat-history").stat().st_mode) == 0o600

    chatted(cli, "\x1b[A\r", "x heard: remembered", CTRL_D)
    assert history(cli) == ["remembered"]


def test_a_chat_that_is_not_saved_leaves_nothing(cli):
    chatted(cli, "hello\r/session\r", "x heard: hello", "", "it is not saved", CTRL_D, arguments=["--no-save"])

    assert history(cli) == []
    assert not (cli.state / "sessions").exists()


# ---- terminals that can do less ---------------------------------------------------------

WITHOUT = "import sys\nfor name in ('rich', 'markdown_it', 'prompt_toolkit'):\n    sys.modules[name] = None\n"


@pytest.mark.parametrize("poor", ["dumb", "without libraries"])
def test_a_chat_works_without_a_line_editor(cli, poor):
    environ = {"TERM": "dumb"} if poor == "dumb" else {"NO_COLOR": "1"}
    if poor == "without libraries":
        (cli.site / "sitecustomize.py").write_text(WITHOUT)
    done = chatted(
        cli, "say **plain** text\n", "**plain** text \n", "one\\\n", "", "two\n", "x heard: one\ntwo",
        "pasted\nlines\n", "x heard: pasted\nlines", f"{MAIL}\n", QUESTION, "y\n", "The tool said: sent to bob",
        "hang\n", "One moment", CTRL_C, "interrupted; the conversation continues", "/usage\n", "tokens in",
        CTRL_C, "Ctrl-C again, or Ctrl-D, leaves", CTRL_C, **environ,
    )  # fmt: skip

    assert (done.code, sent(cli), "\x1b" in done.out) == (0, ["bob"], False)
    assert chatted(cli, "hello\n", "x heard: hello", CTRL_D, **environ).code == 0


def test_answers_go_where_standard_output_goes_and_the_rest_stays_at_the_terminal(cli):
    keys = [GREETING, "say **a** b\rcall wait\r", "→ wait()", CTRL_C, "interrupted", CTRL_D]
    cli.talk("chat", "-m", "speaker/x", files={1: cli.work / "answers.txt"}, keys=keys)

    answers = (cli.work / "answers.txt").read_text()
    assert (answers.split("\n")[0], "\x1b" in answers) == ("**a** b ", False)
