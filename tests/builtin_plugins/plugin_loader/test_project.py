"""A policy in the project is never skipped in silence (38), no module of it replaces an installed one (27, 38)."""

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fake_distributions import POLICY, importable, install
from pluggent_hookspecs import ConfigError, PluginLoadError
from pluggent_host import Grants, Host, HostSettings, Selection
from pluggent_plugin_loader import project as project_module
from pluggent_plugin_loader.discovery import Discovery, discover

OTHER = "raise SystemExit('the module of the project was run')"
PACKAGE = "acme/__init__.py"
ENTRY = {"hooks/policy": "acme_policy:Plugin"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme", "acme_policy")]:
        del sys.modules[name]


def add(folder: Path, name: str = "acme-policy", module: str = "acme_policy", source: str = POLICY) -> Path:
    return install(folder, name, {"hooks/policy": f"{module}:Plugin"}, modules={module: source})


async def opened(*path: Path, config: HostSettings | None = None, trusted: bool = False) -> dict[str, str]:
    """Return the state of each plugin of a host that finds what is installed along *path*."""
    with importable(*path):
        found = discover([str(folder) for folder in path], trusted=trusted)
        async with Host.open(model="offline/demo", installed=found, config=config) as host:
            return {record.distribution.location: state for record, state, _ in host.plugins}


async def test_a_host_does_not_open_without_the_policy_that_lies_in_the_project(project: Path) -> None:
    """Policy 38: it is reported by name, with what runs it or leaves it out."""
    add(project / "lib")

    with pytest.raises(ConfigError, match=r"plugin 'acme-policy' 1\.0 has hooks and is skipped") as caught:
        await opened(project / "lib")

    advice = ("pluggent trust --plugin acme-policy", "discover(trusted=True)", "Selection(block")
    assert [word for word in (str(project / "lib"), *advice) if word not in str(caught.value)] == []


async def test_an_application_says_whether_the_policy_in_its_project_runs(project: Path) -> None:
    info = str(add(project / "lib"))
    blocked = HostSettings(selection=Selection(block=("acme-policy",)))
    optional = HostSettings(grants=Grants(optional=("acme-policy",)))

    assert await opened(project / "lib", trusted=True) == {info: "active"}
    assert await opened(project / "lib", config=blocked) == {info: "blocked"}
    assert await opened(project / "lib", config=optional) == {info: "skipped"}


async def test_a_tool_in_the_project_is_listed_and_its_settings_are_an_error(project: Path) -> None:
    info = install(project / "lib", "acme-tool", {"tools/a": "acme_tool:Plugin"})

    assert await opened(project / "lib") == {str(info): "skipped"}
    with pytest.raises(ConfigError, match=r"plugin 'acme-tool' 1\.0 has settings and is skipped"):
        await opened(project / "lib", config=HostSettings(plugins={"acme-tool": {}}))


async def test_a_required_policy_does_not_count_where_it_is_skipped(project: Path) -> None:
    add(project / "lib")
    config = HostSettings(required={"acme-policy": ()}, grants=Grants(optional=("acme-policy",)))

    with pytest.raises(ConfigError, match="is required and does not run"):
        await opened(project / "lib", config=config)


@pytest.mark.parametrize(
    ("module", "installed", "planted", "named"),
    [
        ("acme_policy", (), {"acme_policy.py": OTHER}, "acme_policy.py"),
        (
            "acme.policy",
            ("acme/__init__.py",),
            {"acme/__init__.py": OTHER, "acme/policy.py": POLICY},
            "acme/__init__.py",
        ),
        ("acme.policy", (), {"acme/policy.py": OTHER}, "acme/policy.py"),
    ],
    ids=["module", "package", "portion of a namespace"],
)
async def test_a_module_of_the_project_is_not_run_for_the_installed_one(
    module: str, installed: tuple[str, ...], planted: Mapping[str, str], named: str, project: Path, site: Path
) -> None:
    """Both places are named, and nothing of the project was run."""
    add(site, module=module)
    for file in installed:
        (site / file).touch()
    for file, source in planted.items():
        (project / file).parent.mkdir(exist_ok=True)
        (project / file).write_text(source)

    with importable(project, site), pytest.raises(PluginLoadError) as caught:
        async with Host.open(model="offline/demo", installed=discover([str(site)])):
            pass

    assert f"would come from {project / named}" in str(caught.value)
    assert f"installed in {site}" in str(caught.value)
    assert "was run" not in str(caught.value)


async def test_a_module_that_the_application_imported_from_the_project_is_not_a_policy(
    project: Path, site: Path
) -> None:
    add(site)
    (project / "acme_policy.py").write_text(POLICY)

    with importable(project, site):
        importlib.import_module("acme_policy")
        with pytest.raises(PluginLoadError, match="in the project"):
            async with Host.open(model="offline/demo", installed=discover([str(site)])):
                pass


async def test_an_editable_policy_runs_from_the_project(project: Path, site: Path) -> None:
    install(site, "acme-policy", ENTRY, editable=project)
    (project / "src").mkdir()
    (project / "src" / "acme_policy.py").write_text(POLICY)

    with importable(project / "src"):
        assert list((await opened(site)).values()) == ["active"]


async def test_a_policy_runs_where_the_working_directory_is_its_own_site_packages(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = add(site)
    monkeypatch.chdir(site)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(site)])

    assert await opened(site) == {str(info): "active"}


async def test_the_root_folder_as_working_directory_is_no_project(project: Path) -> None:
    """Policy 38: services of systemd and containers start in /."""
    info = add(project / "lib")
    os.chdir("/")

    assert await opened(project / "lib") == {str(info): "active"}
    found = discover([str(project / "lib")], project="/")
    assert ([item.name for item in found.distributions], found.skipped, found.left_out) == (["acme-policy"], (), ())


def listed(found: Discovery) -> tuple[list[str], list[str]]:
    return [item.name for item in found.distributions], [item.name for item in found.left_out]


def test_what_is_skipped_is_described_all_the_same(project: Path) -> None:
    """Policy 38: a source of plugins in the project is reported by name."""
    info = install(project / "lib", "Acme.Policy", ENTRY, version="2.1")

    (left_out,) = discover([str(project / "lib")]).left_out

    assert (left_out.name, left_out.version, left_out.location) == ("acme-policy", "2.1", str(info))
    assert (left_out.left_out, left_out.has_hooks) == (str(project / "lib"), True)


def test_an_archive_in_the_project_is_described_too(project: Path, tmp_path: Path) -> None:
    install(tmp_path / "unpacked", "acme", ENTRY)
    with zipfile.ZipFile(project / "acme.zip", "w") as archive:
        for file in sorted((tmp_path / "unpacked").rglob("*")):
            archive.write(file, file.relative_to(tmp_path / "unpacked"))

    assert listed(discover([str(project / "acme.zip")])) == ([], ["acme"])


def test_one_distribution_of_the_project_can_be_trusted(project: Path) -> None:
    install(project, "acme", ENTRY)
    install(project, "evil", ENTRY)

    assert listed(discover([""], trusted=lambda item: item.name == "acme")) == (["acme"], ["evil"])


@pytest.mark.parametrize("hooks", [True, False])
def test_the_sources_of_an_editable_policy_are_not_missed_in_their_own_folder(
    project: Path, site: Path, hooks: bool
) -> None:
    """Its author works there; only hooks that the installation does not know of yet are said."""
    install(site, "acme", ENTRY if hooks else {"tools/a": "acme:Tool"}, editable=project)
    install(project / "src", "acme", ENTRY, metadata="egg-info")

    found = discover([str(site), str(project / "src")])

    assert (*listed(found), found.problems) == (["acme"], [] if hooks else ["acme"], ())


def test_the_folder_that_the_host_was_installed_into_is_searched_in_the_project(tmp_path: Path) -> None:
    """pip install --target ./lib, as containers and functions in a cloud do."""
    package = Path(project_module.__file__).parent
    lib = tmp_path / "app" / "lib"
    install(lib, "acme", ENTRY)
    shutil.copytree(package, lib / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    found = "[i.name for i in discover(['', 'lib']).distributions]"
    code = f"from pluggent_plugin_loader.discovery import Discovery, discover; print({found})"

    done = subprocess.run(  # noqa: S603 (the test's own program)
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(lib)!r}); {code}"],
        cwd=tmp_path / "app", capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout == "['acme']\n"
