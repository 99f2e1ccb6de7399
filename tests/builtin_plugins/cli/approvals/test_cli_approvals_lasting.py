"""Approvals beyond one call at the command line: for the session, always, for some arguments, with a key."""

import os
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli, Done, mailing, pause, requests
from each_of import each_of
from fake_distributions import policy


@pytest.fixture
def cli(tmp_path):
    return mailing(tmp_path)


@pytest.fixture
def digest(cli: Cli) -> str:
    return pause(cli)


@pytest.fixture
def key(cli: Cli) -> Path:
    """Make a key, write its holder ann into the user's settings, and return its file."""
    path = cli.work / "ann.key"
    settings = Path.home() / ".config" / "pluggent" / "pluggent.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(new_key(cli, "ann", path))
    return path


def new_key(cli: Cli, name: str, path: Path) -> str:
    """Make a key, and return the settings that name its holder."""
    done = cli("approvals", "new-key", name, str(path))
    assert done.code == 0, done
    return done.out.split("in the settings:\n")[1].replace("  ", "")


def approve(cli: Cli, reference: str, *words: str, **environ: Any) -> Done:
    return cli("approvals", "approve", "s", "--all", "--key", reference, *words, **environ)


def test_a_key_approves_without_a_terminal(cli, digest, key):
    done = cli("approvals", "approve", "s", digest, "--key", f"file:{key}")

    assert done.code == 0, done
    assert key.stat().st_mode & 0o777 == 0o600
    assert "sent to bob" in cli("resume", "s").out
    assert "approved by key:ann" in cli("explain", "s").out


@each_of(
    ("reference", "said"),
    [
        ("file:other.key", "--key: is not the key of any approver in [approvers] of the settings"),
        ("env:NOT_THERE", "env:NOT_THERE: the environment variable NOT_THERE is not set"),
        ("secret-itself", "--key: give it as env:NAME or file:PATH, never as itself"),
        ("file:short.key", "--key: is too short for a key; make one: pluggent approvals new-key NAME FILE"),
    ],
)
@pytest.mark.usefixtures("key")
def test_a_key_that_belongs_to_no_approver_approves_nothing(cli, digest, reference, said):
    for file, text in ((cli.work / "other.key", "x" * 64), (cli.work / "short.key", "x")):
        file.write_text(text)
        file.chmod(0o600)

    done = approve(cli, reference)

    assert (done.code, said in done.err) == (2, True), done
    assert "xxx" not in done.out + done.err
    assert requests(cli) == {"s offline-1-0": digest}


def test_a_key_that_others_can_read_or_write_approves_nothing(cli, digest, key):
    (cli.work / "link").symlink_to(key)
    for mode in (0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666):
        key.chmod(mode)
        done = approve(cli, f"file:{key}")

        assert done.code == 2
        assert f"{key}: is open to others (mode {mode:04o})" in done.err
        assert f"make a new key, or if no other user can have read it: chmod 600 {key}" in done.err
    done = approve(cli, "file:link")
    assert (done.code, "link: is open to others (mode 0666)" in done.err) == (2, True)
    assert requests(cli) == {"s offline-1-0": digest}

    key.chmod(0o600)
    assert approve(cli, f"file:{key}").code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.usefixtures("digest")
def test_a_key_that_belongs_to_another_user_approves_nothing(cli, key):
    os.chown(key, 12_345, -1)

    done = approve(cli, f"file:{key}")

    assert (done.code, f"{key}: belongs to user 12345, neither to you nor to root" in done.err) == (2, True)


@pytest.mark.usefixtures("digest")
def test_a_key_in_settings_that_were_not_accepted_approves_nothing(cli):
    path = cli.work / "own.key"
    (cli.work / "pluggent.toml").write_text(new_key(cli, "eve", path))

    done = approve(cli, f"file:{path}")

    assert (done.code, "is not the key of any approver" in done.err) == (2, True)


@pytest.mark.usefixtures("digest")
def test_with_a_key_too_nothing_is_approved_from_inside_of_a_host(cli, key):
    done = approve(cli, f"file:{key}", PLUGGENT_INSIDE="1")

    assert (done.code, "cannot be given from inside of what asks for it" in done.err) == (2, True)


def test_a_key_is_not_written_over_anything(cli):
    path = cli.work / "taken"
    path.write_text("precious")

    done = cli("approvals", "new-key", "ann", str(path))

    assert (done.code, path.read_text()) == (2, "precious")
    assert "cannot be made: File exists" in done.err


@pytest.mark.usefixtures("digest")
def test_always_holds_in_every_session_until_it_is_forgotten(cli, key):
    assert approve(cli, f"file:{key}", "--always", "--where", "to=b*").code == 0
    assert cli("resume", "s").code == 0

    assert cli("run", "--session", "t", "send_mail to=bill").out.count("sent to bill") == 1
    assert cli("run", "--session", "u", "send_mail to=ann").code == 6
    (kept,) = cli.document("approvals", "standing")["standing"]
    assert (kept["capability"], kept["where"], kept["by"]) == ("acme-mail:tool/send_mail", {"to": "b*"}, "key:ann")
    listed = cli("approvals", "standing").out
    assert "  where to is b*\n" in listed
    assert "  host asks: its effects are messaging\n" in listed

    assert cli("approvals", "forget", kept["id"]).code == 0
    assert cli("approvals", "standing").out == "nothing is approved beyond its session\n"
    assert cli("run", "--session", "v", "send_mail to=bill").code == 6
    done = cli("approvals", "forget", kept["id"])
    assert (done.code, f"no approval is called '{kept['id']}'" in done.err) == (1, True)


@each_of(
    ("reach", "options", "said", "shown"),
    [
        ("once", ["--always"], "can be approved for this call alone; leave --always out", ""),
        ("once", ["--for-session"], "can be approved for this call alone; leave --for-session out", ""),
        ("session", ["--always"], "can be approved for the session at most; leave --always out", " [--for-session]"),
        ("always", ["--always"], "", " [--for-session | --always]"),
        ("session", ["--for-session"], "", " [--for-session]"),
    ],
)
def test_an_approval_reaches_as_far_as_was_shown_or_is_refused(cli, key, reach, options, said, shown):
    cli.plugin("acme-ask", policy("decide_tool_call", f"Ask('why?', reach={reach!r})"), "hooks", accepted=True)
    digest = pause(cli)

    listed = cli("approvals", "show", "s")
    done = approve(cli, f"file:{key}", *options)

    assert f"\napprove: pluggent approvals approve s {digest}{shown}\n" in listed.err
    assert (done.code, bool(requests(cli))) == ((2, True) if said else (0, False))
    assert said in done.err
    assert said.partition(";")[0] in listed.out


@pytest.mark.usefixtures("digest")
def test_the_question_says_in_which_folder_an_approval_always_holds(cli):
    asked = f"Approve this, and the same asks in every session in {cli.work}? [y/N] "

    assert cli.talk("approvals", "approve", "s", "--all", "--always", keys=[asked, "y\n"], COLUMNS="400").code == 0

    cli("resume", "s")
    cli("run", "--session", "t", "send_mail to=ann")
    assert "approved before, for every session in this folder" in cli("explain", "t").out


def test_at_the_question_a_person_says_how_far_it_reaches(cli):
    for first, answer, later in (("s", "s", "s"), ("t", "a", "u")):
        done = cli.talk("run", "--session", first, "send_mail to=bob", keys=["a: always] ", f"{answer}\n"])

        assert done.code == 0
        assert "sent to ann" in cli("run", "--session", later, "send_mail to=ann").out
