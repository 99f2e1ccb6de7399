"""What the system's file configures is required (policy 14, 29, 37), whatever the user, a variable or a flag says."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli, Done
from each_of import each_of
from fake_distributions import policy
from pluggent_plugin_loader.discovery import discover

PERMISSIONS = '[plugins.pluggent-permissions]\ndefault = "deny"\n'
GUARD = "[plugins.acme-guard]\n"
POLICY = policy("decide_input", 'Deny("the system says no")')
WITHOUT = "pluggent-audit,pluggent-budget,pluggent-guard,pluggent-mcp,pluggent-office-hours,pluggent-redact"
OTHERS = ",".join(item.name for item in discover().distributions if item.name != "pluggent-offline")
"""Plugins that take the doctor time to measure."""
OFFLINE_ONLY = '[selection]\nmode = "allow"\nallow = ["pluggent-offline"]\n'
OTHER_VERSION = OFFLINE_ONLY.replace('"]', '", "acme-guard==9"]')
SAFE = '[selection]\nmode = "safe"\n'


class Configured:
    """The command on a system that has a file of settings, and plugin acme-guard, which denies all input."""

    def __init__(self, cli: Cli, folder: Path) -> None:
        self.cli = cli
        self._system = folder / "system.toml"
        self._user = folder / "config/pluggent/pluggent.toml"
        self._user.parent.mkdir(parents=True)
        cli.plugin("acme-guard", POLICY, "hooks", accepted=True)

    def __call__(self, *words: str, system: str = GUARD, user: str = "", stdin: str = "", **environ: str) -> Done:
        self._system.write_text(system)
        self._user.write_text(user)
        variables: Any = {"PLUGGENT_BLOCK": WITHOUT, "XDG_CONFIG_HOME": str(self._user.parents[1]), **environ}
        return self.cli(*words, stdin=stdin, system=self._system, **variables)

    def plugins(self, *words: str, **options: str) -> Any:
        return json.loads(self("plugins", "--json", *words, **options).out)["plugins"]

    def denies(self, *words: str, **options: str) -> None:
        """Fail unless a run is denied by the policy of the system."""
        done = self("run", *words, "hello", **options)
        assert (done.code, "the system says no" in done.err + done.out) == (3, True), done


@pytest.fixture
def pluggent(cli, tmp_path):
    return Configured(cli, tmp_path)


@each_of("system", [GUARD, "[required]\nacme-guard = []\n"])
@each_of("user", [SAFE, OFFLINE_ONLY, OTHER_VERSION, '[selection]\nblock = ["acme-guard"]', ""])
def test_no_setting_of_a_user_drops_a_policy_that_the_system_configures(pluggent, system, user):
    """Policy 37."""
    pluggent.denies(system=system, user=user)


@each_of("words", ["--safe", "--without acme-guard", "--config named.toml"])
def test_no_option_drops_a_policy_that_the_system_configures(pluggent, words):
    """Policy 37."""
    (pluggent.cli.work / "named.toml").write_text(OFFLINE_ONLY)

    pluggent.denies(*words.split())


@each_of(
    "environ",
    [
        {"PLUGGENT_MODE": "safe"},
        {"PLUGGENT_MODE": "allow", "PLUGGENT_ALLOW": "pluggent-offline"},
        {"PLUGGENT_BLOCK": f"{WITHOUT},acme-guard"},
    ],
)
def test_no_variable_drops_a_policy_that_the_system_configures(pluggent, environ):
    """Policy 37."""
    pluggent.denies(**environ)


@each_of(
    ("words", "user"), [("--safe", ""), ("", OFFLINE_ONLY), ("", SAFE), ("--without pluggent-permissions", "")]
)  # fmt: skip
def test_a_policy_of_ours_that_the_system_configures_is_not_dropped_either(pluggent, words, user):
    """Policy 37."""
    listed = pluggent.plugins(*words.split(), system=PERMISSIONS, user=user)
    (hook,) = [one for one in listed if (one["plugin"], one["kind"]) == ("pluggent-permissions", "hooks")]
    assert hook["state"] == "available"
    assert hook["reason"].startswith("required: configured by ")
    broken = PERMISSIONS.replace("deny", "?")
    wrong = pluggent("run", *words.split(), "hello", "--without", "acme-guard", system=broken, user=user)
    assert (wrong.code, "plugins.pluggent-permissions.default" in wrong.err) == (2, True), wrong


@each_of("words", ["chat", "tools call forecast city=Oslo", "run hello", "mcp serve --tools *"])
def test_no_command_opens_without_a_policy_that_the_system_configures(pluggent, words):
    """Policy 37."""
    (pluggent.cli.site / "acme_guard.py").write_text(POLICY.replace("class Plugin", "import gone\nclass Plugin"))

    done = pluggent(*words.split(), user='[grants]\noptional = ["acme-guard"]', stdin="hello\n",
                    PLUGGENT_BLOCK=WITHOUT.replace("pluggent-mcp,", ""))  # fmt: skip

    assert done.code == 5, done
    assert "acme-guard" in done.err
    assert "ignored, because" in done.err
    assert "grants.optional" in done.err


@each_of("system", ["[plugins.acme-gone]\n", "[required]\nacme-gone = []\n"])
@each_of("words", ["", "--safe"])
def test_what_the_system_configures_and_is_not_installed_keeps_the_command_from_opening(pluggent, system, words):
    """Policy 14, 37."""
    done = pluggent("run", *words.split(), "hello", system=system)

    assert done.code in (2, 5)
    assert "acme-gone" in done.err
    assert "system.toml, line" in done.err


def test_the_safe_mode_of_the_system_keeps_what_the_system_configures(pluggent):
    """Policy 37."""
    pluggent.denies(system=SAFE + GUARD)


@each_of(
    ("system", "says"),
    [
        (OFFLINE_ONLY + GUARD, "selection.allow does not list acme-guard, which plugins.acme-guard"),
        (f"{OFFLINE_ONLY}[required]\nacme-guard = []\n",
         "selection.allow does not list acme-guard, which required.acme-guard"),
        (f'[selection]\nblock = ["acme_guard"]\n{GUARD}', "selection.block lists acme-guard, which plugins.acme-guard"),
    ],
)  # fmt: skip
def test_a_system_that_leaves_out_what_it_configures_contradicts_itself(pluggent, system, says):
    """Policy 37."""
    done = pluggent("run", "hello", system=system)

    assert (done.code, says in done.err) == (2, True), done


def test_what_the_allow_list_of_the_system_leaves_out_is_not_loaded_and_reported_in_one_line(pluggent):
    """Policy 37: the operator's list is the operator's word."""
    pluggent.cli.plugin("acme-other", POLICY.replace("the system", "another"), "hooks", accepted=True)

    done = pluggent("run", "hello", system=OFFLINE_ONLY)

    assert done.code == 0
    (line,) = [line for line in done.err.splitlines() if "acme-" in line]
    assert "acme-guard, acme-other" in line
    assert "selection.allow" in line


def test_a_user_who_narrows_the_list_of_the_system_drops_no_policy_in_silence(pluggent):
    """Policy 14: what the system's list has, and a user takes out of it, refuses to open as before."""
    system = OFFLINE_ONLY.replace('"]', '", "acme-guard"]')

    done = pluggent("run", "hello", system=system, PLUGGENT_ALLOW="pluggent-offline")

    assert (done.code, "acme-guard" in done.err) == (5, True)


def test_safe_mode_runs_no_built_in_plugin_that_the_list_of_the_system_leaves_out(pluggent):
    """Policy 29, 37: safe mode is not a way around the list."""
    listed = pluggent.plugins("--safe", system=OFFLINE_ONLY)

    assert {one["plugin"] for one in listed if one["state"] == "available"} == {"pluggent-offline"}


@each_of(
    ("system", "user"),
    [
        ('[plugins.pluggent-openai]\napi_key = "env:NO_SUCH_KEY"\n', OFFLINE_ONLY),
        ('[grants]\nmay_respond = ["acme-guard"]\n', ""),
    ],
)
def test_settings_of_a_provider_and_grants_of_the_system_require_nothing_to_be_loaded(pluggent, system, user):
    """Policy 37: a plugin with models is needed installed and allowed; a grant says what a plugin may do if it runs."""
    done = pluggent("run", "hello", "--without", "acme-guard", system=system, user=user)

    assert done.code == 0, done


def test_what_is_required_by_the_system_is_shown_with_the_place(pluggent):
    said = " ".join(pluggent("plugins", "--safe").out.split())
    doctor = pluggent("doctor", "--safe", "--without", OTHERS)

    assert "required: configured by" in said
    assert "system.toml, line 1" in said
    assert "acme-guard' is required and does not run" not in doctor.out


# ---- lists, case by case (policy 37) -----------------------------------------------------

REDACT = "[plugins.pluggent-redact]\n"
"""Settings of a policy of ours that no source requires."""
WITH_REDACT = {"PLUGGENT_BLOCK": WITHOUT.removesuffix(",pluggent-redact") + ",acme-guard"}
LEFT_OUT = "[selection] allow does not list pluggent-redact"


@each_of(
    ("words", "user", "environ"),
    [
        ("", OFFLINE_ONLY + REDACT, {}),
        ("--config list.toml", REDACT, {}),
        ("--config both.toml", "", {}),
        ("", REDACT, {"PLUGGENT_MODE": "allow", "PLUGGENT_ALLOW": "pluggent-offline"}),
    ],
    ids=["one file", "another file", "a named file", "variables"],
)
def test_a_list_that_leaves_out_a_policy_with_settings_refuses_to_open(pluggent, words, user, environ):
    """Policy 37: only what is required or configured refuses to open."""
    (pluggent.cli.work / "list.toml").write_text(OFFLINE_ONLY)
    (pluggent.cli.work / "both.toml").write_text(OFFLINE_ONLY + REDACT)
    options = {"system": "", "user": user, **WITH_REDACT, **environ}

    ran = pluggent("run", *words.split(), "hello", **options)
    checked = pluggent("config", "check", *words.split(), **options)

    assert (ran.code, LEFT_OUT in ran.err) == (5, True), ran
    assert (checked.code, LEFT_OUT in checked.out) == (5, True), checked


@each_of("words", ["", "--safe"])
def test_a_list_of_the_system_that_leaves_out_what_a_user_configures_refuses_to_open(pluggent, words):
    """Policy 37: who has configured a policy does not run without it unknowingly, in safe mode neither."""
    done = pluggent("run", *words.split(), "hello", system=OFFLINE_ONLY, user=REDACT, **WITH_REDACT)

    assert (done.code, LEFT_OUT in done.err) == (5, True), done


@each_of("user", [OFFLINE_ONLY, f'{OFFLINE_ONLY}{REDACT}[grants]\noptional = ["pluggent-redact"]\n'])
def test_a_list_leaves_out_a_policy_of_ours_without_settings_or_that_is_optional(pluggent, user):
    """Policy 14, 37."""
    done = pluggent("run", "hello", system="", user=user, **WITH_REDACT)

    assert done.code == 0, done


def test_a_policy_that_a_user_requires_is_not_left_out_by_a_list(pluggent):
    """Policy 37."""
    user = OFFLINE_ONLY + "[required]\npluggent-redact = []\n"

    done = pluggent("run", "hello", system="", user=user, **WITH_REDACT)

    assert (done.code, "pluggent-redact" in done.err) == (5, True), done


def test_settings_of_what_is_no_policy_and_is_not_listed_keep_nothing_from_opening(pluggent):
    """Policy 37 is about hooks: a tool or a model that is left out is missed by who asks for it."""
    user = OFFLINE_ONLY + '[plugins.pluggent-openai]\napi_key = "env:NO_SUCH_KEY"\n[plugins.pluggent-files]\n'

    done = pluggent("run", "hello", system="", user=user, **WITH_REDACT)

    assert done.code == 0, done


@each_of("user", [OFFLINE_ONLY, ""])
def test_a_list_of_a_user_that_leaves_out_a_policy_of_others_refuses_to_open(pluggent, user):
    """Policy 14: the list that is the operator's word is that of the system."""
    done = pluggent("run", "hello", system="", user=user or OFFLINE_ONLY.replace("offline", "openai"))

    assert (done.code, "[selection] allow does not list acme-guard" in done.err) == (5, True), done


@each_of("words", ["", "--safe"])
def test_what_the_list_of_the_system_leaves_out_is_one_line_in_every_mode(pluggent, words):
    """Policy 37."""
    done = pluggent("run", *words.split(), "hello", system=OFFLINE_ONLY)

    lines = [line for line in done.err.splitlines() if "acme-guard" in line]
    assert (done.code, len(lines)) == (0, 1), done
    assert lines[0].startswith("warning: not loaded, because selection.allow of the system's settings does not list")


def test_a_file_of_a_project_that_is_not_trusted_has_no_say_in_the_list(pluggent):
    """Policy 28, 37."""
    (pluggent.cli.work / "pluggent.toml").write_text(OFFLINE_ONLY)

    pluggent.denies()
