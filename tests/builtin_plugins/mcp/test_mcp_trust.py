"""A project's servers: the file that its settings name, and what that names, count as they were accepted."""

import json
import sys
from pathlib import Path

import pytest
from cli_support import Cli
from mcp_using import PEER

SETTINGS = 'model = "offline/mine"\n[plugins.pluggent-mcp]\nfile = ".mcp.json"\n'
ALL_BUT_MCP = "pluggent-audit,pluggent-budget,pluggent-office-hours,pluggent-permissions,pluggent-redact"


class Project:
    """A folder whose settings name .mcp.json, which names a script and a list, which names another file."""

    def __init__(self, folder: Path) -> None:
        self.cli = Cli(folder)
        (self.cli.work / "deep").mkdir()
        self.write("pluggent.toml", SETTINGS)
        self.write("server.py", Path(PEER).read_text("utf-8"))
        self.write("deep/words.json", '["words.txt"]')
        self.write("deep/words.txt", "one")
        self.write(".mcp.json", self.servers())

    def servers(self, *more: str) -> str:
        """Return .mcp.json, with more arguments for its server."""
        served = {"command": sys.executable, "args": ["server.py", "deep/words.json", *more]}
        return json.dumps({"mcpServers": {"one": {**served, "cwd": str(self.cli.work)}}})

    def write(self, name: str, text: str) -> None:
        (self.cli.work / name).write_text(text, "utf-8")

    def run(self, *words: str) -> str:
        """Return what a turn with these words printed and noted."""
        done = self.cli("run", *words, PLUGGENT_BLOCK=ALL_BUT_MCP)
        return done.out + done.err

    def state(self) -> str:
        (file,) = json.loads(self.cli("trust", "--list", "--json").out)["accepted"]
        return str(file["state"])


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_project_starts_no_server_before_it_is_trusted(project):
    assert "there is no tool 'one__*'" in project.run("--tool", "one__*", "one__echo text=x")

    accepted = project.cli("trust").out

    assert [name for name in (".mcp.json", "server.py", "words.json", "words.txt") if name not in accepted] == []
    assert "one__echo" in project.run("--tool", "one__*", "hello")


def test_a_change_of_any_file_on_the_way_revokes_it(project):
    project.cli("trust")
    for name in ("server.py", "deep/words.json", "deep/words.txt", ".mcp.json"):
        before = (project.cli.work / name).read_text("utf-8")
        assert (name, project.state()) == (name, "accepted")
        project.write(name, project.servers("--all") if name == ".mcp.json" else "[] ")
        assert (name, project.state()) == (name, "changed")
        refused = project.run("--tool", "one__*", "one__echo text=x") if name in ("server.py", ".mcp.json") else None
        assert refused is None or "there is no tool 'one__*'" in refused
        project.write(name, before)


def test_a_file_that_is_named_and_appears_later_revokes_it(project):
    project.write(".mcp.json", project.servers("extra.json"))
    project.cli("trust")
    assert project.state() == "accepted"

    project.write("extra.json", "{}")

    assert project.state() == "changed"
