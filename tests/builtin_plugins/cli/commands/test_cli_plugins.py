"""``pluggent plugins``: what is installed, its state, why, and what mends it."""

from cli_support import Cli
from each_of import each_of
from fake_distributions import POLICY, install

BROKEN = "import gone"
WORKS = """
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return []
"""


def states(cli: Cli, *words: str) -> dict[str, str]:
    """Return the state of every entry by its capability id."""
    return {one["capability"]: one["state"] for one in cli.document("plugins", *words)["plugins"]}


def test_our_own_plugins_are_available_and_in_order(cli):
    code, out, err = cli("plugins", PLUGGENT_BLOCK=None)
    head, *rows = [line.split() for line in out.splitlines()]

    assert (code, err, head) == (0, "", ["PLUGIN", "VERSION", "OFFERS", "STATE"])
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert ["pluggent-guard", "0.1.0", "hooks", "guard", "available"] in rows


def test_every_state_has_its_reason_and_what_mends_it(cli):
    cli.plugin("acme-policy", POLICY, "hooks")
    cli.plugin("acme-old", requires=["pluggent-hookspecs<0.1"])
    cli.plugin("acme-blocked")

    out = cli("plugins", "--without", "acme-blocked").out

    mend = "to mend it: pluggent trust --plugin acme-policy"
    assert f"not accepted\n    it has hooks, which see everything\n    {mend}\n" in out
    assert "incompatible\n    needs pluggent-hookspecs <0.1, this host has 0.1.0\n" in out
    assert "    to mend it: pip install --upgrade acme-old\n" in out
    assert "blocked\n    blocked by [selection] block\n" in out


def test_settings_and_options_decide_about_states(cli):
    cli.plugin("acme-tool")
    (cli.work / "allow.toml").write_text('[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n')

    assert states(cli)["acme-tool:tools/tool"] == "available"
    assert states(cli, "--safe")["acme-tool:tools/tool"] == "disallowed"
    assert states(cli, "--safe")["pluggent-openai:provider/openai"] == "available"
    assert states(cli, "--config", "allow.toml")["pluggent-openai:provider/openai"] == "disallowed"


@each_of("words", ["plugins", "--help", "--version"])
def test_listing_loads_nothing_and_so_survives_every_broken_plugin(cli, words):
    cli.plugin("acme-exit", "raise SystemExit(9)")
    install(cli.site, "acme-hook", {"hooks/exit": "acme_exit:Plugin"})

    assert cli(words).code == 0


def test_a_plugin_that_failed_to_load_is_shown_as_failed_until_it_loads_again_or_is_another_version(cli):
    info = cli.plugin("acme-tool", BROKEN)
    before = states(cli)["acme-tool:tools/tool"]
    cli("tools")
    failed = " ".join(cli("plugins").out.split())
    metadata = (info / "METADATA").read_text()
    (info / "METADATA").write_text(metadata.replace("Version: 1.0", "Version: 1.1"))
    other = states(cli)["acme-tool:tools/tool"]
    (info / "METADATA").write_text(metadata)
    (cli.site / "acme_tool.py").write_text(WORKS)
    cli("run", "hello")

    assert (before, other, states(cli)["acme-tool:tools/tool"]) == ("available",) * 3
    assert "it could not be imported from tool = acme_tool:Plugin" in failed
    assert "No module named 'gone'" in failed


@each_of("content", ["", "[]", "{", '{"acme-tool:tools/tool": 1}', "[" * 9999])
def test_a_damaged_record_of_failures_is_as_good_as_none(cli, content):
    cli.plugin("acme-tool")
    cli.state.mkdir(mode=0o700, exist_ok=True)
    (cli.state / "load-failures.json").write_text(content)

    assert states(cli)["acme-tool:tools/tool"] == "available"


def test_one_plugin_is_shown_with_everything_about_it_but_its_settings_values(cli):
    rules = 'rules = [{action = "allow", tool = "weather"}]'
    settings = f'[grants]\nmay_allow = ["pluggent-guard"]\n[plugins.pluggent-guard]\n{rules}\n'
    (cli.work / "mine.toml").write_text(settings)

    out = cli("plugins", "show", "guard", "--config", "mine.toml").out

    assert out.startswith("pluggent-guard 0.1.0  ")
    assert "  granted       may_allow\n" in out
    assert "  settings      rules (mine.toml, line 4)\n" in out
    assert "  pluggent-guard:hooks/guard = pluggent_guard.plugin:Guard  available\n" in out
    (document,) = cli.document("plugins", "show", "pluggent-offline")["plugins"]
    assert document["capability"] == "pluggent-offline:provider/offline"


def test_what_could_not_be_read_is_told_beside_the_list(cli):
    (cli.plugin("acme-tool") / "METADATA").write_text("")

    code, out, err = cli("plugins")

    assert (code, "acme-tool" in out, "is not valid metadata" in err) == (0, False, True)


def test_the_text_of_metadata_cannot_steer_the_terminal(cli):
    cli.plugin("acme-tool", summary="nice\x1b[2J")

    assert "\x1b" not in cli("plugins", "show", "acme-tool").out
