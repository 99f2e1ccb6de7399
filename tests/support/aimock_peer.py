"""Starts the mock of model servers that others wrote: npm @copilotkit/aimock."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def aimock_at_work(peers: Path, folder: Path, fixtures: Sequence[Any]) -> Generator[str]:
    """Run it with *fixtures* and give its URL; skip the test if it is not installed in *peers*."""
    program = peers / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
    node = shutil.which("node")
    if node is None or not program.is_file():
        pytest.skip(f"node or {program} is not there: npm install --prefix {peers} @copilotkit/aimock")
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
    command = [node, str(program), "--port", "0", "--fixtures", str(file), "--strict"]
    quiet = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quiet) as process:
        try:
            yield _address(process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "listening on " in line:
            return line.rpartition("listening on ")[2].strip()
    pytest.fail("aimock did not start: " + "".join(said))
