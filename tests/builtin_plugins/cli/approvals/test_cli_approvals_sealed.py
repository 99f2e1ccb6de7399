"""At the command line too, a pause counts only as pluggent wrote it into this session."""

import pytest
from cli_support import Done, mailing, pause, requests, sent
from each_of import each_of

UNFIT = "the seal of the pause does not fit: it was changed"
GO_ON = "say again what is still wanted"


@pytest.fixture
def cli(tmp_path):
    """Return a command whose session ``s`` waits with a mail to eve, that was one to bob, and ``t`` with its own."""
    made = mailing(tmp_path)
    pause(made)
    pause(made, session="t")
    file = made.state / "sessions" / "s.jsonl"
    *lines, paused = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines, paused.replace("bob", "eve")]))
    return made


def unfit(done: Done) -> bool:
    """Tell whether it was said that the seal does not fit."""
    return UNFIT in " ".join(done.err.split())


def test_what_was_changed_is_listed_with_what_is_wrong_and_the_others_wait(cli):
    done = cli("approvals")

    assert (done.code, unfit(done)) == (0, True)
    assert "warning: session 's' cannot continue where it stopped" in done.err
    assert list(requests(cli)) == ["t offline-1-0"]
    (problem,) = cli.document("approvals")["problems"]
    assert (problem["session"], UNFIT in problem["problem"]) == ("s", True)
    assert problem["problem"].endswith(f"{GO_ON}: pluggent run --session s")


@each_of("words", ["show s", "deny s --all", "approve s --all", "approve s offline-1-0"])
def test_it_is_neither_shown_nor_answered(cli, words):
    done = cli("approvals", *words.split())

    assert (done.code, "session 's' cannot continue where it stopped" in done.err) == (1, True), done
    assert "eve" not in done.out + done.err


def test_expiry_names_it_and_denies_the_others(cli):
    done = cli("approvals", "expire", "--older-than", "0s")

    assert (done.code, unfit(done)) == (1, True)
    assert "denied t  offline-1-0" in done.out


def test_to_resume_it_ends_its_turn_and_the_session_goes_on(cli):
    done = cli("resume", "s")

    assert (done.code, unfit(done), sent(cli)) == (1, True, ""), done
    assert "session 's' has no turn that waits for a person any more" in done.err
    again = cli("run", "--session", "s", "hello")
    assert (again.code, unfit(again)) == (0, False)
    assert "Denied: this call waited for an approval" in cli("sessions", "export", "s").out
    assert cli.document("approvals")["problems"] == []


@pytest.mark.parametrize("words", ["run --session s hello", "chat --session s"])
def test_saying_something_else_goes_on_and_reports_it(cli, words):
    done = cli(*words.split(), stdin="hello\n")

    assert (done.code, unfit(done), sent(cli)) == (0, True, ""), done
    assert "a turn that waited for an approval has ended" in done.err
    assert "hello" in cli("sessions", "export", "s").out
