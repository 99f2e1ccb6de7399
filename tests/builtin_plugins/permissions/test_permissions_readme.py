"""The README of the permissions plugin: its examples run, and it leaves no field out."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import attrs
import pluggent_permissions
import pytest
from pluggent_cli.main import main
from pluggent_permissions.addresses import SETS
from pluggent_permissions.argument_settings import ArgumentTest, HostTest, UrlTest
from pluggent_permissions.settings import MODES, Conditions, PermissionSettings, Rule

TEXT = (Path(pluggent_permissions.__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(toml|console)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
CONSOLES = [(settings, block) for (_, settings), (kind, block) in pairwise(BLOCKS) if kind == "console"]


@pytest.mark.parametrize("settings", [block for kind, block in BLOCKS if kind == "toml"])
def test_the_settings_shown_are_settings(settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "shown.toml"
    file.write_text(settings, "utf-8")

    assert main(["--config", str(file), "permissions", "show"]) == 0
    assert "rule" in capsys.readouterr().out or "mode" in settings


@pytest.mark.parametrize(("settings", "console"), CONSOLES)
def test_the_commands_shown_answer_so(
    settings: str, console: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shown.toml").write_text(settings, "utf-8")
    shown = re.findall(r"^\$ pluggent (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)

    assert len(shown) == console.count("$ pluggent")
    for command, output in shown:
        main(["--config", "shown.toml", *shlex.split(command)])
        assert capsys.readouterr() == (output, "")


@pytest.mark.parametrize("kind", [PermissionSettings, Rule, Conditions, ArgumentTest, UrlTest, HostTest])
def test_every_field_is_explained(kind: type[attrs.AttrsInstance]):
    explained = set(re.findall(r"`([a-z_]+)`", TEXT)) | {"rules"}

    assert {field.name for field in attrs.fields(kind)} <= explained


def test_every_named_set_and_every_mode_is_explained():
    assert {name for name in (*SETS, *MODES) if f"`{name}`" not in TEXT} == set()


def test_the_table_of_modes_is_the_one_in_force():
    rows = re.findall(r"^\| ([a-z_, ]+) \| (\w+) \| (\w+) \| (\w+) \|$", TEXT, re.MULTILINE)

    shown = {
        mode: {effect.strip(): row[place] for row in rows for effect in row[0].split(",")}
        for place, mode in enumerate(MODES, 1)
    }
    assert shown == {mode: dict(table) for mode, table in MODES.items()}
