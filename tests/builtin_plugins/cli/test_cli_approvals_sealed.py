"""At the command line too, a pause counts only as pluggent wrote it into this session."""

import json
from pathlib import Path

import pytest
from approving_support import mailing, pause, requests, sent
from cli_support import Cli

UNFIT = "the seal of the pause does not fit: it was changed"
GO_ON = "say again what is still wanted"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a command whose session ``s`` waits with a mail to eve, that was one to bob, and ``t`` with its own."""
    made = mailing(tmp_path)
    pause(made)
    pause(made, session="t")
    file = made.state / "sessions" / "s.jsonl"
    *lines, paused = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, paused.replace("bob", "eve")]))
    return made


def test_what_was_changed_is_listed_with_what_is_wrong_and_the_others_wait(cli):
    done, document = cli("approvals"), json.loads(cli("approvals", "--json").out)

    assert done.code == 0
    assert "warning: session 's' cannot continue where it stopped" in done.err
    assert UNFIT in " ".join(done.err.split())
    assert list(requests(cli)) == ["t offline-1-0"]
    (problem,) = document["problems"]
    assert (problem["session"], UNFIT in problem["problem"]) == ("s", True)
    assert problem["problem"].endswith(f"{GO_ON}: pluggent run --session s")


@pytest.mark.parametrize(
    "words", [("show", "s"), ("deny", "s", "--all"), ("approve", "s", "--all"), ("approve", "s", "offline-1-0")]
)
def test_nobody_looks_at_it_or_answers_it(cli, words):
    done = cli("approvals", *words)

    assert done.code == 1, done
    assert "session 's' cannot continue where it stopped" in done.err
    assert "eve" not in done.out + done.err


def test_expiry_tells_of_it_and_denies_the_others(cli):
    done = cli("approvals", "expire", "--older-than", "0s")

    assert done.code == 1
    assert "denied t  offline-1-0" in done.out
    assert UNFIT in " ".join(done.err.split())


def test_to_resume_it_ends_its_turn_and_the_session_goes_on(cli):
    done = cli("resume", "s")

    assert done.code == 1, done
    assert "session 's' has no turn that waits for a person any more" in done.err
    assert UNFIT in " ".join(done.err.split())
    assert sent(cli) == ""
    again = cli("run", "--session", "s", "hello")
    assert (again.code, UNFIT in again.err) == (0, False)
    assert "Denied: this call waited for an approval" in cli("sessions", "export", "s").out
    assert json.loads(cli("approvals", "--json").out)["problems"] == []


@pytest.mark.parametrize("command", ["run", "chat"])
def test_saying_something_else_goes_on_and_tells_of_it(cli, command):
    typed = {"run": ("run", "--session", "s", "hello"), "chat": ("chat", "--session", "s")}
    done = cli(*typed[command], stdin="hello\n")

    assert done.code == 0, done
    assert "a turn that waited for an approval has ended" in done.err
    assert UNFIT in " ".join(done.err.split())
    assert "hello" in cli("sessions", "export", "s").out
    assert sent(cli) == ""


def test_with_a_new_key_beside_the_sessions_nothing_that_waits_runs(cli):
    (cli.state / "sessions" / "approvals.json.key").write_bytes(b"x" * 32)

    assert requests(cli) == {}
    done = cli("resume", "t")
    assert (done.code, sent(cli)) == (1, "")
    assert "the key that seals was made anew" in " ".join(done.err.split())
