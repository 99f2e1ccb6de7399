"""Reads this checkout as data: its members, their modules, imports and READMEs. Builds and installs the members.

As a program it prints the figures: python tests/support/workspace.py
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import attrs
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LAZY = ("pluggent_hookspecs", "pluggent_host")
"""The packages whose ``__init__`` imports a name when it is first used."""
HOST_LIBRARIES = {"pluggent-plugin-loader", "pluggent-transcript"}
"""The libraries that the host is built on; no plugin is."""
HOST_PARTS = {"pluggent-host", *HOST_LIBRARIES}
BUILT_ON = {
    "pluggent-contract-values": {"pluggent-function-tools"},
    "pluggent-transcript": {"pluggent-contract-values", "pluggent-plugin-loader"},
    "pluggent-host": HOST_LIBRARIES | {"pluggent-contract-values", "pluggent-function-tools"},
    "pluggent-cli": HOST_PARTS
    | {"pluggent-checked-http", "pluggent-contract-values", "pluggent-models", "pluggent-state-files"},
    "pluggent-testing": HOST_PARTS | {"pluggent-cli", "pluggent-contract-values", "pluggent-function-tools"},
}
"""What of the workspace the host, its front ends and a library may import besides the contract."""


class Member(NamedTuple):
    """One distribution of the workspace, as its folder says it should be called."""

    folder: Path
    """Relative to the checkout."""

    @property
    def distribution(self) -> str:
        return "pluggent-" + self.folder.name.replace("_", "-")

    @property
    def package(self) -> str:
        return "pluggent_" + self.folder.name

    @property
    def is_front_end(self) -> bool:
        """Whether it is one of those that may import the host."""
        return "pluggent-host" in BUILT_ON.get(self.distribution, ())

    @property
    def is_plugin(self) -> bool:
        return len(self.folder.parts) > 1 and not self.is_front_end and "entry-points" in self.project

    @property
    def is_library(self) -> bool:
        """Whether plugins may be built on it: it stands among them and offers nothing by itself."""
        own = self.is_front_end or self.is_plugin or self.distribution in HOST_LIBRARIES
        return len(self.folder.parts) > 1 and not own

    @property
    def project(self) -> dict[str, Any]:
        """The ``[project]`` table."""
        project: dict[str, Any] = pyproject(self.folder)["project"]
        return project

    def modules(self) -> dict[str, Path]:
        """Return the file of every module, by its dotted name."""
        top = ROOT / self.folder
        files = sorted((top / self.package).rglob("*.py"))
        return {".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


class Import(NamedTuple):
    """One import statement's one target."""

    module: str
    name: str | None
    """The name taken from *module*, or ``*``; None for ``import module``."""
    line: int
    depth: str
    """Where it stands: module, function, or typing (below ``if TYPE_CHECKING``)."""


@cache
def members() -> tuple[Member, ...]:
    """Return the members, contract and host first, by the folders that hold a pyproject.toml."""
    plugins = sorted(file.parent.relative_to(ROOT) for file in ROOT.glob("*_plugins/*/pyproject.toml"))
    return tuple(Member(folder) for folder in (Path("hookspecs"), Path("host"), *plugins))


@cache
def pyproject(folder: Path) -> dict[str, Any]:
    """Return the pyproject.toml of *folder*, which is relative to the checkout."""
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def files() -> tuple[Path, ...]:
    """Return every file that is or would be committed, relative to the checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive, or no git here
        listed = "\0".join(str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not _is_made(path))
    return tuple(sorted(path for name in listed.split("\0") if name and (ROOT / (path := Path(name))).is_file()))


def _is_made(path: Path) -> bool:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    return any(part == ".git" or part + "/" in ignored or part in ignored for part in path.relative_to(ROOT).parts)


@cache
def imports(file: Path) -> tuple[Import, ...]:
    """Return what *file* imports, in the order of its lines. Raises SyntaxError as the oldest Python would."""
    tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file), feature_version=(3, 11))
    return tuple(_imports(tree, "module"))


def _imports(node: ast.AST, depth: str) -> Iterator[Import]:
    match node:
        case ast.Import(names=names, lineno=line):
            yield from (Import(alias.name, None, line, depth) for alias in names)
        case ast.ImportFrom(module=module, level=level, names=names, lineno=line):
            yield from (Import("." * level + (module or ""), alias.name, line, depth) for alias in names)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            depth = "function"
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
            for statement in body:
                yield from _imports(statement, "typing")
            return
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):  # no statement is inside of one
            yield from _imports(child, depth)


def graph(member: Member) -> dict[str, set[str]]:
    """Return which module of *member* imports which other one when it is itself imported.

    A name taken from a lazy ``__init__`` counts as an import of the module that has it.
    """
    modules = member.modules()
    lazy = {
        (name, found.name): found.module
        for name, file in modules.items()
        for found in imports(file)
        if found.depth == "typing"
    }
    edges: dict[str, set[str]] = {name: set() for name in modules}
    for name, file in modules.items():
        for found in imports(file):
            if found.depth == "module":
                targets = (f"{found.module}.{found.name}", lazy.get((found.module, found.name), found.module))
                edges[name].update([target for target in targets if target in modules][:1])
    return edges


def rings(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return one ring of every knot in *edges*, each as the modules from its start back to it.

    >>> rings({"a": {"b"}, "b": {"c"}, "c": {"b"}})
    [['b', 'c', 'b']]
    """
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for target in sorted(edges[name]):
                visit(target, [*path, name])
            done.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def main() -> None:
    """Print the figures that a reviewer asks for."""
    graphs = [graph(member) for member in members()]
    modules = [file for member in members() for file in member.modules().values()]
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in modules}
    longest = max(modules, key=lines.__getitem__)
    print(  # noqa: T201 (a program's output)
        f"members {len(members())}, modules {len(modules)}, lines {sum(lines.values())}\n"
        f"longest {longest.relative_to(ROOT)} with {lines[longest]} lines\n"
        f"imports inside packages {sum(len(to) for edges in graphs for to in edges.values())}, "
        f"import rings {sum(len(rings(edges)) for edges in graphs)}"
    )


def build(where: Path) -> list[Path]:
    """Return the wheels of the root and of all members, each made from its sdist."""
    # Here and not above: what reads the checkout as data builds nothing. In this process, as a build
    # front end starts two interpreters for each member.
    from hatchling.build import build_sdist, build_wheel

    for folder in (Path(), *(member.folder for member in members())):
        with TemporaryDirectory() as scratch:
            with chdir(ROOT / folder):
                sdist = where / build_sdist(str(where))
            with tarfile.open(sdist) as archive:
                archive.extractall(scratch, filter="data")
            with chdir(Path(scratch) / sdist.name.removesuffix(".tar.gz")):
                build_wheel(str(where))
    return sorted(where.glob("*.whl"))


def environment(where: Path, *install: str, cwd: Path = ROOT) -> Path:
    """Return the programs' folder of a new environment in which pip has installed *install*."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    run([str(base), "-m", "venv", str(where)], cwd=cwd)
    programs = where / "bin"
    pip = [str(programs / "python"), "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", "--root-user-action=ignore", *install], cwd=cwd)
    run([*pip, "check"], cwd=cwd)
    return programs


def run(command: list[str], cwd: Path, environ: dict[str, str] | None = None) -> str:
    """Return the output of *command*; its failure ends the program and shows all it wrote."""
    done = subprocess.run(
        command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def tables(file: Path) -> dict[str, dict[str, str]]:
    """Return every table of *file* by the heads of its first two columns: second cells by first cells."""
    found: dict[str, dict[str, str]] = {}
    head = ""
    for cells in _rows(file):
        if not cells:
            head = ""
        elif not head:
            head = f"{cells[0]} {cells[1]}"
            found[head] = {}
        elif not set(cells[0]) <= {"-"}:
            found[head][cells[0]] = cells[1]
    return found


def _rows(file: Path) -> Iterator[list[str]]:
    for line in file.read_text("utf-8").splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


def each_row(rows: Mapping[str, str], cases: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test for every row and every case: a row without a case fails, and so does a case without a row."""
    assert rows
    return pytest.mark.parametrize("row", sorted({*rows, *cases}))


def same(found: Callable[[], object], expected: object) -> Callable[[], None]:
    """Return a check that *found* gives *expected*."""

    def check() -> None:
        assert found() == expected

    return check


def names_in(made: type) -> set[str]:
    """Return the names of the fields of an attrs class."""
    return {field.name for field in attrs.fields(made)}


if __name__ == "__main__":
    main()
