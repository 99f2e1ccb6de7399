"""A conversation at a real terminal that is interrupted, stopped, or loses its terminal."""

import os
import signal
import subprocess
from contextlib import suppress

import pytest
from cli_support import PATIENCE_S
from each_of import each_of
from screens import CTRL_C, CTRL_D, CTRL_Z, GREETING, PROMPT, QUESTION, chat, chatted, echoes, install_speaker, sent

MAIL = 'call send_mail {"to":"bob"}'
WARNED = "Ctrl-C again, or Ctrl-D, leaves"
INTERRUPTED = "interrupted; the conversation continues"
BUSY = {"": "", "hang": "One moment", "call wait": "→ wait()", MAIL: QUESTION}
"""What is typed, and what is shown when its turn runs."""


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


@each_of("said", [said for said in BUSY if said])
def test_ctrl_c_ends_the_turn_and_keeps_the_conversation(cli, said):
    done = chatted(cli, f"{said}\r", BUSY[said], CTRL_C, INTERRUPTED, "hello\r", "x heard: hello", CTRL_D)

    assert (done.code, sent(cli), "Traceback" in done.out) == (0, [], False)


def test_ctrl_c_on_an_empty_line_warns_once_and_on_a_line_empties_it(cli):
    done = chatted(
        cli, "", PROMPT, "nonsense" + CTRL_C + "hello\r", "x heard: hello", "", PROMPT, CTRL_C, WARNED,
        "more\r", "x heard: more", "", PROMPT, CTRL_C, WARNED, CTRL_C,
    )  # fmt: skip

    assert (done.code, "nonsense hello" in done.out) == (0, False)


def test_an_interrupt_from_elsewhere_does_what_ctrl_c_does(cli):
    with chat(cli) as terminal:
        terminal.process.send_signal(signal.SIGINT)
        terminal.exchange("", WARNED, "hang\r", "One moment")
        terminal.process.send_signal(signal.SIGINT)
        terminal.exchange("", INTERRUPTED, "", PROMPT, "more\r", "x heard: more", "", PROMPT, CTRL_D)

        assert terminal.end().code == 0


def test_a_turn_that_holds_everything_up_is_ended_by_pressing_ctrl_c_again_and_again(cli):
    blocking = """
import threading
from pluggent_hookspecs import hookimpl, tool

@tool(effects=())
async def block() -> str:
    '''Hold the loop.'''
    print("blocked", flush=True)
    threading.Event().wait()

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [block]
"""
    cli.plugin("acme-blocking", blocking)
    with chat(cli) as terminal:
        terminal.exchange("call block\r", "blocked")
        presses = 0
        while terminal.process.poll() is None and presses < 100:
            terminal.type(CTRL_C)
            presses += 1
            with suppress(subprocess.TimeoutExpired):
                terminal.process.wait(0.2)
        done = terminal.end()

        assert (done.code, presses >= 4, echoes(terminal)) == (-signal.SIGINT, True, "echo")
        assert "with Ctrl-C once more, the chat ends too" in done.out


@each_of("said", BUSY)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_chat_cleanly_at_any_time(cli, said, number, code):
    session = f"s{len(said)}"
    with chat(cli, "--session", session) as terminal:
        terminal.exchange(said and f"{said}\r", BUSY[said])
        terminal.process.send_signal(number)
        done = terminal.end()

        assert (done.code, echoes(terminal), "Traceback" in done.out) == (code, "echo", False)
    assert cli("run", "--session", session, "-m", "speaker/x", "hello").code == 0


@each_of("said", ["", "hang", MAIL])
@pytest.mark.parametrize(("term", "enter"), [("xterm", "\r"), ("dumb", "\n")])
def test_a_terminal_that_is_closed_ends_the_chat_and_the_session_stays_whole(cli, said, term, enter):
    session = f"s{len(said)}"
    with chat(cli, "--session", session, TERM=term) as terminal:
        terminal.exchange(said and f"{said}{enter}", BUSY[said])
        terminal.close()

        assert terminal.process.wait(PATIENCE_S) == 129
    assert sent(cli) == []
    again = cli("run", "--session", session, "-m", "speaker/x", "hello")
    assert (again.code, again.out) == (0, "x heard: hello\n"), again.err


def test_a_chat_that_is_stopped_goes_on_where_it_was(cli):
    words = cli.work / "words"
    os.mkfifo(words)
    state = 'stty -a | tr " " "\\n" | grep -x echo'
    jobs = f'set -m; "$@"; echo stopped; {state}; fg; {state}; fg'
    with cli.at_terminal("chat", "-m", "speaker/x", script=jobs) as terminal:
        terminal.exchange("", GREETING, "read words\r")
        with words.open("w") as model:
            terminal.exchange(CTRL_Z, "stopped\necho\n")
            model.write("The answer.")
        terminal.exchange(
            "", "The answer.", "", PROMPT, "half a ", "half a", CTRL_Z, "echo\n", "line\r", "x heard: half a line",
            "", PROMPT, CTRL_D,
        )  # fmt: skip
        done = terminal.end()

    # A slow machine draws it once more before it is whole.
    assert (done.code, done.out.count("The answer.") in (1, 2)) == (0, True)
