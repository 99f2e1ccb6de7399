from pathlib import Path

import pytest
from cli_support import Cli, nobody_reads
from fake_distributions import install
from pluggent_cli.table import COMMANDS

GREETER = """
from pluggent_hookspecs import Command, hookimpl

def configure(parser):
    parser.add_argument("name", nargs="?", default="you")
    parser.add_argument("--config", default="none")

def run(options):
    if options.name == "nobody":
        raise RuntimeError("there is nobody")
    print("hello", options.name, options.config)
    return 7 if options.name == "seven" else 0

class Plugin:
    @hookimpl
    def provide_commands(self, event):
        return [Command("greet", "say hello", run, configure), Command("run", "not ours", run)]
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def greeter(cli: Cli) -> Cli:
    entries = {"commands/greet": "acme_greet:Plugin", "commands/run": "acme_greet:Plugin"}
    install(cli.site, "acme-greet", entries, modules={"acme_greet": GREETER}, summary="Says hello.")
    return cli


# ---- version and help -------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["--version", "--debug"]])
def test_the_version_is_one_line(cli, words):
    assert cli(*words) == (0, "pluggent 0.1.0\n", "")


def test_the_version_is_a_document_where_that_is_asked_for(cli):
    assert cli("--version", "--json").out == '{\n  "pluggent": "0.1.0"\n}\n'


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command_and_every_exit_code(cli, words):
    code, out, err = cli(*words)

    assert (code, err) == (0, "")
    assert all(f"  {command.name} " in out and command.help in out for command in COMMANDS)
    assert "exit codes:\n  0    it worked" in out
    assert out.startswith("usage: pluggent [OPTIONS] COMMAND [ARGUMENTS]\n")


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_the_help_of_every_command_teaches_by_examples(cli, command):
    code, out, err = cli(command, "--help")

    assert (code, err) == (0, "")
    assert out.startswith(f"usage: pluggent {command} ")
    assert f"examples:\n  pluggent {command}" in out
    assert "--without PLUGIN" in out
    assert cli("help", command).out == out


def test_help_fits_a_narrow_terminal(cli):
    out = cli("run", "--help", COLUMNS="50").out
    options = out[out.index("positional arguments") : out.index("examples:")]

    assert max(map(len, options.splitlines())) <= 50


# ---- what is imported -------------------------------------------------------------------


def test_the_version_imports_next_to_nothing(cli):
    modules = cli.imported("--version")

    assert {name for name in modules if name.startswith("pluggent")} == {
        "pluggent_host", "pluggent_cli", "pluggent_cli.main", "pluggent_host.version",
    }  # fmt: skip
    assert not modules & {"argparse", "json", "asyncio", "attr", "pluggy"}


@pytest.mark.parametrize(
    "words",
    [["plugins"], ["plugins", "--json"], ["trust", "--list"], ["sessions"], ["config"], ["completion", "bash"], []],
)
def test_listing_and_help_import_no_third_party_package_and_no_plugin(greeter, words):
    tops = {name.partition(".")[0] for name in greeter.imported(*words)}

    assert not tops & {"attr", "attrs", "pluggy", "cattrs", "msgspec", "jsonschema_rs", "asyncio", "packaging"}
    ours = {"pluggent_cli", "pluggent_host", "pluggent_hookspecs", "pluggent_state_files"}
    assert not {top for top in tops if top.startswith(("pluggent_", "acme"))} - ours


def test_a_command_imports_its_own_module_alone(cli):
    modules = cli.imported("plugins")

    own = {command.module for command in COMMANDS}
    assert own & modules == {"pluggent_cli.commands.plugins"}


# ---- typing errors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plugin"], "there is no command 'plugin'; did you mean 'plugins'? See pluggent --help"),
        (["what is this"], 'to say it to a model: pluggent run "what is this"'),
        (["run", "--modle", "x"], "pluggent run: unrecognized arguments: --modle; did you mean '--model'?"),
        (["run", "--colour", "x"], "did you mean '--color'?"),
        (["plugins", "--color", "alway"], "'alway' is not one of auto, always, never; did you mean 'always'?"),
        (["plugins", "shwo", "x"], "expected show, got 'shwo'; did you mean 'show'?"),
        (["plugins", "show"], "needs a NAME"),
        (
            ["plugins", "show", "pluggent-gard"],
            "no plugin 'pluggent-gard' is installed; did you mean 'pluggent-guard'?",
        ),
        (["--without", "pluggent-gard", "plugins"], "--without: no plugin 'pluggent-gard' is installed; did you mean"),
        (["hooks", "decide_toolcall"], "there is no hook 'decide_toolcall'; did you mean 'decide_tool_call'?"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
    ],
)
def test_what_is_mistyped_is_named_with_the_nearest_name(cli, words, says):
    code, out, err = cli(*words)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert "Traceback" not in err


def test_common_options_may_stand_before_or_after_the_command(cli):
    before = cli("--without", "pluggent-guard", "--json", "plugins")
    after = cli("plugins", "--json", "--without", "pluggent-guard")

    assert before == after
    assert '"state": "blocked"' in before.out


def test_an_error_is_one_json_document_where_that_is_asked_for(cli):
    done = cli("plugins", "show", "nothing", "--json")

    assert '"kind": "ConfigError"' in done.out
    assert '"exit_code": 2' in done.out


# ---- settings ---------------------------------------------------------------------------


def test_wrong_toml_is_named_with_its_line(cli):
    (cli.work / "wrong.toml").write_text('model = "x"\nlimits = ]\n')

    code, _, err = cli("plugins", "--config", "wrong.toml")

    assert code == 2
    assert "error: wrong.toml: " in err
    assert "line 2, column 10" in err


def test_every_wrong_setting_is_named_at_once(cli):
    (cli.work / "wrong.toml").write_text("modle = 1\n[limits]\ntool_rounds = -1\n")

    err = cli("plugins", "--config", "wrong.toml").err

    assert "modle: is not a known setting; did you mean 'model'?" in err
    assert "limits.tool_rounds: expected a whole number of at least 0, got -1" in err


def test_a_config_file_that_is_not_there_is_an_error(cli):
    code, _, err = cli("plugins", "--config", "absent.toml")

    assert (code, err) == (2, "error: absent.toml: cannot be read: No such file or directory\n")


def test_an_untrusted_file_in_the_working_directory_is_named_and_loosens_nothing(cli):
    (cli.work / "pluggent.toml").write_text('model = "openai/x"\n')

    code, _, err = cli("plugins")

    assert code == 0
    assert "is not trusted, so it may only tighten; ignored: model" in err
    assert cli("plugins", "--quiet").err == ""


def test_no_home_at_all_is_no_obstacle(cli):
    done = cli("plugins", HOME=None)

    assert (done.code, done.err) == (0, "")


# ---- colours and closed streams ---------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "environ", "coloured"),
    [
        ([], {}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "0"}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color=never"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_as_told_and_else_absent_where_there_is_no_terminal(cli, words, environ, coloured):
    assert ("\033[" in cli("plugins", *words, **environ).out) is coloured


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["plugins"]])
def test_a_reader_that_has_gone_is_not_complained_about(cli, words):
    with nobody_reads() as writer:
        done = cli(*words, stdout=writer)

    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize("words", [["--version"], ["plugins"], ["run", "weather city=Oslo"]])
def test_a_closed_standard_output_is_no_fault(cli, words):
    done = cli(*words, script='exec "$@" >&-')

    assert done.code == 0
    assert "Traceback" not in done.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_said(cli):
    done = cli("plugins", script='exec "$@" > /dev/full')

    assert (done.code, done.err) == (1, "error: output: No space left on device\n")


# ---- commands of plugins ----------------------------------------------------------------


def test_a_command_of_a_plugin_is_listed_without_loading_it_and_runs_when_typed(greeter):
    _, _, listed = greeter("--help").out.partition("commands of plugins:\n")
    assert "greet acme-greet 1.0: Says hello." in " ".join(listed.split())
    assert greeter("greet") == (0, "hello you none\n", "")
    assert greeter("greet", "seven", "--config", "mine").code == 7
    assert "hello seven mine" in greeter("--quiet", "greet", "seven", "--config", "mine").out


def test_the_help_of_a_plugins_command_is_its_own(greeter):
    assert greeter("greet", "--help").out.startswith(
        "usage: pluggent greet [-h] [--config CONFIG] [name]\n\nsay hello\n"
    )


def test_no_plugin_can_take_the_name_of_a_built_in_command(greeter):
    assert "usage: pluggent run [OPTIONS]" in greeter("run", "--help").out
    assert "'run' is a command of pluggent itself" in greeter("plugins").out


def test_a_command_that_fails_blames_its_plugin(greeter):
    code, _, err = greeter("greet", "nobody")

    assert code == 5
    assert (
        err
        == "error: plugin 'acme-greet' (acme-greet 1.0) failed in its command 'greet': RuntimeError: there is nobody\n"
    )
    assert "Traceback" in greeter("--debug", "greet", "nobody").err
    assert "Traceback" in greeter("greet", "nobody", PLUGGENT_DEBUG="1").err


def test_a_plugin_that_fails_while_it_offers_its_commands_is_blamed(cli):
    offers = "        return [Command"
    source = GREETER.replace(offers, f"        raise RuntimeError('no commands today')\n{offers}")
    install(cli.site, "acme-greet", {"commands/greet": "acme_greet:Plugin"}, modules={"acme_greet": source})

    code, _, err = cli("greet")

    assert code == 5
    assert "acme-greet" in err
    assert "no commands today" in err
    assert "a fault in pluggent" not in err


def test_a_command_that_is_announced_and_not_provided_is_refused(cli):
    install(cli.site, "acme-greet", {"commands/wave": "acme_greet:Plugin"}, modules={"acme_greet": GREETER})

    code, _, err = cli("wave")

    assert code == 5
    assert "announces the command 'wave' in its metadata and provides greet, run" in err


def test_a_blocked_command_does_not_run(greeter):
    code, out, err = greeter("--without", "acme-greet", "greet")

    assert (code, out) == (2, "")
    assert "is blocked" in err
