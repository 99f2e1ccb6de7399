"""Who the command asks for: the system's user, or whom the user's or the system's settings name; budgets per person."""

import json
import os
import pwd
from pathlib import Path

import pytest
from cli_support import NOT_BY_DEFAULT, Cli
from each_of import each_of
from pluggent_cli.config import load_settings
from pluggent_cli.host_access import system_user

BUDGET = """
[plugins.pluggent-budget]
path = "{path}"

[[plugins.pluggent-budget.limits]]
per = ["principal"]
model_calls = 1
"""
WITH_BUDGET = NOT_BY_DEFAULT.replace("pluggent-budget,", "")


@pytest.fixture
def user(cli: Cli, tmp_path: Path) -> Path:
    """Return where the settings of the user are."""
    file = tmp_path / "config" / "pluggent" / "pluggent.toml"
    file.parent.mkdir(parents=True)
    return file


def principal(cli: Cli, user: Path, **options) -> str:
    """Return who begins a session."""
    done = cli("run", "--session", "s", "hello", XDG_CONFIG_HOME=str(user.parents[1]), **options)
    assert done.code == 0, done
    (file,) = (cli.state / "sessions").glob("s.jsonl")
    began = json.loads(file.read_text().splitlines()[0])
    file.unlink()
    return began.get("principal", "")


def test_the_principal_is_who_the_system_says_or_whom_the_settings_of_the_user_name(cli, user):
    assert principal(cli, user) == pwd.getpwuid(os.getuid()).pw_name
    assert principal(cli, user, PLUGGENT_PRINCIPAL="mallory", USER="mallory") == system_user()

    user.write_text('principal = "ann"\n')

    assert principal(cli, user) == "ann"
    (setting,) = [one for one in cli.document("config", XDG_CONFIG_HOME=str(user.parents[1]))["settings"]
                  if one["key"] == "principal"]  # fmt: skip
    assert (setting["value"], setting["origin"]["where"]) == ("ann", str(user))


def test_the_file_of_a_project_names_nobody_trusted_or_not(cli, user):
    (cli.work / "pluggent.toml").write_text('principal = "boss"\non_ask = "deny"\n')

    untrusted = principal(cli, user), cli("config").err
    assert cli("trust", "pluggent.toml").code == 0
    trusted = principal(cli, user), cli("config").err

    for name, said in (untrusted, trusted):
        assert name == system_user()
        assert "pluggent.toml: ignored, because only your own settings and the system's set it: principal" in said


def test_what_the_system_names_or_locks_no_user_changes(cli, user, tmp_path):
    system = tmp_path / "system.toml"
    user.write_text('principal = "ann"\n')

    for text, name in (('principal = "kiosk"\n', "kiosk"), ('lock = ["principal"]\n', system_user())):
        system.write_text(text)
        assert principal(cli, user, system=system) == name


@each_of("name", ['""', '"claimed:ann"', '"a\\nb"', f'"{"x" * 201}"', "7"])
def test_a_principal_is_a_name_that_is_not_only_claimed(cli, user, name):
    user.write_text(f"principal = {name}\n")

    done = cli("run", "hello", XDG_CONFIG_HOME=str(user.parents[1]))

    assert (done.code, "principal: expected a name of 1 to 200 printable characters" in done.err) == (2, True)


def test_a_budget_per_person_holds_in_the_command_and_a_user_cannot_move_its_ledger(cli, user, tmp_path):
    system, ledger = tmp_path / "system.toml", tmp_path / "ledgers" / "budget.db"
    system.write_text(f'lock = ["principal"]\n{BUDGET.format(path=ledger)}')
    options = {
        "system": system, "PLUGGENT_BLOCK": WITH_BUDGET, "XDG_CONFIG_HOME": str(user.parents[1]), "HOME": str(tmp_path)
    }  # fmt: skip

    first = cli("run", "hello", **options)
    user.write_text(f'principal = "ann"\n{BUDGET.format(path=tmp_path / "own.db")}')
    second = cli("run", "hello", PLUGGENT_STATE_DIR=str(tmp_path / "elsewhere"), **options)

    assert (first.code, second.code) == (0, 3)
    assert "limit of model calls per principal" in second.err
    assert not (tmp_path / "own.db").exists()
    (account,) = json.loads(cli("budget", "--json", **options).out)
    assert account["of"] == {"principal": system_user()}


def test_a_path_in_the_settings_of_the_system_begins_in_the_home_that_the_system_knows(tmp_path):
    system, user = tmp_path / "system.toml", tmp_path / ".config" / "pluggent" / "pluggent.toml"
    user.parent.mkdir(parents=True)
    system.write_text('[plugins.acme]\nfile = "~/acme.db"\nmany = ["~/x", "~y"]\n')
    user.write_text('[plugins.bolt]\nfile = "~/bolt.db"\n')

    loaded = load_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path, system=system)

    home = pwd.getpwuid(os.getuid()).pw_dir
    assert loaded.settings.plugins["acme"] == {"file": f"{home}/acme.db", "many": [f"{home}/x", "~y"]}
    assert loaded.settings.plugins["bolt"] == {"file": "~/bolt.db"}
