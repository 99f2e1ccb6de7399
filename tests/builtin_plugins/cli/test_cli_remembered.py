"""A plugin with hooks that ran before and is gone: nothing runs until somebody agrees."""

import json
import shutil
import subprocess
import sys

import pytest
from cli_support import Cli
from fake_distributions import install

POLICY = """
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def decide_tool_call(self, event):
        return None
"""


@pytest.fixture
def cli(tmp_path) -> Cli:
    made = Cli(tmp_path)
    install(made.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": POLICY})
    assert made("trust", "--plugin", "acme-policy").code == 0
    assert made("run", "hello").code == 0
    return made


def uninstall(cli: Cli) -> None:
    shutil.rmtree(next(cli.site.glob("acme_policy-*.dist-info")))
    (cli.site / "acme_policy.py").unlink()


def test_nothing_runs_without_a_policy_that_ran_before_until_somebody_agrees(cli):
    uninstall(cli)

    for command in (("run", "hello"), ("chat",), ("tools", "call", "x")):
        done = cli(*command)
        assert done.code == 2, done
        assert "plugin 'acme-policy' has hooks and ran here before, and is not installed any more" in done.err
        assert "pluggent trust --revoke --plugin acme-policy" in done.err
    assert cli("plugins").code == cli("hooks").code == 0

    assert cli("trust", "--revoke", "--plugin", "acme-policy").code == 0
    assert cli("run", "hello").code == 0
    assert "was not accepted anyway" in cli("trust", "--revoke", "--plugin", "acme-policy").out


def test_a_policy_that_is_blocked_by_the_settings_is_not_missed(cli):
    assert cli("run", "--without", "acme-policy", "hello").code == 0
    assert cli("run", "hello").code == 0


def edited(text: str) -> str:
    return text.replace("acme-policy", "acme-other")


def emptied(text: str) -> str:
    document = json.loads(text)
    return json.dumps({**document, "records": []})


def without_records(text: str) -> str:
    return text.replace('"records"', '"record"')


def no_list(text: str) -> str:
    return '{"version": 1, "records": {}}'


def torn(text: str) -> str:
    return text[: len(text) // 2]


def nothing(text: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (edited, "was changed, or its key hooks.json.key was made anew or is gone"), (emptied, "it holds nothing"),
        (without_records, "it is not a list of records"), (no_list, "it is not a list of records"),
        (torn, "it is not JSON"), (nothing, "it is not JSON"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inside", [None, "1"])
def test_what_is_remembered_cannot_be_damaged_away(cli, spoil, why, inside):
    path = cli.state / "hooks.json"
    path.write_text(spoiled := spoil(path.read_text()))
    uninstall(cli)

    for command in (("run", "hello"), ("run", "--safe", "hello"), ("chat",), ("trust", "--revoke", "--plugin", "x")):
        done = cli(*command, PLUGGENT_INSIDE=inside)
        assert done.code == 2, done
        if inside is None or command[0] != "trust":
            assert f"{path}: is damaged ({'the record of' if spoil is edited else why}" in done.err
            assert f"{why}), so it is unknown which plugins with hooks ran here" in done.err
            assert f"put the file aside yourself: mv {path} {path}.damaged" in done.err
    assert path.read_text() == spoiled
    assert cli("plugins").code == 0

    path.rename(path.with_name("hooks.json.damaged"))
    assert cli("run", "hello").code == 0


@pytest.mark.parametrize("how", ["gone", "other"])
def test_what_is_remembered_is_not_believed_without_its_key(cli, how):
    key = cli.state / "hooks.json.key"
    key.unlink() if how == "gone" else key.write_bytes(b"x" * 32)

    done = cli("run", "hello")

    assert done.code == 2
    assert "its key hooks.json.key was made anew or is gone" in done.err


def test_what_cannot_be_read_is_not_taken_for_nothing(cli):
    path = cli.state / "hooks.json"
    path.unlink()
    path.mkdir()

    done = cli("run", "hello")

    assert done.code == 2
    assert f"{path}: cannot be read" in done.err


@pytest.mark.parametrize("how", ["torn", "folder", "whole"])
def test_the_doctor_tells_of_it(cli, how):
    path = cli.state / "hooks.json"
    if how == "torn":
        path.write_text(torn(path.read_text()))
    elif how == "folder":
        path.unlink()
        path.mkdir()

    checks = json.loads(cli("doctor", "--json").out)["checks"]

    told = [(check["state"], check["mend"]) for check in checks if "hooks.json" in check["text"]]
    mends = {"torn": [("problem", f"mv {path} {path}.damaged")], "folder": [("problem", "")], "whole": []}
    assert told == mends[how]


def test_nothing_that_a_host_runs_can_agree_that_a_policy_is_gone(cli):
    uninstall(cli)

    for words in (("--revoke", "--plugin", "acme-policy"), ("--plugin", "acme-policy"), ()):
        done = cli("trust", *words, PLUGGENT_INSIDE="1")
        assert done.code == 2
        assert "cannot be given from inside of what asks for it" in done.err
    assert cli("run", "hello").code == 2
    assert cli("trust", "--list", PLUGGENT_INSIDE="1").code == 0


DIES = """
import os, sys
from pathlib import Path
from pluggent_cli.config.known_hook_plugins import Remembered
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)  # the power goes in the middle of it
Remembered(Path(sys.argv[1]), sys.prefix).add(["acme-more"])
"""
FULL = """
import resource, signal, sys
from pathlib import Path
from pluggent_cli.config.known_hook_plugins import Remembered
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
Remembered(Path(sys.argv[1]), sys.prefix).add(["acme-more"])
"""


@pytest.mark.parametrize("source", [DIES, FULL])
def test_what_is_remembered_is_written_whole_or_not_at_all(cli, source):
    path = cli.state / "hooks.json"
    before = path.read_bytes()

    done = subprocess.run([sys.executable, "-c", source, str(cli.state)], check=False, timeout=30, capture_output=True)  # noqa: S603 (ours)

    assert done.returncode != 0
    assert path.read_bytes() == before
    assert cli("run", "hello").code == 0
