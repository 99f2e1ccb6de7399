"""A turn that waits for an approval: shown, answered from another process, resumed."""

import json
import os

import pytest
from cli_support import PAUSED, Cli, approve, mailing, pause, requests, sent
from fake_distributions import policy
from pluggent_cli.host_access import system_user
from screens import Screen, install_speaker

ASKS = 'Ask("is this for everybody?")'


@pytest.fixture
def cli(tmp_path):
    return mailing(tmp_path)


# ---- calls ------------------------------------------------------------------------------


def test_a_run_in_a_pipe_pauses_is_approved_at_a_terminal_and_goes_on(cli):
    code, out, err = cli("run", "--session", "s", "send_mail to=bob & weather city=Paris")

    digest = requests(cli, whole=True)["s offline-1-0"]
    assert (code, out, sent(cli)) == (PAUSED, "", "")
    assert err.endswith(
        "paused: 1 call waiting for an approval\n"
        "  call send_mail  (acme-mail:tool/send_mail, effects: messaging)\n"
        '  {\n    "to": "bob"\n  }\n'
        "  host asks: its effects are messaging\n"
        f"  call offline-1-0, request {digest}\n"
        f"approve: pluggent approvals approve s {digest[:16]} && pluggent resume s\n"
    )
    done = approve(cli, "s", digest[:16])
    assert (done.code, sent(cli)) == (0, "")
    assert '  call send_mail  (acme-mail:tool/send_mail)\n  {\n    "to": "bob"\n  }\n' in done.out
    assert f"  in the folder {cli.work}\n" in done.out
    assert done.out.endswith("approved offline-1-0  send_mail\ncontinue: pluggent resume s\n")

    code, out, err = cli("resume", "s")
    assert (code, sent(cli)) == (0, "bob;")
    assert out == "send_mail: sent to bob\nweather: 32 °C, light rain in Paris (sample data)\n"
    assert "approved by you" in err
    assert cli("approvals") == (0, "nothing waits for an approval\n", "")
    assert cli("resume", "s") == (1, "", "error: session 's' has no turn that waits for a person\n")


def test_json_carries_what_waits(cli):
    document = cli.document("run", "--session", "s", "send_mail to=bob")

    (digest,) = requests(cli, whole=True).values()
    assert (document["why"], document["exit_code"]) == ("paused", PAUSED)
    assert document["pending"] == [
        {
            "call_id": "offline-1-0", "tool": "send_mail", "capability": "acme-mail:tool/send_mail",
            "arguments": {"to": "bob"}, "kind": "tool_call", "digest": digest,
            "asks": [{"plugin": "host", "why": "its effects are messaging"}],
        }
    ]  # fmt: skip
    assert cli.document("resume", "s")["pending"] == document["pending"]


def test_a_denial_needs_no_terminal_and_the_model_reads_why(cli):
    digest = pause(cli)

    assert cli("approvals", "deny", "s", digest, "--reason", "not today").out == "denied offline-1-0  send_mail\n"
    code, out, _ = cli("resume", "s")
    assert (code, sent(cli)) == (0, "")
    assert "a person refused this: not today" in out


def test_each_call_is_answered_by_itself_and_resume_pauses_for_the_rest(cli):
    pause(cli, "bob", "eve")
    first, second = requests(cli).values()
    approve(cli, "s", first)

    code, _, err = cli("resume", "s")
    assert (code, sent(cli)) == (PAUSED, "bob;")
    assert f"pluggent approvals approve s {second} && pluggent resume s\n" in err
    cli("approvals", "deny", "s", "offline-1-1")
    assert (cli("resume", "s").code, sent(cli)) == (0, "bob;")


def test_all_calls_can_be_approved_at_once(cli):
    pause(cli, "bob", "eve")

    assert approve(cli, "s", "--all", question="Approve these 2 calls? [y/N] ").code == 0
    assert (cli("resume", "s").code, sent(cli)) == (0, "bob;eve;")


def test_an_approval_for_the_session_answers_the_same_ask_later(cli):
    question = "Approve this, and the same asks for the rest of the session? [y/N] "
    approve(cli, "s", pause(cli), "--for-session", question=question)
    cli("resume", "s")

    assert cli("run", "--session", "s", "send_mail to=eve").code == 0
    assert sent(cli) == "bob;eve;"
    assert cli("run", "--session", "other", "send_mail to=eve").code == PAUSED


def test_at_a_terminal_resume_asks_for_what_is_still_open(cli):
    pause(cli)
    question = "Allow this once? [y/N, or s: similar calls in this session too, a: always] "
    done = cli.talk("resume", "s", "--color", "never", keys=[question, "y\n"])

    assert (done.code, sent(cli), "approved by you" in done.out) == (0, "bob;", True)


def test_resume_works_in_the_folder_of_the_turn(cli, tmp_path):
    elsewhere, moved = tmp_path / "elsewhere", tmp_path / "moved"
    elsewhere.mkdir()
    pause(cli)
    assert cli.document("approvals")["waiting"][0]["calls"][0]["workspace"] == str(cli.work)
    cli.work.rename(moved)
    cli.work = moved

    missing = f"error: --workspace: the turn worked in {tmp_path}/work, which is not a folder; name another one\n"
    assert cli("resume", "s") == (2, "", missing)
    assert cli("resume", "s", "--workspace", str(elsewhere)).code == PAUSED


# ---- inputs and requests to the model ---------------------------------------------------


def test_an_input_waits_is_shown_approved_and_said(cli):
    cli.plugin("acme-edges", policy("decide_input", ASKS), "hooks", accepted=True)
    code, out, err = cli("run", "--session", "s", "hello \x1b[2J you")

    ((name, digest),) = requests(cli, whole=True).items()
    assert (code, out, name) == (PAUSED, "", "s t1")
    assert "paused: 1 request waiting for an approval\n  start a turn with: hello \\x1b[2J you\n" in err
    assert f"  input t1, request {digest}\n" in err
    assert err.endswith(f"approve: pluggent approvals approve s {digest[:16]} && pluggent resume s\n")
    shown = cli("approvals", "show", "s").out
    assert "what is said: input  (turn)\n" in shown
    assert '"text": "hello \\u001b[2J you"' in shown
    who = f"asked for by {system_user()}\nin the folder {cli.work}\n"
    assert f"can be approved for this request alone\n{who}input t1, request {digest}\n" in shown
    assert cli("approvals").out.splitlines()[1].split()[-4:-1] == ["t1", "input", digest[:16]]
    document = cli.document("approvals")["waiting"][0]["calls"][0]
    assert (document["kind"], json.loads(document["arguments"])["role"]) == ("input", "user")

    done = approve(cli, "s", "t1")
    assert (done.code, "approved t1  input" in done.out) == (0, True)
    code, out, _ = cli("resume", "s")
    assert (code, "offline stand-in" in out) == (0, True)
    explained = cli("explain", "s").out
    assert "is this for everybody?" in explained
    assert "approved by terminal:" in explained
    assert cli("approvals").out == "nothing waits for an approval\n"


def test_a_request_to_the_model_waits_and_a_denial_ends_the_turn(cli):
    cli.plugin("acme-edges", policy("decide_model_request", ASKS), "hooks", accepted=True)
    document = cli.document("run", "--session", "s", "hello")

    (pending,) = document["pending"]
    assert (document["exit_code"], pending["kind"], pending["call_id"]) == (PAUSED, "model_call", "t1.0")
    assert pending["arguments"]["messages"][-1]["content"][0]["text"] == "hello"
    assert "what is asked of the model" in cli("approvals", "show", "s").out
    assert cli("approvals", "deny", "s", "t1.0", "--reason", "not now").code == 0
    code, _, err = cli("resume", "s")
    assert (code, "denied: refused by" in err, "not now" in err) == (3, True, True)

    assert cli("run", "--session", "s", "again").code == PAUSED
    approve(cli, "s", "--all")
    code, out, _ = cli("resume", "s")
    assert (code, "offline stand-in" in out) == (0, True)
    assert "model call" in cli("explain", "s").out


# ---- expiry and settings ----------------------------------------------------------------


def test_an_unanswered_call_expires(cli):
    digest = pause(cli)
    assert cli("approvals", "expire").out == "nothing has waited that long\n"
    code, out, _ = cli("approvals", "expire", "--older-than", "0s")

    assert (code, out.startswith("denied s  offline-1-0  send_mail  (since ")) == (0, True)
    assert digest not in requests(cli).values()
    assert "it expired: it was not answered in time" in cli("resume", "s").out


def test_settings_that_say_deny_and_sessions_that_are_not_saved_deny(cli):
    assert cli("run", "send_mail to=bob", PLUGGENT_ON_ASK="deny").code == 3
    assert cli("run", "--no-save", "send_mail to=bob").code == 3
    assert cli("run", "send_mail to=bob", PLUGGENT_ON_ASK="console").code == PAUSED


def test_settings_that_say_pause_do_not_ask_at_a_terminal(cli):
    done = cli.talk("run", "send_mail to=bob", keys=[], PLUGGENT_ON_ASK="pause")

    assert (done.code, "Allow this once?" in done.out) == (PAUSED, False)


def test_the_line_that_goes_on_names_what_decides_about_plugins(cli):
    (cli.work / "own settings.toml").write_text("")
    words = ("--config", "own settings.toml", "--tool", "send_mail", "--without", "pluggent-weather")
    err = cli("run", "--session", "s", *words, "send_mail to=bob").err

    assert err.splitlines()[-1].endswith(
        f" && pluggent resume s --config '{cli.work}/own settings.toml' --without pluggent-weather --tool send_mail"
    )


# ---- the answer of a resumed turn -------------------------------------------------------


@pytest.fixture
def approved(tmp_path_factory) -> Cli:
    """Return a command whose session ``s`` continues with an answer that is in the file ``words``."""
    made = Cli(tmp_path_factory.mktemp("speaking"))
    install_speaker(made.site)
    assert made("run", "-m", "speaker/x", "--session", "s", 'read call send_mail {"to":"bob"}').code == PAUSED
    approve(made, "s", "--all")
    return made


def test_the_answer_of_a_resumed_turn_is_on_the_screen_before_it_is_whole(approved):
    os.mkfifo(approved.work / "words")
    with approved.at_terminal("resume", "s") as terminal, (approved.work / "words").open("w") as model:
        model.write("# Title\n\nSome *half of")
        model.flush()
        terminal.then("Title")
        terminal.then("Some *half")
        model.write(" it* text\n")
        model.close()
        done = terminal.end()

    screen = Screen(100, 40)
    screen.feed(done.out)
    assert (done.code, sent(approved)) == (0, "bob\n")
    assert "Title\n\nSome half of it text" in screen.text


@pytest.mark.parametrize("words", ["resume s", "resume --no-stream s"])
def test_the_answer_of_a_resumed_turn_in_a_pipe_is_what_the_model_wrote(approved, words):
    (approved.work / "words").write_text("**bold**\n")

    assert approved(*words.split())[:2] == (0, "**bold**\n")


def test_a_resumed_turn_is_one_document(approved):
    (approved.work / "words").write_text("done")

    document = approved.document("resume", "s")

    assert (document["why"], document["text"]) == ("completed", "done")
    assert [call["tool"] for call in document["tool_calls"]] == ["send_mail"]
