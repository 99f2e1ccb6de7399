"""A call that needs approval waits, is answered from another process, and the turn goes on."""

import json
from pathlib import Path

import pytest
from approving_support import PAUSED, approve, mailing, pause, requests, sent
from cli_support import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return mailing(tmp_path)


# ---- the whole story --------------------------------------------------------------------


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
    code, out, _ = cli("run", "--session", "s", "--json", "send_mail to=bob")

    document = json.loads(out)
    (digest,) = requests(cli, whole=True).values()
    assert (code, document["why"], document["exit_code"]) == (PAUSED, "paused", PAUSED)
    assert document["pending"] == [
        {
            "call_id": "offline-1-0", "tool": "send_mail", "capability": "acme-mail:tool/send_mail",
            "arguments": {"to": "bob"}, "kind": "tool_call", "digest": digest,
            "asks": [{"plugin": "host", "why": "its effects are messaging"}],
        }
    ]  # fmt: skip
    assert json.loads(cli("resume", "--json", "s").out)["pending"] == document["pending"]


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
    done = approve(cli, "s", "--all", question="Approve these 2 calls? [y/N] ")

    assert done.code == 0
    assert cli("resume", "s").code == 0
    assert sent(cli) == "bob;eve;"


def test_an_approval_for_the_session_answers_the_same_ask_later(cli):
    digest = pause(cli)
    approve(
        cli, "s", digest, "--for-session",
        question="Approve this, and the same asks for the rest of the session? [y/N] ",
    )  # fmt: skip
    cli("resume", "s")

    assert cli("run", "--session", "s", "send_mail to=eve").code == 0
    assert sent(cli) == "bob;eve;"
    assert cli("run", "--session", "other", "send_mail to=eve").code == PAUSED


def test_at_a_terminal_resume_asks_for_what_is_still_open(cli):
    pause(cli)
    with cli.at_terminal("resume", "s", "--color", "never") as terminal:
        terminal.wait_for("Allow this once? [y/N, or s: its like in this session, a: always] ")
        terminal.type("y\n")
        done = terminal.end()

    assert (done.code, sent(cli)) == (0, "bob;")
    assert "approved by you" in done.out


def test_resume_works_in_the_folder_of_the_turn(cli, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pause(cli)
    document = json.loads(cli("approvals", "--json").out)
    assert document["waiting"][0]["calls"][0]["workspace"] == str(cli.work)
    moved = tmp_path / "moved"
    cli.work.rename(moved)
    cli.work = moved

    code, _, err = cli("resume", "s")
    assert (code, err) == (
        2, f"error: --workspace: the turn worked in {tmp_path}/work, which is not a folder; name another one\n",
    )  # fmt: skip
    assert cli("resume", "s", "--workspace", str(elsewhere)).code == PAUSED


# ---- expiry and settings ----------------------------------------------------------------


def test_what_nobody_answers_expires(cli):
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


def test_settings_that_say_pause_ask_nobody_at_a_terminal(cli):
    with cli.at_terminal("run", "send_mail to=bob", PLUGGENT_ON_ASK="pause") as terminal:
        done = terminal.end()

    assert "Allow this once?" not in done.out
    assert done.code == PAUSED


def test_the_line_that_goes_on_names_what_decides_about_plugins(cli):
    (cli.work / "own settings.toml").write_text("")
    words = ("--config", "own settings.toml", "--tool", "send_mail", "--without", "pluggent-weather")
    err = cli("run", "--session", "s", *words, "send_mail to=bob").err

    assert err.splitlines()[-1].endswith(
        f" && pluggent resume s --config '{cli.work}/own settings.toml' --without pluggent-weather --tool send_mail"
    )
