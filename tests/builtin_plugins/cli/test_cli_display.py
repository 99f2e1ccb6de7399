"""What a turn shows at a terminal while it runs, and what is left of that when it is over."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest
from cli_support import Cli, Terminal
from screens import Screen, install_speaker

WAITING = "waiting for speaker/x · 1 s"
READ = ("run", "-m", "speaker/x", "--no-save", "read words")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install_speaker(made.site)
    os.mkfifo(made.work / "words")
    return made


@contextmanager
def speaking(cli: Cli, *more: str, **options: str | int) -> Iterator[tuple[Terminal, TextIO]]:
    """Yield a terminal at which a turn runs, and what its model says."""
    with cli.at_terminal(*READ, *more, **options) as terminal, (cli.work / "words").open("w") as model:  # type: ignore[arg-type]
        yield terminal, model


def left(shown: str, columns: int = 100) -> str:
    """Return what is on the screen after *shown*."""
    screen = Screen(columns, 40)
    screen.feed(shown)
    return screen.text


def said(model: TextIO, text: str) -> None:
    model.write(text)
    model.flush()


def test_blocks_are_printed_when_they_are_complete_and_the_unfinished_one_is_shown(cli):
    with speaking(cli) as (terminal, model):
        said(model, "# Title\n\nSome *half of")
        terminal.then("\x1b[1;4mTitle\x1b[0m\n")
        terminal.then("Some *half")
        said(model, " it* text\n\n- one\n- two and more")
        terminal.then("Some \x1b[3mhalf of it\x1b[0m text\n")
        terminal.then("• two and")
        model.close()
        done = terminal.end()

    assert done.code == 0
    assert left(done.out) == "Title\n\nSome half of it text\n\n • one\n • two and more"


@pytest.mark.parametrize("columns", [40, 100, 200])
def test_however_an_answer_comes_it_is_there_once_and_whole(cli, columns):
    table = "|a|b|\n|-|-|\n" + "".join(f"|{n}|row number {n}|\n" for n in range(60))
    text = f"Intro.\n\n{table}\n```py\n" + "".join(f"x{n} = {n}\n" for n in range(60)) + "```\n\nThe end.\n"
    with speaking(cli, columns=columns) as (terminal, model):
        for at in range(0, len(text), 50):
            said(model, text[at : at + 50])
        terminal.then("x59 = ")
        model.close()
        screen = left(terminal.end().out, columns)

    assert [line for line in screen.splitlines() if "row number" in line and "59" in line] == ["59   row number 59"]
    assert screen.count("row number 7\n") == screen.count("x7 = 7\n") == screen.count("Intro.") == 1
    assert screen.endswith("x59 = 59\n```\n\nThe end.")


def test_an_answer_is_whole_after_its_terminal_was_made_wider_and_narrower(cli):
    with speaking(cli) as (terminal, model):
        said(model, "Some *words and")
        terminal.then("Some *words")
        terminal.resize(150)
        said(model, " more* of them, and `code, too")
        terminal.then("and `code")
        terminal.resize(60)
        said(model, "`.\n\nThis is the end.")
        terminal.then("This is")
        model.close()
        done = terminal.end()

    assert left(done.out, 60) == "Some words and more of them, and code, too.\n\nThis is the end."


def test_what_is_being_waited_for_is_shown_and_leaves_no_trace(cli):
    with speaking(cli) as (terminal, model):
        terminal.then(WAITING)
        terminal.then("· 2 s")
        said(model, "Here it is.")
        terminal.then("Here it")
        model.close()
        done = terminal.end()

    assert left(done.out) == "Here it is."


def test_a_tool_that_is_being_waited_for_is_named(cli):
    with cli.at_terminal("run", "-m", "speaker/x", "--no-save", "call wait") as terminal:
        terminal.then("waiting for wait · 1 s")
        terminal.type("\x03")
        done = terminal.end()

    assert done.code == 130
    assert left(done.out) == "→ wait()  allowed: declared pure\n\ninterrupted"


@pytest.mark.parametrize(("more", "environ"), [(["-q"], {}), ([], {"TERM": "dumb"}), ([], {"script": '"$@" 2> notes'})])
def test_nothing_is_shown_of_waiting_where_it_was_not_wanted_or_cannot_be(cli, more, environ):
    with speaking(cli, *more, **environ) as (terminal, model):
        os.mkfifo(cli.work / "other")
        # Another turn, which began later, has been waited for long enough by now.
        with cli.at_terminal(*READ[:-1], "read other") as other, (cli.work / "other").open("w"):
            other.then(WAITING)
            other.process.send_signal(signal.SIGKILL)
        said(model, "Here it is.\n\n")
        terminal.then("Here it")
        model.close()
        done = terminal.end()

    assert "waiting" not in done.out
    notes = cli.work / "notes"
    assert not notes.exists() or notes.read_text() == ""


def test_waiting_is_shown_without_colours_where_there_are_none(cli):
    with speaking(cli, NO_COLOR="1") as (terminal, model):
        terminal.then(WAITING)
        said(model, "**Here** it is.")
        terminal.then("**Here** it")
        model.close()
        done = terminal.end()

    assert "\x1b" not in done.out
    assert left(done.out) == "**Here** it is."


def test_waiting_is_shown_at_the_terminal_when_the_answer_goes_elsewhere(cli):
    with speaking(cli, script='"$@" > answer') as (terminal, model):
        terminal.then(WAITING)
        said(model, "**Here** it is.")
        model.close()
        done = terminal.end()

    assert left(done.out) == ""
    assert (cli.work / "answer").read_text() == "**Here** it is.\n"


def test_a_question_is_put_below_and_nothing_is_drawn_over_it(cli):
    with cli.at_terminal("run", "-m", "speaker/x", "--no-save", 'then call send_mail {"to":"bob"}') as terminal:
        terminal.then("a: always] ")
        terminal.type("y\n")
        done = terminal.end()

    screen = left(done.out)
    assert screen.startswith('Let me see.\n\nI will call a tool\n→ send_mail(to="bob")  needs approval')
    assert screen.endswith("approved by you\n← sent to bob\nThe tool said: sent to bob")
    assert "a: always] y\n" in screen


@pytest.mark.parametrize("option", ["--plain", "--color=never"])
def test_an_answer_can_be_had_as_it_was_written(cli, option):
    with speaking(cli, option) as (terminal, model):
        said(model, "# Title\n\n**bold** \x1b[2J\n")
        model.close()
        done = terminal.end()

    assert left(done.out) == "# Title\n\n**bold** \\x1b[2J"


def test_an_answer_that_comes_all_at_once_is_formatted_too(cli):
    with speaking(cli, "--no-stream") as (terminal, model):
        said(model, "Some *slanted* words.")
        model.close()
        done = terminal.end()

    assert "Some \x1b[3mslanted\x1b[0m words.\n" in done.out
    assert left(done.out) == "Some slanted words."


def test_an_answer_in_a_pipe_is_what_the_model_wrote(cli):
    (cli.work / "answer.md").write_text("# Title\n\n**bold**\n")

    assert cli("run", "-m", "speaker/x", "read answer.md").out == "# Title\n\n**bold**\n"


def test_what_is_typed_meanwhile_is_not_shown_and_waits_for_the_shell(cli):
    with cli.at_terminal(*READ, script='"$@"; read line; echo "the shell reads $line"') as terminal:
        with (cli.work / "words").open("w") as model:
            terminal.type("typed\r")
            said(model, "The answer.")
        terminal.then("the shell reads typed")

    assert "typed" not in terminal.shown[: terminal.shown.index("The answer.")]


def test_an_interrupted_answer_stays_on_the_screen_as_far_as_it_came(cli):
    with cli.at_terminal("run", "-m", "speaker/x", "--session", "s", "hang") as terminal:
        terminal.then("One moment")
        terminal.type("\x03")
        done = terminal.end()

    assert done.code == 130
    assert left(done.out).startswith("One moment")
    assert left(done.out).endswith("\n\ninterrupted")


def test_pictures_go_with_the_prompt(cli):
    (cli.work / "cat").write_bytes(b"GIF89a")

    done = cli("run", "-m", "speaker/x", "--image", "cat", "--image", "https://example.com/x", "look")
    refused = cli("run", "-m", "speaker/x", "--image", "absent", "--image", ".", "look")

    assert done.out == "x heard: look ['Image', 'Image']\n"
    assert refused.code == 2
    assert "absent: cannot be read" in refused.err
    assert ".: cannot be read" in refused.err
