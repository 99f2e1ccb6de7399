"""Plugins and modules in the project, which the command neither runs nor passes over in silence (27, 38)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_support import Cli, Done
from each_of import each_of
from fake_distributions import install, policy
from workspace import ROOT

SCRIPT = Path(sys.executable).with_name("pluggent")
EVIL = "import os; os._exit(9)"


@pytest.fixture
def lib(cli: Cli) -> Path:
    """Return a folder of the project in which a policy is installed."""
    add_policy(cli, cli.work / "lib")
    return cli.work / "lib"


def add_policy(cli: Cli, folder: Path, reason: str = "policy says no", **options: Any) -> Path:
    return cli.plugin("acme-policy", policy("decide_input", f"Deny({reason!r})"), "hooks", folder=folder, **options)


def by_script(cli: Cli, *arguments: str, **environ: str | None) -> tuple[int, str]:
    """Run the installed command itself; return its exit code and all that it wrote."""
    done = subprocess.run(  # noqa: S603 (the command itself)
        [SCRIPT, *arguments], cwd=cli.work, env=cli.environ(**environ), capture_output=True, text=True, check=False,
        timeout=30, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def listed(cli: Cli, path: Path | str) -> list[tuple[str, str]]:
    document = cli.document("plugins", PYTHONPATH=str(path))
    return [(one["state"], one["location"]) for one in document["plugins"] if one["plugin"] == "acme-policy"]


def say_hello(cli: Cli, path: Path | str, *options: str, **environ: Any) -> Done:
    return cli("run", *options, "hello", PYTHONPATH=str(path), **environ)


def denied(done: Done, reason: str = "policy says no") -> bool:
    return reason in done.out + done.err


# ---- what is skipped is said -------------------------------------------------------------


def test_a_policy_on_pythonpath_in_the_project_is_not_skipped_in_silence(cli, lib):
    """Policy 38: it is reported by name, and nothing runs until it was accepted or left out."""
    info = str(lib / "acme_policy-1.0.dist-info")

    def refused(path: str, *command: str) -> None:
        done = cli(*command, PYTHONPATH=path)
        assert done.code == 2, done
        assert "plugin 'acme-policy' 1.0 has hooks and is skipped" in done.err
        assert f"{lib} lies in the project" in done.err
        assert "pluggent trust --plugin acme-policy" in done.err
        assert listed(cli, path) == [("skipped", info)]

    for command in (("run", "hello"), ("chat",), ("tools", "call", "x")):
        refused(str(lib), *command)
    for relative in ("lib", f"{cli.site}::lib"):
        refused(relative, "run", "hello")
    assert cli("hooks", PYTHONPATH=str(lib)).code == cli("tools", PYTHONPATH=str(lib)).code == 0
    others = ",".join({one["plugin"] for one in cli.document("plugins")["plugins"]})
    assert "acme-policy" in cli("doctor", "--without", others, PYTHONPATH=str(lib)).out


def test_a_policy_in_the_project_runs_once_it_was_accepted(cli, lib):
    accepted = cli("trust", "--plugin", "acme-policy==1.0", PYTHONPATH=str(lib))

    assert (accepted.code, str(lib) in accepted.out) == (0, True)
    for given in (lib, "lib", f"lib:{lib}"):
        assert denied(say_hello(cli, given))
    assert str(lib) in cli("trust", "--list").out

    assert cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=str(lib)).code == 0
    assert "is skipped" in say_hello(cli, lib).err


def test_what_was_accepted_of_the_project_is_one_version_in_one_folder(cli, lib):
    cli("trust", "--plugin", "acme-policy==1.0", PYTHONPATH=str(lib))

    shutil.copytree(lib, cli.work / "other")
    assert "is skipped" in say_hello(cli, cli.work / "other").err

    metadata = lib / "acme_policy-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))
    assert "plugin 'acme-policy' 2.0 has hooks and is skipped" in say_hello(cli, lib).err


def test_the_acceptance_of_an_installed_policy_does_not_cover_one_in_the_project(cli):
    """A cloned repository may name its package after one that was accepted."""
    add_policy(cli, cli.site, "installed no", accepted=True)
    shutil.rmtree(cli.site)
    cli.site.mkdir()
    add_policy(cli, cli.work, "repository no")

    done = say_hello(cli, cli.work)

    assert (done.code, "is skipped" in done.err) == (2, True)


def test_a_policy_in_the_project_can_be_left_out_for_good_or_for_once_or_by_the_settings(cli, lib):
    assert say_hello(cli, lib, "--without", "acme-policy").code == 0
    assert say_hello(cli, lib, PLUGGENT_BLOCK="acme-policy").code == 0
    assert say_hello(cli, lib).code == 2

    agreed = cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=str(lib))
    assert (agreed.code, say_hello(cli, lib).code) == (0, 0)
    assert listed(cli, lib) == [("blocked", str(lib / "acme_policy-1.0.dist-info"))]
    assert "left out" in cli("trust", "--list").out


@each_of("words", ["--plugin acme-policy", "--revoke --plugin acme-policy"])
def test_nothing_that_a_host_runs_accepts_a_policy_of_the_project(cli, lib, words):
    assert cli("trust", *words.split(), PYTHONPATH=str(lib), PLUGGENT_INSIDE="1").code == 2
    assert "is skipped" in say_hello(cli, lib).err


def test_a_second_copy_in_the_project_is_said_and_the_first_runs_once_that_is_accepted(cli):
    add_policy(cli, cli.site, "installed no", accepted=True)
    info = add_policy(cli, cli.work / "lib", "repository no", version="2.0")
    path = f"{cli.site}:{cli.work / 'lib'}"

    refused = say_hello(cli, path)
    agreed = cli("trust", "--revoke", "--plugin", "acme-policy", PYTHONPATH=path)

    assert (refused.code, agreed.code) == (2, 0)
    assert str(info) in refused.err
    assert denied(say_hello(cli, path), "installed no")


def test_a_tool_in_the_project_is_listed_as_skipped_and_keeps_nothing_from_running(cli):
    install(cli.work / "lib", "acme-policy", {"tools/a": "acme_tool:Plugin"})

    assert say_hello(cli, cli.work / "lib").code == 0
    assert [state for state, _ in listed(cli, cli.work / "lib")] == ["skipped"]


def test_the_root_folder_as_working_directory_makes_no_policy_part_of_the_project(cli):
    """Policy 38: services of systemd and containers start in /."""
    add_policy(cli, cli.site, accepted=True)
    cli.work = Path("/")

    assert denied(cli("run", "hello"))


# ---- what shadows nothing ----------------------------------------------------------------


@each_of(
    ("given", "name", "way"),
    [
        (":{site}", "acme_policy", "script"), (":{site}", "acme_policy", "module"), ("{site}:", "attr", "script"),
        ("{site}::/nowhere", "pluggy", "module"), (".:{site}", "pluggent_hookspecs", "script"),
        ("./:{site}", "cattrs", "script"), ("{work}:{site}", "acme_policy", "script"),
    ],
)  # fmt: skip
def test_no_element_of_pythonpath_lets_the_repository_shadow_what_is_installed(cli, given, name, way):
    """Policies 27 and 38: an empty one, a relative one, one in the project."""
    add_policy(cli, cli.site)
    cli("trust", "--plugin", "acme-policy==1.0")
    (cli.work / name).mkdir()
    (cli.work / name / "__init__.py").write_text(EVIL)
    path = given.format(site=cli.site, work=cli.work)

    if way == "script":
        code, said = by_script(cli, "run", "hello", PYTHONPATH=path)
    else:
        code, *texts = cli("run", "hello", PYTHONPATH=path)
        said = "".join(texts)
    shutil.rmtree(cli.work / name)

    assert code != 9, "a module of the working directory was run"
    assert "policy says no" in said


def test_a_folder_outside_the_project_may_be_named_relatively_and_shadows_nothing(cli):
    add_policy(cli, cli.site, accepted=True)
    (cli.site / "attr").mkdir()
    (cli.site / "attr" / "__init__.py").write_text(EVIL)

    assert denied(say_hello(cli, os.path.relpath(cli.site, cli.work)))


def test_a_package_split_over_the_project_is_imported_from_where_it_is_installed(cli):
    """A namespace package has a portion in every folder of sys.path."""
    modules = {"acme.policy": policy("decide_input", "Deny('policy says no')")}
    install(cli.site, "acme-policy", {"hooks/policy": "acme.policy:Plugin"}, modules=modules)
    cli("trust", "--plugin", "acme-policy==1.0")
    (cli.work / "acme").mkdir()
    (cli.work / "acme" / "policy.py").write_text(EVIL)

    code, said = by_script(cli, "run", "hello", PYTHONPATH=f":{cli.site}")

    assert (code != 9, "policy says no" in said) == (True, True)


def test_what_is_installed_editable_runs_from_the_project_that_pythonpath_names_too(cli):
    """Its author works there; the installation of this checkout is editable itself."""
    cli.work = ROOT

    assert by_script(cli, "run", "hello", PYTHONPATH="hookspecs:builtin_plugins/offline::host")[0] == 0


def test_the_completion_runs_nothing_of_the_repository(cli):
    (cli.work / "attr.py").write_text(EVIL)

    assert by_script(cli, "__complete", "bash", "plugins", "show", "", PYTHONPATH=":")[0] == 0
