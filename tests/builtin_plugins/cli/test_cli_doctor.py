"""``pluggent doctor`` finds what is wrong, says what mends it, and survives every plugin."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from cli_support import PATIENCE_S, Cli
from fake_distributions import POLICY, install
from pluggent_host.plugins.discovery import discover
from saved import save

OTHERS = [item.name for item in discover().distributions if item.name not in ("pluggent-guard", "pluggent-offline")]
"""Plugins whose loading takes time and shows nothing new."""
TOOLS = """
import acme_helper
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return []
"""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def add(cli: Cli, name: str, source: str, kind: str = "tools") -> None:
    """Install a plugin."""
    module = name.replace("-", "_")
    install(cli.site, name, {f"{kind}/x": f"{module}:Plugin"}, modules={module: source})


def examine(cli: Cli, *words: str) -> tuple[int, list[tuple[str, str]], dict[str, dict[str, Any]]]:
    """Return the exit code, every problem with what mends it, and the plugins by id; most of ours are left out."""
    done = cli("doctor", "--json", "--without", ",".join(OTHERS), *words)
    document = json.loads(done.out)
    problems = [(one["text"], one["mend"]) for one in document["checks"] if one["state"] == "problem"]
    assert "Traceback" not in done.err
    return done.code, problems, {one["plugin"]: one for one in document["plugins"]}


def test_where_nothing_is_wrong_it_says_so(cli):
    code, out, err = cli("doctor")

    assert (code, err) == (0, "")
    assert out.endswith("\nno problems\n")
    assert all(f"{area}\n" in out for area in ("environment", "folders", "plugins", "terminal", "optional"))


def test_every_plugin_is_loaded_and_measured(cli):
    add(cli, "acme-tool", TOOLS)
    (cli.site / "acme_helper.py").write_text("import wave\n")  # a module that nothing else imports

    code, problems, plugins = examine(cli)

    cost = plugins["acme-tool"]["cost"]
    assert (code, problems) == (0, [])
    assert (plugins["acme-tool"]["state"], plugins["acme-tool"]["reason"]) == ("active", "")
    assert cost["packages"] == ["acme_helper"]
    assert cost["modules"] >= 3
    assert 0 < cost["cpu_ms"] < 1000 * PATIENCE_S
    assert cost["problem"] == ""
    assert plugins["pluggent-guard"]["state"] == "active"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("raise SystemExit(9)", "SystemExit: 9"),
        ("import os; os._exit(7)", "importing it ended the process with exit code 7"),
        ("import os; os.abort()", "importing it ended the process by signal 6"),
        ("class Plugin:\n    def provide_tool(self, event): return []", "provide_tools"),
    ],
)
def test_a_plugin_that_fails_is_a_problem_and_no_end(cli, source, says):
    add(cli, "acme-bad", source)

    code, _, plugins = examine(cli)

    assert code == 1
    assert plugins["acme-bad"]["state"] == "failed"
    assert says in plugins["acme-bad"]["reason"]
    assert plugins["acme-bad"]["mend"] == "leave it out: --without acme-bad"
    assert plugins["pluggent-offline"]["state"] == "active"


def test_a_hook_plugin_that_may_not_run_or_cannot_is_a_problem(cli):
    add(cli, "acme-policy", POLICY, "hooks")
    asked = examine(cli)
    cli("trust", "--plugin", "acme-policy")
    (cli.site / "acme_policy.py").write_text("import nowhere")
    broken = examine(cli)

    assert (asked[0], asked[2]["acme-policy"]["state"]) == (1, "not accepted")
    assert asked[2]["acme-policy"]["mend"] == "pluggent trust --plugin acme-policy"
    assert (broken[0], broken[2]["acme-policy"]["state"]) == (1, "failed")
    assert "No module named 'nowhere'" in str(broken[2]["acme-policy"]["reason"])


def test_a_plugin_that_nobody_accepted_is_not_imported(cli):
    add(cli, "acme-policy", "open('imported.txt', 'w').close()\n" + POLICY, "hooks")

    examine(cli)

    assert not (cli.work / "imported.txt").exists()


def test_what_lies_in_the_working_directory_is_not_imported(cli):
    add(cli, "acme-tool", "import wave\n" + TOOLS.replace("import acme_helper\n", ""))
    for name in ("wave", "json", "asyncio"):
        (cli.work / f"{name}.py").write_text("open('taken.txt', 'w').close()\n")
    program = "import sys; from pluggent_cli.main import main; sys.exit(main(['doctor', '--json']))"

    done = cli(script=f'exec "$1" -P -c "{program}"')  # as the installed command starts: without that folder

    assert done.code == 0
    assert not (cli.work / "taken.txt").exists()


def test_required_plugins_that_do_not_run_are_a_problem(cli):
    (cli.work / "mine.toml").write_text(
        '[required]\npluggent-guard = ["decide_tool_call", "observe"]\nacme-gone = ["decide_input"]\n'
    )

    code, problems, _ = examine(cli, "--config", "mine.toml")

    assert code == 1
    assert problems == [
        ("plugin 'pluggent-guard' is required to implement observe, and does not, so nothing runs",
         "pip install --upgrade pluggent-guard"),
        ("plugin 'acme-gone' is required and does not run, so nothing does",
         "pip install acme-gone, or take it out of [required]"),
    ]  # fmt: skip


def test_settings_that_are_wrong_are_a_problem_and_the_plugins_are_examined_all_the_same(cli):
    (cli.work / "mine.toml").write_text('strict = "s3cret"\n[plugins.acme-gone]\nkey = "s3cret"\n')

    code, problems, plugins = examine(cli, "--config", "mine.toml")

    assert code == 1
    assert [mend for _, mend in problems] == ["pluggent config check"] * 2
    assert "there are settings for 'acme-gone', which is not installed" in problems[1][0]
    assert plugins["pluggent-guard"]["state"] == "active"


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

    code, problems, plugins = examine(cli)
    cli.state.chmod(0o700)

    assert code == 1
    assert problems == [(f"state {cli.state} cannot be written (mode 0000)", f"chmod u+rwx {cli.state}")]
    assert plugins["pluggent-guard"]["state"] == "active"


def test_a_damaged_store_of_what_was_accepted_is_a_problem(cli):
    cli.state.mkdir(mode=0o700)
    (cli.state / "trust.json").write_text("{")

    code, problems, _ = examine(cli)

    assert code == 1
    assert "trust.json is damaged" in problems[0][0]


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
    add(cli, "acme-vendor", source, "providers")
    cli("doctor")
    unasked = (cli.work / "asked.txt").exists()

    out = cli("doctor", "--online", COLUMNS="100").out

    assert not unasked
    assert "acme answers: 1 model\n" in out


def test_text_of_plugins_cannot_steer_the_terminal(cli):
    add(cli, "acme-bad", "raise RuntimeError('\\x1b[2J\\u202e')")

    out = cli("doctor").out

    assert "\\x1b[2J\\u202e" in out
    assert not {"\x1b", "\u202e"} & set(out)


def test_a_plugin_that_hangs_while_it_is_imported_can_be_interrupted_and_leaves_nothing(cli):
    add(cli, "acme-hang", "import os, threading\nopen(f'pid-{os.getpid()}', 'w').close()\nthreading.Event().wait()")
    process = cli.start("doctor")
    deadline = time.monotonic() + PATIENCE_S
    while not (pids := list(cli.work.glob("pid-*"))):
        assert time.monotonic() < deadline
        os.sched_yield()

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids[0].name.removeprefix("pid-")), 0)
