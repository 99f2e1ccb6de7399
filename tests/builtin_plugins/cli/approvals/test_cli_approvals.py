"""``pluggent approvals``: what is shown, who may approve, and what is refused."""

import pytest
from cli_support import ASKING, PAUSED, QUESTION, STEERING, Cli, approve, mailing, pause, requests, requests_of, sent
from each_of import each_of
from saved import FileTranscript, save, turn


@pytest.fixture
def cli(tmp_path):
    return mailing(tmp_path)


@pytest.fixture
def digest(cli: Cli) -> str:
    return pause(cli)


# ---- who may approve --------------------------------------------------------------------


@each_of(("answer", "code"), [("n\n", 1), ("\n", 1), ("\x04", 1), ("\x03", 130)])
def test_everything_but_yes_approves_nothing(cli, digest, answer, code):
    done = approve(cli, "s", digest, answer=answer)

    assert (done.code, done.out.endswith("nothing was approved\n")) == (code, code == 1)
    assert "Traceback" not in done.out
    assert list(requests(cli).values()) == [digest]


def test_a_no_with_words_denies_and_the_model_reads_them(cli, digest):
    done = approve(cli, "s", digest, answer="n, use the other folder\n")

    assert (done.code, "denied " in done.out) == (0, True)
    assert "Denied: a person refused this: use the other folder" in cli("resume", "s").out


def test_a_reason_has_a_limit_and_is_one_line_of_visible_characters(cli, digest):
    assert "2,000 are the most" in cli("approvals", "deny", "s", digest, "--reason", "x" * 2001).err
    assert cli("approvals", "deny", "s", digest, "--reason", "not\x1b[2J\nnow").code == 0

    assert "Denied: a person refused this: not [2J now\n" in cli("resume", "s").out


def test_what_was_typed_before_the_question_does_not_approve(cli, digest):
    with cli.at_terminal("approvals", "approve", "s", digest) as terminal:
        terminal.exchange("y\ny\n", QUESTION, "n\n")
        assert terminal.end().code == 1


def test_without_a_terminal_nothing_is_approved(cli, digest):
    done = cli("approvals", "approve", "s", digest, stdin="y\n")

    assert (done.code, "wants a person at a terminal" in done.err) == (2, True)
    assert requests(cli)


def test_what_a_host_has_started_cannot_approve_not_even_at_a_terminal(cli, digest):
    done = cli.talk("approvals", "approve", "s", digest, keys=[], PLUGGENT_INSIDE="1")
    resumed = cli.talk("resume", "s", keys=[], PLUGGENT_INSIDE="1")

    assert done.code == 2
    assert "cannot be given from inside of what asks for it (PLUGGENT_INSIDE is set)" in " ".join(done.out.split())
    assert (resumed.code, sent(cli)) == (PAUSED, "")
    assert cli("approvals", "deny", "s", digest, PLUGGENT_INSIDE="1").code == 0


# ---- what is refused --------------------------------------------------------------------


def test_while_another_process_has_the_session_nothing_is_answered(cli, digest):
    writer = FileTranscript(cli.state / "sessions", "s")
    try:
        done = cli("approvals", "deny", "s", digest)
        assert cli("approvals", "show", "s").code == 0
        assert cli("approvals", "expire", "--older-than", "0s").code == 1
    finally:
        writer.close()

    assert (done.code, "in use by another process" in done.err) == (1, True)
    assert requests(cli)


def test_a_request_that_is_gone_is_not_approved_under_the_name_of_another(cli, digest):
    cli("run", "--session", "s", "send_mail to=eve")
    done = cli.talk("approvals", "approve", "--color", "never", "s", digest, keys=[])

    (other,) = requests(cli).values()
    assert other != digest
    assert done.code == 1
    assert f"session 's' has no call '{digest}' that waits; these do: offline-4-0 ({other})" in " ".join(
        done.out.split()
    )


def test_a_request_that_goes_while_the_person_thinks_is_not_approved(cli, digest):
    with cli.at_terminal("approvals", "approve", "--color", "never", "s", digest) as terminal:
        terminal.wait_for(QUESTION)
        assert cli("approvals", "deny", "s", digest).code == 0
        terminal.type("y\n")
        done = terminal.end()

    assert done.code == 1
    assert f"session 's' has no request {requests_of(cli, 's')} that waits (any more)" in " ".join(done.out.split())
    assert "refused" in cli("resume", "s").err.lower()
    assert sent(cli) == ""


WANTED = "wants a SESSION, and either CALLs or --all"


@each_of(
    ("words", "code", "said"),
    [
        ("approve", 2, WANTED), ("deny s", 2, WANTED), ("deny s offline-1-0 --all", 2, WANTED),
        ("deny s x", 1, "has no call 'x' that waits; these do: offline-1-0 ("),
        ("deny nowhere x", 2, "there is no session 'nowhere'"),
        ("deny other --all", 1, "session 'other' has no turn that waits for a person"),
        ("deny s --all --for-session", 2, "takes no --for-session"),
        ("list s", 2, "takes no name, got 's'"), ("aprove s", 2, "did you mean"),
        ("expire --older-than soon", 2, "'soon' is not a length of time such as 30m, 12h or 7d"),
        ("approve s --all --for-session --always", 2, "give --for-session or --always, not both"),
        ("approve s --all --where to=b", 2, "--where goes with --for-session or --always"),
        ("approve s --all --always --where to", 2, "--where: expected NAME=PATTERN, got 'to'"),
        ("approve s --all --always --where to=*a*b*", 2, "has more than 2 stars"),
        ("approve s --all --always --where to=a --where to=b", 2, "is given twice"),
        ("deny s --all --always", 2, "takes no --always"), ("deny s --all --key env:X", 2, "takes no --key"),
        ("standing x", 2, "takes no name, got 'x'"), ("forget", 2, "needs a NAME"),
        ("new-key x", 2, "needs a NAME and a FILE"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(cli, digest, words, code, said):
    if not (cli.state / "sessions" / "other.jsonl").exists():
        save(cli.state / "sessions", "other", *turn("hello", "ho"))

    done = cli("approvals", *words.split())

    assert (done.code, said in done.err) == (code, True), done
    assert list(requests(cli).values()) == [digest]


def test_garbage_in_the_folder_is_named_and_hides_nothing(cli, digest):
    folder = cli.state / "sessions"
    (folder / "bad.jsonl").write_bytes(b"\x00\xff\n")
    (folder / "worse.jsonl").write_bytes(b'{"t":"Paused","pending":[[],3,{"asks":[1,[2],["a"]]}],"at_s":"x"}\n')
    (folder / "torn.jsonl").write_bytes(b'{"t":"Paused", nonsense}\n')
    (folder / "pipe.jsonl").symlink_to("/dev/zero")

    code, out, err = cli("approvals")

    assert (code, digest in out) == (0, True)
    assert "session 'bad' cannot be read: line 1 is not an entry" in err
    assert f"session 'torn' cannot be read: {folder}/torn.jsonl, line 1 is damaged" in err
    assert "session 'pipe' cannot be read" in err
    assert cli("approvals", "show", "bad").code == cli("resume", "bad").code == 1
    assert "Traceback" not in cli("approvals", "deny", "worse", "--all").err


# ---- what is shown ----------------------------------------------------------------------


def test_words_of_plugins_and_models_cannot_steer_the_terminal(cli):
    cli.plugin("acme-asking", ASKING, "hooks", accepted=True)
    code, _, err = cli("run", "--session", "s", r'send_mail to="bob\u001b]0;x\u0007\u202e"')
    shown = cli("approvals", "show", "s")

    assert code == PAUSED
    assert not STEERING & set(err + shown.out + shown.err + cli("approvals").out + cli("explain", "s").out)
    assert "acme-asking asks: is \\x1b[2Jbob a friend?\n" in shown.out
    assert '"to": "bob\\u001b]0;x\\u0007\\u202e"' in shown.out


def test_a_session_is_listed_until_it_is_resumed(cli, digest):
    assert f"offline-1-0  send_mail  {digest}  waits" in cli("approvals", COLUMNS="120").out
    cli("approvals", "deny", "s", digest)

    assert "answered\n    pluggent resume s\n" in cli("approvals", COLUMNS="120").out
    cli("resume", "s")
    assert cli("approvals").out == "nothing waits for an approval\n"


@pytest.mark.usefixtures("digest")
def test_listing_loads_no_plugin_and_no_host_nor_a_converter_where_nothing_waits(cli):
    waits = cli.imported("approvals")
    cli("run", "--session", "s", "hello")
    nothing_waits = cli.imported("approvals")

    assert not {"acme_mail", "pluggent_host.host", "asyncio.runners"} & waits
    converters = {"pluggent_transcript.entries", "cattrs", "msgspec"}
    assert not {"acme_mail", "pluggent_host.host", *converters} & nothing_waits


@pytest.mark.usefixtures("digest")
def test_saying_something_withdraws_what_waits_and_says_so(cli):
    done = cli("run", "--session", "s", "hello")

    assert "note: what waited for an approval here is withdrawn by this" in done.err
    assert cli("approvals").out == "nothing waits for an approval\n"
