"""A conversation at a real terminal that is interrupted, stopped, or loses its terminal."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from chatting import CTRL_C, CTRL_D, CTRL_Z, GREETING, QUESTION, chat, echoes, prompted, sent
from cli_support import PATIENCE_S, Cli
from fake_distributions import install
from speaking import install_speaker


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install_speaker(made.site)
    return made


@pytest.mark.parametrize(
    ("said", "running"), [("hang", "One moment"), ("call wait", "allowed"), ('call send_mail {"to":"bob"}', QUESTION)]
)
def test_ctrl_c_ends_the_turn_and_keeps_the_conversation(cli, said, running):
    with chat(cli, "--session", "s") as terminal:
        terminal.type(f"{said}\r")
        terminal.then(running)
        terminal.type(CTRL_C)
        terminal.then("interrupted; the conversation continues")
        terminal.type("hello\r")
        terminal.then("x heard: hello")
        terminal.type(CTRL_D)
        done = terminal.end()

    assert (done.code, sent(cli)) == (0, [])
    assert "Traceback" not in done.out


def test_ctrl_c_on_an_empty_line_warns_once_and_on_a_line_empties_it(cli):
    with chat(cli) as terminal:
        prompted(terminal)
        terminal.type("nonsense" + CTRL_C + "hello\r")
        terminal.then("x heard: hello")
        prompted(terminal)
        terminal.type(CTRL_C)
        terminal.then("Ctrl-C again, or Ctrl-D, leaves")
        terminal.type("more\r")
        terminal.then("x heard: more")
        prompted(terminal)
        terminal.type(CTRL_C)
        terminal.then("Ctrl-C again, or Ctrl-D, leaves")
        terminal.type(CTRL_C)
        done = terminal.end()

    assert done.code == 0
    assert "nonsense hello" not in done.out


def test_an_interrupt_from_elsewhere_does_what_ctrl_c_does(cli):
    with chat(cli) as terminal:
        terminal.process.send_signal(signal.SIGINT)
        terminal.then("Ctrl-C again, or Ctrl-D, leaves")
        terminal.type("hang\r")
        terminal.then("One moment")
        terminal.process.send_signal(signal.SIGINT)
        terminal.then("interrupted; the conversation continues")
        prompted(terminal)
        terminal.type("more\r")
        terminal.then("x heard: more")
        prompted(terminal)
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0


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
    install(cli.site, "acme-blocking", {"tools/blocking": "acme_blocking:Plugin"}, modules={"acme_blocking": blocking})
    with chat(cli) as terminal:
        terminal.type("call block\r")
        terminal.then("blocked")
        presses = 0
        while terminal.process.poll() is None and presses < 100:
            terminal.type(CTRL_C)
            presses += 1
            with suppress(subprocess.TimeoutExpired):
                terminal.process.wait(0.2)
        done = terminal.end()

        assert done.code == -signal.SIGINT
        assert presses >= 4
        assert "with Ctrl-C once more, the chat ends too" in done.out
        assert echoes(terminal) == "echo"


@pytest.mark.parametrize("said", ["", "hang\r", "call wait\r", 'call send_mail {"to":"bob"}\r'])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_chat_cleanly_at_any_time(cli, said, number, code):
    with chat(cli, "--session", "s") as terminal:
        terminal.type(said)
        if said:
            terminal.then({"h": "One moment", "w": "allowed", "s": QUESTION}[said.removeprefix("call ")[0]])
        terminal.process.send_signal(number)
        done = terminal.end()

        assert done.code == code
        assert "Traceback" not in done.out
        assert echoes(terminal) == "echo"
    assert cli("run", "--session", "s", "-m", "speaker/x", "hello").code == 0


@pytest.mark.parametrize("said", ["", "hang\r", 'call send_mail {"to":"bob"}\r'])
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_that_is_closed_ends_the_chat_and_the_session_stays_whole(cli, said, term):
    with chat(cli, "--session", "s", TERM=term) as terminal:
        terminal.type(said.replace("\r", "\n") if term == "dumb" else said)
        if said:
            terminal.then("One moment" if "hang" in said else QUESTION)
        terminal.close()

        assert terminal.process.wait(PATIENCE_S) == 129
    assert sent(cli) == []
    again = cli("run", "--session", "s", "-m", "speaker/x", "hello")
    assert (again.code, again.out) == (0, "x heard: hello\n"), again.err


def test_a_chat_that_is_stopped_goes_on_where_it_was(cli):
    words = cli.work / "words"
    os.mkfifo(words)
    state = 'stty -a | tr " " "\\n" | grep -x echo'
    jobs = f'set -m; "$@"; echo stopped; {state}; fg; {state}; fg'
    with cli.at_terminal("chat", "-m", "speaker/x", script=jobs) as terminal:
        terminal.then(GREETING)
        terminal.type("read words\r")
        with words.open("w") as model:
            terminal.type(CTRL_Z)
            terminal.then("stopped\necho\n")
            model.write("The answer.")
        terminal.then("The answer.")
        prompted(terminal)
        terminal.type("half a ")
        terminal.then("half a")
        terminal.type(CTRL_Z)
        terminal.then("echo\n")
        terminal.type("line\r")
        terminal.then("x heard: half a line")
        prompted(terminal)
        terminal.type(CTRL_D)
        done = terminal.end()

    assert done.code == 0
    assert done.out.count("The answer.") == 1
