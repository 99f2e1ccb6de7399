"""A file as other hosts write it: all of it is read, and what is not understood loosens nothing."""

import json

import pytest
from mcp_using import BLOCKED, McpCommand, told
from pluggent_mcp.servers_file import ignored_keys, servers_in
from pluggent_mcp.settings import Server

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
