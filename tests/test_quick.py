"""What a quick run has."""

import re
import subprocess
import sys

import pytest
import quick
from pluggent_testing.paths import PATHS
from workspace import ROOT, files

MATRIX = "tests/policy/matrix/test_path_matrix.py"


def test_every_path_and_every_hook_of_the_matrix_comes_up():
    whole, part = collected(), collected("--quick")

    assert [path for path in PATHS if not any(f"[{path}]" in cell or f"[{path}-" in cell for cell in part)] == []
    assert words(part) == words(whole)
    assert {cell.partition("[")[0] for cell in part} == {cell.partition("[")[0] for cell in whole}
    assert len(part) < 150 < len(whole)


@pytest.mark.parametrize("pattern", [*quick.LEFT_OUT, *quick.KEPT, *quick.SAMPLED])
def test_every_pattern_matches_a_file(pattern):
    assert [file for file in files() if re.fullmatch(pattern.replace(".", r"\.").replace("*", ".*"), file.name)]


def collected(*options: str) -> list[str]:
    """Return the cells of the matrix that pytest would run."""
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", *options, MATRIX]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 (this Python)
    return [line for line in done.stdout.splitlines() if "::" in line]


def words(cells: list[str]) -> set[str]:
    """Return the hooks that the names of *cells* hold: all that has an underscore."""
    return {word for cell in cells for word in re.findall(r"[a-z]+_[a-z_]+", cell.partition("[")[2])}
