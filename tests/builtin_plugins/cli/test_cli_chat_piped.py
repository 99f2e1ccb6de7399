"""A conversation without a terminal: one message a line, plain answers, an exit code that can be relied on."""

import json
import os
import signal
from pathlib import Path

import pytest
from cli_support import Cli, nobody_reads, signalled, wait_for_line
from speaking import install_speaker

HEAVY = {"rich", "prompt_toolkit", "markdown_it", "pygments"}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install_speaker(made.site)
    return made


def test_each_line_is_a_message_and_later_ones_see_earlier_ones(cli):
    done = cli("chat", "-m", "speaker/x", "--session", "s", stdin="one\n\n  \ntwo\r\n/session\nlast, unended")

    assert done.code == 0
    assert done.out == (
        "x heard: one\nx heard: two\nsession s, 4 messages, model speaker/x\n"
        "continue it: pluggent chat --session s\nx heard: last, unended\n"
    )
    assert done.err == ""


def test_the_exit_code_is_that_of_the_first_turn_that_went_wrong(cli):
    stdin = 'hello\ncall send_mail {"to":"bob"}\nfail\nhello\n'

    done = cli("chat", "-m", "speaker/x", stdin=stdin)

    assert done.code == 3
    assert done.out.count("x heard: hello\n") == 2
    assert "denied: 'send_mail' needs approval" in done.err
    assert "error: speaker: the model is \\x1b[2Jout of order\n" in done.err


@pytest.mark.parametrize(
    ("stdin", "code", "says"),
    [
        (b"", 0, ""),
        (b"hello\n\xff\nhello\n", 2, "standard input: line 2 is not UTF-8 text (byte 0)"),
        (b"/xyzzy\n", 2, "/xyzzy: there is no such command; /help shows all of them"),
        (b"/undoo\n", 2, "did you mean '/undo'?"),
        (b"/undo now\n", 2, "/undo: takes nothing behind it, got 'now'"),
        (b"/tools nothing\n", 2, "/tools: there is no tool 'nothing'"),
        (b"/model nobody/x\n", 2, "provider 'nobody': no installed plugin offers it"),
        (b"/image absent.png\n", 2, "absent.png: cannot be read: No such file or directory"),
        (b"/help nonsense\n", 2, "/help: there is no command 'nonsense'"),
    ],
)
def test_a_line_that_cannot_be_done_is_said_and_the_next_one_is_read(cli, stdin, code, says):
    done = cli("chat", "-m", "speaker/x", stdin=stdin + b" /last\n")

    assert (done.code, done.out.splitlines()[-1:]) == (code, ["x heard: /last"])
    assert says in done.err
    assert "Traceback" not in done.err


def test_what_only_looks_like_a_command_is_said(cli):
    out = cli("chat", "-m", "speaker/x", stdin="/etc/hosts has what?\n /quit\n").out

    assert out == "x heard: /etc/hosts has what?\nx heard: /quit\n"


def test_everything_that_can_be_typed_is_in_the_help(cli):
    out = cli("chat", "-m", "speaker/x", stdin="/help\n").out

    for name in ("/help", "/tools", "/model", "/usage", "/undo", "/image", "/new", "/session", "/quit"):
        assert f"  {name} " in out
    assert "Alt-Enter" in out
    assert cli("chat", "-m", "speaker/x", stdin="/help undo\n").out.startswith("  /undo  take back")


def test_tools_are_listed_and_one_is_shown_whole(cli):
    table, _, document = cli("chat", "-m", "speaker/x", stdin="/tools\n/tools send_mail\n").out.partition("{")

    assert "send_mail" in table
    assert "need approval" in table
    assert json.loads("{" + document)["effects"] == ["messaging"]
    assert cli("chat", "--no-tools", stdin="/tools\n").out == "no tools are offered\n"


def test_what_was_used_is_summed(cli):
    out = cli("chat", "-m", "speaker/x", stdin="/usage\na\nb\n/usage\n").out

    assert out.startswith("no tokens were used yet\n")
    assert out.endswith("20 tokens in, 10 out; 0.5000 US dollars\n")


def test_another_model_answers_from_now_on_and_in_the_next_chat(cli):
    done = cli("chat", "--session", "s", stdin="/model speaker/two\nhello\n/model\n")
    again = cli("chat", "--session", "s", stdin="hello\n")

    assert done.out == "model speaker/two\ntwo heard: hello\nmodel speaker/two\n"
    assert again.out == "two heard: hello\n"


def test_an_exchange_is_taken_back_for_good(cli):
    done = cli("chat", "-m", "speaker/x", "--session", "s", stdin="one\ntwo words\n/undo\n/session\n")
    again = cli("chat", "--session", "s", stdin="/undo\n/undo\n")

    assert "taken back: two words\nsession s, 2 messages" in done.out
    assert again.out == "taken back: one\nthere is nothing to take back\n"


def test_a_picture_goes_with_the_next_message(cli):
    (cli.work / "cat.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    stdin = "/image\n/image cat.txt\n/image 'cat.txt'\nlook\nlook\n"

    out = cli("chat", "-m", "speaker/x", "--image", "https://example.com/a.png", stdin=stdin).out

    assert out == (
        "1 image goes along with your next message\n2 images go along with your next message\n"
        "3 images go along with your next message\n"
        "x heard: look ['Image', 'Image', 'Image']\nx heard: look\n"
    )


@pytest.mark.parametrize("word", ["/new", "/clear"])
def test_a_new_conversation_begins_and_the_one_before_is_kept(cli, word):
    out = cli("chat", "-m", "speaker/x", "--session", "s", stdin=f"one\n{word}\n/session\n").out

    assert "the one before is kept: --session s" in out.replace("\n", " ")
    assert ", 0 messages, model speaker/x" in out
    assert cli("chat", "--session", "s", stdin="/session\n").out.startswith("session s, 2 messages")


def test_with_json_every_line_is_a_message_and_every_answer_a_line(cli):
    done = cli("chat", "-m", "speaker/x", "--json", stdin="/usage\nfail\nhello\n")

    first, error, last = map(json.loads, done.out.splitlines())
    assert (first["text"], first["turn"], first["exit_code"]) == ("x heard: /usage", "t1", 0)
    assert error == {"error": {"kind": "ProviderError", "message": "speaker: the model is \x1b[2Jout of order"},
                     "exit_code": 1}  # fmt: skip
    assert "\x1b" not in done.out
    assert (last["text"], last["turn"], done.code) == ("x heard: hello", "t3", 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--no-tools", "--tool", "wait"], "--no-tools: contradicts --tool"),
        (["--image", "a.png", "--image", "b.png"], "a.png: cannot be read"),
        (["--max-cost", "much"], "'much' is not a number of US dollars"),
        (["--max-cost", "-1"], "is not a number of US dollars"),
        (["--max-tokens", "0"], "limits.tokens: expected"),
        (["words"], "unrecognized arguments: words"),
        (["-m", "nobody/x"], "no installed plugin offers it"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(cli, options, says):
    done = cli("chat", *options, stdin="hello\n")

    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--max-model-calls", "1"], "limit 'model_calls' reached (1)"),
        (["--max-tool-rounds", "0"], "limit 'tool_rounds' reached (0)"),
        (["--max-tokens", "10"], "limit 'tokens' reached (10)"),
        (["--max-cost", "0.2"], "limit 'cost_usd' reached (0.2)"),
        (["--max-cost", "$0.2"], "limit 'cost_usd' reached (0.2)"),
    ],
)
@pytest.mark.parametrize("command", ["run", "chat"])
def test_limits_hold_for_every_turn(cli, command, option, says):
    done = cli(command, "-m", "speaker/x", *option, stdin='call weather {"city":"Oslo"}\n')

    assert done.code == 4
    assert f"stopped: {says}" in done.err


def test_standard_input_that_is_closed_is_said(cli):
    done = cli("chat", script='exec "$@" <&-')

    assert (done.code, done.err) == (2, "error: standard input: is closed, so nothing can be said\n")


def test_a_reader_that_goes_away_ends_the_chat_quietly(cli):
    with nobody_reads() as writer:
        done = cli("chat", "-m", "speaker/x", stdin="one\ntwo\n", stdout=writer)

    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_chat_with_its_own_exit_code(cli, number, code, busy):
    reader, writer = os.pipe()
    process = cli.start("chat", "-m", "speaker/x", "--session", "s", stdin=reader)
    os.close(reader)
    with open(writer, "w") as lines:  # noqa: PTH123 (no path)
        lines.write("call wait\n" if busy else "hello\n")
        lines.flush()
        assert process.stdout is not None
        if busy:
            wait_for_line(process, "→ wait()")
        else:
            assert process.stdout.readline() == "x heard: hello\n"
        done = signalled(process, number)

    assert done.code == code
    assert done.err in ({"interrupted\n"} if busy else {"", "interrupted\n"})  # the first turn may not be quite over
    assert cli("run", "--session", "s", "-m", "speaker/x", "hello").code == 0


@pytest.mark.parametrize(
    "words", [["run", "weather city=Oslo"], ["chat"], ["chat", "--help"], ["plugins"], ["--version"]]
)
def test_where_there_is_no_terminal_nothing_is_imported_for_one(cli, words):
    assert not {name.partition(".")[0] for name in cli.imported(*words)} & HEAVY
