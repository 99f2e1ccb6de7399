"""The rules of this repository that no other tool knows: names, directions of imports, versions, sizes."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pluggent_plugin_loader.discovery import discover
from workspace import BUILT_ON, LAZY, ROOT, Import, Member, files, graph, imports, members, pyproject, rings

TOP_LEVEL = {
    ".ci",
    ".github",
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
STATE_FILES = "pluggent-state-files"
MAX_LINES = 600
STDLIB = sys.stdlib_module_names | {"annotationlib"}
"""Of this Python, and what later ones that we run on have."""

LONG_FILES: dict[str, str] = {
    "hookspecs/pluggent_hookspecs/hooks.py": "one table: a function for every hook, in the order of the documentation",
}
"""Files that are longer, and why."""

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


def test_the_root_says_which_plugins_are_first_party_and_what_each_is() -> None:
    said = pyproject(Path())["project"]["entry-points"]["pluggent.first_party"]
    plugins = {member.distribution: member.folder.parts[0] for member in MEMBERS if member.is_plugin}
    granted = {name: role for name, role in said.items() if role not in ("builtin", "sample")}

    assert set(said) == set(plugins)
    assert {name for name, role in said.items() if role == "sample"} == {
        name for name, folder in plugins.items() if folder == "sample_plugins"
    }
    assert granted == {"pluggent-redact": "security", "pluggent-retry": "retriers"}


def test_the_environment_of_the_tests_has_what_the_root_says() -> None:
    said = pyproject(Path())["project"]["entry-points"]["pluggent.first_party"]

    assert discover().first_party == said


def test_the_host_names_no_plugin() -> None:
    """A new plugin needs no change of the host. It names the store behind ``state_dir`` alone."""
    plugins = [each.distribution for each in MEMBERS if each.is_plugin and each.distribution != STATE_FILES]
    pattern = re.compile("|".join(rf"{name}\b|{name.replace('-', '_')}\b" for name in plugins))
    host = next(member for member in MEMBERS if member.distribution == HOST)
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in host.modules().values()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]

    assert found == []


# Imports


def requirements(member: Member) -> list[Requirement]:
    """Return all that *member* declares, extras included."""
    extras = member.project.get("optional-dependencies", {}).values()
    return [
        Requirement(text) for text in (*member.project["dependencies"], *(text for extra in extras for text in extra))
    ]


installed_packages = cache(packages_distributions)  # it takes a second


def imported_distributions(member: Member) -> dict[str, str]:
    """Return the distributions that *member* imports, each with one place where it does."""
    owners = installed_packages()
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
def test_imports_go_from_front_ends_to_the_host_and_from_all_to_the_contract(member: Member) -> None:
    allowed = set() if member.distribution == CONTRACT else {CONTRACT}
    allowed |= BUILT_ON.get(member.distribution, set())
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


HOST_ORDER = (
    ("",),
    ("common",),
    ("settings",),
    ("plugins",),
    ("hooks",),
    ("tools",),
    ("operations",),
    ("turns",),
    ("session", "batches"),
    ("assembly",),
    ("host",),
    ("sync",),
)
"""Packages and modules of the host; each imports only those before it. What is not listed may import all."""


def test_imports_inside_the_host_point_to_what_comes_before() -> None:
    rank = {part: number for number, parts in enumerate(HOST_ORDER) for part in parts}
    host = next(member for member in MEMBERS if member.distribution == HOST)
    wrong = [
        f"{module} imports {target}"
        for module, targets in graph(host).items()
        for target in sorted(targets)
        if (own := rank.get(part_of(module))) is not None and rank.get(part_of(target), len(HOST_ORDER)) > own
    ]

    assert wrong == []


def test_the_readme_of_the_host_lists_its_parts_in_the_order_of_imports() -> None:
    text = (ROOT / "host" / "README.md").read_text(encoding="utf-8").partition("## Reading it")[2].partition("##")[0]

    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [part for parts in HOST_ORDER[1:] for part in parts]


USES_THE_SYSTEM = {"common/process_marker.py": {"os.environ"}}
"""Files of the host that read or write something outside the process, and how."""
SYSTEM = re.compile(
    r"(open|print|input|fcntl|tempfile|shutil|termios|os\.(environ|open|write|fsync|unlink|remove|rename|replace|rmdir"
    r"|mkdir|makedirs|chmod|truncate|link|symlink|putenv)|sys\.(stdin|stdout|stderr)"
    r"|(read|write)_(text|bytes)|mkdir|touch|unlink|rmdir)"
)


def test_the_host_reads_and_writes_files_only_where_it_says_so() -> None:
    """It reads and writes no file and prints nothing: its libraries, front ends and stores do."""
    host = next(member for member in MEMBERS if member.distribution == HOST)
    folder = ROOT / host.folder / host.package
    found = {str(file.relative_to(folder)): uses_of_the_system(file) for file in host.modules().values()}

    assert {file: more for file, used in found.items() if (more := used - USES_THE_SYSTEM.get(file, set()))} == {}


def uses_of_the_system(file: Path) -> set[str]:
    """Return what *file* names of files, streams and the environment; methods by their name alone."""
    used: set[str] = {one.module for one in imports(file)}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id=called)):
                used.add(called)
            case ast.Attribute(value=ast.Name(id=("os" | "sys") as module), attr=attribute):
                used.add(f"{module}.{attribute}")
            case ast.Call(func=ast.Attribute(attr=attribute)) if attribute != "open":
                used.add(attribute)
            case _:
                pass
    return {one for one in used if SYSTEM.fullmatch(one)}


MAX_MODULES = 16
CROWDED: set[str] = set()
"""Packages of the host with more: those that are still to be joined."""


def test_a_package_of_the_host_is_small_enough_to_know() -> None:
    host = next(member for member in MEMBERS if member.distribution == HOST)
    sizes = Counter(part_of(module) for module in host.modules() if module.count(".") > 1)

    assert {part for part, size in sizes.items() if size > MAX_MODULES} <= CROWDED


MAX_COMMAND_MODULES = 14


def test_a_folder_of_the_command_is_small_enough_to_know() -> None:
    command = next(member for member in MEMBERS if member.distribution == "pluggent-cli")
    sizes = Counter(file.parent.name for file in command.modules().values() if file.name != "__init__.py")

    assert {folder: size for folder, size in sizes.items() if size > MAX_COMMAND_MODULES} == {}


LIGHT = {
    "import pluggent_host": {"pluggent_host"},
    "--version": {"pluggent_host"},
    "plugins": {
        "pluggent_hookspecs", "pluggent_hookspecs.errors", "pluggent_hookspecs.folders", "pluggent_host",
        "pluggent_contract_values", "pluggent_contract_values.escape", "pluggent_host.settings",
        "pluggent_plugin_loader", *map("pluggent_plugin_loader.{}".format, (
            "catalog", "discovery", "entry_points", "names", "project", "settings", "suggestions")),
        "pluggent_transcript", "pluggent_transcript.limits",
    },
}  # fmt: skip
"""What each loads of the contract and the host; none loads a third-party package."""


@pytest.mark.parametrize("what", LIGHT)
def test_starting_loads_little_of_the_host_and_no_third_party_package(what: str, tmp_path: Path) -> None:
    program = what if what.startswith("import") else f"from pluggent_cli.main import main\nmain([{what!r}])"
    source = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before, file=sys.stderr)"
    environ = {"HOME": str(tmp_path), "PATH": os.defpath}
    done = subprocess.run(  # noqa: S603 (this interpreter)
        [sys.executable, "-c", source],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {module for module in done.stderr.split() if module.partition(".")[0] not in STDLIB}

    assert {module for module in loaded if not module.startswith("pluggent_cli")} == LIGHT[what]


LENT = {"plugins", "settings", "common", "inspection", "__version__"}
"""Packages and modules of the host that a front end may import; everything else of the host has to be public."""
LENT_TO = {"pluggent-testing": {"tools"}}


@pytest.mark.parametrize("member", [member for member in MEMBERS if member.is_front_end], ids=name)
def test_a_front_end_imports_public_names_of_the_host_and_what_is_lent_to_it(member: Member) -> None:
    lent = LENT | LENT_TO.get(member.distribution, set())
    public = public_names()
    wrong = [
        f"{file.relative_to(ROOT)}:{one.line} {one.module} {one.name}"
        for file in member.modules().values()
        for one in imports(file)
        if one.module.partition(".")[0] == "pluggent_host"
        and part_of(one.module) not in lent
        and public.get(str(one.name)) != one.module
        and not (one.module == "pluggent_host" and one.name in {*lent, *public})
    ]

    assert wrong == []


def public_names() -> dict[str, str]:
    """Return each public name of the host with the module that defines it."""
    typed = imports(ROOT / "host" / "pluggent_host" / "__init__.py")
    return {str(one.name): one.module for one in typed if one.depth == "typing"}


def test_only_operations_and_the_consent_of_a_turn_look_at_an_ask() -> None:
    """Policy 16: what turns an ask into anything stands in one place."""
    host = next(member for member in MEMBERS if member.distribution == HOST)
    wrong = [
        f"{module}, line {line}"
        for module, file in host.modules().items()
        if part_of(module) != "operations" and module != "pluggent_host.turns.consent"
        for line in lines_looking_at("Asked", ast.parse(file.read_text("utf-8")))
    ]

    assert wrong == []


def lines_looking_at(name: str, tree: ast.Module) -> list[int]:
    """Return the lines that match *name* in a case, or test with isinstance or type() for it.

    >>> lines_looking_at("Asked", ast.parse("isinstance(a, Ready | Asked)"))
    [1]
    """
    looking = (
        node.cls if isinstance(node, ast.MatchClass) else node
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchClass | ast.Compare)
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"isinstance", "issubclass"}
        )
    )
    return [
        each.lineno
        for node in looking
        for each in ast.walk(node)
        if (isinstance(each, ast.Name) and each.id == name) or (isinstance(each, ast.Attribute) and each.attr == name)
    ]


def test_the_host_opens_files_to_read_them_alone() -> None:
    host = next(member for member in MEMBERS if member.distribution == HOST)
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in host.modules().values()]
    flags = {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert flags & {"O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND"} == set()


def part_of(module: str) -> str:
    """Return the package or module of the host that *module* is or belongs to.

    >>> part_of("pluggent_host.turns.loop"), part_of("pluggent_host.host"), part_of("pluggent_host")
    ('turns', 'host', '')
    """
    return module.partition(".")[2].partition(".")[0]


def test_an_import_inside_a_function_or_for_typing_says_why() -> None:
    assert [place for file in MODULES for place in imports_without_reason(file)] == []


def imports_without_reason(file: Path) -> list[str]:
    """Return the imports of *file* that stand elsewhere than at its top and do not say why."""
    lines = file.read_text(encoding="utf-8").splitlines()
    lazy = file.name == "__init__.py" and file.parent.name in LAZY
    depths = {"function"} if lazy else {"function", "typing"}
    found = [one for one in imports(file) if one.depth in depths and not has_reason(lines, one.line)]
    return [f"{name(file)}:{one.line}: {one.module}" for one in found]


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


def test_imports_are_absolute() -> None:
    relative = [(name(file), one) for file in PYTHON_FILES for one in imports(file) if one.module.startswith(".")]

    assert relative == []


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_exports_exactly_the_names_that_it_types(package: str) -> None:
    module = import_module(package)
    typed = list(typed_names(Path(str(module.__file__))))

    assert Counter(module.__all__) == Counter(["__version__", *(str(one.name) for one in typed)])
    assert dir(module) == sorted(module.__all__)
    assert [one for one in typed if not exports(package, one)] == []
    assert not hasattr(module, "no_such_name")


def typed_names(file: Path) -> Iterator[Import]:
    """Yield each name that *file* imports for type checkers; of a module with a star those of its ``__all__``."""
    for one in imports(file):
        if one.depth == "typing":
            names = import_module(one.module).__all__ if one.name == "*" else (one.name,)
            yield from (one._replace(name=name) for name in names)


def exports(package: str, one: Import) -> bool:
    """Tell whether *package* hands out the very object that the typed import names."""
    name = str(one.name)
    return getattr(import_module(package), name) is getattr(import_module(one.module), name)


def test_no_distribution_imports_a_private_name_of_another() -> None:
    """What begins with an underscore is for its own package; the contract hands out the rest at its top."""
    own = [(member.package, file) for member in MEMBERS for file in member.modules().values()]
    tests = [("", file) for file in PYTHON_FILES if "tests" in file.relative_to(ROOT).parts]
    packages = {member.package for member in MEMBERS}
    wrong = [
        f"{name(file)}:{one.line} {one.module} {one.name}"
        for package, file in (*own, *tests)
        for one in imports(file)
        if one.module.partition(".")[0] in packages - {package} and any(map(is_private, path_of(one)[1:]))
    ]

    assert wrong == []


def path_of(one: Import) -> list[str]:
    """Return the names of an import, from the package to what is imported."""
    return [*one.module.split("."), str(one.name)]


def is_private(part: str) -> bool:
    """Tell whether *name* is private: ``__version__`` is not."""
    return part.startswith("_") and not part.startswith("__")


# Files


def test_a_file_is_short_or_has_its_reason() -> None:
    lengths = {str(name(file)): len(file.read_text(encoding="utf-8").splitlines()) for file in PYTHON_FILES}

    assert {file: lines for file, lines in lengths.items() if lines > MAX_LINES and file not in LONG_FILES} == {}


def test_the_table_of_long_files_has_long_files_alone() -> None:
    lengths = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in LONG_FILES}

    assert {file for file, lines in lengths.items() if lines <= MAX_LINES} == set()


def test_test_files_have_names_of_their_own_and_no_packages() -> None:
    below_tests = [file.name for file in files() if "tests" in file.parts]
    names = Counter(file for file in below_tests if file.startswith("test_"))

    assert [file for file, count in names.items() if count > 1] == []
    assert "__init__.py" not in below_tests


MAX_SUPPORT = 14


def test_a_folder_of_support_modules_is_small_enough_to_know() -> None:
    sizes = Counter(
        str(file.parent) for file in files() if file.suffix == ".py" and {"tests", "support"} <= {*file.parts}
    )

    assert {folder: size for folder, size in sizes.items() if size > MAX_SUPPORT} == {}


def test_every_test_stands_in_a_file_that_pytest_reads() -> None:
    tests = [
        file for file in PYTHON_FILES if re.search(r"^ *(async )?def test_", file.read_text("utf-8"), re.MULTILINE)
    ]

    below_tests = [file.relative_to(ROOT) for file in tests if file.is_relative_to(ROOT / "tests")]
    assert [str(file) for file in below_tests if not file.name.startswith("test_")] == []


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
    grouped = [line for group in root["dependency-groups"].values() for line in group if isinstance(line, str)]
    wanted = [Requirement(line) for line in (*root["project"]["dependencies"], *grouped)]
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
            imports(file)
        except SyntaxError as error:
            broken.append(str(error))

    assert broken == []
