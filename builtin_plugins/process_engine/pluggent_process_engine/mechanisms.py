"""What this machine can confine programs with, looked at once for a process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs

PACKAGE_FOLDER = str(Path(__file__).resolve().parent.parent)
_PLACES = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where bubblewrap is looked for: not on PATH, which may begin with a folder of the workspace."""
_PROBE_S = 10.0
_TRY = (
    "--ro-bind", "/", "/", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--dev", "/dev", "--proc", "/proc",
    "--tmpfs", "/var", "--die-with-parent",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class Mechanisms:
    """Mechanisms that were tried and work: the path of bubblewrap or "", the ABI of Landlock or 0.

    ``netns``: a program can be given namespaces of its own, of network and mounts, without bubblewrap.
    ``why_not`` says what is missing.
    """

    bubblewrap: str = ""
    landlock: int = 0
    netns: bool = False
    why_not: str = ""


def launcher(call: str) -> list[str]:
    """Return the command that calls a function of ``launch`` in an interpreter of its own."""
    source = f"import sys; sys.path.append(sys.argv.pop(1)); from pluggent_process_engine import launch; launch.{call}"
    return [sys.executable, "-I", "-S", "-c", source, PACKAGE_FOLDER]


_found: Mechanisms | None = None


async def mechanisms() -> Mechanisms:
    """Return what works here. The first call tries it, in a thread, for up to a few seconds."""
    return await asyncio.to_thread(find_mechanisms) if _found is None else _found


def find_mechanisms() -> Mechanisms:
    """Return what works here, and try it the first time. Blocks."""
    global _found  # noqa: PLW0603 (the machine does not change while a process runs)
    found = _found
    if found is None:
        found = _tried() if sys.platform == "linux" else Mechanisms(why_not="this system has no mechanism for it")
        _found = found
    return found


def _tried() -> Mechanisms:
    path = next((place for folder in _PLACES if os.access(place := f"{folder}/bwrap", os.X_OK)), "")
    problem = "bubblewrap is not installed"
    if path:
        problem = _problem([path, *_TRY, "--", "/bin/true"])
    facts: dict[str, Any] = {}
    try:
        done = subprocess.run(  # noqa: S603 (this interpreter)
            launcher("probe()"), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=True, cwd="/"
        )
        facts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        pass  # then it has neither
    return Mechanisms(bubblewrap="" if problem else path, why_not=problem, **facts)


def _problem(command: list[str]) -> str:
    """Return why bubblewrap does not work, "" if it does."""
    try:
        done = subprocess.run(  # noqa: S603 (a program of the system)
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False, cwd="/"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"bubblewrap does not work here: {error}"
    said = done.stderr.decode(errors="replace").strip()[:200]
    return f"bubblewrap does not work here: {said}" if done.returncode else ""
