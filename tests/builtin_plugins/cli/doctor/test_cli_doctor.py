"""``pluggent doctor`` finds what is wrong, says what mends it, and survives every plugin."""

import json
import os
import signal
import time
from typing import Any

import pytest
from cli_support import PATIENCE_S, Cli
from each_of import each_of
from fake_distributions import POLICY, install
from pluggent_cli.doctor import plugins
from pluggent_cli.doctor.import_cost import Cost
from pluggent_cli.main import main
from pluggent_plugin_loader.discovery import discover
from saved import save

OTHERS = ",".join(
    item.name for item in discover().distributions if item.name not in ("pluggent-guard", "pluggent-offline")
)
"""Plugins whose loading takes time and shows nothing new."""
ALL = f"{OTHERS},pluggent-guard,pluggent-offline"
TOOLS = """
import {imports}
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return []
"""


def examine(cli: Cli, *words: str, without: str = ALL) -> tuple[int, list[tuple[str, str]], dict[str, dict[str, Any]]]:
    """Return the exit code, every problem with what mends it, and the plugins by id."""
    document = cli.document("doctor", "--without", without, *words)
    problems = [(one["text"], one["mend"]) for one in document["checks"] if one["state"] == "problem"]
    return document["exit_code"], problems, {one["plugin"]: one for one in document["plugins"]}


def test_where_nothing_is_wrong_it_says_so(cli):
    code, out, err = cli("doctor", "--without", OTHERS)

    assert (code, err) == (0, "")
    assert out.endswith("\nno problems\n")
    assert all(f"{area}\n" in out for area in ("environment", "folders", "plugins", "terminal", "optional"))


def test_every_plugin_is_loaded_and_measured(cli):
    cli.plugin("acme-tool", TOOLS.format(imports="acme_helper"))
    (cli.site / "acme_helper.py").write_text("import wave\n")  # a module that nothing else imports

    code, problems, found = examine(cli, without=OTHERS)

    cost = found["acme-tool"]["cost"]
    assert (code, problems) == (0, [])
    assert (found["acme-tool"]["state"], found["acme-tool"]["reason"]) == ("active", "")
    assert (cost["packages"], cost["modules"] >= 3, cost["problem"]) == (["acme_helper"], True, "")
    assert 0 < cost["cpu_ms"] < 1000 * PATIENCE_S
    assert found["pluggent-guard"]["state"] == "active"


def test_a_plugin_that_fails_is_a_problem_and_no_end(cli):
    says = {
        "nowhere": ("import nowhere", "No module named 'nowhere'"),
        "none": (
            TOOLS.format(imports="wave").replace("return []", "pass"),
            "its provide_tools returned None: return a",
        ),
        "interrupting": ("raise KeyboardInterrupt", "KeyboardInterrupt (at "),
        "exiting": ("raise SystemExit(9)", "SystemExit: 9"),
        "dying": ("import os; os._exit(7)", "importing it ended the process with exit code 7"),
        "aborting": ("import os; os.abort()", "importing it ended the process by signal 6"),
        "empty": ("class Plugin:\n    def provide_tool(self, event): return []", "provide_tools"),
    }
    for name, (source, _) in says.items():
        cli.plugin(f"acme-{name}", source)

    code, _, found = examine(cli, without=OTHERS)

    assert (code, found["pluggent-offline"]["state"]) == (1, "active")
    for name, (_, reason) in says.items():
        failed = found[f"acme-{name}"]
        mend = f"leave it out: pluggent --without acme-{name}"
        if name == "nowhere":
            mend = f"install the package that provides 'nowhere', which it does not say that it requires, or {mend}"
        assert (failed["state"], failed["mend"]) == ("failed", mend)
        assert reason in failed["reason"]


def test_the_cure_of_a_missing_module_is_the_package_that_the_plugin_requires(cli):
    cli.plugin("acme-tool", "import nowhere_module", requires=["Acme-Nowhere>=2"])

    _, _, found = examine(cli)

    assert found["acme-tool"]["mend"] == (
        "install what it requires: pip install 'Acme-Nowhere>=2', or leave it out: pluggent --without acme-tool"
    )


def test_a_tool_that_cannot_be_used_is_a_problem_of_its_plugin(cli):
    bent = """
class Bent:
    spec = ToolSpec("bent", "Bend it.", parameters={"type": "strnig"})
    async def call(self, arguments, context): return "bent"

"""
    cli.plugin("acme-bent", TOOLS.replace("hookimpl", "ToolSpec, hookimpl", 1).format(imports="wave")
               .replace("class Plugin", f"{bent}class Plugin").replace("[]", "[Bent()]"))  # fmt: skip
    cli.plugin("acme-odd", TOOLS.format(imports="wave").replace("[]", "[None]"))

    code, _, found = examine(cli)

    assert code == 1
    assert "offers the tool 'bent', which cannot be called: the tool's own schema" in found["acme-bent"]["reason"]
    assert "offers something that cannot be a tool: None" in found["acme-odd"]["reason"]
    assert found["acme-odd"]["mend"] == "leave it out: pluggent --without acme-odd"


def test_a_problem_is_shown_and_counted_once(cli):
    cli.plugin("acme-tool", "import nowhere")
    cli.plugin("acme-odd", TOOLS.format(imports="wave").replace("[]", "[None]"))
    install(cli.site, "acme-twice", {"tools/one": "acme_twice:One", "memory/two": "acme_twice:Two"},
            requires=["pluggent-hookspecs<0.1"])  # fmt: skip

    done = cli("doctor", "--without", ALL, COLUMNS="200")

    assert (done.code, done.err) == (1, "")
    assert done.out.count("No module named 'nowhere'") == 1
    assert done.out.count("cannot be a tool") == 1
    assert done.out.count("needs pluggent-hookspecs <0.1") == done.out.count("pip install --upgrade acme-twice") == 1
    assert done.out.endswith("\n3 problems\n")


def test_a_plugin_that_takes_long_to_import_is_noted_and_the_budget_is_an_option(cli):
    cli.plugin("acme-tool", TOOLS.format(imports="wave"))

    def noted(budget):
        document = cli.document("doctor", "--without", ALL, "--import-budget", budget)
        return document["exit_code"], [one["text"] for one in document["checks"] if "importing" in one["text"]]

    (code, (text,)), (_, none) = noted("0"), noted("600000")

    assert (code, none) == (0, [])
    assert text.startswith("importing 'acme-tool' takes ")
    assert text.endswith(" ms, more than 0: every start that uses it waits")


def test_a_hook_plugin_that_may_not_run_or_cannot_is_a_problem(cli):
    cli.plugin("acme-policy", f"open('imported.txt', 'w').close()\n{POLICY}", "hooks")
    asked = examine(cli)
    assert not (cli.work / "imported.txt").exists(), "a plugin that was not accepted was imported"
    cli("trust", "--plugin", "acme-policy==1.0")
    (cli.site / "acme_policy.py").write_text("import nowhere")
    broken = examine(cli)

    assert (asked[0], asked[2]["acme-policy"]["state"]) == (1, "not accepted")
    assert asked[2]["acme-policy"]["mend"] == "pluggent trust --plugin acme-policy"
    assert (broken[0], broken[2]["acme-policy"]["state"]) == (1, "failed")
    assert "No module named 'nowhere'" in str(broken[2]["acme-policy"]["reason"])


def test_what_lies_in_the_working_directory_is_not_imported(cli):
    cli.plugin("acme-tool", TOOLS.format(imports="wave"))
    for name in ("wave", "json", "asyncio"):
        (cli.work / f"{name}.py").write_text("open('taken.txt', 'w').close()\n")
    program = "import sys; from pluggent_cli.main import main; sys.exit(main(sys.argv[1:]))"

    # as the installed command starts: without that folder
    done = cli(script=f'exec "$1" -P -c "{program}" doctor --json --without {ALL}')

    assert done.code == 0
    assert '"plugin": "acme-tool"' in done.out
    assert not (cli.work / "taken.txt").exists()


def test_required_plugins_that_do_not_run_are_a_problem(cli):
    (cli.work / "mine.toml").write_text(
        '[required]\npluggent-guard = ["decide_tool_call", "observe"]\nacme-gone = ["decide_input"]\n'
    )

    code, problems, _ = examine(cli, "--config", "mine.toml", without=f"{OTHERS},pluggent-offline")

    assert code == 1
    assert problems == [
        ("plugin 'pluggent-guard' is required to implement observe, and does not, so nothing runs",
         "pip install --upgrade pluggent-guard"),
        ("plugin 'acme-gone' is required and does not run, so nothing does",
         "pip install acme-gone, or take it out of [required]"),
    ]  # fmt: skip


def test_settings_that_are_wrong_are_a_problem_and_the_plugins_are_examined_all_the_same(tmp_path, monkeypatch, capsys):
    async def nothing(records: object) -> Cost:
        return Cost()

    monkeypatch.setattr(plugins, "import_cost", nothing)  # without settings, no plugin is blocked
    file = tmp_path / "mine.toml"
    file.write_text('strict = "s3cret"\n[plugins.acme-gone]\nkey = "s3cret"\n')

    code = main(["doctor", "--json", "--config", str(file)])

    document = json.loads(capsys.readouterr().out)
    problems = [(one["text"], one["mend"]) for one in document["checks"] if one["state"] == "problem"]
    assert (code, [mend for _, mend in problems]) == (1, ["pluggent config check"] * 2)
    assert "there are settings for 'acme-gone', which is not installed" in problems[1][0]
    assert ("pluggent-guard", "active") in [(one["plugin"], one["state"]) for one in document["plugins"]]


def test_folders_that_others_may_use_are_a_problem(cli):
    save(cli.state / "sessions", "s")
    cli.state.chmod(0o777)
    (cli.state / "sessions").chmod(0o755)

    code, problems, _ = examine(cli)

    assert code == 1
    assert problems == [
        (f"others may write state {cli.state} (mode 0777)", f"chmod go-w {cli.state}"),
        (f"others may read sessions {cli.state}/sessions (mode 0755)", f"chmod go-rwx {cli.state}/sessions"),
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may go anywhere")
def test_a_folder_that_may_not_be_entered_is_a_problem_and_no_end(cli):
    save(cli.state / "sessions", "s")
    cli.state.chmod(0)

    code, problems, found = examine(cli, without=OTHERS)
    cli.state.chmod(0o700)

    assert code == 1
    assert problems == [(f"state {cli.state} cannot be written (mode 0000)", f"chmod u+rwx {cli.state}")]
    assert found["pluggent-guard"]["state"] == "active"


@each_of(
    ("name", "content", "says", "mend"),
    [
        ("trust.json", "{", "trust.json is damaged", None),
        ("hooks.json", '{"records"', "hooks.json", "mv {path} {path}.damaged"),
        ("hooks.json", None, "hooks.json", ""),
    ],
)
def test_a_damaged_store_of_what_was_accepted_is_a_problem(cli, name, content, says, mend):
    path = cli.state / name
    cli.state.mkdir(mode=0o700, exist_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)

    code, problems, _ = examine(cli)
    path.rename(cli.work / f"{name} {content}")

    ((text, mends),) = problems
    assert (code, says in text) == (1, True)
    assert mend is None or mends == mend.format(path=path)


def test_the_providers_are_asked_only_if_that_is_wanted(cli):
    source = """
from pluggent_hookspecs import ModelInfo, hookimpl

class Vendor:
    name, target = "acme", "memory:"
    async def complete(self, request): raise AssertionError(request)
    def stream(self, request): raise AssertionError(request)
    async def list_models(self):
        open("asked.txt", "w").close()
        return [ModelInfo("m")]

class Plugin:
    @hookimpl
    def provide_providers(self, event): return [Vendor()]
"""
    cli.plugin("acme-vendor", source, "providers")
    cli("doctor", "--without", ALL)
    unasked = (cli.work / "asked.txt").exists()

    out = cli("doctor", "--without", ALL, "--online", COLUMNS="100").out

    assert not unasked
    assert "acme answers: 1 model\n" in out


def test_text_of_plugins_cannot_steer_the_terminal(cli):
    cli.plugin("acme-bad", "raise RuntimeError('\\x1b[2J\\u202e')")

    out = cli("doctor", "--without", ALL).out

    assert "\\x1b[2J\\u202e" in out
    assert not {"\x1b", "\u202e"} & set(out)


def test_a_plugin_that_hangs_while_it_is_imported_can_be_interrupted_and_leaves_nothing(cli):
    cli.plugin("acme-hang", "import os, threading\nopen(f'pid-{os.getpid()}', 'w').close()\nthreading.Event().wait()")
    process = cli.start("doctor", "--without", ALL)
    deadline = time.monotonic() + PATIENCE_S
    while not (pids := list(cli.work.glob("pid-*"))):
        assert time.monotonic() < deadline
        os.sched_yield()

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0].name.removeprefix("pid-")), 0)
