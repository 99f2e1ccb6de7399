"""What is found on disk, where it is not looked for, and what is said of damage."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fake_distributions import install
from hypothesis import given, settings, strategies as st
from packaging.utils import canonicalize_name
from pluggent_host.plugins.discovery import Discovery, EntryPoint, discover, normalised

POLICY = {"hooks/guard": "acme.plugin:Guard"}
TOOLS = {"tools/search": "acme.plugin:Search"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def names(found: Discovery) -> list[str]:
    return [item.name for item in found.distributions]


def test_a_plugin_is_described_by_its_metadata(site: Path) -> None:
    info = install(site, "Acme.Tools", {**TOOLS, **POLICY}, version="2.1", summary="Finds things")

    (found,) = discover([str(site)]).distributions

    assert found.name == "acme-tools"
    assert found.shown_name == "Acme.Tools"
    assert found.version == "2.1"
    assert found.location == str(info)
    assert found.contract == ">=0.1,<0.2"
    assert found.summary == "Finds things"
    assert found.entry_points == (
        EntryPoint("pluggent.hooks", "guard", "acme.plugin:Guard"),
        EntryPoint("pluggent.tools", "search", "acme.plugin:Search"),
    )


def test_distributions_without_our_groups_are_left_out(site: Path) -> None:
    install(site, "other", {"tools/x": "a:b"})
    (site / "other-1.0.dist-info" / "entry_points.txt").write_text("[pytest11]\npluggent.x = a:b\n")
    install(site, "plain")

    assert discover([str(site)]) == Discovery(())


def test_order_is_by_name_and_never_by_folder(tmp_path: Path) -> None:
    install(tmp_path / "a", "zebra", {"tools/b": "z:b", "providers/a": "z:a"})
    install(tmp_path / "b", "Ant", {"tools/x": "a:x"})

    forwards = discover([str(tmp_path / "a"), str(tmp_path / "b")])
    backwards = discover([str(tmp_path / "b"), str(tmp_path / "a")])

    assert forwards == backwards
    assert names(forwards) == ["ant", "zebra"]
    assert [entry.name for entry in forwards.distributions[1].entry_points] == ["a", "b"]


def test_an_egg_info_folder_is_read_like_a_dist_info(site: Path) -> None:
    install(site, "acme", TOOLS, metadata="egg-info", requires=())
    (site / "acme.egg-info" / "requires.txt").write_text("attrs\npluggent-hookspecs~=0.1.0\n\n[test]\npytest\n")

    (found,) = discover([str(site)]).distributions

    assert (found.name, found.contract) == ("acme", "~=0.1.0")


def test_an_egg_info_file_has_no_entry_points(site: Path) -> None:
    site.mkdir()
    (site / "old-1.0.egg-info").write_text("Name: old\nVersion: 1.0\n")

    assert discover([str(site)]) == Discovery(())


def test_a_zip_file_on_the_path_is_searched(site: Path, tmp_path: Path) -> None:
    install(site, "acme", TOOLS, version="3.0")
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in site.rglob("*"):
            file.write(path, path.relative_to(site))

    (found,) = discover([str(archive)]).distributions

    assert (found.name, found.version, found.entry_points[0].name) == ("acme", "3.0", "search")


@pytest.mark.parametrize(
    ("requirement", "specifier"),
    [
        ("pluggent-hookspecs", ""),
        ("pluggent_hookspecs (>=0.1, <0.2)", ">=0.1,<0.2"),
        ("Pluggent.Hookspecs[x]~=0.1.2", "~=0.1.2"),
        ("pluggent-hookspecs @ file:///somewhere", ""),
        ("pluggent-hookspecs==9; extra == 'test'", ""),
        ("pluggent-hookspecs==0.1.*; python_version >= '3.8'", "==0.1.*"),
        ("pluggent-hookspecs-extra==9", ""),
    ],
)
def test_the_contract_a_plugin_asks_for_is_read_in_every_spelling(site: Path, requirement: str, specifier: str) -> None:
    install(site, "acme", TOOLS, requires=("attrs>=24", requirement))

    (found,) = discover([str(site)]).distributions

    assert found.contract == specifier


# ---- one name in two places


def test_the_first_of_a_name_wins_and_the_second_is_listed_as_shadowed(tmp_path: Path) -> None:
    first = install(tmp_path / "one", "acme-tools", TOOLS, version="1.0")
    install(tmp_path / "two", "acme.tools", TOOLS, version="2.0")

    found = discover([str(tmp_path / "one"), str(tmp_path / "two")])

    assert [(item.version, item.shadowed_by) for item in found.distributions] == [("1.0", ""), ("2.0", str(first))]
    assert found.problems == ()


def test_a_copy_without_entry_points_shadows_too(tmp_path: Path) -> None:
    install(tmp_path / "one", "acme", version="1.0")
    install(tmp_path / "two", "acme", TOOLS, version="2.0")

    (found,) = discover([str(tmp_path / "one"), str(tmp_path / "two")]).distributions

    assert found.shadowed_by == str(tmp_path / "one" / "acme-1.0.dist-info")


@pytest.mark.parametrize(("first", "second"), [(POLICY, POLICY), (POLICY, None), (None, POLICY), (TOOLS, POLICY)])
def test_two_copies_are_an_error_if_either_has_hooks(
    tmp_path: Path, first: dict[str, str] | None, second: dict[str, str] | None
) -> None:
    install(tmp_path / "one", "acme", first)
    install(tmp_path / "two", "acme", second)

    (problem,) = discover([str(tmp_path / "one"), str(tmp_path / "two")]).problems

    assert problem.fatal
    assert problem.plugin == "acme"
    assert str(tmp_path / "one") in str(problem)
    assert str(tmp_path / "two") in str(problem)


def test_two_versions_in_one_folder_are_two_copies(site: Path) -> None:
    install(site, "acme", POLICY, version="1.0")
    install(site, "acme", POLICY, version="2.0")

    assert [problem.fatal for problem in discover([str(site)]).problems] == [True]


def test_an_editable_installation_and_its_sources_are_one_thing(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    install(tmp_path / "site", "acme", POLICY, editable=sources)
    install(sources / "src", "acme", POLICY, metadata="egg-info")

    for path in ([tmp_path / "site", sources / "src"], [sources / "src", tmp_path / "site"]):
        found = discover([str(folder) for folder in path])
        assert (len(found.distributions), found.problems) == (1, ())


def test_a_folder_reached_twice_counts_once(site: Path, tmp_path: Path) -> None:
    install(site, "acme", POLICY)
    (tmp_path / "link").symlink_to(site)

    found = discover([str(site), str(tmp_path / "link"), str(site)])

    assert (names(found), found.problems) == (["acme"], ())


# ---- rule 27: a cloned repository is no plugin


def test_the_working_directory_and_what_lies_below_are_skipped(working_directory: Path) -> None:
    install(working_directory, "here", POLICY)
    install(working_directory / "vendor", "below", POLICY)

    found = discover(["", ".", str(working_directory), str(working_directory / "vendor")])

    assert found[:3] == ((), (), (str(working_directory), str(working_directory / "vendor")))
    assert [item.name for item in found.left_out] == ["below", "here"]


def test_a_symlink_does_not_lead_out_of_the_project(working_directory: Path, tmp_path: Path) -> None:
    install(working_directory / "vendor", "below", POLICY)
    (tmp_path / "innocent").symlink_to(working_directory / "vendor")

    assert names(discover([str(tmp_path / "innocent")])) == []


def test_the_project_is_skipped_wherever_the_process_runs(tmp_path: Path) -> None:
    install(tmp_path / "project" / "vendor", "below", POLICY)

    assert names(discover([str(tmp_path / "project" / "vendor")], project=str(tmp_path / "project"))) == []


def test_a_trusted_project_is_searched(working_directory: Path) -> None:
    install(working_directory, "here", POLICY)

    assert names(discover([""], trusted=True)) == ["here"]


def test_a_neighbour_with_a_longer_name_is_not_below(tmp_path: Path) -> None:
    install(tmp_path / "work-other", "acme", TOOLS)

    assert names(discover([str(tmp_path / "work-other")])) == ["acme"]


def test_the_interpreters_own_environment_in_the_project_is_searched(
    working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = working_directory / ".venv" / "lib" / "site-packages"
    install(packages, "acme", TOOLS)
    install(working_directory / "vendor", "evil", TOOLS)
    monkeypatch.setattr(sys, "prefix", str(working_directory / ".venv"))

    assert names(discover([str(packages), str(working_directory / "vendor")])) == ["acme"]


def test_a_project_below_the_interpreters_prefix_is_still_no_plugin(
    working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(working_directory, "evil", TOOLS)
    monkeypatch.setattr(sys, "prefix", str(working_directory.parent))

    assert names(discover([""])) == []


def test_an_environment_that_is_the_project_itself_opens_its_site_packages_only(
    working_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = working_directory / "lib" / "site-packages"
    install(packages, "acme", TOOLS)
    install(working_directory, "evil", TOOLS)
    monkeypatch.setattr(sys, "prefix", str(working_directory))
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])

    assert names(discover(["", str(packages)])) == ["acme"]


def test_a_deleted_working_directory_is_no_reason_to_fail(site: Path, tmp_path: Path) -> None:
    install(site, "acme", TOOLS)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert names(discover(["", str(site)])) == ["acme"]


# ---- damage is told, never raised


def test_paths_that_are_not_there_are_ignored(tmp_path: Path) -> None:
    assert discover([str(tmp_path / "nowhere"), str(tmp_path / "python311.zip")]) == Discovery(())


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("METADATA", b"Name: acme\n", "no proper Name and Version"),
        ("METADATA", b"", "no proper Name and Version"),
        ("METADATA", b"Name: app:acme\nVersion: 1\n", "no proper Name and Version"),
        ("METADATA", b"Name: acme\nVersion: 1\nSummary: \xff\n", "utf-8"),
        ("entry_points.txt", b"[pluggent.hooks]\nguard = acme:G\xff\n", "utf-8"),
        ("METADATA", b"Name: acme\nVersion: 1\nRequires-Dist: pluggent-hookspecs; what\n", "what"),
    ],
)
def test_unreadable_metadata_is_a_problem_that_names_the_folder(
    site: Path, file: str, content: bytes, says: str
) -> None:
    info = install(site, "acme", POLICY)
    (info / file).write_bytes(content)

    found = discover([str(site)])

    assert found.distributions == ()
    (problem,) = found.problems
    assert problem.fatal, "a policy may be in there"
    assert problem.path == str(info)
    assert says in problem.text


@pytest.mark.parametrize(
    ("line", "says", "fatal"),
    [
        ("[pluggent.hooks]\nguard", "expected module:attribute", True),
        ("[pluggent.tools]\nx = not a module", "expected module:attribute", False),
        ("[pluggent.tools]\nx = a:b:c", "expected module:attribute", False),
        ("[pluggent.tools]\na/b = a:b", "is not a name", False),
        ("[pluggent.tools]\nx = a:b\nx = c:d", "twice", False),
        ("[pluggent.hook]\nguard = a:b", "did you mean 'pluggent.hooks'", True),
        ("[pluggent.hooks]\na = a:b\nb = a:c", "put all hooks into one object", True),
    ],
)
def test_an_entry_that_cannot_be_used_is_a_problem(site: Path, line: str, says: str, fatal: bool) -> None:
    info = install(site, "acme", POLICY)
    (info / "entry_points.txt").write_text(line)

    (problem,) = discover([str(site)]).problems

    assert (problem.path, problem.fatal) == (str(info / "entry_points.txt"), fatal)
    assert says in problem.text


def test_a_file_that_cannot_be_read_is_a_problem(site: Path) -> None:
    info = install(site, "acme", POLICY)
    (info / "entry_points.txt").unlink()
    (info / "entry_points.txt").mkdir()

    (problem,) = discover([str(site)]).problems

    assert problem.path == str(info / "entry_points.txt")


def test_a_finder_that_breaks_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_distributions(self, context: object) -> list[object]:
            raise RuntimeError("lost")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Broken()])

    (problem,) = discover([]).problems

    assert "RuntimeError: lost" in problem.text


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_content_of_the_files_is_an_exception(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    info = install(folder, "acme", POLICY)
    (info / "METADATA").write_bytes(b"Name: acme\nVersion: 1\nRequires-Dist: pluggent-hookspecs" + data)
    (info / "entry_points.txt").write_bytes(b"[pluggent.hooks]\n" + data)

    assert isinstance(discover([str(folder)]), Discovery)


@given(st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z"))
def test_names_are_normalised_as_pep_503_says(name: str) -> None:
    assert normalised(name) == canonicalize_name(name)


# ---- cost


def test_listing_imports_nothing_heavy_and_no_plugin(site: Path) -> None:
    install(site, "acme", TOOLS, modules={"acme.plugin": "raise SystemExit('imported')"})
    code = (
        "import sys\n"
        "from pluggent_host.plugins.catalog import catalog\n"
        "from pluggent_host.plugins.discovery import discover\n"
        "from pluggent_host.settings import Selection\n"
        f"found = catalog(discover([{str(site)!r}]), Selection(), '0.1.0')\n"
        "assert [item.state for item in found.records] == ['available'], found\n"
        "print(*sorted(sys.modules))\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    fresh = [sys.executable, "-c", "import sys; print(*sorted(sys.modules))"]
    before = subprocess.run(fresh, capture_output=True, text=True, check=True)  # noqa: S603
    loaded = set(done.stdout.split()) - set(before.stdout.split())
    third_party = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {"pluggent_host"}
    assert third_party == set()
    assert loaded.isdisjoint({"asyncio", "dataclasses", "importlib.metadata", "inspect", "json", "pathlib", "hashlib"})


def test_a_policy_whose_entry_points_cannot_be_read_is_not_passed_over(site: Path) -> None:
    folder = install(site, "acme", POLICY)
    (folder / "entry_points.txt").unlink()
    (folder / "entry_points.txt").mkdir()

    (problem,) = discover([str(site)]).problems

    assert problem.fatal
    assert str(folder) in problem.path


def test_a_byte_order_mark_hides_no_policy(site: Path) -> None:
    folder = install(site, "acme", POLICY)
    file = folder / "entry_points.txt"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())

    (found,) = discover([str(site)]).distributions

    assert found.entry_points == (EntryPoint("pluggent.hooks", "guard", "acme.plugin:Guard"),)


# which plugins are first party

OURS = {"first_party/pluggent-retry": "retriers", "first_party/Pluggent_Weather": "sample"}


def test_the_root_beside_the_host_says_which_plugins_are_first_party(site: Path) -> None:
    install(site, "pluggent", OURS)
    install(site, "pluggent-host")

    found = discover([str(site)])

    assert (found.first_party, found.problems) == ({"pluggent-retry": "retriers", "pluggent-weather": "sample"}, ())
    assert found.distributions == ()


def test_without_the_root_no_plugin_is_first_party(site: Path) -> None:
    install(site, "pluggent-host")
    install(site, "pluggent-retry", POLICY)

    assert (discover([str(site)]).first_party, names(discover([str(site)]))) == ({}, ["pluggent-retry"])


def test_a_root_in_another_folder_than_the_host_vouches_for_nothing(site: Path, tmp_path: Path) -> None:
    install(tmp_path / "planted", "pluggent", OURS)
    install(site, "pluggent-host")

    found = discover([str(tmp_path / "planted"), str(site)])

    assert found.first_party == {}
    assert "counts only in the folder of pluggent-host" in str(found.problems[0])


@pytest.mark.parametrize("planted", [("pluggent",), ("pluggent-host",), ("pluggent", "pluggent-host")], ids=" ".join)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_second_root_or_host_is_an_error_and_vouches_for_nothing(
    site: Path, tmp_path: Path, planted: tuple[str, ...], is_first: bool
) -> None:
    for name in ("pluggent", "pluggent-host"):
        install(site, name, OURS if name == "pluggent" else None)
    for name in planted:
        install(tmp_path / "planted", name, {"first_party/evil": "security"} if name == "pluggent" else None)
    path = [str(site), str(tmp_path / "planted")]

    found = discover(path[::-1] if is_first else path)

    assert found.first_party == {}
    assert any(problem.fatal and "is installed twice" in problem.text for problem in found.problems)


def test_another_distribution_vouches_for_nothing(site: Path) -> None:
    for name in ("pluggent", "pluggent-host"):
        install(site, name, OURS if name == "pluggent" else None)
    install(site, "evil", {"first_party/evil": "builtin", **TOOLS})

    found = discover([str(site)])

    assert "evil" not in found.first_party
    assert "[pluggent.first_party] counts only in the distribution pluggent" in str(found.problems)


def test_a_root_in_the_project_vouches_for_nothing(working_directory: Path) -> None:
    install(working_directory, "pluggent", OURS)
    install(working_directory, "pluggent-host")

    assert discover([str(working_directory)]).first_party == {}


def test_an_unknown_role_is_named_and_counts_for_nothing(site: Path) -> None:
    install(site, "pluggent", {**OURS, "first_party/acme": "may_allow"})
    install(site, "pluggent-host")

    found = discover([str(site)])

    assert "acme" not in found.first_party
    assert "acme = may_allow: expected one of builtin, sample, security, retriers" in str(found.problems)
