"""The command as a whole: help, typing errors, settings, streams, and commands of plugins."""

from pathlib import Path

import pytest
from cli_support import without_reader
from each_of import each_of
from fake_distributions import install
from pluggent_cli.table import COMMANDS

GREETER = """
from pluggent_hookspecs import Command, hookimpl

def configure(parser):
    parser.add_argument("name", nargs="?", default="you")
    parser.add_argument("--config", default="none")

def run(options):
    if options.name == "missing":
        raise RuntimeError("there is no such name")
    print("hello", options.name, options.config)
    return 7 if options.name == "seven" else 0

class Plugin:
    @hookimpl
    def provide_commands(self, event):
        return [Command("greet", "say hello", run, configure), Command("run", "not ours", run)]
"""


@pytest.fixture
def greeter(cli):
    entries = {"commands/greet": "acme_greet:Plugin", "commands/run": "acme_greet:Plugin"}
    install(cli.site, "acme-greet", entries, modules={"acme_greet": GREETER}, summary="Says hello.")
    return cli


# ---- version and help -------------------------------------------------------------------


@each_of("words", ["--version", "-V", "--version --debug"])
def test_the_version_is_one_line_or_a_document(cli, words):
    assert cli(*words.split()) == (0, "pluggent 0.1.0\n", "")
    assert cli.document(*words.replace("-V", "--version").split()) == {"pluggent": "0.1.0"}


@each_of("words", ["", "--help", "-h", "help"])
def test_help_names_every_command_and_every_exit_code(cli, words):
    code, out, err = cli(*words.split())

    assert (code, err) == (0, "")
    assert all(f"  {command.name} " in out and command.help in out for command in COMMANDS)
    assert "exit codes:\n  0    it worked" in out
    assert out.startswith("usage: pluggent [OPTIONS] COMMAND [ARGUMENTS]\n")


@each_of("command", [command.name for command in COMMANDS])
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
        "pluggent_host", "pluggent_cli", "pluggent_cli.main",
    }  # fmt: skip
    assert not modules & {"argparse", "json", "asyncio", "attr", "pluggy"}


@each_of("words", ["plugins", "plugins --json", "trust --list", "sessions", "config", "completion bash", ""])
def test_listing_and_help_import_no_third_party_package_no_plugin_and_their_own_module_alone(greeter, words):
    modules = greeter.imported(*words.split())
    tops = {name.partition(".")[0] for name in modules}

    assert not tops & {"attr", "attrs", "pluggy", "cattrs", "msgspec", "jsonschema_rs", "asyncio", "packaging"}
    ours = {
        f"pluggent_{name}"
        for name in ("cli", "contract_values", "host", "hookspecs", "plugin_loader", "state_files", "transcript")
    }
    assert not {top for top in tops if top.startswith(("pluggent_", "acme"))} - ours
    own = {command.module for command in COMMANDS if command.name == words.partition(" ")[0]}
    assert {command.module for command in COMMANDS} & modules == own


# ---- usage and settings -----------------------------------------------------------------


@each_of(
    ("words", "says"),
    [
        (["plugin"], "there is no command 'plugin'; did you mean 'plugins'? See pluggent --help"),
        (["what is this"], 'to say it to a model: pluggent run "what is this"'),
        (["run", "--modle", "x"], "pluggent run: unrecognized arguments: --modle; did you mean '--model'?"),
        (["run", "--colour", "x"], "did you mean '--color'?"),
        (["plugins", "--color", "alway"], "'alway' is not one of auto, always, never; did you mean 'always'?"),
        (["plugins", "shwo", "x"], "expected show, got 'shwo'; did you mean 'show'?"),
        (["plugins", "show"], "needs a NAME"),
        (["plugins", "show", "pluggent-gard"], "no plugin 'pluggent-gard' is installed; did you mean 'pluggent-guard'"),
        (["--without", "pluggent-gard", "plugins"], "--without: no plugin 'pluggent-gard' is installed; did you mean"),
        (["hooks", "decide_toolcall"], "there is no hook 'decide_toolcall'; did you mean 'decide_tool_call'?"),
        (["--frobnicate"], "unrecognized arguments: --frobnicate"),
        (["plugins", "--config", "toml.toml"], "error: toml.toml: line 2, column 10"),
        (["plugins", "--config", "wrong.toml"], "modle: is not a known setting; did you mean 'model'?"),
        (["plugins", "--config", "wrong.toml"], "limits.tool_rounds: expected a whole number of at least 0, got -1"),
        (["plugins", "--config", "absent.toml"], "error: absent.toml: cannot be read: No such file or directory\n"),
    ],
)
def test_what_is_mistyped_is_named_with_the_nearest_name(cli, words, says):
    (cli.work / "toml.toml").write_text('model = "x"\nlimits = ]\n')
    (cli.work / "wrong.toml").write_text("modle = 1\n[limits]\ntool_rounds = -1\n")

    code, out, err = cli(*words)

    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert "Traceback" not in err


def test_common_options_may_stand_before_or_after_the_command(cli):
    before = cli("--without", "pluggent-guard", "--json", "plugins")

    assert before == cli("plugins", "--json", "--without", "pluggent-guard")
    assert '"state": "blocked"' in before.out


def test_an_error_is_one_json_document_if_json_is_asked_for(cli):
    document = cli.document("plugins", "show", "nothing")

    assert (document["error"]["kind"], document["exit_code"]) == ("ConfigError", 2)


def test_no_home_at_all_is_no_obstacle(cli):
    assert cli("plugins", HOME=None)[::2] == (0, "")


# ---- colours and closed streams ---------------------------------------------------------


@each_of(
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
def test_colours_are_as_told_and_else_absent_without_a_terminal(cli, words, environ, coloured):
    assert ("\033[" in cli("plugins", *words, **environ).out) is coloured


@each_of("words", ["--version", "--help", "plugins"])
def test_a_reader_that_has_gone_ends_it_quietly(cli, words):
    with without_reader() as writer:
        done = cli(*words.split(), stdout=writer)

    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize("words", ["--version", "plugins", "run weather"])
def test_a_closed_standard_output_is_no_fault(cli, words):
    done = cli(*words.split(), script='exec "$@" >&-')

    assert (done.code, "Traceback" in done.err) == (0, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "words",
    ["plugins", "--version", "--help", "run --help", "run --json --no-save hello", "config show", "completion bash"],
)
def test_a_full_disk_is_said(cli, words):
    done = cli(*words.split(), script='exec "$@" > /dev/full')

    assert done == (1, "", "error: output: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_error_is_said_although_its_document_cannot_be_written(cli):
    done = cli("no-such-command", "--json", script='exec "$@" > /dev/full')

    assert (done.code, "there is no command 'no-such-command'" in done.err) == (2, True)
    assert cli("__complete", "bash", "pl", script='exec "$@" > /dev/full') == (1, "", "")
    assert cli("no-such-command", script='exec "$@" 2> /dev/full') == (2, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_no_failure_of_a_plugin(greeter):
    done = greeter("greet", script='exec "$@" > /dev/full')

    assert done == (1, "", "error: output: No space left on device\n")


@pytest.mark.parametrize("utf8", ["1", "0"])
def test_text_is_understood_in_the_plainest_locale(cli, utf8):
    plain = {"LC_ALL": "C", "PYTHONUTF8": utf8, "PYTHONCOERCECLOCALE": "0", "fresh": True}

    done = cli("run", "--no-save", "-q", "weather city=Orléans", **plain)
    called = cli.document("tools", "call", "weather", "city=Orléans", **plain)

    answer = "weather: 14 °C, light rain in Orléans (sample data)\n"
    assert done == (0, answer if utf8 == "1" else answer.encode("ascii", "backslashreplace").decode(), "")
    assert called["data"]["city"] == "Orléans"


@pytest.mark.parametrize("module", ["pluggent_cli.import_path", "argparse", "pluggent_cli.commands.run", "asyncio"])
def test_an_interrupt_while_modules_are_loaded_ends_it_without_a_traceback(cli, module):
    (cli.site / "sitecustomize.py").write_text(
        f"""
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
"""
    )

    assert cli("run", "--no-save", "hello", fresh=True) == (130, "", "error: interrupted\n")


def test_a_plugin_that_interrupts_while_a_command_or_its_settings_need_it_is_named(cli):
    cli.plugin("acme-greet", "raise KeyboardInterrupt", "commands")
    (cli.work / "mine.toml").write_text("[plugins.acme-greet]\nloud = true\n")

    typed, checked = cli("greet"), cli("config", "check", "--config", "mine.toml")

    assert (typed.code, "plugin 'acme-greet' (acme-greet 1.0) could not be imported" in typed.err) == (5, True)
    assert (checked.code, "plugin 'acme-greet' (acme-greet 1.0) could not be imported" in checked.out) == (5, True)


def test_a_plugin_that_interrupts_while_it_is_loaded_is_left_out(cli):
    cli.plugin("acme-tool", "raise KeyboardInterrupt")

    done = cli("run", "--no-save", "weather city=Paris")

    assert (done.code, "Paris" in done.out, "Traceback" in done.err) == (0, True, False)
    assert "plugin 'acme-tool' (acme-tool 1.0) could not be imported" in done.err


# ---- commands of plugins ----------------------------------------------------------------


def test_a_command_of_a_plugin_is_listed_without_loading_it_and_runs_when_typed(greeter):
    _, _, listed = greeter("--help").out.partition("commands of plugins:\n")
    assert "greet acme-greet 1.0: Says hello." in " ".join(listed.split())
    assert greeter("greet") == (0, "hello you none\n", "")
    done = greeter("--quiet", "greet", "seven", "--config", "mine")
    assert (done.code, done.out) == (7, "hello seven mine\n")
    usage = "usage: pluggent greet [-h] [--config CONFIG] [name]\n\nsay hello\n"
    assert greeter("greet", "--help").out.startswith(usage)


def test_no_plugin_can_take_the_name_of_a_built_in_command(greeter):
    assert "usage: pluggent run [OPTIONS]" in greeter("run", "--help").out
    assert "'run' is a command of pluggent itself" in greeter("plugins").out


def test_a_command_that_fails_blames_its_plugin(greeter):
    reason = "failed in its command 'greet': RuntimeError: there is no such name"

    assert greeter("greet", "missing") == (5, "", f"error: plugin 'acme-greet' (acme-greet 1.0) {reason}\n")
    assert "Traceback" in greeter("--debug", "greet", "missing").err
    assert "\x1b" not in greeter("--debug", "run", "--model", "x\x1b[2J", "hello").err
    assert "Traceback" in greeter("greet", "missing", PLUGGENT_DEBUG="1").err


def test_a_plugin_that_fails_while_it_offers_its_commands_is_blamed(greeter):
    offers = "        return [Command"
    source = GREETER.replace(offers, f"        raise RuntimeError('no commands today')\n{offers}")
    (greeter.site / "acme_greet.py").write_text(source)

    code, _, err = greeter("greet")

    assert code == 5
    assert "acme-greet" in err
    assert "no commands today" in err
    assert "a fault in pluggent" not in err


def test_a_command_that_is_announced_and_not_provided_is_refused(cli):
    install(cli.site, "acme-greet", {"commands/wave": "acme_greet:Plugin"}, modules={"acme_greet": GREETER})

    done = cli("wave")

    says = "announces the command 'wave' in its metadata and provides greet, run"
    assert (done.code, says in done.err) == (5, True)


def test_a_blocked_command_does_not_run(greeter):
    code, out, err = greeter("--without", "acme-greet", "greet")

    assert (code, out, "is blocked" in err) == (2, "", True)
