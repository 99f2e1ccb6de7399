"""What a process costs before anything happens, in a wheel install made for the purpose."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from figures import row, show
from workspace import build, environment

ROUNDS = 20
IMPORTS = ("pluggent_hookspecs", "pluggent_host")
FROM_IMPORTS = (
    "from pluggent_hookspecs import hookimpl",
    "from pluggent_hookspecs import tool",
    "from pluggent_hookspecs import Message",
    "from pluggent_host import Host",
)


def main() -> None:
    """Print the table: the bare interpreter, imports, and the commands with more and more installed."""
    show("start-up of a wheel install", "CPU ms")
    with tempfile.TemporaryDirectory(prefix="pluggent-benchmark-") as scratch:
        place = Path(scratch)
        programs = environment(place / "venv", *map(str, build(place / "dist")))
        python, pluggent = str(programs / "python"), str(programs / "pluggent")
        measure("python -c pass", [python, "-c", "pass"], place)
        for package in IMPORTS:
            measure(f"import {package}", [python, "-c", f"import {package}"], place)
        for statement in FROM_IMPORTS:
            measure(statement, [python, "-c", statement], place)
        measure("pluggent --version", [pluggent, "--version"], place)
        measure("pluggent --help", [pluggent, "--help"], place)
        site = next((place / "venv" / "lib").glob("python*/site-packages"))
        here = len(list(site.glob("*.dist-info")))
        measure(f"pluggent plugins, {here} distributions", [pluggent, "plugins"], place)
        for count, plugins in ((100, 10), (500, 50)):
            pretend(site, count, plugins)
            title = f"pluggent plugins, {count} more, {plugins} of them plugins"
            measure(title, [pluggent, "plugins"], place)
        measure('pluggent run "weather city=Beijing"', [pluggent, "run", "weather city=Beijing"], place)


def measure(name: str, command: list[str], home: Path) -> None:
    """Print what *command* costs; the first runs, which write bytecode, are not counted."""
    environ = {"PATH": os.defpath, "HOME": str(home), "LANG": "C.UTF-8"}
    try:
        row(name, list(costs(command, environ))[2:])
    except subprocess.CalledProcessError as error:
        print(f"{name:<58} failed: {error.stderr.strip().splitlines()[-1:]}")


def costs(command: list[str], environ: dict[str, str]) -> Iterator[float]:
    """Yield the CPU milliseconds of one run after the other."""
    for _ in range(ROUNDS + 2):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(command, env=environ, capture_output=True, check=True, text=True, stdin=subprocess.DEVNULL)
        after = getrusage(RUSAGE_CHILDREN)
        yield 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def pretend(site: Path, count: int, plugins: int) -> None:
    """Fill *site* up to *count* distributions that only have metadata, *plugins* of them with an entry point."""
    for number in range(count):
        info = site / f"pretended_{number:03}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        metadata = f"Metadata-Version: 2.1\nName: pretended-{number:03}\nVersion: 1.0\nSummary: Not there.\n"
        (info / "METADATA").write_text(metadata, encoding="utf-8")
        (info / "RECORD").write_text("", encoding="utf-8")
        group = "pluggent.tools" if number < plugins else "console_scripts"
        entry = f"[{group}]\npretended{number} = pretended_{number:03}:Plugin\n"
        (info / "entry_points.txt").write_text(entry, encoding="utf-8")


if __name__ == "__main__":
    main()
