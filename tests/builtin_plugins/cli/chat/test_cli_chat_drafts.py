"""What was typed and not said is never lost."""

import os
import signal
import stat

import pytest
from each_of import each_of
from screens import CTRL_C, CTRL_D, GREETING, chat, chatted, install_speaker
from talking import WAIT_S

UP = "\x1b[A"
EMPTIED = "\x1b[K"
PASTE = "\x1b[200~{}\x1b[201~"


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


def test_a_line_that_was_emptied_comes_back_by_the_arrow_keys(cli):
    keys = ("half a line", "half a line", CTRL_C, EMPTIED, UP, "half a line", "\r", "x heard: half a line", CTRL_D)

    assert chatted(cli, *keys).code == 0


def test_a_message_whose_turn_failed_is_back_in_the_line_and_no_part_of_the_conversation(cli):
    keys = ("hello\r", "x heard: hello", "fail it\r", "out of order", "", "> \x1b[0mfail it", CTRL_C, "",
            "/session\r", ", 2 messages", CTRL_D)  # fmt: skip

    assert chatted(cli, *keys).code == 0


def test_a_message_whose_turn_failed_is_said_again_to_another_model(cli):
    (cli.work / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    keys = ("/attach cat.png\r", "1  image", "break once\r", "the reply broke off", "", "1 attachment", CTRL_C, "",
            "/retry -m speaker/y\r", "again: break once", "", "once", CTRL_D)  # fmt: skip
    done = chatted(cli, *keys)

    assert done.code == 0


def test_a_failing_turn_leaves_alone_what_was_typed_meanwhile(cli):
    os.mkfifo(cli.work / "words")
    with chat(cli) as terminal:
        terminal.type("read words\r")
        with (cli.work / "words").open("wb") as model:
            terminal.type("typed ahead\r")
            model.write(b"\xff")  # not text: the model fails
        terminal.exchange("", "x heard: typed ahead", UP + UP, "read words", CTRL_C, "", CTRL_D, "")
        assert terminal.end().code == 0


@each_of("number", [0, signal.SIGHUP, signal.SIGTERM])
def test_what_is_typed_when_the_terminal_is_closed_is_in_the_line_of_the_next_chat(cli, number):
    with chat(cli) as terminal:
        terminal.exchange(PASTE.format("half\ra message"), "a message")
        if number:
            terminal.process.send_signal(number)
        else:
            terminal.close()
        terminal.process.wait(WAIT_S)
    draft = cli.state / "chat-draft"
    assert (draft.read_text(), stat.S_IMODE(draft.stat().st_mode)) == ("half\na message", 0o600)

    chatted(cli, "", "a message", "\r", "x heard: half\na message", CTRL_D)
    assert not draft.exists()


@each_of(("typed", "arguments"), [(" private", []), ("words", ["--no-save"])])
def test_what_is_private_is_kept_nowhere(cli, typed, arguments):
    with chat(cli, *arguments) as terminal:
        terminal.exchange(typed, typed.strip())
        terminal.process.send_signal(signal.SIGHUP)
        terminal.end()

    assert not (cli.state / "chat-draft").exists()


def test_a_private_message_stays_private_when_its_turn_fails(cli):
    keys = (" fail secretly\r", "out of order", "", "> \x1b[0m fail secretly", CTRL_C, "", "/retry\r", "out of order",
            "", "fail secretly", CTRL_C, "", "seen\r", "x heard: seen", CTRL_D)  # fmt: skip
    chatted(cli, *keys)

    kept = (cli.state / "chat-history").read_text()
    assert ("secretly" in kept, "+seen" in kept) == (False, True)


@pytest.mark.parametrize("place", ["link", "pipe", "folder"])
def test_a_draft_that_is_no_file_is_left_alone(cli, place):
    cli.state.mkdir(mode=0o700)
    path, other = cli.state / "chat-draft", cli.work / "other"
    other.write_text("other")
    {"link": lambda: path.symlink_to(other), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[place]()
    with chat(cli) as terminal:
        terminal.exchange("words", "words")
        terminal.process.send_signal(signal.SIGHUP)
        code = terminal.end().code

    assert (code, other.read_text()) == (129, "other")
    assert GREETING in terminal.shown
