"""What a person at a terminal sees, is asked, and can interrupt."""

import signal

import pytest
from cli_support import ASKING, sent, signalled, wait_for_line, without_reader
from each_of import each_of
from screens import CTRL_C, CTRL_D, QUESTION

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
MAIL = ("run", "--color", "never", "--session", "s", "send_mail to=bob")
OSLO = "weather: 20 °C, light rain in Oslo (sample data)\n"


@pytest.fixture
def cli(cli):
    cli.plugin("acme-mail", TOOLS)
    return cli


@each_of("columns", [60, 80, 200])
def test_lines_of_an_error_break_at_spaces(cli, columns):
    with cli.at_terminal("run", "-m", "acme", "hi", columns=columns, NO_COLOR="1") as terminal:
        shown = terminal.end().out
    with cli.at_terminal("sesions", columns=columns, NO_COLOR="1") as terminal:
        unknown = terminal.end().out

    assert max(map(len, f"{shown}{unknown}".splitlines())) <= columns
    assert " ".join(unknown.split()).endswith("did you mean 'sessions'? See pluggent --help")
    assert "pluggent --help" in unknown


# ---- approvals --------------------------------------------------------------------------


def test_a_call_that_was_approved_after_a_long_time_is_shown_once(cli):
    late = "from pluggent_host.operations import pipeline\npipeline.STALE_S = -1\n"

    with cli.at_terminal(*MAIL, first=late) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("y\n")
        done = terminal.end()

    assert done.code == 0
    assert done.out.count("needs approval") == 1


def test_a_person_reads_the_whole_request_and_says_yes(cli):
    with cli.at_terminal(*MAIL) as terminal:
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


@each_of("answer", ["n\n", "\n", "yep\n", CTRL_D, "Y e s\n"])
def test_everything_else_is_a_no(cli, answer):
    done = cli.talk(*MAIL, keys=[QUESTION, answer])

    assert (done.code, "REFUSED by you" in done.out, sent(cli)) == (0, True, "")


@each_of(
    ("answer", "read"),
    [
        ("n, use the other folder\n", ": use the other folder"), ("NO: ünïcode\n", ": ünïcode"), ("no\n", ""),
        ("use /srv instead\n", ": use /srv instead"), ("yes but later\n", ""), ("n, a\x1b[A b\n", ": a [A b"),
    ],
)  # fmt: skip
def test_the_model_reads_the_words_of_a_refusal(cli, answer, read):
    done = cli.talk(*MAIL, keys=["to refuse and tell the model why: n, use the other folder", "", QUESTION, answer])

    assert f"send_mail failed: Denied: a person refused this{read}\n" in done.out
    assert sent(cli) == ""


def test_each_of_several_calls_is_answered_by_itself(cli):
    mails = "send_mail to=ann & send_mail to=bob & send_mail to=cat"
    keys = [QUESTION, "n\n", QUESTION, "n, bob is away\n", QUESTION, "y\n"]
    done = cli.talk(*MAIL[:-1], mails, keys=keys)

    assert sent(cli) == "cat"
    assert done.out.count("Denied: a person refused this\n") == 1
    assert done.out.count("Denied: a person refused this: bob is away\n") == 1


def test_what_was_typed_before_the_question_does_not_answer_it(cli):
    with cli.at_terminal(*MAIL) as terminal:
        terminal.exchange("y\ny\ny\n", QUESTION, "n\n")
        done = terminal.end()

    assert ("REFUSED by you" in done.out, sent(cli)) == (True, "")


@pytest.mark.parametrize(("words", "shown"), [("send_mail to=bob", QUESTION), ("wait", "→ wait()")])
def test_ctrl_c_ends_the_turn_and_the_session_stays_whole(cli, words, shown):
    done = cli.talk("run", "--color", "never", "--session", "s", words, keys=[shown, CTRL_C])

    assert (done.code, "interrupted" in done.out, "Traceback" in done.out, sent(cli)) == (130, True, False, "")
    assert cli("run", "--session", "s", "weather city=Oslo")[:2] == (0, OSLO)


def test_the_question_goes_to_the_terminal_when_the_output_goes_elsewhere(cli):
    answer, notes = cli.work / "answer.txt", cli.work / "notes.txt"
    cli.talk(*MAIL, keys=[QUESTION, "y\n"], files={1: answer, 2: notes})

    assert answer.read_text() == "send_mail: sent to bob\n"
    assert "approved by you" in notes.read_text()


def test_every_plugin_that_asks_is_named_and_its_words_are_escaped(cli):
    cli.plugin("acme-asking", ASKING, "hooks", accepted=True)

    done = cli.talk(*MAIL, keys=[QUESTION, "n\n"])

    assert "  acme-asking asks: is \\x1b[2Jbob a friend?\n  host asks: its effects are messaging\n" in done.out


def test_settings_that_say_deny_are_heeded_at_a_terminal_too(cli):
    done = cli.talk(*MAIL, keys=[], PLUGGENT_ON_ASK="deny")

    assert (done.code, QUESTION in done.out, sent(cli)) == (3, False, "")


def test_a_command_in_the_background_asks_no_person(cli):
    command = 'set -m; "$@" </dev/null & wait $!; echo code $?'
    with cli.at_terminal(*MAIL, script=command) as terminal:
        terminal.wait_for("code 6")

    assert (QUESTION in terminal.shown, sent(cli)) == (False, "")


def test_a_direct_call_is_asked_about_too(cli):
    done = cli.talk("tools", "call", "send_mail", "to=bob", keys=[QUESTION, "yes\n"])

    assert (done.code, done.out.endswith("sent to bob\n"), sent(cli)) == (0, True, "bob")


# ---- looks ------------------------------------------------------------------------------


@each_of(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_at_a_terminal_there_are_colours_unless_switched_off_and_the_session_is_named_once(cli, environ, coloured):
    done = cli.talk("run", "weather city=Oslo", keys=[], **environ)

    assert ("\033[36m→\033[0m \033[1mweather\033[0m(city=" in done.out, "\033[" in done.out) == (coloured,) * 2
    assert (done.out.count("session: "), OSLO in done.out) == (1, True)


def test_a_prompt_is_not_waited_for_at_a_terminal(cli):
    done = cli.talk("run", keys=[])

    assert (done.code, "say something" in done.out) == (2, True)


def test_a_table_that_is_too_wide_is_stacked(cli):
    done = cli.talk("plugins", "--color", "never", keys=[], columns=44)

    assert "pluggent-memory-inmemory\n  0.1.0 · memory inmemory · available\n" in done.out


# ---- interruptions ----------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_turn_cleanly_with_its_own_exit_code(cli, number, code):
    process = cli.start("run", "--session", "s", "wait")
    wait_for_line(process, "→ wait()")
    second = cli("run", "--session", "s", "hello")

    assert (second.code, "session 's' is in use by another process" in second.err) == (1, True)
    assert signalled(process, number) == (code, "", "interrupted\n")
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
    cli.plugin("acme-stubborn", stubborn, "hooks", accepted=True)
    process = cli.start("run", "wait")
    wait_for_line(process, "→ wait()")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding on\n"

    assert signalled(process, signal.SIGINT).code == -signal.SIGINT


def test_a_reader_that_goes_away_ends_the_turn_quietly(cli):
    with without_reader() as writer:
        done = cli("run", "weather city=Oslo", stdout=writer)

    assert (done.code, "Traceback" in done.err, "Exception" in done.err) == (141, False, False)
