import json
from pathlib import Path

import pytest
from cli_support import Cli
from fake_distributions import POLICY, install

MODEL = 'model = "offline/mine"\n'


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    (made.work / "pluggent.toml").write_text(MODEL)
    install(made.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": POLICY})
    install(made.site, "acme-tool", {"tools/a": "acme_tool:Plugin"})
    return made


def model(cli: Cli) -> str:
    """Return which model a turn is run with."""
    return json.loads(cli("run", "--json", "--without", "acme-policy,acme-tool", "hello").out)["model"]


def test_a_file_counts_once_it_was_accepted_and_until_it_changes(cli):
    before = model(cli)
    accepted = cli("trust")
    after = model(cli)
    (cli.work / "pluggent.toml").write_text(MODEL + 'system = "be brief"\n')

    assert (before, after) == ("offline/demo", "offline/mine")
    assert (accepted.code, accepted.out) == (0, f"accepted {cli.work / 'pluggent.toml'} as it is now\n")
    assert model(cli) == "offline/demo"
    assert "changed" in cli("trust", "--list").out


def test_what_was_accepted_can_be_listed_and_revoked(cli):
    assert cli("trust", "--list").out == "nothing was accepted yet\n"
    cli("trust")
    cli("trust", "--plugin", "acme-policy")

    listed = json.loads(cli("trust", "--list", "--json").out)["accepted"]
    revoked = cli("trust", "--revoke")

    assert [(one["kind"], one["state"]) for one in listed] == [("file", "accepted"), ("plugin", "accepted")]
    assert revoked.out == f"no longer accepted: {cli.work / 'pluggent.toml'}\n"
    assert cli("trust", "--revoke").out == f"{cli.work / 'pluggent.toml'} was not accepted anyway\n"
    assert cli("trust", "--revoke", "--plugin", "acme-policy").out == "no longer accepted: plugin 'acme-policy'\n"
    assert cli("trust", "--list").out == "nothing was accepted yet\n"


def test_a_file_that_is_broken_can_be_judged_all_the_same(cli):
    (cli.work / "pluggent.toml").write_text("= broken")

    assert cli("trust", "--list").code == 0
    assert cli("trust").code == 0


def test_another_version_of_a_package_is_asked_about_anew(cli):
    cli("trust", "--plugin", "acme-policy")
    accepted = cli("plugins").out
    metadata = cli.site / "acme_policy-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))

    assert "not accepted" not in accepted
    assert "not accepted" in cli("plugins").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["absent.toml"], "absent.toml: there is no such file"),
        (["--plugin", "acme-polcy"], "no plugin 'acme-polcy' is installed; did you mean 'acme-policy'?"),
        (["--plugin", "acme-tool"], "'acme-tool' has no hooks, so there is nothing to accept"),
        (["--plugin", "acme-policy", "pluggent.toml"], "accept a FILE or a --plugin, one at a time"),
        (["--list", "--revoke"], "--list goes with nothing else"),
    ],
)
def test_wrong_usage_is_said(cli, words, says):
    code, out, err = cli("trust", *words)

    assert (code, out) == (2, "")
    assert says in err


def test_our_own_plugins_need_no_acceptance(cli):
    assert (
        cli("trust", "--plugin", "pluggent-guard").out == "pluggent-guard is part of pluggent and needs no acceptance\n"
    )
