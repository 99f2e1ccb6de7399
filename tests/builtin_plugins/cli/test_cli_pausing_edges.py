"""What is said, and what the model is to be asked, waits at the command line: shown, answered, gone on with."""

import json
from pathlib import Path

import pytest
from cli_support import PAUSED, Cli, approve, mailing, requests
from fake_distributions import install

ASKING = """
import os
from pluggent_hookspecs import Ask, hookimpl

class Plugin:
    @hookimpl
    def %s(self, event):
        return Ask("is this for everybody?")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return mailing(tmp_path)


def asking(cli: Cli, hook: str) -> None:
    modules = {"acme_edges": ASKING % hook}
    install(cli.site, "acme-edges", {"hooks/edges": "acme_edges:Plugin"}, modules=modules)
    cli("trust", "--plugin", "acme-edges")


def test_what_is_said_waits_is_shown_approved_and_said(cli):
    asking(cli, "decide_input")
    code, out, err = cli("run", "--session", "s", "hello \x1b[2J you")

    ((name, digest),) = requests(cli, whole=True).items()
    assert (code, out, name) == (PAUSED, "", "s t1")
    assert "paused: 1 request waiting for an approval\n  start a turn with: hello \\x1b[2J you\n" in err
    assert f"  input t1, request {digest}\n" in err
    assert err.endswith(f"approve: pluggent approvals approve s {digest[:16]} && pluggent resume s\n")
    _, shown, _ = cli("approvals", "show", "s")
    assert "what is said: input  (turn)\n" in shown
    assert '"text": "hello \\u001b[2J you"' in shown
    assert f"can be approved for this request alone\nin the folder {cli.work}\ninput t1, request {digest}\n" in shown
    assert cli("approvals").out.splitlines()[1].split()[-4:-1] == ["t1", "input", digest[:16]]
    document = json.loads(cli("approvals", "--json").out)["waiting"][0]["calls"][0]
    assert (document["kind"], json.loads(document["arguments"])["role"]) == ("input", "user")

    done = approve(cli, "s", "t1")
    assert (done.code, "approved t1  input" in done.out) == (0, True)
    code, out, err = cli("resume", "s")
    assert code == 0
    assert "offline stand-in" in out
    assert "is this for everybody?" in cli("explain", "s").out
    assert "approved by terminal:" in cli("explain", "s").out
    assert cli("approvals").out == "nothing waits for an approval\n"


def test_a_request_to_the_model_waits_and_a_denial_ends_the_turn(cli):
    asking(cli, "decide_model_request")
    code, out, _ = cli("run", "--session", "s", "--json", "hello")

    (pending,) = json.loads(out)["pending"]
    assert (code, pending["kind"], pending["call_id"]) == (PAUSED, "model_call", "t1.0")
    assert pending["arguments"]["messages"][-1]["content"][0]["text"] == "hello"
    assert "what is asked of the model" in cli("approvals", "show", "s").out
    assert cli("approvals", "deny", "s", "t1.0", "--reason", "not now").code == 0
    code, _, err = cli("resume", "s")
    assert (code, "denied: refused by" in err, "not now" in err) == (3, True, True)
    assert cli("run", "--session", "s", "again").code == PAUSED


def test_a_request_to_the_model_is_approved_and_sent(cli):
    asking(cli, "decide_model_request")
    cli("run", "--session", "s", "hello")
    approve(cli, "s", "--all")
    code, out, _ = cli("resume", "s")

    assert (code, "offline stand-in" in out) == (0, True)
    assert "model call" in cli("explain", "s").out
