"""Plugins and modules in the project, which the command neither runs nor passes over in silence (27, 38)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import Cli
from fake_distributions import install
from workspace import ROOT

POLICY = """
from pluggent_hookspecs import Deny, hookimpl

class Plugin:
    @hookimpl
    def decide_input(self, event):
        return Deny({reason!r})
"""
SCRIPT = Path(sys.executable).with_name("pluggent")
EVIL = "import os; os._exit(9)"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def add_policy(folder: Path, reason: str = "policy says no", version: str = "1.0") -> Path:
    modules = {"acme_policy": POLICY.format(reason=reason)}
    return install(folder, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules=modules, version=version)


def by_script(cli: Cli, *arguments: str, **environ: str | None) -> tuple[int, str]:
    """Run the installed command itself; return its exit code and all that it wrote."""
    done = subprocess.run(  # noqa: S603 (the command itself)
        [SCRIPT, *arguments], cwd=cli.work, env=cli.environ(**environ), capture_output=True, text=True, check=False,
        timeout=30, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def listed(cli: Cli, path: str) -> list[tuple[str, str]]:
    document = json.loads(cli("plugins", "--json", PYTHONPATH=path).out)
    return [(one["state"], one["location"]) for one in document["plugins"] if one["plugin"] == "acme-policy"]


# ---- what is skipped is said -------------------------------------------------------------


@pytest.mark.parametrize("element", ["absolute", "relative", "inner"])
def test_a_policy_on_pythonpath_in_the_project_is_not_skipped_in_silence(cli, element):
    """Policy 38: it is reported by name, and nothing runs until somebody has accepted it or agreed."""
    info = add_policy(cli.work / "lib")
    given = {"absolute": str(cli.work / "lib"), "relative": "lib", "inner": f"{cli.site}::lib"}[element]

    for command in (("run", "hello"), ("chat",), ("tools", "call", "x")):
        done = cli(*command, PYTHONPATH=given)
        assert done.code == 2, done
        assert "plugin 'acme-policy' 1.0 has hooks and is skipped" in done.err
        assert f"{cli.work / 'lib'} lies in the project" in done.err
        assert "pluggent trust --plugin acme-policy" in done.err
    assert listed(cli, given) == [("skipped", str(info))]
    assert cli("hooks", PYTHONPATH=given).code == cli("tools", PYTHONPATH=given).code == 0
    assert "acme-policy" in cli("doctor", PYTHONPATH=given).out


def test_a_policy_in_the_project_runs_once_it_was_accepted(cli):
    add_policy(cli.work / "lib")
    path = str(cli.work / "lib")

    accepted = cli("trust", "--plugin", "acme-policy", PYTHONPATH=path)

    assert accepted.code == 0
    assert str(cli.work / "lib") in accepted.out
    for given in (path, "lib", f"lib:{path}"):
        done = cli("run", "hello", PYTHONPATH=given)
        assert "policy says no" in done.out + done.err
    assert f"{cli.work / 'lib'}" in cli("trust", "--list").out

    assert cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=path).code == 0
    assert "is skipped" in cli("run", "hello", PYTHONPATH=path).err


def test_what_was_accepted_of_the_project_is_one_version_in_one_folder(cli):
    info = add_policy(cli.work / "lib")
    path = str(cli.work / "lib")
    cli("trust", "--plugin", "acme-policy", PYTHONPATH=path)

    shutil.copytree(cli.work / "lib", cli.work / "other")
    assert "is skipped" in cli("run", "hello", PYTHONPATH=str(cli.work / "other")).err

    metadata = info / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))
    assert "plugin 'acme-policy' 2.0 has hooks and is skipped" in cli("run", "hello", PYTHONPATH=path).err


def test_the_acceptance_of_an_installed_policy_does_not_cover_one_in_the_project(cli):
    """A cloned repository may name its package after one that was accepted."""
    add_policy(cli.site, "installed no")
    cli("trust", "--plugin", "acme-policy")
    shutil.rmtree(cli.site)
    cli.site.mkdir()
    add_policy(cli.work, "repository no")

    done = cli("run", "hello", PYTHONPATH=str(cli.work))

    assert done.code == 2
    assert "is skipped" in done.err


def test_somebody_may_agree_that_a_policy_in_the_project_is_left_out(cli):
    info = add_policy(cli.work / "lib")
    path = str(cli.work / "lib")

    agreed = cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=path)

    assert (agreed.code, cli("run", "hello", PYTHONPATH=path).code) == (0, 0)
    assert listed(cli, path) == [("blocked", str(info))]
    assert "left out" in cli("trust", "--list").out


def test_a_policy_in_the_project_may_be_left_out_for_once_or_by_the_settings(cli):
    add_policy(cli.work / "lib")
    path = str(cli.work / "lib")

    assert cli("run", "--without", "acme-policy", "hello", PYTHONPATH=path).code == 0
    assert cli("run", "hello", PYTHONPATH=path, PLUGGENT_BLOCK="acme-policy").code == 0


def test_nothing_that_a_host_runs_accepts_a_policy_of_the_project(cli):
    add_policy(cli.work / "lib")
    path = str(cli.work / "lib")

    for words in (("--plugin", "acme-policy"), ("--revoke", "--plugin", "acme-policy")):
        assert cli("trust", *words, PYTHONPATH=path, PLUGGENT_INSIDE="1").code == 2
    assert "is skipped" in cli("run", "hello", PYTHONPATH=path).err


def test_a_second_copy_in_the_project_is_said_and_the_first_goes_on_when_somebody_agrees(cli):
    add_policy(cli.site, "installed no")
    cli("trust", "--plugin", "acme-policy")
    info = add_policy(cli.work / "lib", "repository no", version="2.0")
    path = f"{cli.site}:{cli.work / 'lib'}"

    refused = cli("run", "hello", PYTHONPATH=path)
    agreed = cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=path)
    done = cli("run", "hello", PYTHONPATH=path)

    assert (refused.code, agreed.code) == (2, 0)
    assert str(info) in refused.err
    assert "installed no" in done.out + done.err


def test_a_tool_in_the_project_is_listed_as_skipped_and_keeps_nothing_from_running(cli):
    install(cli.work / "lib", "acme-policy", {"tools/a": "acme_tool:Plugin"})

    assert cli("run", "hello", PYTHONPATH=str(cli.work / "lib")).code == 0
    assert [state for state, _ in listed(cli, str(cli.work / "lib"))] == ["skipped"]


def test_the_root_folder_as_working_directory_makes_no_policy_part_of_the_project(cli):
    """Policy 38: services of systemd and containers start in /."""
    add_policy(cli.site)
    assert cli("trust", "--plugin", "acme-policy").code == 0
    cli.work = Path("/")

    done = cli("run", "hello")

    assert "policy says no" in done.out + done.err


# ---- what shadows nothing ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "name", "way"),
    [
        (":{site}", "acme_policy", "script"), (":{site}", "acme_policy", "module"), ("{site}:", "attr", "script"),
        ("{site}::/nowhere", "pluggy", "module"), (".:{site}", "pluggent_hookspecs", "script"),
        ("./:{site}", "cattrs", "script"), ("{work}:{site}", "acme_policy", "script"),
    ],
)  # fmt: skip
def test_no_element_of_pythonpath_lets_the_repository_shadow_what_is_installed(cli, given, name, way):
    """Policies 27 and 38: an empty one, a relative one, one in the project."""
    add_policy(cli.site)
    assert cli("trust", "--plugin", "acme-policy").code == 0
    (cli.work / name).mkdir()
    (cli.work / name / "__init__.py").write_text(EVIL)
    path = given.format(site=cli.site, work=cli.work)

    if way == "script":
        code, said = by_script(cli, "run", "hello", PYTHONPATH=path)
    else:
        code, *texts = cli("run", "hello", PYTHONPATH=path)
        said = "".join(texts)

    assert code != 9, "a module of the working directory was run"
    assert "policy says no" in said


def test_a_folder_outside_the_project_may_be_named_relatively_and_shadows_nothing(cli):
    add_policy(cli.site)
    cli("trust", "--plugin", "acme-policy")
    (cli.site / "attr").mkdir()
    (cli.site / "attr" / "__init__.py").write_text(EVIL)

    done = cli("run", "hello", PYTHONPATH=os.path.relpath(cli.site, cli.work))

    assert "policy says no" in done.out + done.err


def test_a_package_split_over_the_project_is_imported_from_where_it_is_installed(cli):
    """A namespace package has a portion in every folder of sys.path."""
    modules = {"acme.policy": POLICY.format(reason="policy says no")}
    install(cli.site, "acme-policy", {"hooks/policy": "acme.policy:Plugin"}, modules=modules)
    cli("trust", "--plugin", "acme-policy")
    (cli.work / "acme").mkdir()
    (cli.work / "acme" / "policy.py").write_text(EVIL)

    code, said = by_script(cli, "run", "hello", PYTHONPATH=f":{cli.site}")

    assert code != 9
    assert "policy says no" in said


def test_what_is_installed_editable_runs_from_the_project_that_pythonpath_names_too(cli):
    """Its author works there; the installation of this checkout is editable itself."""
    cli.work = ROOT

    assert by_script(cli, "run", "hello", PYTHONPATH="hookspecs:builtin_plugins/offline::host")[0] == 0


def test_the_completion_runs_nothing_of_the_repository(cli):
    (cli.work / "attr.py").write_text(EVIL)

    assert by_script(cli, "__complete", "bash", "plugins", "show", "", PYTHONPATH=":")[0] == 0
