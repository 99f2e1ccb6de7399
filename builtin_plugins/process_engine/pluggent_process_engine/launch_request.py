"""Writes down for a launcher what it is to run: the program, its limits, its confinement."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from pluggent_process_engine.confinement import bubblewrap_arguments, landlock_rules
from pluggent_process_engine.environment import environment
from pluggent_process_engine.mechanisms import Mechanisms
from pluggent_process_engine.program import Confined, Program, StartError


def request_for(program: Program, confined: Confined, found: Mechanisms, mark: str) -> bytes:
    """Return what the launcher of *program* is sent. Raises StartError for what no program can be given."""
    return _encoded(_request(program, confined, found, mark))


def _request(program: Program, confined: Confined, found: Mechanisms, mark: str) -> dict[str, Any]:
    limits = program.limits
    rlimits = {"RLIMIT_CORE": 0, "RLIMIT_CPU": limits.cpu_s, "RLIMIT_FSIZE": limits.file_bytes,
               "RLIMIT_NOFILE": limits.open_files}  # fmt: skip
    wanted = program.confinement
    argv = list(program.argv)
    if wanted is not None and confined.how == "bubblewrap":
        argv = [found.bubblewrap, *bubblewrap_arguments(wanted, program.cwd, root=os.geteuid() == 0), *argv]
    use_landlock = wanted is not None and confined.how == "landlock"
    return {
        "argv": argv,
        "cwd": str(program.cwd),
        "env": environment(program.env, os.environ, mark),
        "rlimits": {name: value for name, value in rlimits.items() if value is not None},
        "wall_s": limits.wall_s,
        "processes": limits.processes,
        "grace_s": program.grace_s,
        "linger_s": program.linger_s,
        "bubblewrap": confined.how == "bubblewrap",
        "landlock": landlock_rules(wanted, found, program.cwd) if use_landlock and wanted is not None else None,
    }


def _encoded(message: Mapping[str, Any]) -> bytes:
    """Return *message* for the launcher. Raises StartError for what no program can be given."""
    texts = [*message["argv"], message["cwd"], *message["env"].values()]
    if not message["argv"] or not message["argv"][0]:
        raise StartError("it has no program to run")
    if any("\0" in text for text in texts):
        raise StartError("it has a NUL character in an argument, which no program can be given")
    try:
        for text in texts:
            os.fsencode(text)
    except UnicodeEncodeError as error:
        raise StartError("it has a lone surrogate in an argument, which no program can be given") from error
    data = json.dumps(message).encode()
    return len(data).to_bytes(4, "big") + data
