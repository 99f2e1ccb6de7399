"""A plugin with hooks that ran before and is gone: nothing runs until its loss is accepted."""

import json
import shutil
import subprocess
import sys

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import POLICY


@pytest.fixture
def cli(cli):
    cli.plugin("acme-policy", POLICY, "hooks", accepted=True)
    assert cli("run", "hello").code == 0
    return cli


@pytest.fixture
def gone(cli: Cli) -> Cli:
    """Return the command after the policy was uninstalled."""
    shutil.rmtree(next(cli.site.glob("acme_policy-*.dist-info")))
    (cli.site / "acme_policy.py").unlink()
    return cli


def test_nothing_runs_without_a_policy_that_ran_before_until_its_loss_is_accepted(gone):
    for command in ("run hello", "chat", "tools call x"):
        done = gone(*command.split())
        assert done.code == 2, done
        assert "plugin 'acme-policy' has hooks and ran here before, and is not installed any more" in done.err
        assert "pluggent trust --revoke --plugin acme-policy" in done.err
    assert gone("plugins").code == gone("hooks").code == 0

    assert gone("trust", "--revoke", "--plugin", "acme-policy").code == 0
    assert gone("run", "hello").code == 0
    assert "was not accepted anyway" in gone("trust", "--revoke", "--plugin", "acme-policy").out


def test_a_policy_that_is_blocked_by_the_settings_is_not_missed(cli):
    assert cli("run", "--without", "acme-policy", "hello").code == 0
    assert cli("run", "hello").code == 0


CHANGED = "was changed, or its key hooks.json.key was made anew or is gone"
NO_LIST = "it is not a list of records"


@each_of(
    ("spoil", "why"),
    [
        (lambda text: text.replace("acme-policy", "acme-other"), CHANGED),
        (lambda text: json.dumps({**json.loads(text), "records": []}), "it holds nothing"),
        (lambda text: text.replace('"records"', '"record"'), NO_LIST),
        (lambda _: '{"version": 1, "records": {}}', NO_LIST),
        (lambda text: text[: len(text) // 2], "it is not JSON"),
        (lambda _: "", "it is not JSON"),
    ],
    ids=["edited", "emptied", "without records", "no list", "torn", "nothing"],
)
def test_what_is_remembered_cannot_be_damaged_away(gone, spoil, why):
    path = gone.state / "hooks.json"
    was = path.read_text()
    path.write_text(spoiled := spoil(was))
    try:
        for words in ("run hello", "run --safe hello", "chat", "trust --revoke --plugin x"):
            done = gone(*words.split())
            assert done.code == 2, done
            assert f"{path}: is damaged ({'the record of' if why is CHANGED else why}" in done.err
            assert f"{why}), so it is unknown which plugins with hooks ran here" in done.err
            assert f"put the file aside yourself: mv {path} {path}.damaged" in done.err
            assert gone(*words.split(), PLUGGENT_INSIDE="1").code == 2
        assert path.read_text() == spoiled
        assert gone("plugins").code == 0

        path.unlink()
        assert gone("run", "hello").code == 0
    finally:
        path.write_text(was)


@pytest.mark.parametrize("how", ["gone", "other"])
def test_what_is_remembered_is_not_believed_without_its_key(cli, how):
    key = cli.state / "hooks.json.key"
    key.unlink() if how == "gone" else key.write_bytes(b"x" * 32)

    done = cli("run", "hello")

    assert (done.code, "its key hooks.json.key was made anew or is gone" in done.err) == (2, True)


def test_what_cannot_be_read_is_not_taken_for_nothing(cli):
    path = cli.state / "hooks.json"
    path.unlink()
    path.mkdir()

    done = cli("run", "hello")

    assert (done.code, f"{path}: cannot be read" in done.err) == (2, True)


def test_nothing_that_a_host_runs_can_agree_that_a_policy_is_gone(gone):
    for words in (("--revoke", "--plugin", "acme-policy"), ("--plugin", "acme-policy"), ()):
        done = gone("trust", *words, PLUGGENT_INSIDE="1")
        assert (done.code, "cannot be given from inside of what asks for it" in done.err) == (2, True)
    assert gone("run", "hello").code == 2
    assert gone("trust", "--list", PLUGGENT_INSIDE="1").code == 0


DIES = "os.fsync = lambda descriptor: os.kill(os.getpid(), 9)  # the power goes in the middle of it"
FULL = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))"
PROGRAM = """
import os, resource, signal, sys
from pathlib import Path
from pluggent_cli.trust.known_hook_plugins import Remembered
{how}
Remembered(Path(sys.argv[1]), sys.prefix).add(["acme-more"])
"""


@pytest.mark.parametrize("how", [DIES, FULL])
def test_what_is_remembered_is_written_whole_or_not_at_all(cli, how):
    path = cli.state / "hooks.json"
    before = path.read_bytes()

    command = [sys.executable, "-c", PROGRAM.format(how=how), str(cli.state)]
    done = subprocess.run(command, check=False, timeout=30, capture_output=True)  # noqa: S603 (ours)

    assert done.returncode != 0
    assert path.read_bytes() == before
    assert cli("run", "hello").code == 0
