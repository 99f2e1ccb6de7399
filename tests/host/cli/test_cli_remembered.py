"""A plugin with hooks that ran before and is gone: nothing runs until somebody agrees."""

import shutil

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


def test_what_is_remembered_cannot_be_edited_away(cli):
    path = cli.state / "hooks.json"
    path.write_text(path.read_text().replace("acme-policy", "acme-other"))

    assert cli("run", "hello").code == 0  # it is there again, and remembered anew
    uninstall(cli)
    assert cli("run", "hello").code == 2
