"""Builds the members and installs them as a user would, with pip; run by a Python that has the pinned tools."""

import subprocess
import sys
from pathlib import Path

from workspace import ROOT, members


def build(where: Path) -> list[Path]:
    """Return the wheels of the root and of all members."""
    for folder in (Path(), *(member.folder for member in members())):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(where), str(ROOT / folder)]
        run(command, cwd=ROOT)
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
