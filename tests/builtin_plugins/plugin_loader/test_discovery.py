"""What is found on disk, where it is not looked for (rule 27), and the problems that damage makes."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from each_of import each_of
from fake_distributions import install
from hypothesis import given, settings, strategies as st
from packaging.utils import canonicalize_name
from pluggent_plugin_loader.discovery import Discovery, discover, normalised
from pluggent_plugin_loader.entry_points import EntryPoint, Problem

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


def search(*folders: Path) -> Discovery:
    return discover([str(folder) for folder in folders])


def names(found: Discovery) -> list[str]:
    return [item.name for item in found.distributions]


def only_problem(*folders: Path) -> Problem:
    (problem,) = search(*folders).problems
    return problem


def test_a_plugin_is_described_by_its_metadata(site: Path) -> None:
    info = install(site, "Acme.Tools", {**TOOLS, **POLICY}, version="2.1", summary="Finds things")

    (found,) = search(site).distributions

    assert (found.name, found.shown_name, found.version) == ("acme-tools", "Acme.Tools", "2.1")
    assert (found.location, found.contract, found.summary) == (str(info), ">=0.1,<0.2", "Finds things")
    assert found.entry_points == (
        EntryPoint("pluggent.hooks", "guard", "acme.plugin:Guard"),
        EntryPoint("pluggent.tools", "search", "acme.plugin:Search"),
    )


def test_distributions_without_our_groups_are_left_out(site: Path, tmp_path: Path) -> None:
    install(site, "other", {"tools/x": "a:b"})
    (site / "other-1.0.dist-info" / "entry_points.txt").write_text("[pytest11]\npluggent.x = a:b\n")
    install(site, "plain")
    (site / "old-1.0.egg-info").write_text("Name: old\nVersion: 1.0\n")

    assert search(site, tmp_path / "nowhere", tmp_path / "python311.zip") == Discovery(())


def test_order_is_by_name_and_never_by_folder(tmp_path: Path) -> None:
    install(tmp_path / "a", "zebra", {"tools/b": "z:b", "providers/a": "z:a"})
    install(tmp_path / "b", "Ant", {"tools/x": "a:x"})

    forwards = search(tmp_path / "a", tmp_path / "b")

    assert forwards == search(tmp_path / "b", tmp_path / "a")
    assert names(forwards) == ["ant", "zebra"]
    assert [entry.name for entry in forwards.distributions[1].entry_points] == ["a", "b"]


def test_an_egg_info_folder_is_read_like_a_dist_info(site: Path) -> None:
    install(site, "acme", TOOLS, metadata="egg-info", requires=())
    (site / "acme.egg-info" / "requires.txt").write_text("attrs\npluggent-hookspecs~=0.1.0\n\n[test]\npytest\n")

    (found,) = search(site).distributions

    assert (found.name, found.contract) == ("acme", "~=0.1.0")


def test_a_zip_file_on_the_path_is_searched(site: Path, tmp_path: Path) -> None:
    install(site, "acme", TOOLS, version="3.0")
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in site.rglob("*"):
            file.write(path, path.relative_to(site))

    (found,) = search(archive).distributions

    assert (found.name, found.version, found.entry_points[0].name) == ("acme", "3.0", "search")


@each_of(
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

    (found,) = search(site).distributions

    assert found.contract == specifier


@pytest.mark.parametrize("entries", [TOOLS, None], ids=["both with entry points", "the first without"])
def test_the_first_of_a_name_wins_and_the_second_is_listed_as_shadowed(
    tmp_path: Path, entries: Mapping[str, str] | None
) -> None:
    first = install(tmp_path / "one", "acme-tools", entries, version="1.0")
    install(tmp_path / "two", "acme.tools", TOOLS, version="2.0")

    found = search(tmp_path / "one", tmp_path / "two")

    listed = [("1.0", "")] if entries else []
    assert [(item.version, item.shadowed_by) for item in found.distributions] == [*listed, ("2.0", str(first))]
    assert found.problems == ()


@pytest.mark.parametrize(("first", "second"), [(POLICY, POLICY), (POLICY, None), (None, POLICY), (TOOLS, POLICY)])
def test_two_copies_are_an_error_if_either_has_hooks(
    tmp_path: Path, first: Mapping[str, str] | None, second: Mapping[str, str] | None
) -> None:
    install(tmp_path / "one", "acme", first)
    install(tmp_path / "two", "acme", second)

    problem = only_problem(tmp_path / "one", tmp_path / "two")

    assert (problem.fatal, problem.plugin) == (True, "acme")
    assert str(tmp_path / "one") in str(problem)
    assert str(tmp_path / "two") in str(problem)


def test_two_versions_in_one_folder_are_two_copies(site: Path) -> None:
    install(site, "acme", POLICY, version="1.0")
    install(site, "acme", POLICY, version="2.0")

    assert only_problem(site).fatal


def test_an_editable_installation_and_its_sources_are_one_thing(site: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    install(site, "acme", POLICY, editable=sources)
    install(sources / "src", "acme", POLICY, metadata="egg-info")

    for path in ([site, sources / "src"], [sources / "src", site]):
        found = search(*path)
        assert (len(found.distributions), found.problems) == (1, ())


def test_a_folder_reached_twice_counts_once(site: Path, tmp_path: Path) -> None:
    install(site, "acme", POLICY)
    (tmp_path / "link").symlink_to(site)

    found = search(site, tmp_path / "link", site)

    assert (names(found), found.problems) == (["acme"], ())


def test_the_working_directory_and_what_lies_below_are_skipped(working_directory: Path, tmp_path: Path) -> None:
    install(working_directory, "here", POLICY)
    install(working_directory / "vendor", "below", POLICY)
    (tmp_path / "innocent").symlink_to(working_directory / "vendor")

    found = discover(["", ".", str(working_directory), str(working_directory / "vendor"), str(tmp_path / "innocent")])

    assert found[:3] == ((), (), (str(working_directory), str(working_directory / "vendor")))
    assert [item.name for item in found.left_out] == ["below", "here"]
    assert names(discover([""], trusted=True)) == ["here"]
    os.chdir("/")
    assert names(discover([str(tmp_path / "innocent")], project=str(working_directory))) == []


@pytest.mark.parametrize(
    ("folders", "prefix", "site_packages", "searched"),
    [
        (["work-other"], "", [], ["work-other"]),
        (["work/.venv/lib/site-packages", "work/vendor"], "work/.venv", [], ["work/.venv/lib/site-packages"]),
        (["work"], ".", [], []),
        (["work", "work/lib/site-packages"], "work", ["work/lib/site-packages"], ["work/lib/site-packages"]),
    ],
    ids=["neighbour with a longer name", "environment in it", "below a prefix", "environment itself"],
)
def test_of_the_project_the_interpreters_own_folders_alone_are_searched(
    folders: list[str],
    prefix: str,
    site_packages: list[str],
    searched: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in folders:
        install(tmp_path / folder, folder.replace("/", ".").replace("..", "."), TOOLS)
    if prefix:
        monkeypatch.setattr(sys, "prefix", str(tmp_path / prefix))
    if site_packages:
        monkeypatch.setattr("site.getsitepackages", lambda: [str(tmp_path / folder) for folder in site_packages])

    found = search(*(tmp_path / folder for folder in folders))

    assert [Path(item.location).parent for item in found.distributions] == [tmp_path / folder for folder in searched]


def test_a_deleted_working_directory_is_not_a_reason_to_fail(site: Path, tmp_path: Path) -> None:
    install(site, "acme", TOOLS)
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    assert names(discover(["", str(site)])) == ["acme"]


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

    problem = only_problem(site)

    assert search(site).distributions == ()
    assert (problem.fatal, problem.path) == (True, str(info)), "a policy may be in there"
    assert says in problem.text


@each_of(
    ("line", "says", "fatal"),
    [
        ("[pluggent.hooks]\nguard", "expected module:attribute", True),
        ("[pluggent.tools]\nx = not a module", "expected module:attribute", False),
        ("[pluggent.tools]\nx = a:b:c", "expected module:attribute", False),
        ("[pluggent.tools]\na/b = a:b", "is not a name", False),
        ("[pluggent.tools]\nx = a:b\nx = c:d", "twice", False),
        ("[pluggent.hook]\nguard = a:b", "did you mean 'pluggent.hooks'", True),
        ("[pluggent_hooks]\nguard = a:b", "is not a group of this host; did you mean 'pluggent.hooks'", True),
        ("[Pluggent.Hooks]\nguard = a:b", "is not a group of this host; did you mean 'pluggent.hooks'", True),
        ("[pluggent.policies]\nguard = a:b", "is not a group of this host", True),
        ("[pluggent-tools]\nx = a:b", "is not a group of this host; did you mean 'pluggent.tools'", False),
        ("[pluggent.hooks]\na = a:b\nb = a:c", "put all hooks into one object", True),
    ],
)
def test_an_entry_that_cannot_be_used_is_a_problem(site: Path, line: str, says: str, fatal: bool) -> None:
    info = install(site, "acme", POLICY)
    (info / "entry_points.txt").write_text(line)

    problem = only_problem(site)

    assert (problem.path, problem.fatal) == (str(info / "entry_points.txt"), fatal)
    assert says in problem.text


def test_a_policy_whose_entry_points_cannot_be_read_is_a_fatal_problem(site: Path) -> None:
    info = install(site, "acme", POLICY)
    (info / "entry_points.txt").unlink()
    (info / "entry_points.txt").mkdir()

    problem = only_problem(site)

    assert (problem.path, problem.fatal) == (str(info / "entry_points.txt"), True)


def test_a_finder_that_breaks_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_distributions(self, context: object) -> list[object]:
            raise RuntimeError("lost")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Broken()])

    assert "RuntimeError: lost" in only_problem().text


def test_a_byte_order_mark_hides_no_policy(site: Path) -> None:
    file = install(site, "acme", POLICY) / "entry_points.txt"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())

    (found,) = search(site).distributions

    assert found.entry_points == (EntryPoint("pluggent.hooks", "guard", "acme.plugin:Guard"),)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_no_content_of_the_files_is_an_exception(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    info = folder / "acme-1.0.dist-info"
    if not info.is_dir():
        install(folder, "acme", POLICY)
    (info / "METADATA").write_bytes(b"Name: acme\nVersion: 1\nRequires-Dist: pluggent-hookspecs" + data)
    (info / "entry_points.txt").write_bytes(b"[pluggent.hooks]\n" + data)

    assert isinstance(search(folder), Discovery)


@given(st.from_regex(r"\A[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z"))
def test_names_are_normalised_as_pep_503_says(name: str) -> None:
    assert normalised(name) == canonicalize_name(name)


def test_listing_imports_nothing_heavy_and_no_plugin(site: Path) -> None:
    install(site, "acme", TOOLS, modules={"acme.plugin": "raise SystemExit('imported')"})
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from pluggent_plugin_loader.catalog import catalog\n"
        "from pluggent_plugin_loader.discovery import discover\n"
        "from pluggent_plugin_loader.settings import Selection\n"
        f"found = catalog(discover([{str(site)!r}]), Selection(), '0.1.0')\n"
        "assert [item.state for item in found.records] == ['available'], found\n"
        "print(*{*sys.modules} - before)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603

    loaded = set(done.stdout.split())
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"pluggent_plugin_loader"}
    assert loaded.isdisjoint({"asyncio", "dataclasses", "importlib.metadata", "inspect", "json", "pathlib", "hashlib"})


OURS = {"pluggent-retry": "retriers", "pluggent-weather": "sample"}
ENTRIES = {
    "pluggent": {"first_party/pluggent-retry": "retriers", "first_party/Pluggent_Weather": "sample"},
    "evil": {"first_party/evil": "builtin", **TOOLS},
}
BOTH = ("pluggent", "pluggent-host")


@pytest.mark.parametrize(
    ("folders", "first_party", "says"),
    [
        ({"site": ("pluggent-host",)}, {}, ""),
        ({"site": BOTH}, OURS, ""),
        ({"work": BOTH}, {}, ""),
        ({"planted": ("pluggent",), "site": ("pluggent-host",)}, {}, "counts only in the folder of pluggent-host"),
        *(({"site": BOTH, "planted": copies}, {}, "is installed twice") for copies in (BOTH, BOTH[:1], BOTH[1:])),
        *(({"planted": copies, "site": BOTH}, {}, "is installed twice") for copies in (BOTH, BOTH[:1], BOTH[1:])),
        ({"site": (*BOTH, "evil")}, OURS, "[pluggent.first_party] counts only in the distribution pluggent"),
    ],
)
def test_the_one_root_beside_the_one_host_says_which_plugins_are_first_party(
    tmp_path: Path, folders: Mapping[str, tuple[str, ...]], first_party: Mapping[str, str], says: str
) -> None:
    for folder, installed in folders.items():
        for name in installed:
            install(tmp_path / folder, name, ENTRIES.get(name))

    found = search(*(tmp_path / folder for folder in folders))

    assert found.first_party == first_party
    assert says in str(found.problems)
    assert bool(found.problems) == bool(says)
    assert any(problem.fatal for problem in found.problems) == (says == "is installed twice")


def test_an_unknown_role_is_named_and_counts_for_nothing(site: Path) -> None:
    install(site, "pluggent", {**ENTRIES["pluggent"], "first_party/acme": "may_allow"})
    install(site, "pluggent-host")

    found = search(site)

    assert found.first_party == OURS
    assert "acme = may_allow: expected one of builtin, sample, security, retriers" in str(found.problems)
