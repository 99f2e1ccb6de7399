"""The rules of this repository that no other tool knows: names, directions of imports, versions, sizes."""

import ast
import re
import sys
from collections import Counter
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from workspace import LAZY, ROOT, Import, Member, files, graph, imports, members, pyproject, rings

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "builtin_plugins",
    "host",
    "hookspecs",
    "pyproject.toml",
    "sample_plugins",
    "tests",
}
CONTRACT = "pluggent-hookspecs"
HOST = "pluggent-host"
MAX_LINES = 400
STDLIB = sys.stdlib_module_names | {"annotationlib"}
"""Of this Python, and what later ones that we run on have."""

LONG_FILES = {
    "hookspecs/pluggent_hookspecs/__init__.py": "a table of data: each public name, for type checkers and for Python",
    "hookspecs/pluggent_hookspecs/hooks.py": "a table of data: one hookspec for each hook, with its whole promise",
}
# Written so that this file does not match itself.
UNWANTED = {
    r"p[y]pi\.org|p[y]thonhosted\.org|n[p]mjs\.(org|com)": "the host of a package registry",
    r"/w[o]rk/|/t[m]p/[a-z]|/r[o]ot/|/h[o]me/[a-z]|/U[s]ers/": "a path of one machine",
    r"(?i)C[l]aude|C[o]-Authored-By|\bthe l[e]ad's?\b(?! time)": "something about who wrote this",
}
MEMBERS = members()
MODULES = [file for member in MEMBERS for file in member.modules().values()]
PYTHON_FILES = [ROOT / file for file in files() if file.suffix == ".py"]


def name(case: object) -> str | None:
    """Return what pytest calls a case."""
    if isinstance(case, Member):
        return case.folder.name
    return str(case.relative_to(ROOT)) if isinstance(case, Path) else None


each_member = pytest.mark.parametrize("member", MEMBERS, ids=name)


# Names and metadata


def test_the_top_level_holds_what_it_should() -> None:
    assert {file.parts[0] for file in files()} - TOP_LEVEL == set()


@each_member
def test_folder_distribution_and_package_have_one_name(member: Member) -> None:
    packages = [file.parent.name for file in (ROOT / member.folder).glob("*/__init__.py")]

    assert canonicalize_name(member.project["name"]) == member.project["name"] == member.distribution
    assert packages == [member.package]


@each_member
def test_a_member_says_its_name_licence_and_types(member: Member) -> None:
    folder = ROOT / member.folder
    readme = (folder / "README.md").read_text(encoding="utf-8")

    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (folder / member.package / "py.typed").is_file()
    assert readme.startswith(f"# {member.distribution}\n")
    assert member.project["license"] == pyproject(Path())["project"]["license"]
    assert member.project["requires-python"] == pyproject(Path())["project"]["requires-python"]


@each_member
def test_all_members_have_one_version(member: Member) -> None:
    version = pyproject(Path())["project"]["version"]
    series = ".".join(version.split(".")[:2])
    own = {str(needed.specifier) for needed in requirements(member) if needed.name.startswith("pluggent")}

    assert member.project["version"] == version
    assert own <= {f"=={series}.*"}


@pytest.mark.parametrize("package", LAZY)
def test_the_version_in_the_code_is_that_of_the_distribution(package: str) -> None:
    assert import_module(package).__version__ == pyproject(Path())["project"]["version"]


def test_every_member_is_listed_wherever_members_are_listed() -> None:
    root = pyproject(Path())
    folders = [f"-e ./{member.folder}" for member in MEMBERS]
    sources = root["tool"]["uv"]["sources"]

    assert (ROOT / "tests" / "workspace.txt").read_text(encoding="utf-8").splitlines() == [*folders, "-e ."]
    assert sources == {member.distribution: {"workspace": True} for member in MEMBERS}


def test_the_host_knows_which_distributions_are_first_party() -> None:
    first_party = import_module("pluggent_host.catalog").FIRST_PARTY

    assert first_party == frozenset(member.distribution for member in MEMBERS if member.is_plugin)


# Imports


def requirements(member: Member) -> list[Requirement]:
    """Return all that *member* declares, extras included."""
    extras = member.project.get("optional-dependencies", {}).values()
    return [
        Requirement(text) for text in (*member.project["dependencies"], *(text for extra in extras for text in extra))
    ]


def imported_distributions(member: Member) -> dict[str, str]:
    """Return the distributions that *member* imports, each with one place where it does."""
    owners = packages_distributions()
    found: dict[str, str] = {}
    for file in member.modules().values():
        for one in imports(file):
            top = one.module.partition(".")[0]
            if top not in STDLIB and top != member.package:
                owner = canonicalize_name(owners.get(top, [top])[0])
                found.setdefault(owner, f"{file.relative_to(ROOT)}:{one.line}")
    return found


@each_member
def test_a_member_imports_what_it_declares_and_nothing_else(member: Member) -> None:
    declared = {canonicalize_name(needed.name) for needed in requirements(member)}
    found = imported_distributions(member)

    assert {owner: where for owner, where in found.items() if owner not in declared} == {}
    assert declared - set(found) == set(), "declared, but imported nowhere"


@each_member
def test_imports_go_from_the_plugins_and_the_host_to_the_contract(member: Member) -> None:
    allowed = set() if member.distribution == CONTRACT else {CONTRACT}
    if member.is_plugin:
        # A plugin imports no other plugin; a member that offers nothing by itself is a library.
        allowed |= {other.distribution for other in MEMBERS if other.is_library}
    own = {needed.name for needed in requirements(member) if needed.name.startswith("pluggent")}

    assert own <= allowed
    assert {owner for owner in imported_distributions(member) if owner.startswith("pluggent")} <= allowed


def test_the_contract_needs_attrs_and_pluggy_alone() -> None:
    contract = next(member for member in MEMBERS if member.distribution == CONTRACT)

    assert {needed.name for needed in requirements(contract)} == {"attrs", "pluggy"}


@each_member
def test_imports_inside_a_package_form_no_ring(member: Member) -> None:
    assert rings(graph(member)) == []


@pytest.mark.parametrize("file", MODULES, ids=name)
def test_an_import_inside_a_function_or_for_typing_says_why(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    lazy = file.name == "__init__.py" and file.parent.name in LAZY
    depths = {"function"} if lazy else {"function", "typing"}

    assert [one for one in imports(file) if one.depth in depths and not has_reason(lines, one.line)] == []


def has_reason(lines: list[str], number: int) -> bool:
    """Tell whether line *number* (from 1) or one that leads to it has a comment in words.

    >>> has_reason(["# it costs a second", "import mcp", "import anyio"], 3), has_reason(["import mcp  # noqa: X1"], 1)
    (True, False)
    """
    comment = re.sub(r"(noqa|type|pyright)(: ?ignore)?[:\[ A-Z0-9,a-z\]]*", "", lines[number - 1].partition("#")[2])
    if re.search(r"\w{2}", comment):
        return True
    above = lines[number - 2].strip() if number > 1 else ""
    leads_here = above.startswith(("import ", "from ", "if TYPE_CHECKING:"))
    return above.startswith("#") or (leads_here and has_reason(lines, number - 1))


@pytest.mark.parametrize("file", PYTHON_FILES, ids=name)
def test_imports_are_absolute(file: Path) -> None:
    assert [one for one in imports(file) if one.module.startswith(".")] == []


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_exports_exactly_the_names_that_it_types(package: str) -> None:
    module = import_module(package)
    typed = [one for one in imports(Path(str(module.__file__))) if one.depth == "typing"]

    assert Counter(module.__all__) == Counter(["__version__", *(str(one.name) for one in typed)])
    assert dir(module) == sorted(module.__all__)
    assert [one for one in typed if not exports(package, one)] == []
    assert not hasattr(module, "no_such_name")


def exports(package: str, one: Import) -> bool:
    """Tell whether *package* hands out the very object that the typed import names."""
    name = str(one.name)
    return getattr(import_module(package), name) is getattr(import_module(one.module), name)


# Files


@pytest.mark.parametrize("file", PYTHON_FILES, ids=name)
def test_a_file_is_short_or_has_its_reason(file: Path) -> None:
    lines = len(file.read_text(encoding="utf-8").splitlines())

    assert lines <= MAX_LINES or str(file.relative_to(ROOT)) in LONG_FILES


def test_the_table_of_long_files_has_long_files_alone() -> None:
    lengths = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in LONG_FILES}

    assert {file for file, lines in lengths.items() if lines <= MAX_LINES} == set()


def test_test_files_have_names_of_their_own_and_no_packages() -> None:
    below_tests = [file.name for file in files() if "tests" in file.parts]
    names = Counter(file for file in below_tests if file.startswith("test_"))

    assert [file for file, count in names.items() if count > 1] == []
    assert "__init__.py" not in below_tests


def test_every_test_stands_in_a_file_that_pytest_reads() -> None:
    tests = [
        file for file in PYTHON_FILES if re.search(r"^ *(async )?def test_", file.read_text("utf-8"), re.MULTILINE)
    ]

    assert [name(file) for file in tests if not file.name.startswith("test_") and "tests" in file.parts] == []


def test_no_file_names_a_registry_a_machine_or_its_authors() -> None:
    found = [
        f"{file}:{number}: {what}: {line.strip()[:80]}"
        for file in files()
        for number, line in enumerate((ROOT / file).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for pattern, what in UNWANTED.items()
        if re.search(pattern, line)
    ]

    assert found == []


def test_lock_files_stay_at_home() -> None:
    assert [str(file) for file in files() if file.name in {"uv.lock", "poetry.lock", "package-lock.json"}] == []


# Pins


def test_every_dependency_is_pinned_with_hashes() -> None:
    text = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9.-]+)==([^ ]+) .*\\$", text, re.MULTILINE))
    root = pyproject(Path())
    wanted = [Requirement(line) for line in (*root["project"]["dependencies"], *root["dependency-groups"]["dev"])]
    wanted += [needed for member in MEMBERS for needed in requirements(member)]
    missing = [str(needed) for needed in wanted if not needed.name.startswith("pluggent") and not is_met(needed, pins)]

    assert missing == [], "make tests/constraints.txt anew; its command stands above [dependency-groups]"
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pins)


def is_met(needed: Requirement, pins: dict[str, str]) -> bool:
    """Tell whether the pinned version is one that *needed* accepts, on this machine."""
    if needed.marker and not needed.marker.evaluate():
        return True
    pin = pins.get(canonicalize_name(needed.name))
    return pin is not None and needed.specifier.contains(pin, prereleases=True)


def test_the_modules_of_this_checkout_are_the_ones_under_test() -> None:
    places = {member.package: import_module(member.package).__file__ for member in MEMBERS}

    assert places == {member.package: str(ROOT / member.folder / member.package / "__init__.py") for member in MEMBERS}


def test_every_module_parses_on_the_oldest_python() -> None:
    broken: list[str] = []
    for file in PYTHON_FILES:
        try:
            ast.parse(file.read_text(encoding="utf-8"), filename=str(file), feature_version=(3, 11))
        except SyntaxError as error:
            broken.append(str(error))

    assert broken == []
