"""``file = "..."``: where it is looked for, what is not read, and what a missing one costs."""

import json
from pathlib import Path

import pytest
from cli_support import Cli
from mcp_using import BLOCKED, told

NAMED = '[plugins.pluggent-mcp]\nfile = ".mcp.json"\n'


class Person(Cli):
    """Somebody whose settings name .mcp.json, in a working directory that has one of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        super().__init__(folder)
        self.mine = home / ".config" / "pluggent"
        self.mine.mkdir(parents=True)
        self.started = folder / "started"
        (self.mine / "pluggent.toml").write_text(NAMED, "utf-8")
        touch = {"command": "sh", "args": ["-c", f"touch {self.started}"], "effects": {"*": []}, "trusted": True}
        (self.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"evil": touch}}), "utf-8")

    def have(self) -> None:
        """Put the file beside the settings that name it."""
        (self.mine / ".mcp.json").write_text(json.dumps({"mcpServers": {"good": told()}}), "utf-8")

    def type(self, *words: str):
        """Run a command that can have servers."""
        return self(*words, PLUGGENT_BLOCK=BLOCKED)


@pytest.fixture
def person(tmp_path, clean_home):
    return Person(tmp_path, clean_home)


@pytest.mark.parametrize(
    "words",
    [("run", "--tool", "mcp", "hello"), ("mcp", "test"), ("mcp", "call", "evil", "x"), ("mcp", "tools", "evil")],
)
def test_the_file_of_a_working_directory_is_not_that_of_the_users_settings(person, words):
    person.have()

    said = person.type(*words)

    assert not person.started.exists()
    assert "evil" not in said.out


def test_the_file_beside_the_settings_is_read_wherever_a_command_is_typed(person):
    person.have()

    (server,) = json.loads(person.type("mcp", "list", "--json").out)["servers"]

    assert (server["name"], server["from"]) == ("good", str(person.mine / ".mcp.json"))
    assert "good__echo" in person.type("mcp", "tools", "good").out


@pytest.mark.parametrize(
    "words",
    [("mcp", "list"), ("mcp", "test"), ("mcp", "tools", "good"), ("mcp", "call", "good", "x"),
     ("run", "--tool", "mcp", "hello")],
)  # fmt: skip
def test_a_file_that_is_missing_is_named_in_one_line_by_what_needs_it(person, words):
    said = person.type(*words)

    assert said.code != 0
    assert said.err == f"error: {person.mine}/.mcp.json: cannot be read: No such file or directory\n"
    assert not person.started.exists()


@pytest.mark.parametrize("words", [("run", "hello"), ("tools",), ("config",), ("trust", "--list"), ("mcp", "--help")])
def test_a_file_that_is_missing_does_not_harm_what_needs_no_server(person, words):
    said = person.type(*words)

    assert said.code == 0
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) <= 1


def test_servers_are_added_and_removed_while_the_file_is_missing(person):
    added = person.type("mcp", "add", "one", "--no-start", "--", "x")
    removed = person.type("mcp", "remove", "one")

    assert (added.code, removed.code) == (0, 0)
    assert (person.mine / "pluggent.toml").read_text("utf-8") == NAMED
