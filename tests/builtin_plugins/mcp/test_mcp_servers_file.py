"""``file = "..."``: where it is looked for, what is read of files of other hosts, and what a missing one costs."""

import json
import os
from pathlib import Path

import pytest
from cli_support import Cli
from mcp_using import BLOCKED, McpCommand, told
from pluggent_hookspecs import ConfigError
from pluggent_mcp.references import resolved
from pluggent_mcp.servers_file import ignored_keys, read_document, servers_in
from pluggent_mcp.settings import Server

NAMED = '[plugins.pluggent-mcp]\nfile = ".mcp.json"\n'


class Person(Cli):
    """A user whose settings name .mcp.json, in a working directory that has one of its own."""

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


DESKTOP = {
    "globalShortcut": "Ctrl+Space", "preferences": {"theme": "dark"}, "inputs": [{"id": "key"}], "mcpServers": {
        "web": {"type": "streamableHttp", "url": "https://a.test/mcp"},
        "old": {"type": "SSE", "url": "https://b.test/sse", "disabled": True},
        "files": {"command": "x", "env": None, "args": None, "block": None, "envFile": ".env", "icon": "x.png",
                  "timeout": 60, "alwaysAllow": ["*"], "disabledTools": []},
    },
}  # fmt: skip


def problems(**entry):
    """Return what is wrong with a server of *entry*."""
    return servers_in({"mcpServers": {"a": {"command": "x", **entry}}})[1]


def test_all_of_a_desktop_clients_file_is_read():
    assert servers_in(DESKTOP) == (
        {
            "web": Server(type="http", url="https://a.test/mcp"),
            "old": Server(type="sse", url="https://b.test/sse", disabled=True),
            "files": Server(command="x"),
        },
        [],
    )


def test_what_is_left_aside_and_not_well_known_is_told():
    assert ignored_keys(DESKTOP) == [
        "mcpServers.files.envFile: left aside, for nothing here knows it",
        "mcpServers.files.icon: left aside, for nothing here knows it",
        "mcpServers.files.disabledTools: left aside, for nothing here knows it",
    ]


def test_the_files_of_vs_code_and_gemini_are_read():
    code = {"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": [{"id": "key", "type": "promptString"}]}
    gemini = {"a": {"httpUrl": "https://a.test/mcp", "url": "https://a.test/sse", "headers": {"X": "1"}}}

    assert servers_in(code) == ({"a": Server(type="stdio", command="x")}, [])
    assert servers_in({"theme": "x", "mcpServers": gemini}) == (
        {"a": Server(type="http", url="https://a.test/mcp", headers={"X": "1"})}, [],
    )  # fmt: skip
    assert resolved("a", Server(command="${env:CITY}"), {"CITY": "Oslo"}).command == "Oslo"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("effets", "effects"), ("effect", "effects"), ("blok", "block"), ("Block", "block"), ("alow", "allow"),
        ("trustd", "trusted"), ("trust", "trusted"), ("pin", "pins"), ("requird", "required"), ("disable", "disabled"),
        ("enable", "enabled"), ("maxTools", "max_tools"), ("callTimeout", "call_timeout_s"), ("comand", "command"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [["rm"], [], None, True])
def test_a_near_miss_of_our_own_words_is_an_error(key, meant, value):
    assert problems(**{key: value}) == [f"mcpServers.a.{key}: unknown; did you mean '{meant}'?"]


@pytest.mark.parametrize(
    "entry",
    [
        {"excludeTools": ["rm"]}, {"includeTools": ["read"]}, {"disabledTools": ["rm"]}, {"tools": ["read"]},
        {"deny": ["rm"]}, {"toolPermissions": {"rm": "never"}}, {"isActive": False}, {"sandbox": True},
        {"blocked": ["rm"], "block": ["x"]}, {"requireApproval": True},
        {"excludeTools": ["rm"], "enabled": True}, {"excludeTools": ["rm"], "block": []},
    ],
)  # fmt: skip
def test_what_may_narrow_a_server_is_not_left_aside(entry):
    (problem,) = problems(**entry)

    assert problem.endswith(
        "unknown, and it may narrow what the server is used for; say so in allow, block or disabled"
    )


def test_what_narrows_for_others_may_stand_beside_what_narrows_for_us():
    assert problems(excludeTools=["rm"], block=["rm"]) == []


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("mcp_servers", "did you mean 'mcpServers'?"), ("servers", "did you mean 'mcpServers'?"),
        ("disabledMcpServers", "it may be about the servers"), ("mcp", "it may be about the servers"),
        ("allowedTools", "it may be about the servers"),
    ],
)  # fmt: skip
def test_what_may_be_about_the_servers_is_not_left_aside_at_the_top(key, why):
    (problem,) = servers_in({"mcpServers": {}, key: {"a": ["rm"]}})[1]

    assert problem.startswith(f"{key}: unknown")
    assert why in problem


# ---- with the command --------------------------------------------------------------------


@pytest.fixture
def mcp(clean_home, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PLUGGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED)
    monkeypatch.chdir(tmp_path)
    servers = {"good": told(icon="x.png", env=None, effects={"echo": []})}
    (tmp_path / "desktop.json").write_text(json.dumps({"theme": "dark", "mcpServers": servers}), "utf-8")
    command = McpCommand(clean_home, capsys)
    command.settings(f'[plugins.pluggent-mcp]\nfile = "{tmp_path}/desktop.json"\n')
    return command


def test_the_list_warns_of_what_is_left_aside_and_calls_do_not(mcp, tmp_path):
    listed, called = mcp("list"), mcp("call", "good", "echo", "text=x")

    warning = "mcpServers.good.icon: left aside, for nothing here knows it"
    assert (listed.code, listed.err) == (0, f"warning: {tmp_path}/desktop.json: {warning}\n")
    assert json.loads(mcp("list", "--json").out)["left_aside"] == [warning]
    assert called == (0, "x\n", "")


def test_a_broken_entry_of_the_file_disables_itself_alone(mcp, tmp_path):
    broken = {"bad": {"comand": "x"}, "worse": 5, "": {"command": "x"}}
    file = tmp_path / "desktop.json"
    file.write_text(json.dumps({"servers": {"good": told(effects={"echo": []}), **broken}}), "utf-8")

    listed, tested, called = mcp("list"), mcp("test"), mcp("call", "good", "echo", "text=x")
    named, added = mcp("tools", "bad"), mcp("add", "--from", str(file), "--no-start")

    assert "servers.bad.comand: unknown; did you mean 'command'?" in listed.out
    assert "servers.worse: expected a table, got a whole number" in listed.out
    assert (tested.code, "servers.bad.comand: unknown" in tested.out) == (1, True)
    assert (called.code, called.out) == (0, "x\n")
    assert "servers.bad.comand: unknown" in called.err
    assert (named.code, "servers.bad.comand: unknown" in named.err) == (2, True)
    assert (added.code, "bad.comand: unknown" in added.err) == (0, True)
    assert "mcpServers.good" in mcp.file.read_text("utf-8")


def test_a_required_entry_that_is_broken_leaves_no_tools(mcp, tmp_path):
    servers = {"good": told(effects={"echo": []}), "bad": {"comand": "x", "required": True}}
    (tmp_path / "desktop.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    called = mcp("call", "good", "echo", "text=x")

    assert called.code != 0
    assert "mcpServers.bad.comand: unknown" in called.err


def test_what_is_taken_over_is_told_to_lack_what_was_left_aside(mcp):
    mcp.file.unlink()

    said = mcp("add", "--from", "desktop.json", "--no-start")

    assert said.code == 0
    assert "desktop.json: mcpServers.good.icon: left aside" in said.err
    assert "icon" not in mcp.file.read_text("utf-8")


def test_where_to_say_what_a_tool_of_the_file_does_is_said_with_the_denial(mcp, tmp_path):
    said = mcp("call", "good", "fail")

    assert said.code == 3
    assert f'in {tmp_path}/desktop.json: "effects": {{"fail": [...]}}' in said.err


def test_a_pipe_in_the_place_of_the_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / ".mcp.json")

    with pytest.raises(ConfigError, match="is not a regular file"):
        read_document(tmp_path / ".mcp.json")
