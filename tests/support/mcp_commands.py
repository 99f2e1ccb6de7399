"""``pluggent mcp`` in the test's own process, with settings, state and a home of its own."""

import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from mcp_using import PEER
from pluggent_cli.main import main

BLOCKED = "pluggent-audit,pluggent-budget,pluggent-office-hours,pluggent-permissions,pluggent-redact"


class Said(NamedTuple):
    """What came of a command."""

    code: int
    out: str
    err: str


class Mcp:
    """Runs the command; ``file`` is the user's settings file."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = home / ".config" / "pluggent" / "pluggent.toml"
        self._capsys = capsys

    @classmethod
    def alone(
        cls, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> "Mcp":
        """Return the command in *folder*, with state of its own and no policies."""
        monkeypatch.setenv("PLUGGENT_STATE_DIR", str(folder / "state"))
        monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED)
        monkeypatch.chdir(folder)
        return cls(home, capsys)

    def __call__(self, *words: str) -> Said:
        code = main(["mcp", *words])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def settings(self, text: str) -> None:
        """Write the user's settings."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text, encoding="utf-8")


def server(name: str, *behaviour: str, more: str = "") -> str:
    """Return the table of a server that behaves so, as TOML."""
    return (
        f"[plugins.pluggent-mcp.mcpServers.{name}]\ncommand = {sys.executable!r}\n"
        f"args = {[str(PEER), *behaviour]!r}\n{more}\n"
    )
