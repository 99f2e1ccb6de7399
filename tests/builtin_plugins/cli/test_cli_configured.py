"""What the system's file configures is required (policy 14, 29, 37), whatever the user, a variable or a flag says."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli, Done
from fake_distributions import install

PERMISSIONS = '[plugins.pluggent-permissions]\ndefault = "deny"\n'
GUARD = "[plugins.acme-guard]\n"
POLICY = """
from pluggent_hookspecs import Deny, hookimpl

class Plugin:
    @hookimpl
    def decide_input(self, event):
        return Deny("the system says no")
"""
OTHER = POLICY.replace("the system says no", "another says no")
SETTINGS_OF_USER = "config/pluggent/pluggent.toml"
WITHOUT = "pluggent-audit,pluggent-budget,pluggent-guard,pluggent-mcp,pluggent-office-hours,pluggent-redact"


class Configured:
    """The command on a system that has a file of settings, and plugin acme-guard, which denies all input."""

    def __init__(self, folder: Path) -> None:
        self._cli = Cli(folder)
        self._system = folder / "system.toml"
        self._user = folder / SETTINGS_OF_USER
        self._user.parent.mkdir(parents=True)
        self.site = self._cli.site
        self.policy("acme-guard", POLICY)

    def policy(self, name: str, source: str) -> None:
        module = name.replace("-", "_")
        install(self.site, name, {f"hooks/{name}": f"{module}:Plugin"}, modules={module: source})
        self._cli("trust", "--plugin", name)

    def __call__(self, *words: str, system: str = GUARD, user: str = "", stdin: str = "", **environ: str) -> Done:
        self._system.write_text(system)
        self._user.write_text(user)
        variables: dict[str, Any] = {
            "PLUGGENT_BLOCK": WITHOUT,
            "XDG_CONFIG_HOME": str(self._user.parents[1]),
            **environ,
        }
        return self._cli(*words, stdin=stdin, system=self._system, **variables)


@pytest.fixture
def pluggent(tmp_path: Path) -> Configured:
    return Configured(tmp_path)


USER_SAYS = {
    "safe": '[selection]\nmode = "safe"',
    "allow": '[selection]\nmode = "allow"\nallow = ["pluggent-offline"]',
    "another version": '[selection]\nmode = "allow"\nallow = ["pluggent-offline", "acme-guard==9"]',
    "block": '[selection]\nblock = ["acme-guard"]',
    "nothing": "",
}


@pytest.mark.parametrize("system", [GUARD, "[required]\nacme-guard = []\n"], ids=["section", "required"])
@pytest.mark.parametrize("user", USER_SAYS.values(), ids=USER_SAYS)
def test_no_setting_of_a_user_drops_a_policy_that_the_system_configures(pluggent: Configured, system: str, user: str):
    """Policy 37."""
    done = pluggent("run", "hello", system=system, user=user)

    assert (done.code, "the system says no" in done.err + done.out) == (3, True), done


@pytest.mark.parametrize("words", [["--safe"], ["--without", "acme-guard"], ["--config", "named.toml"]], ids=str)
def test_no_option_drops_a_policy_that_the_system_configures(pluggent: Configured, tmp_path: Path, words: list[str]):
    """Policy 37."""
    (tmp_path / "work" / "named.toml").write_text(USER_SAYS["allow"])

    done = pluggent("run", *words, "hello")

    assert (done.code, "the system says no" in done.err + done.out) == (3, True), done


@pytest.mark.parametrize(
    "environ",
    [
        {"PLUGGENT_MODE": "safe"},
        {"PLUGGENT_MODE": "allow", "PLUGGENT_ALLOW": "pluggent-offline"},
        {"PLUGGENT_BLOCK": f"{WITHOUT},acme-guard"},
    ],
    ids=str,
)
def test_no_variable_drops_a_policy_that_the_system_configures(pluggent: Configured, environ: dict[str, str]):
    """Policy 37."""
    done = pluggent("run", "hello", **environ)

    assert (done.code, "the system says no" in done.err + done.out) == (3, True), done


@pytest.mark.parametrize(
    ("words", "user"),
    [
        (["--safe"], ""),
        ([], USER_SAYS["allow"]),
        ([], USER_SAYS["safe"]),
        (["--without", "pluggent-permissions"], ""),
    ],
    ids=str,
)
def test_a_policy_of_ours_that_the_system_configures_is_not_dropped_either(
    pluggent: Configured, words: list[str], user: str
):
    """Policy 37."""
    done = pluggent("plugins", *words, "--json", system=PERMISSIONS, user=user)

    listed = json.loads(done.out)["plugins"]
    (hook,) = [one for one in listed if (one["plugin"], one["kind"]) == ("pluggent-permissions", "hooks")]
    assert hook["state"] == "available"
    assert hook["reason"].startswith("required: configured by ")
    wrong = pluggent(
        "run", *words, "hello", "--without", "acme-guard", system=PERMISSIONS.replace("deny", "?"), user=user
    )
    assert (wrong.code, "plugins.pluggent-permissions.default" in wrong.err) == (2, True), wrong


@pytest.mark.parametrize(
    "words",
    [("chat",), ("tools", "call", "forecast", "city=Oslo"), ("run", "hello"), ("mcp", "serve", "--tools", "*")],
)
def test_no_command_opens_without_a_policy_that_the_system_configures(pluggent: Configured, words: tuple[str, ...]):
    """Policy 37."""
    broken = POLICY.replace("class Plugin", "import gone\nclass Plugin")
    (pluggent.site / "acme_guard.py").write_text(broken)

    done = pluggent(*words, user='[grants]\noptional = ["acme-guard"]', stdin="hello\n",
                    PLUGGENT_BLOCK=WITHOUT.replace("pluggent-mcp,", ""))  # fmt: skip

    assert done.code == 5, done
    assert "acme-guard" in done.err
    assert "ignored, because" in done.err
    assert "grants.optional" in done.err


@pytest.mark.parametrize("system", ["[plugins.acme-gone]\n", "[required]\nacme-gone = []\n"])
@pytest.mark.parametrize("words", [(), ("--safe",)])
def test_what_the_system_configures_and_nobody_installed_keeps_the_command_from_opening(
    pluggent: Configured, system: str, words: tuple[str, ...]
):
    """Policy 14, 37."""
    done = pluggent("run", *words, "hello", system=system)

    assert done.code in (2, 5)
    assert "acme-gone" in done.err
    assert "system.toml, line" in done.err


def test_the_safe_mode_of_the_system_keeps_what_the_system_configures(pluggent: Configured):
    """Policy 37."""
    done = pluggent("run", "hello", system='[selection]\nmode = "safe"\n' + GUARD)

    assert (done.code, "the system says no" in done.err + done.out) == (3, True), done


@pytest.mark.parametrize("key", ["[plugins.acme-guard]", "[required]\nacme-guard = []"])
def test_an_allow_list_of_the_system_that_leaves_out_what_it_configures_contradicts_itself(
    pluggent: Configured, key: str
):
    """Policy 37."""
    done = pluggent("run", "hello", system=f'[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n{key}\n')

    named = key.partition("\n")[0].strip("[]").removesuffix(".acme-guard")
    assert done.code == 2
    assert f"selection.allow does not list acme-guard, which {named}.acme-guard" in done.err


def test_a_system_that_blocks_what_it_configures_contradicts_itself(pluggent: Configured):
    done = pluggent("run", "hello", system=f'[selection]\nblock = ["acme_guard"]\n{GUARD}')

    assert done.code == 2
    assert "selection.block lists acme-guard, which plugins.acme-guard" in done.err


def test_what_the_allow_list_of_the_system_leaves_out_is_not_loaded_and_reported_in_one_line(pluggent: Configured):
    """Policy 37: the operator's list is the operator's word."""
    pluggent.policy("acme-other", OTHER)
    system = '[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n'

    done = pluggent("run", "hello", system=system)

    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "acme-" in line]
    assert "acme-guard, acme-other" in line
    assert "selection.allow" in line


def test_a_user_who_narrows_the_list_of_the_system_drops_no_policy_in_silence(pluggent: Configured):
    """Policy 14: what the system's list has, and a user takes out of it, refuses to open as before."""
    system = '[selection]\nmode = "allow"\nallow = ["pluggent-offline", "acme-guard"]\n'

    done = pluggent("run", "hello", system=system, PLUGGENT_ALLOW="pluggent-offline")

    assert (done.code, "acme-guard" in done.err) == (5, True)


def test_safe_mode_runs_no_built_in_plugin_that_the_list_of_the_system_leaves_out(pluggent: Configured):
    """Policy 29, 37: safe mode is not a way around the list."""
    system = '[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n'

    done = pluggent("plugins", "--safe", "--json", system=system)

    running = {one["plugin"] for one in json.loads(done.out)["plugins"] if one["state"] == "available"}
    assert running == {"pluggent-offline"}


def test_a_plugin_without_hooks_that_the_system_configures_is_there_or_nothing_runs(pluggent: Configured):
    """Policy 37: one with models is needed installed and allowed, not loaded."""
    system = '[plugins.pluggent-openai]\napi_key = "env:NO_SUCH_KEY"\n'

    done = pluggent("run", "hello", "--without", "acme-guard", system=system, user=USER_SAYS["allow"])

    assert done.code == 0, done


def test_a_grant_of_the_system_requires_nothing(pluggent: Configured):
    """A grant says what a plugin may do if it runs."""
    done = pluggent("run", "hello", "--without", "acme-guard", system='[grants]\nmay_respond = ["acme-guard"]\n')

    assert done.code == 0, done


def test_what_is_required_by_the_system_is_shown_with_the_place(pluggent: Configured):
    shown = pluggent("plugins", "--safe")
    doctor = pluggent("doctor", "--safe")

    said = " ".join(shown.out.split())
    assert "required: configured by" in said
    assert "system.toml, line 1" in said
    assert "acme-guard' is required and does not run" not in doctor.out
