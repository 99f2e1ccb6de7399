"""Runs the tests on a machine that has Python 3.11 and nothing else.

    python3 tests/run.py [arguments of pytest]
    python3 tests/run.py --quick                a part for every day, on two cores
    python3 tests/run.py --environment          prepare it and print its interpreter

Makes a virtual environment for this checkout and this Python in a cache outside the checkout
(``$PLUGGENT_TEST_CACHE``, else ``~/.cache/pluggent-tests``), installs the pinned tools and the
members into it, and runs pytest there. A second run starts at once; a changed pin or a changed
``pyproject.toml`` makes the environment anew. Uses uv where it works, pip elsewhere.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
WORKSPACE = ROOT / "tests" / "workspace.txt"
STAMP = "pluggent-checkout.txt"


def main(arguments: list[str]) -> int:
    """Prepare the environment, then run pytest in it; its exit code is ours."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this file is what an older Python is first given)
        sys.exit("pluggent needs Python 3.11 or newer; this is " + sys.version.split()[0])
    os.environ.pop("VIRTUAL_ENV", None)
    # Tests start hundreds of interpreters: without bytecode on the disk each would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = prepare(environment())
    if arguments == ["--environment"]:
        print(python)
        return 0
    if arguments == ["--quick"]:
        arguments = ["--quick", "-q", "-n", "2"]
    # -P: the folders of the checkout are no packages
    return subprocess.run([python, "-P", "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


def environment() -> Path:
    """Return this checkout's and this Python's place in the cache."""
    cache = Path(os.environ.get("PLUGGENT_TEST_CACHE") or Path.home() / ".cache" / "pluggent-tests")
    version = "{}.{}.{}".format(*sys.version_info)
    return cache.resolve() / f"{version}-{hashlib.sha256(bytes(ROOT)).hexdigest()[:12]}"


def prepare(where: Path) -> Path:
    """Return the interpreter of an environment that holds the pins and the members."""
    python = where / "bin" / "python"
    stamp = where / STAMP
    wanted = f"{ROOT}\n{digest()}\n"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    forget_lost_checkouts(where.parent)
    shutil.rmtree(where, ignore_errors=True)
    install(where, python)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def digest() -> str:
    """Return what an environment depends on, as one hash."""
    members = sorted(ROOT.glob("*/pyproject.toml")) + sorted(ROOT.glob("*/*/pyproject.toml"))
    files = (CONSTRAINTS, WORKSPACE, ROOT / "pyproject.toml", *members)
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def forget_lost_checkouts(cache: Path) -> None:
    """Delete the environments whose checkout is gone, so that the cache does not grow."""
    for stamp in cache.glob(f"*/{STAMP}"):
        if not Path(stamp.read_text(encoding="utf-8").partition("\n")[0]).is_dir():
            shutil.rmtree(stamp.parent, ignore_errors=True)


def install(where: Path, python: Path) -> None:
    """Make the environment: the pins by hash, then the members, built with the pinned backend."""
    if has_uv():
        run("uv", "venv", "--quiet", "--python", sys.executable, where)
        pip: tuple[str | Path, ...] = ("uv", "pip", "install", "--quiet", "--python", python)
    else:
        run(sys.executable, "-m", "venv", where)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--root-user-action=ignore")
    run(*pip, "--require-hashes", "-r", CONSTRAINTS)
    run(*pip, "--no-deps", "--no-build-isolation", "-r", WORKSPACE)


def has_uv() -> bool:
    """Tell whether uv is there and starts (a shim on PATH may not)."""
    if not shutil.which("uv"):
        return False
    return subprocess.run(["uv", "--version"], cwd=ROOT, capture_output=True, check=False).returncode == 0


def run(*command: str | Path) -> None:
    """Run a step of the set-up; its output goes to stderr, its failure ends the program."""
    done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    if done.returncode:
        sys.exit(f"could not prepare the tests: {' '.join(map(str, command))} ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
