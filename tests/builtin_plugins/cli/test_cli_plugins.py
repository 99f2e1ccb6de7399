import json
from pathlib import Path

import pytest
from cli_support import Cli
from fake_distributions import POLICY, install

BROKEN = "import gone"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def states(cli: Cli, *words: str) -> dict[str, str]:
    """Return the state of every entry by its capability id."""
    listed = json.loads(cli("plugins", "--json", *words).out)["plugins"]
    return {one["capability"]: one["state"] for one in listed}


def test_our_own_plugins_are_available_and_in_order(cli):
    code, out, err = cli("plugins", PLUGGENT_BLOCK=None)
    lines = out.splitlines()

    assert (code, err) == (0, "")
    assert lines[0].split() == ["PLUGIN", "VERSION", "OFFERS", "STATE"]
    assert [line.split()[0] for line in lines[1:]] == sorted(line.split()[0] for line in lines[1:])
    assert ["pluggent-guard", "0.1.0", "hooks", "guard", "available"] in [line.split() for line in lines]


def test_every_state_has_its_reason_and_what_mends_it(cli):
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": POLICY})
    install(cli.site, "acme-old", {"tools/old": "acme_old:Plugin"}, requires=["pluggent-hookspecs<0.1"])
    install(cli.site, "acme-blocked", {"tools/blocked": "acme_blocked:Plugin"})

    out = cli("plugins", "--without", "acme-blocked").out

    assert (
        "not accepted\n    it has hooks, which see everything\n    to mend it: pluggent trust --plugin acme-policy\n"
        in out
    )
    assert "incompatible\n    needs pluggent-hookspecs <0.1, this host has 0.1.0\n" in out
    assert "    to mend it: pip install --upgrade acme-old\n" in out
    assert "blocked\n    blocked by [selection] block\n" in out


def test_settings_and_options_decide_about_states(cli):
    install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"})
    (cli.work / "allow.toml").write_text('[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n')

    assert states(cli)["acme-tool:tools/a"] == "available"
    assert states(cli, "--safe")["acme-tool:tools/a"] == "disallowed"
    assert states(cli, "--safe")["pluggent-openai:provider/openai"] == "available"
    assert states(cli, "--config", "allow.toml")["pluggent-openai:provider/openai"] == "disallowed"


def test_listing_loads_nothing_and_so_survives_every_broken_plugin(cli):
    install(cli.site, "acme-exit", {"tools/exit": "acme_exit:Plugin"}, modules={"acme_exit": "raise SystemExit(9)"})
    install(cli.site, "acme-hook", {"hooks/exit": "acme_exit:Plugin"})

    assert cli("plugins").code == 0
    assert cli("--help").code == 0
    assert cli("--version").code == 0


def test_a_plugin_that_failed_to_load_is_shown_as_failed_until_it_loads_again(cli):
    install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"}, modules={"acme_tool": BROKEN})
    before = states(cli)
    cli("tools")
    failed = cli("plugins").out
    mended = (
        "from pluggent_hookspecs import hookimpl\nclass Plugin:\n    @hookimpl\n    def provide_tools(self, event):\n"
    )
    (cli.site / "acme_tool.py").write_text(mended + "        return []\n")
    cli("run", "hello")

    assert before["acme-tool:tools/a"] == "available"
    assert "it could not be imported from a = acme_tool:Plugin" in " ".join(failed.split())
    assert "No module named 'gone'" in " ".join(failed.split())
    assert states(cli)["acme-tool:tools/a"] == "available"


def test_another_version_is_not_blamed_for_the_failure_of_the_last(cli):
    info = install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"}, modules={"acme_tool": BROKEN})
    cli("tools")
    metadata = info / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))

    assert states(cli)["acme-tool:tools/a"] == "available"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"acme-tool:tools/a": 1}', "[" * 9999])
def test_a_damaged_record_of_failures_is_as_good_as_none(cli, content):
    install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"})
    cli.state.mkdir(mode=0o700)
    (cli.state / "load-failures.json").write_text(content)

    assert states(cli)["acme-tool:tools/a"] == "available"


def test_one_plugin_is_shown_with_everything_about_it_but_its_settings_values(cli):
    rules = 'rules = [{action = "allow", tool = "weather"}]'
    (cli.work / "mine.toml").write_text(
        f'[grants]\nmay_allow = ["pluggent-guard"]\n[plugins.pluggent-guard]\n{rules}\n'
    )

    out = cli("plugins", "show", "guard", "--config", "mine.toml").out

    assert out.startswith("pluggent-guard 0.1.0  ")
    assert "  granted       may_allow\n" in out
    assert "  settings      rules (mine.toml, line 4)\n" in out
    assert "  pluggent-guard:hooks/guard = pluggent_guard.plugin:Guard  available\n" in out


def test_one_plugin_is_a_document_too(cli):
    document = json.loads(cli("plugins", "show", "pluggent-offline", "--json").out)

    assert [one["capability"] for one in document["plugins"]] == ["pluggent-offline:provider/offline"]


def test_what_could_not_be_read_is_told_beside_the_list(cli):
    info = install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"})
    (info / "METADATA").write_text("")

    code, out, err = cli("plugins")

    assert code == 0
    assert "acme-tool" not in out
    assert "is not valid metadata" in err


def test_the_text_of_metadata_cannot_steer_the_terminal(cli):
    install(cli.site, "acme-tool", {"tools/a": "acme_tool:Plugin"}, summary="nice\x1b[2J")

    assert "\x1b" not in cli("plugins", "show", "acme-tool").out
