"""Keeps entries of ``PYTHONPATH`` in the project from shadowing what is installed. See also installed_plugins.py.

What it names relatively (an empty element is the working directory) comes last, so that it shadows
nothing; what lies in the project is not imported from at all, unless it was accepted. Python itself
has read ``PYTHONPATH`` before: what it imports at its start, and this package, cannot be guarded here.
"""

# Every command but --version passes here before anything else is imported:
# ruff: noqa: PTH112, PTH117, PTH118, PTH123, PTH208

import os
import site
import sys
from collections.abc import Iterator

from pluggent_plugin_loader.project import in_project, is_own, python_path, real, roots


def leave_project() -> None:
    """Take what ``PYTHONPATH`` names in the project off ``sys.path``, and put what it names relatively last."""
    here = roots()
    inside = set(excluded())
    relative = {place for place in map(real, filter(_is_relative, python_path())) if not is_own(place, here)}
    late = inside | relative
    if not late:
        return
    kept = [entry for entry in sys.path if real(entry) not in late]
    # An editable installation of the project is imported from where its .pth file would have put it.
    editable = set(_in_pth_files())
    last = [
        entry for entry in sys.path if (place := real(entry)) in late and (place not in inside or place in editable)
    ]
    sys.path[:] = [*kept, *dict.fromkeys(last)]


def excluded() -> tuple[str, ...]:
    """Return the folders of the project that ``PYTHONPATH`` names, as real paths."""
    here = roots()
    return tuple(dict.fromkeys(place for place in map(real, python_path()) if in_project(place, here)))


def admit(folder: str) -> None:
    """Import from *folder*, which was accepted, after everything else."""
    if folder not in map(real, sys.path):
        sys.path.append(folder)


def _is_relative(element: str) -> bool:
    return not os.path.isabs(element)


def _in_pth_files() -> Iterator[str]:
    """Yield the folders that .pth files of the interpreter name, as real paths."""
    on_path = set(map(real, sys.path))
    for folder in map(real, (*site.getsitepackages(), site.getusersitepackages())):
        if folder not in on_path or not os.path.isdir(folder):
            continue
        for name in os.listdir(folder):
            if name.endswith(".pth"):
                yield from _named_in(folder, name)


def _named_in(folder: str, name: str) -> Iterator[str]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in map(str.strip, lines):
        if line and not line.startswith(("#", "import ", "import\t")):
            yield real(os.path.join(folder, line))
