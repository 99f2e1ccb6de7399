"""Runs the tests on a machine that has Python 3.11 and nothing else.

    python3 tests/run.py [arguments of pytest]
    python3 tests/run.py --quick                a part for every day, on two cores
    python3 tests/run.py --processes 2 […]      in two processes, which share the work: tests/support/shared_run.py
    python3 tests/run.py --environment          prepare it and print its interpreter

Makes a virtual environment for this checkout and this Python in a cache outside the checkout
(``$PLUGGENT_TEST_CACHE``, else ``~/.cache/pluggent-tests``), installs the pinned tools and the
members into it, and runs pytest there. A second run starts at once; a changed pin or a changed
``pyproject.toml`` makes the environment anew. Uses uv where it works; pip elsewhere, which installs
the tools once for all checkouts: each environment has links to their files.

The temporary files of the tests are in memory where the system has room for that (``/dev/shm``),
unless ``TMPDIR`` says where: a test writes little, and a disk takes milliseconds to forget a folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
WORKSPACE = ROOT / "tests" / "workspace.txt"
STAMP = "pluggent-checkout.txt"
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--root-user-action=ignore")
DAY_S = 86_400
MEMORY = Path("/dev/shm")  # noqa: S108 (a folder of our own is made in it)
MEMORY_BYTES = 2 * 1024**3
"""How much must be free there: many times what a whole run writes."""


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
    processes = 1
    if arguments[:1] == ["--processes"]:
        processes, arguments = int(arguments[1]), arguments[2:]
    with temporary_folder() as folder:
        in_memory = {"TMPDIR": str(folder), "PLUGGENT_TEST_DISK": tempfile.gettempdir()} if folder else {}
        # -P: the folders of the checkout are no packages
        command = [str(python), "-P", "-m", "pytest", *arguments]
        environ = {**os.environ, **in_memory}
        if processes == 1:
            return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
        return run_together(command, environ, processes)


def run_together(command: list[str], environ: Mapping[str, str], processes: int) -> int:
    """Run *command* in processes that share the tests; show what the first one says, then the others."""
    with tempfile.TemporaryDirectory(prefix="pluggent-share-") as folder, ExitStack() as stack:
        shared = [*command, "-p", "no:cacheprovider", "-o", "console_output_style=classic", f"--share={folder}"]
        started: list[tuple[subprocess.Popen[bytes], IO[bytes] | None]] = []
        for number in range(processes):
            said = stack.enter_context(tempfile.TemporaryFile()) if number else None
            error = subprocess.STDOUT if number else None
            started.append((subprocess.Popen(shared, cwd=ROOT, env=environ, stdout=said, stderr=error), said))
        codes: list[int] = []
        for process, said in started:
            codes.append(process.wait())
            if said is not None:
                said.seek(0)
                shutil.copyfileobj(said, sys.stdout.buffer)
                sys.stdout.flush()
        # 5: a process found nothing left to run
        return 5 if set(codes) == {5} else max(code if code != 5 else 0 for code in map(abs, codes))


@contextmanager
def temporary_folder() -> Generator[Path | None, None, None]:
    """Yield a folder in memory, which is gone afterwards; None where the tests have to take the usual one."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        yield None
        return
    for left in MEMORY.glob("pluggent-tests-*"):  # by a run that was killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    prefix = f"pluggent-tests-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


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
    members = ("--no-deps", "--no-build-isolation", "-r", WORKSPACE)
    if has_uv():
        pip = ("uv", "pip", "install", "--quiet", "--python", python)
        run("uv", "venv", "--quiet", "--python", sys.executable, where)
        run(*pip, "--require-hashes", "-r", CONSTRAINTS)
        run(*pip, *members)
    else:
        link(pinned(where.parent), where)
        run(python, *PIP, *members)


def pinned(cache: Path) -> Path:
    """Return the environment of this Python that has the pins alone; it is made if it is not there."""
    version = "{}.{}.{}".format(*sys.version_info)
    where = cache / f"{version}-pins-{hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()[:12]}"
    if not where.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        others = set(cache.glob(f"{version}-pins-*"))
        new = Path(tempfile.mkdtemp(prefix=f"{version}-new-", dir=cache))
        try:
            run(sys.executable, "-m", "venv", new)
            run(new / "bin" / "python", *PIP, "--require-hashes", "-r", CONSTRAINTS)
            with suppress(OSError):  # another run was quicker
                new.rename(where)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        for other in others:  # of pins as they were before; what links to their files keeps them
            if time.time() - other.stat().st_mtime > DAY_S:  # a younger one may be in use
                shutil.rmtree(other, ignore_errors=True)
    return where


def link(pins: Path, where: Path) -> None:
    """Make *where* an environment with the files of *pins*; its programs start its own interpreter."""
    try:
        shutil.copytree(pins, where, symlinks=True, copy_function=os.link)
    except shutil.Error:  # a file system without links
        shutil.rmtree(where)
        shutil.copytree(pins, where, symlinks=True)
    for program in (where / "bin").iterdir():
        first, _, rest = (b"", b"", b"") if program.is_symlink() else program.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"/bin/python" in first:
            mode = program.stat().st_mode
            program.unlink()  # and not written to: it is the same file in all environments
            program.write_bytes(b"#!%b\n%b" % (bytes(where / "bin" / "python"), rest))
            program.chmod(mode)


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
