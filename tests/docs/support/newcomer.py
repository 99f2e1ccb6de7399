"""A new user: an empty home and folder, and a Python environment in which pip installs what a page tells it to.

The environment sees the packages of the one that runs the tests, so that pip needs no network. The command
``pluggent`` is forked from a process that has imported it; what pip and pytest start is started as by a user.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import NamedTuple

from cli_support import words_to_fork
from pages import Block, blocks

PATIENCE_S = 120.0
MARK = "@@end-of-command"
_PROGRAMS = {
    "pip": "from pip._internal.cli.main import main",
    "pytest": "from pytest import console_main as main",
}
_PLUGGENT = """
import site
import sys

sys.prefix, sys.executable = {prefix!r}, {python!r}
before = len(sys.path)
site.addsitedir({site!r})
sys.path[:] = [*sys.path[before:], *sys.path[1:before]]
from pluggent_cli.main import main
sys.exit(main())
"""
_ANYTHING = re.compile(r"…")


class Shown(NamedTuple):
    """A command of a page with the output that the page shows, and what it wrote here."""

    command: str
    expected: str
    output: str
    code: int

    @property
    def is_as_shown(self) -> bool:
        """Whether the output is the one shown: a line ``…`` stands for any lines, ``…`` in a line for any text.

        A command without output has to succeed.
        """
        if not self.expected:
            return self.code == 0
        lines = self.expected.splitlines()
        pattern = "".join(
            r"(?:.*\n)*?" if line == "…" else r".*?".join(map(re.escape, _ANYTHING.split(line))) + r"\n"
            for line in lines
        )
        return re.fullmatch(pattern, self.output) is not None


class Newcomer:
    """Follows a page: writes the files that it shows and types the commands that it shows, in their order."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "work"
        self.home = place / "home"
        self._programs = place / "venv" / "bin"
        self.folder.mkdir()
        self.home.mkdir()
        venv.create(place / "venv", symlinks=True)
        site = next((place / "venv" / "lib").glob("python*/site-packages"))
        base = sysconfig.get_path("purelib")
        (site / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n", "utf-8")
        python = str(self._programs / "python")
        for name, source in _PROGRAMS.items():
            self._install(name, python, "-P", "-c", f"import sys\n{source}\nsys.exit(main())")
        pluggent = place / "pluggent.py"
        pluggent.write_text(_PLUGGENT.format(prefix=str(place / "venv"), python=python, site=str(site)), "utf-8")
        self._install("pluggent", *words_to_fork(pluggent))

    def _install(self, name: str, *words: str) -> None:
        program = self._programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        program.chmod(0o755)

    def follow(self, page: Path) -> list[Shown]:
        """Return what the commands of *page* did."""
        done: list[Shown] = []
        for block in blocks(page):
            if block.path:
                file = self.folder / block.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(block.text, "utf-8")
            if block.language == "console":
                done += self._type(block)
        return done

    def output(self, command: str) -> str:
        """Return what one *command* writes."""
        return self._run(command)

    def _type(self, block: Block) -> list[Shown]:
        parts = re.split(r"^\$ ", re.sub(r" *\\\n\s*", " ", block.text), flags=re.MULTILINE)[1:]
        typed = [part.partition("\n")[::2] for part in parts]
        script = "".join(f'{command}\ncode=$?; echo "{MARK} $code"; (exit $code)\n' for command, _ in typed)
        written = self._run(script)
        outputs = re.findall(rf"((?:.*\n)*?){MARK} (\d+)\n", written)
        assert len(outputs) == len(typed), f"{block.place}: {written}"
        return [
            Shown(command, expected, output, int(code))
            for (command, expected), (output, code) in zip(typed, outputs, strict=True)
        ]

    def _run(self, script: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", script], cwd=self.folder, env=self._environ(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done.stdout

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": f"{self._programs}{os.pathsep}{os.defpath}",
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as the option's value: there is no isolation
            "PIP_NO_INDEX": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PLUGGENT_BLOCK": "pluggent-mcp",  # what it finds takes a second to import
        }


assert sys.prefix != sys.base_prefix, "run in the environment of the tests"
