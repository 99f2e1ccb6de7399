"""Reads this checkout as data: its members, their modules, what imports what. Imports none of them.

As a program it prints the figures: python tests/support/workspace.py
"""

import ast
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
LAZY = ("pluggent_hookspecs", "pluggent_host")
"""The packages whose ``__init__`` imports a name when it is first used."""
FRONT_ENDS = {"pluggent-cli": {"pluggent-state-files"}, "pluggent-testing": {"pluggent-cli"}}
"""The members that may import the host, each with what else of the workspace it may import besides the contract."""


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
        return self.distribution in FRONT_ENDS

    @property
    def is_plugin(self) -> bool:
        return len(self.folder.parts) > 1 and not self.is_front_end and "entry-points" in self.project

    @property
    def is_library(self) -> bool:
        """Whether plugins may be built on it: it stands among them and offers nothing by itself."""
        return len(self.folder.parts) > 1 and not self.is_front_end and not self.is_plugin

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
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            depth = "function"
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
            for statement in body:
                yield from _imports(statement, "typing")
            return
        case _:
            pass
    for child in ast.iter_child_nodes(node):
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


if __name__ == "__main__":
    main()
