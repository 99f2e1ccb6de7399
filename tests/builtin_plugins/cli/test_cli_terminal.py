"""What a person at a terminal sees, is asked, and can interrupt."""

import signal
from pathlib import Path

import pytest
from cli_support import ASKING, Cli, nobody_reads, sent, signalled, wait_for_line
from fake_distributions import install

CTRL_C, CTRL_D = "\x03", "\x04"
QUESTION = "Allow this once? [y/N, or s: its like in this session, a: always] "
TOOLS = """
import asyncio, pathlib
from pluggent_hookspecs import hookimpl, tool

@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    '''Send a mail.'''
    pathlib.Path("sent.txt").write_text(to)
    return f"sent to {to}"

@tool(effects=())
async def wait() -> str:
    '''Wait for ever.'''
    await asyncio.Event().wait()

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail, wait]
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install(made.site, "acme-mail", {"tools/mail": "acme_mail:Plugin"}, modules={"acme_mail": TOOLS})
    return made


# ---- approvals --------------------------------------------------------------------------


def test_a_person_reads_the_whole_request_and_says_yes(cli):
    with cli.at_terminal("run", "--color", "never", "send_mail to=bob") as terminal:
        shown = terminal.wait_for(QUESTION)
        assert sent(cli) == ""
        terminal.type("y\n")
        done = terminal.end()

    asked = shown[shown.index("\nA person has to approve this:") :]
    assert asked.startswith(
        "\nA person has to approve this:\n"
        "  call send_mail  (acme-mail:tool/send_mail, effects: messaging)\n"
        '  {\n    "to": "bob"\n  }\n'
        "  host asks: its effects are messaging\n"
        "  request "
    )
    assert shown.index("needs approval (host: its effects are messaging)") < shown.index("A person has")
    assert "  approved by you\n← sent to bob\nsend_mail: sent to bob\n" in done.out
    assert (done.code, sent(cli)) == (0, "bob")


@pytest.mark.parametrize("answer", ["n\n", "\n", "yep\n", CTRL_D, "Y e s\n"])
def test_everything_else_is_a_no(cli, answer):
    with cli.at_terminal("run", "--color", "never", "send_mail to=bob") as terminal:
        terminal.wait_for(QUESTION)
        terminal.type(answer)
        done = terminal.end()

    assert "REFUSED by you" in done.out
    assert (done.code, sent(cli)) == (0, "")


def test_what_was_typed_before_the_question_does_not_answer_it(cli):
    with cli.at_terminal("run", "send_mail to=bob") as terminal:
        terminal.type("y\ny\ny\n")
        terminal.wait_for(QUESTION)
        terminal.type("n\n")
        done = terminal.end()

    assert "REFUSED by you" in done.out
    assert sent(cli) == ""


def test_ctrl_c_at_the_question_ends_the_turn_and_nothing_is_done(cli):
    with cli.at_terminal("run", "--session", "s", "send_mail to=bob") as terminal:
        terminal.wait_for(QUESTION)
        terminal.type(CTRL_C)
        done = terminal.end()

    assert "interrupted" in done.out
    assert "Traceback" not in done.out
    assert (done.code, sent(cli)) == (130, "")
    assert cli("run", "--session", "s", "hello").code == 0


def test_the_question_goes_to_the_terminal_when_the_output_goes_elsewhere(cli):
    command = '"$@" > answer.txt 2> notes.txt'
    with cli.at_terminal("run", "send_mail to=bob", script=command) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("y\n")
        terminal.end()

    assert (cli.work / "answer.txt").read_text() == "send_mail: sent to bob\n"
    assert "approved by you" in (cli.work / "notes.txt").read_text()


def test_every_plugin_that_asks_is_named_and_its_words_are_escaped(cli):
    install(cli.site, "acme-asking", {"hooks/asking": "acme_asking:Plugin"}, modules={"acme_asking": ASKING})
    cli("trust", "--plugin", "acme-asking")

    with cli.at_terminal("run", "--color", "never", "send_mail to=bob") as terminal:
        shown = terminal.wait_for(QUESTION)
        terminal.type("n\n")
        terminal.end()

    assert "  acme-asking asks: is \\x1b[2Jbob a friend?\n  host asks: its effects are messaging\n" in shown


def test_settings_that_say_deny_are_heeded_at_a_terminal_too(cli):
    with cli.at_terminal("run", "send_mail to=bob", PLUGGENT_ON_ASK="deny") as terminal:
        done = terminal.end()

    assert QUESTION not in done.out
    assert (done.code, sent(cli)) == (3, "")


def test_a_command_in_the_background_asks_nobody(cli):
    command = 'set -m; "$@" </dev/null & wait $!; echo code $?'
    with cli.at_terminal("run", "send_mail to=bob", script=command) as terminal:
        terminal.wait_for("code 6")

    assert QUESTION not in terminal.shown
    assert sent(cli) == ""


def test_a_direct_call_is_asked_about_too(cli):
    with cli.at_terminal("tools", "call", "send_mail", "to=bob") as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("yes\n")
        done = terminal.end()

    assert done.out.endswith("sent to bob\n")
    assert (done.code, sent(cli)) == (0, "bob")


# ---- looks ------------------------------------------------------------------------------


def test_at_a_terminal_there_are_colours_and_the_session_is_named_once(cli):
    with cli.at_terminal("run", "weather city=Oslo") as terminal:
        done = terminal.end()

    assert "\033[36m→\033[0m \033[1mweather\033[0m(city=" in done.out
    assert done.out.count("session: ") == 1
    assert "weather: 20 °C, light rain in Oslo (sample data)\n" in done.out


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_can_be_switched_off(cli, environ):
    with cli.at_terminal("run", "weather city=Oslo", **environ) as terminal:
        done = terminal.end()

    assert "\033[" not in done.out


def test_a_prompt_is_not_waited_for_at_a_terminal(cli):
    with cli.at_terminal("run") as terminal:
        done = terminal.end()

    assert done.code == 2
    assert "say something" in done.out


def test_a_table_that_is_too_wide_is_stacked(cli):
    with cli.at_terminal("plugins", "--color", "never", columns=44) as terminal:
        done = terminal.end()

    assert "pluggent-memory-inmemory\n  0.1.0 · memory inmemory · available\n" in done.out


# ---- interruptions ----------------------------------------------------------------------


def test_ctrl_c_ends_a_running_tool_and_the_session_stays_whole(cli):
    with cli.at_terminal("run", "--color", "never", "--session", "s", "wait") as terminal:
        terminal.wait_for("→ wait()")
        terminal.type(CTRL_C)
        done = terminal.end()

    assert done.code == 130
    assert "Traceback" not in done.out
    again = cli("run", "--session", "s", "weather city=Oslo")
    assert (again.code, again.out) == (0, "weather: 20 °C, light rain in Oslo (sample data)\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_turn_cleanly_with_its_own_exit_code(cli, number, code):
    process = cli.start("run", "--session", "s", "wait")
    wait_for_line(process, "→ wait()")

    done = signalled(process, number)

    assert (done.code, done.out) == (code, "")
    assert done.err == "interrupted\n"
    assert cli("run", "--session", "s", "hello").code == 0


def test_a_second_signal_kills_what_does_not_end(cli):
    stubborn = """
import asyncio
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    async def around_turn(self, event, call_next):
        try:
            return await call_next()
        finally:
            print("holding on", flush=True)
            await asyncio.Event().wait()
"""
    install(cli.site, "acme-stubborn", {"hooks/stubborn": "acme_stubborn:Plugin"}, modules={"acme_stubborn": stubborn})
    cli("trust", "--plugin", "acme-stubborn")
    process = cli.start("run", "wait")
    wait_for_line(process, "→ wait()")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding on\n"

    assert signalled(process, signal.SIGINT).code == -signal.SIGINT


def test_a_session_in_use_is_refused_to_a_second_process(cli):
    process = cli.start("run", "--session", "s", "wait")
    wait_for_line(process, "→ wait()")

    code, _, err = cli("run", "--session", "s", "hello")

    assert code == 1
    assert "session 's' is in use by another process" in err
    signalled(process, signal.SIGTERM)


def test_a_reader_that_goes_away_ends_the_turn_quietly(cli):
    with nobody_reads() as writer:
        done = cli("run", "weather city=Oslo", stdout=writer)

    assert done.code == 141
    assert "Traceback" not in done.err
    assert "Exception" not in done.err
