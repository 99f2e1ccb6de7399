"""A conversation without a terminal: one message a line, plain answers, an exit code that can be relied on."""

import json
import os
import signal

import pytest
from cli_support import Done, signalled, wait_for_line, without_reader
from each_of import each_of
from screens import install_speaker

HEAVY = {"rich", "prompt_toolkit", "markdown_it", "pygments"}


@pytest.fixture
def cli(cli):
    install_speaker(cli.site)
    return cli


@pytest.fixture
def say(cli):
    """Return what runs a chat with speaker/x on the lines it is given."""

    def chat(stdin: str | bytes, *options: str) -> Done:
        return cli("chat", "-m", "speaker/x", *options, stdin=stdin)

    return chat


def test_each_line_is_a_message_and_later_ones_see_earlier_ones(say):
    done = say("one\n\n  \ntwo\r\n/session\nlast, unended", "--session", "s")

    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "x heard: one\nx heard: two\nsession s, 4 messages, model speaker/x\n"
        "continue it: pluggent chat --session s\nx heard: last, unended\n"
    )


def test_the_exit_code_is_that_of_the_first_turn_that_went_wrong(say):
    done = say('hello\ncall send_mail {"to":"bob"}\nfail\nhello\n')

    assert (done.code, done.out.count("x heard: hello\n")) == (3, 2)
    assert "denied: 'send_mail' needs approval" in done.err
    assert "error: speaker: the model is \\x1b[2Jout of order\n" in done.err


@pytest.fixture
def hasty(cli):
    """Let the command try again without a wait."""
    (cli.work / "hasty.toml").write_text("[plugins.pluggent-retry]\nbase_s = 0.0\n")
    return ("run", "-m", "speaker/x", "--config", "hasty.toml")


@each_of("option", [(), ("--json",)])
def test_a_stream_that_breaks_off_before_anybody_has_seen_it_is_tried_again(cli, hasty, option):
    done = cli(*hasty, *option, "break once more")

    assert (done.code, "once more" in done.out, done.out.count("once")) == (0, True, 1)


def test_what_came_of_a_stream_that_breaks_off_each_time_is_written_to_a_pipe_as_to_a_terminal(cli, hasty):
    done = cli(*hasty, "break one two")

    assert (done.code, done.out) == (1, "one two\n")
    assert "error: speaker: the reply broke off; tried 4 times" in done.err


def test_a_document_of_a_stream_that_breaks_off_is_the_error_alone(cli, hasty):
    done = cli(*hasty, "--json", "break one two")

    assert (done.code, list(json.loads(done.out))) == (1, ["error", "exit_code"])


@each_of(
    ("stdin", "code", "says"),
    [
        (b"", 0, ""),
        (b"hello\n\xff\nhello\n", 2, "standard input: line 2 is not UTF-8 text (byte 0)"),
        (b"/xyzzy\n", 2, "/xyzzy: there is no such command. /help shows all commands"),
        (b"/undoo\n", 2, "did you mean '/undo'?"),
        (b"/undo now\n", 2, "/undo: takes nothing behind it, got 'now'"),
        (b"/tools nothing\n", 2, "/tools: there is no tool 'nothing'"),
        (b"/model absent/x\n", 2, "provider 'absent': no installed plugin offers it"),
        (b"/image absent.png\n", 2, "absent.png: cannot be read: No such file or directory"),
        (b"/help nonsense\n", 2, "/help: there is no command 'nonsense'"),
    ],
)
def test_a_line_that_cannot_be_done_is_said_and_the_next_one_is_read(say, stdin, code, says):
    done = say(stdin + b" /last\n")

    assert (done.code, done.out.splitlines()[-1:]) == (code, ["x heard: /last"])
    assert says in done.err
    assert "Traceback" not in done.err


def test_what_only_looks_like_a_command_is_said(say):
    assert say("/etc/hosts has what?\n /quit\n").out == "x heard: /etc/hosts has what?\nx heard: /quit\n"


def test_everything_that_can_be_typed_is_in_the_help(say):
    out = say("/help\n").out

    names = "help tools model cost undo attach detach edit retry approve resume restore new session quit"
    for name in names.split():
        assert f"  /{name} " in out
    assert "Alt-Enter" in out
    assert say("/help undo\n").out.startswith("  /undo  take back")


def test_tools_are_listed_and_one_is_shown_whole(cli, say):
    table, _, document = say("/tools\n/tools send_mail\n").out.partition("{")

    assert "send_mail" in table
    assert "need approval" in table
    assert json.loads("{" + document)["effects"] == ["messaging"]
    assert cli("chat", "--no-tools", stdin="/tools\n").out == "no tools are offered\n"


def test_what_was_used_is_summed(say):
    out = say("/usage\na\nb\n/usage\n").out

    assert out.startswith("no tokens were used yet\n")
    assert out.endswith(
        "this session: 20 tokens in, 10 out; 0.5000 US dollars\nlast turn: 10 tokens in, 5 out; 0.2500 US dollars\n"
    )


def test_another_model_answers_from_now_on_and_in_the_next_chat(cli):
    done = cli("chat", "--session", "s", stdin="/model speaker/two\nhello\n/model\n")

    assert done.out == "model speaker/two\ntwo heard: hello\nmodel speaker/two\n"
    assert cli("chat", "--session", "s", stdin="hello\n").out == "two heard: hello\n"


def test_an_exchange_is_taken_back_for_good(cli, say):
    done = say("one\ntwo words\n/undo\n/session\n", "--session", "s")
    again = cli("chat", "--session", "s", stdin="/undo\n/undo\n")

    assert "taken back: two words\nsession s, 2 messages" in done.out
    assert again.out == "taken back: one\nthere is nothing to take back\n"


HEAD = "this goes along with your next message; /detach NUMBER takes it away:\n"


def test_a_picture_goes_with_the_next_message(cli, say):
    (cli.work / "cat.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    lines = "/image\n/image cat.txt\n/image 'cat.txt'\nlook\nlook\n"

    assert say(lines, "--image", "https://example.com/a.png").out == (
        f"{HEAD}  1  image\n{HEAD}  1  image\n  2  image (8 bytes) cat.txt\n"
        f"{HEAD}  1  image\n  2  image (8 bytes) cat.txt\n  3  image (8 bytes) cat.txt\n"
        "x heard: look ['Image', 'Image', 'Image']\nx heard: look\n"
    )


def test_attachments_are_listed_and_taken_away(cli, say):
    (cli.work / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (cli.work / "b.pdf").write_bytes(b"%PDF-1.4\n")
    lines = "/attach a.png\n/attach b.pdf\n/detach 1\nlook\n/attach a.png\n/detach\nlook\n/detach 1\n/attach missing\n"
    done = say(lines)

    assert done.out.endswith(f"{HEAD}  1  image (8 bytes) a.png\nnothing is attached\nx heard: look\n")
    assert f"{HEAD}  1  file (9 bytes) b.pdf\nx heard: look ['File']\n" in done.out
    assert "expected a number from 1 to 0" in done.err
    assert "missing" in done.err


def test_what_wants_a_person_says_so_in_a_pipe(say):
    done = say("/edit\n/approve\n/retry\n/retry -x\n")

    assert "/edit: wants a person at a terminal" in done.err
    assert done.out == "nothing waits for an approval\nthere is nothing to say again\n"
    assert "/retry: takes -m PROVIDER/MODEL or nothing, got '-x'" in done.err


@pytest.mark.parametrize("word", ["/new", "/clear"])
def test_a_new_conversation_begins_and_the_one_before_is_kept(cli, say, word):
    out = say(f"one\n{word}\n/session\n", "--session", "s").out

    assert "the one before is kept: --session s" in out.replace("\n", " ")
    assert ", 0 messages, model speaker/x" in out
    assert cli("chat", "--session", "s", stdin="/session\n").out.startswith("session s, 2 messages")


def test_with_json_every_line_is_a_message_and_every_answer_a_line(say):
    done = say("/usage\nfail\nhello\n", "--json")

    first, error, last = map(json.loads, done.out.splitlines())
    assert (first["text"], first["turn"], first["exit_code"]) == ("x heard: /usage", "t1", 0)
    assert error == {"error": {"kind": "ProviderError", "message": "speaker: the model is \x1b[2Jout of order"},
                     "exit_code": 1}  # fmt: skip
    assert "\x1b" not in done.out
    assert (last["text"], last["turn"], done.code) == ("x heard: hello", "t3", 1)


@each_of(
    ("options", "says"),
    [
        ("--no-tools --tool wait", "--no-tools: contradicts --tool"),
        ("--image a.png --image b.png", "a.png: cannot be read"),
        ("--max-cost much", "'much' is not a number of US dollars"),
        ("--max-cost -1", "is not a number of US dollars"),
        ("--max-tokens 0", "limits.tokens: expected"),
        ("words", "unrecognized arguments: words"),
        ("-m absent/x", "no installed plugin offers it"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(cli, options, says):
    done = cli("chat", *options.split(), stdin="hello\n")

    assert (done.code, done.out, says in done.err) == (2, "", True), done


@each_of(
    ("option", "says"),
    [
        ("--max-model-calls 1", "limit 'model_calls' reached (1)"),
        ("--max-tool-rounds 0", "limit 'tool_rounds' reached (0)"),
        ("--max-tokens 10", "limit 'tokens' reached (10)"),
        ("--max-cost 0.2", "limit 'cost_usd' reached (0.2)"),
        ("--max-cost $0.2", "limit 'cost_usd' reached (0.2)"),
    ],
)
def test_limits_hold_for_every_turn(cli, option, says):
    for command in ("run", "chat"):
        done = cli(command, "-m", "speaker/x", *option.split(), stdin='call weather {"city":"Oslo"}\n')

        assert (done.code, f"stopped: {says}" in done.err) == (4, True), done


def test_standard_input_that_is_closed_is_said(cli):
    assert cli("chat", script='exec "$@" <&-')[::2] == (2, "error: standard input: is closed, so nothing can be said\n")


def test_a_reader_that_goes_away_ends_the_chat_quietly(cli):
    with without_reader() as writer:
        done = cli("chat", "-m", "speaker/x", stdin="one\ntwo\n", stdout=writer)

    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_chat_with_its_own_exit_code(cli, say, number, code, busy):
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
    assert say("hello\n", "--session", "s").code == 0


@each_of("words", ["run weather city=Oslo", "chat", "chat --help", "plugins"])
def test_where_there_is_no_terminal_nothing_is_imported_for_one(cli, words):
    assert not {name.partition(".")[0] for name in cli.imported(*words.split())} & HEAVY
