"""Installs pluggent in the two ways that a user does, with plain pip and nothing else there, and uses it.

    PYTHON tests/installs.py          PYTHON has the pinned tools: tests/run.py --environment prints it

From wheels: every member is built as an sdist and, from that, as a wheel. From a clone: the files
that are or would be committed are copied, and README's first commands are run there.
"""

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "docs" / "support"))

from pages import blocks
from workspace import ROOT, build, environment, files, members, pyproject, run

FIRST_WORDS = "weather city=Beijing"


def main() -> None:
    """Do both; the first thing that goes wrong ends the program."""
    with tempfile.TemporaryDirectory(prefix="pluggent-installs-") as scratch:
        place = Path(scratch)
        wheels = build(place / "dist")
        for wheel in wheels:
            check_contents(wheel)
        print(f"built {len(wheels)} wheels")
        from_wheels = environment(place / "wheels", *map(str, wheels))
        use(from_wheels, place)
        print("wheels installed and used")
        clone = copy(place / "clone")
        follow_readme(clone, place / "programs")
        use(clone / ".venv" / "bin", clone)
        print("clone installed and used")


def check_contents(wheel: Path) -> None:
    """Fail unless the wheel has its licence and types and nothing beside its package."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    distribution = wheel.name.partition("-")[0]
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    expected = set() if distribution == "pluggent" else {distribution}
    if packages != expected or not any(name.endswith("/licenses/LICENSE") for name in names):
        sys.exit(f"{wheel.name} holds {sorted(packages)} and {len(names)} files; it should be {distribution} + LICENSE")
    if expected and f"{distribution}/py.typed" not in names:
        sys.exit(f"{wheel.name} has no py.typed")


def copy(where: Path) -> Path:
    """Return a copy of what is or would be committed."""
    for file in files():
        (where / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, where / file)
    return where


def follow_readme(clone: Path, programs: Path) -> None:
    """Run the first commands of README.md, with this Python as python3; they print what the text below them shows."""
    programs.mkdir()
    (programs / "python3").symlink_to(
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    )
    shown = blocks(Path("README.md"))
    commands = next(block.text for block in shown if block.language == "sh")
    expected = next(block.text for block in shown if block.language == "text")
    environ = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    output = run(["/bin/sh", "-e", "-c", f"exec 2>&1\n{commands}"], cwd=clone, environ=environ)
    if expected not in output:
        sys.exit(f"README's first commands do not print what it shows:\n{output}")


def use(programs: Path, cwd: Path) -> None:
    """Run the commands that a new user runs; each must succeed and say what it should."""
    pluggent = str(programs / "pluggent")
    version = pyproject(Path())["project"]["version"]
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    expect(version, [pluggent, "--version"], cwd, home)
    expect("usage: pluggent", [pluggent, "--help"], cwd, home)
    listing = expect("", [pluggent, "plugins"], cwd, home)
    for member in members():
        if member.is_plugin and member.distribution not in listing:
            sys.exit(f"`pluggent plugins` does not list {member.distribution}:\n{listing}")
    expect("Beijing", [pluggent, "run", FIRST_WORDS], cwd, home)
    expect(version, [str(programs / "pluggent-cli"), "--version"], cwd, home)


def expect(text: str, command: list[str], cwd: Path, home: Path) -> str:
    """Return what *command* writes; it must hold *text*, and no warning may turn up."""
    environ = {"PATH": os.defpath, "HOME": str(home), "PYTHONWARNINGS": "error", "LANG": "C.UTF-8"}
    output = run(command, cwd=cwd, environ=environ)
    if text not in output:
        sys.exit(f"{' '.join(command)} does not say {text!r}:\n{output}")
    return output


if __name__ == "__main__":
    main()
