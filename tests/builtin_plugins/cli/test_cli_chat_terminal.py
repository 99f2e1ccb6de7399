"""A conversation at a real terminal: what a person types, sees, and comes back to."""

import json
import os
import stat
from pathlib import Path

import pytest
from chatting import CTRL_C, CTRL_D, GREETING, QUESTION, chat, sent
from cli_support import Cli
from fake_distributions import install
from speaking import install_speaker

PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install_speaker(made.site)
    return made


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


# ---- talking ----------------------------------------------------------------------------


def test_messages_are_answered_until_the_person_leaves(cli):
    with chat(cli, "--session", "s") as terminal:
        terminal.type("hello\r")
        terminal.then("x heard: hello")
        terminal.type("again\r")
        terminal.then("x heard: again")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert done.out.count("continue: pluggent chat --session s)") == 1


@pytest.mark.parametrize("leave", ["/quit\r", "/exit\r", CTRL_D])
def test_there_are_many_ways_to_leave(cli, leave):
    with chat(cli) as terminal:
        terminal.type(leave)
        done = terminal.end()

    assert done.code == 0
    assert "session: " not in done.out  # nothing was said


@pytest.mark.parametrize(
    "keys",
    [
        PASTE.format("one\rtwo\rthree") + "\r",
        "one\x1b\rtwo\x1b\rthree\r",
        "one\\\rtwo\\\rthree\r",
    ],
)
def test_several_lines_are_one_message(cli, keys):
    with chat(cli) as terminal:
        terminal.type(keys)
        terminal.then("x heard: one\ntwo\nthree")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert done.out.count("x heard:") == 1


def test_two_hundred_pasted_lines_are_one_message(cli):
    lines = [f"line {number} with ünïcode 漢字" for number in range(200)]
    with chat(cli, "--session", "s") as terminal:
        terminal.type(PASTE.format("\r".join(lines)))
        terminal.type("\r")
        terminal.then("x heard: line 0 ")
        terminal.then("line 199 with")
        terminal.type(CTRL_D)
        terminal.end()

    said = [json.loads(line) for line in (cli.state / "sessions" / "s.jsonl").read_text().splitlines()]
    (message,) = [entry["message"] for entry in said if entry["t"] == "Said" and entry["message"]["role"] == "user"]
    assert message["content"][0]["text"] == "\n".join(lines)


def test_what_is_typed_while_a_turn_runs_is_said_when_it_is_over(cli, words):
    with chat(cli) as terminal:
        terminal.type("read words\r")
        with words.open("w") as model:  # opened by both: the turn runs
            terminal.type("typed ahead\r" + PASTE.format("two\rlines") + "\r")
            model.write("The *answer*.")
        terminal.then("The ")
        terminal.then("x heard: typed ahead")
        terminal.then("x heard: two\nlines")

    assert "typed ahead" not in terminal.shown[: terminal.shown.index("The ")]


def test_a_resumed_conversation_begins_with_its_last_exchange(cli):
    with chat(cli, "--session", "s") as terminal:
        terminal.type("first\rread answer.md\r")
        (cli.work / "answer.md").write_text("One\n\nTwo\n\n" + "more\n\n" * 9)
        terminal.then("x heard: first")
        terminal.then("Two")
        terminal.type(CTRL_D)
        terminal.end()

    with cli.at_terminal("chat", "--session", "s", "--color", "never") as terminal:
        shown = terminal.then("lines)")

    assert shown.endswith(
        "Ctrl-D leaves.\n> read answer.md\n  One\n  Two\n  more\n  more\n  more\n  more\n  … (5 more lines)"
    )


def test_a_model_that_fails_is_said_and_the_conversation_goes_on(cli):
    with chat(cli) as terminal:
        terminal.type("fail\r")
        terminal.then("speaker: the model is \\x1b[2Jout of order")
        terminal.type("hello\r")
        terminal.then("x heard: hello")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert "Traceback" not in done.out


# ---- approvals --------------------------------------------------------------------------


def test_an_approval_is_asked_for_below_what_the_model_has_said(cli):
    with chat(cli) as terminal:
        terminal.type('then call send_mail {"to":"bob"}\r')
        shown = terminal.then(QUESTION)
        assert sent(cli) == []
        terminal.type("y\r")
        terminal.then("sent to bob")
        terminal.then("The tool said: sent to bob")

    assert shown.index("Let me ") < shown.index("I will call a tool") < shown.index("needs approval")
    assert shown.index("needs approval") < shown.index("A person has to approve this:")
    assert sent(cli) == ["bob"]


def test_what_was_typed_before_the_question_is_no_answer(cli, words):
    with chat(cli) as terminal:
        terminal.type("read words\r")
        with words.open("w"):
            terminal.type('call send_mail {"to":"bob"}\ry\ry\r')
        terminal.then(QUESTION)
        terminal.type("n\r")
        terminal.then("REFUSED by you")
        terminal.then("The tool said")

    assert sent(cli) == []


def test_an_answer_can_be_mistyped_and_mended(cli):
    with chat(cli) as terminal:
        terminal.type('call send_mail {"to":"bob"}\r')
        terminal.then(QUESTION)
        terminal.type("n\x7fy\r")
        terminal.then("approved by you")
        terminal.type("x\r")
        terminal.then("x heard: x")

    assert sent(cli) == ["bob"]


def test_a_turn_that_waits_for_an_approval_is_gone_on_with(cli):
    paused = cli(
        "chat", "-m", "speaker/x", "--session", "s", stdin='call send_mail {"to":"bob"}\n', PLUGGENT_ON_ASK="pause"
    )
    assert paused.code == 6
    assert "paused: 1 call waiting for an approval" in paused.err
    with cli.at_terminal("chat", "--session", "s") as terminal:
        terminal.then("A turn waits for an approval. /resume continues it, a message withdraws it.")
        terminal.type("/resume\r")
        terminal.then(QUESTION)
        terminal.type("y\r")
        terminal.then("The tool said: sent to bob")
        terminal.type("/resume\r")
        terminal.then("no turn waits for an approval")

    assert sent(cli) == ["bob"]


# ---- commands ---------------------------------------------------------------------------


def test_commands_and_their_arguments_are_completed(cli):
    (cli.work / "a picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with chat(cli) as terminal:
        terminal.type("/im")
        terminal.then("/image")
        terminal.type("\t a p")
        terminal.then("a picture.png")
        terminal.type("\t\r")
        terminal.then("1 image goes along with your next message")
        terminal.type("look\r")
        terminal.then("x heard: look ['Image']")
        terminal.type("look\r")
        terminal.then("x heard: look")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert history(cli)[-1] == "look"


def test_a_note_that_comes_while_a_line_is_typed_leaves_the_line_alone(cli):
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
    '''Warn when somebody has written into a pipe.'''
    async def warn():
        await asyncio.to_thread(lambda: open("words").read())
        logging.getLogger("pluggent.acme").warning("something has\\x1b happened")
    tasks.append(asyncio.create_task(warn()))
    return "soon"
"""
    install(cli.site, "acme-noisy", {"tools/noisy": "acme_noisy:Plugin"}, modules={"acme_noisy": noisy})
    os.mkfifo(cli.work / "words")
    with chat(cli) as terminal:
        terminal.type("call later\r")
        terminal.then("The tool said: soon")
        terminal.type("half a ")
        terminal.then("half a")
        (cli.work / "words").write_text("now")
        terminal.then("warning: something has\\x1b happened")
        terminal.type("line\r")
        terminal.then("x heard: half a line")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert history(cli) == ["call later", "half a line"]


# ---- what is remembered -----------------------------------------------------------------


def test_what_was_typed_comes_back_in_the_next_chat_but_for_what_is_private(cli):
    with chat(cli) as terminal:
        terminal.type("remembered\r secret\r")
        terminal.then("x heard: remembered")
        terminal.then("x heard: secret")
        terminal.type(CTRL_D)
        terminal.end()
    assert history(cli) == ["remembered"]
    assert stat.S_IMODE((cli.state / "chat-history").stat().st_mode) == 0o600

    with chat(cli) as terminal:
        terminal.type("\x1b[A\r")
        terminal.then("x heard: remembered")
        terminal.type(CTRL_D)
        terminal.end()
    assert history(cli) == ["remembered"]


def test_a_chat_that_is_not_saved_leaves_nothing(cli):
    with chat(cli, "--no-save") as terminal:
        terminal.type("hello\r/session\r")
        terminal.then("x heard: hello")
        terminal.then("it is not saved")
        terminal.type(CTRL_D)
        terminal.end()

    assert history(cli) == []
    assert not (cli.state / "sessions").exists()


# ---- terminals that can do less ---------------------------------------------------------

WITHOUT = "import sys\nfor name in ('rich', 'markdown_it', 'prompt_toolkit'):\n    sys.modules[name] = None\n"


@pytest.fixture(params=["dumb", "without libraries"])
def poor(request, cli) -> dict[str, str]:
    """Return what makes the terminal of a chat a poor one."""
    if request.param == "dumb":
        return {"TERM": "dumb"}
    (cli.site / "sitecustomize.py").write_text(WITHOUT)
    return {"NO_COLOR": "1"}


def test_a_chat_works_without_a_line_editor(cli, poor):
    with chat(cli, **poor) as terminal:
        terminal.type("say **plain** text\n")
        terminal.then("**plain** text \n")
        terminal.type("one\\\n")
        terminal.type("two\n")
        terminal.then("x heard: one\ntwo")
        terminal.type("pasted\nlines\n")
        terminal.then("x heard: pasted\nlines")
        terminal.type('call send_mail {"to":"bob"}\n')
        terminal.then(QUESTION)
        terminal.type("y\n")
        terminal.then("The tool said: sent to bob")
        terminal.type("hang\n")
        terminal.then("One moment")
        terminal.type(CTRL_C)
        terminal.then("interrupted; the conversation continues")
        terminal.type("/usage\n")
        terminal.then("tokens in")
        terminal.type(CTRL_C)
        terminal.then("Ctrl-C again, or Ctrl-D, leaves")
        terminal.type(CTRL_C)
        done = terminal.end()

    assert (done.code, sent(cli)) == (0, ["bob"])
    assert "\x1b" not in done.out


def test_a_chat_without_a_line_editor_ends_with_its_input_too(cli, poor):
    with chat(cli, **poor) as terminal:
        terminal.type("hello\n")
        terminal.then("x heard: hello")
        terminal.type(CTRL_D)

        assert terminal.end().code == 0


def test_answers_go_where_standard_output_goes_and_the_rest_stays_at_the_terminal(cli):
    with cli.at_terminal("chat", "-m", "speaker/x", script='"$@" > answers.txt') as terminal:
        terminal.then(GREETING)
        terminal.type("say **a** b\rcall wait\r")
        terminal.then("allowed")
        terminal.type(CTRL_C)
        terminal.then("interrupted")
        terminal.type(CTRL_D)
        terminal.end()

    assert (cli.work / "answers.txt").read_text().split("\n")[0] == "**a** b "
    assert "\x1b" not in (cli.work / "answers.txt").read_text()
