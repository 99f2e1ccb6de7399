"""Approvals beyond one call at the command line: for the session, always, for some arguments, with a key."""

import json
import os
from pathlib import Path

import pytest
from cli_support import Cli, mailing, pause, requests


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return mailing(tmp_path)


@pytest.fixture
def digest(cli) -> str:
    return pause(cli)


def make_key(cli, name: str = "ann") -> Path:
    """Make a key and write its holder into the user's settings; return its file."""
    path = cli.work / f"{name}.key"
    done = cli("approvals", "new-key", name, str(path))
    assert done.code == 0, done
    settings = Path.home() / ".config" / "pluggent" / "pluggent.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    made = done.out.split("in the settings:\n")[1]
    settings.write_text((settings.read_text() if settings.exists() else "") + made.replace("  ", ""))
    return path


def test_a_key_approves_where_nobody_is_at_a_terminal(cli, digest):
    path = make_key(cli)

    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}")

    assert done.code == 0, done
    assert path.stat().st_mode & 0o777 == 0o600
    assert "sent to bob" in cli("resume", "s").out
    assert "approved by key:ann" in cli("explain", "s").out


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("file:{other}", "--key: is not the key of any approver in [approvers] of the settings"),
        ("env:NOT_THERE", "env:NOT_THERE: the environment variable NOT_THERE is not set"),
        ("secret-itself", "--key: give it as env:NAME or file:PATH, never as itself"),
        ("file:{short}", "--key: is too short for a key; make one: pluggent approvals new-key NAME FILE"),
    ],
)
def test_a_key_that_is_nobodys_approves_nothing(cli, digest, key, said):
    make_key(cli)
    other, short = cli.work / "other.key", cli.work / "short.key"
    for file, text in ((other, "x" * 64), (short, "x")):
        file.write_text(text)
        file.chmod(0o600)

    done = cli("approvals", "approve", "s", digest, "--key", key.format(other=other, short=short))

    assert done.code == 2
    assert said in done.err
    assert "xxx" not in done.out + done.err
    assert requests(cli) == {"s offline-1-0": digest}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_key_that_others_can_read_or_write_approves_nothing(cli, digest, mode):
    path = make_key(cli)
    path.chmod(mode)

    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}")

    assert done.code == 2
    assert f"{path}: is open to others (mode {mode:04o})" in done.err
    assert f"make a new key, or if no other user can have read it: chmod 600 {path}" in done.err
    assert requests(cli) == {"s offline-1-0": digest}
    path.chmod(0o600)
    assert cli("approvals", "approve", "s", digest, "--key", f"file:{path}").code == 0


def test_a_key_that_is_open_to_others_is_none_by_another_name_either(cli, digest):
    path = make_key(cli)
    path.chmod(0o644)
    (cli.work / "link").symlink_to(path)

    done = cli("approvals", "approve", "s", digest, "--key", "file:link")

    assert (done.code, "link: is open to others (mode 0644)" in done.err) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_that_belongs_to_somebody_else_approves_nothing(cli, digest):
    path = make_key(cli)
    os.chown(path, 12_345, -1)

    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}")

    assert done.code == 2
    assert f"{path}: belongs to user 12345, neither to you nor to root" in done.err


def test_a_key_in_settings_that_nobody_has_accepted_is_nobodys(cli, digest):
    path = cli.work / "own.key"
    made = cli("approvals", "new-key", "eve", str(path)).out.split("in the settings:\n")[1]
    (cli.work / "pluggent.toml").write_text(made.replace("  ", ""))

    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}")

    assert done.code == 2
    assert "is not the key of any approver" in done.err


def test_with_a_key_too_nothing_is_approved_from_inside_of_a_host(cli, digest):
    path = make_key(cli)

    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}", PLUGGENT_INSIDE="1")

    assert done.code == 2
    assert "cannot be given from inside of what asks for it" in done.err


def test_a_key_is_not_written_over_anything(cli):
    path = cli.work / "taken"
    path.write_text("precious")

    done = cli("approvals", "new-key", "ann", str(path))

    assert (done.code, path.read_text()) == (2, "precious")
    assert "cannot be made: File exists" in done.err


def test_always_holds_in_every_session_until_it_is_forgotten(cli, digest):
    path = make_key(cli)
    done = cli("approvals", "approve", "s", digest, "--key", f"file:{path}", "--always", "--where", "to=b*")
    assert done.code == 0, done
    assert cli("resume", "s").code == 0

    assert cli("run", "--session", "t", "send_mail to=bill").out.count("sent to bill") == 1
    assert cli("run", "--session", "u", "send_mail to=ann").code == 6
    (kept,) = json.loads(cli("approvals", "standing", "--json").out)["standing"]
    assert (kept["capability"], kept["where"], kept["by"]) == ("acme-mail:tool/send_mail", {"to": "b*"}, "key:ann")
    listed = cli("approvals", "standing").out
    assert "  where to is b*\n" in listed
    assert "  host asks: its effects are messaging\n" in listed

    assert cli("approvals", "forget", kept["id"]).code == 0
    assert cli("approvals", "standing").out == "nothing is approved beyond its session\n"
    assert cli("run", "--session", "v", "send_mail to=bill").code == 6
    done = cli("approvals", "forget", kept["id"])
    assert (done.code, f"no approval is called '{kept['id']}'" in done.err) == (1, True)


def test_at_the_question_a_person_says_how_far_it_reaches(cli):
    with cli.at_terminal("run", "--session", "s", "send_mail to=bob") as terminal:
        terminal.wait_for("a: always] ")
        terminal.type("s\n")
        done = terminal.end()
    assert done.code == 0
    assert "sent to ann" in cli("run", "--session", "s", "send_mail to=ann").out
    with cli.at_terminal("run", "--session", "t", "send_mail to=bob") as terminal:
        terminal.wait_for("a: always] ")
        terminal.type("a\n")
        done = terminal.end()
    assert done.code == 0
    assert "sent to ann" in cli("run", "--session", "u", "send_mail to=ann").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["approve", "s", "--all", "--for-session", "--always"], "give --for-session or --always, not both"),
        (["approve", "s", "--all", "--where", "to=b"], "--where goes with --for-session or --always"),
        (["approve", "s", "--all", "--always", "--where", "to"], "--where: expected NAME=PATTERN, got 'to'"),
        (["approve", "s", "--all", "--always", "--where", "to=*a*b*"], "has more than 2 stars"),
        (["approve", "s", "--all", "--always", "--where", "to=a", "--where", "to=b"], "is given twice"),
        (["deny", "s", "--all", "--always"], "takes no --always"),
        (["deny", "s", "--all", "--key", "env:X"], "takes no --key"),
        (["standing", "x"], "takes no name, got 'x'"),
        (["forget"], "needs a NAME"),
        (["new-key", "x"], "needs a NAME and a FILE"),
    ],
)
def test_what_goes_together_is_said(cli, digest, words, said):
    done = cli("approvals", *words)

    assert done.code == 2
    assert said in done.err
