"""A file as desktop clients have it, with several servers of every kind, used by our own client."""

import json
import sys
import tomllib

import pytest
from mcp_serving import made, over_http
from mcp_using import BLOCKED, PEER, McpCommand

CALLABLE = '[effects]\n"pluggent-mcp:tool/pipe__environ" = []\n"pluggent-mcp:tool/web__facts" = []\n'


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with over_http(
        made(tmp_path_factory.mktemp("web")), "--tools", "facts", "--token", "none", token_is_set=True
    ) as on:
        yield on.url


@pytest.fixture
def mcp(url, clean_home, tmp_path, monkeypatch, capsys):
    """Return the command, with such a file in the settings."""
    monkeypatch.setenv("PLUGGENT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED)
    monkeypatch.setenv("GREETING", "hello")
    monkeypatch.chdir(tmp_path)
    pipe = {
        "type": "stdio", "command": sys.executable, "args": [str(PEER)],
        "env": {"SAID": "${GREETING}", "KEY": "hunter2"}, "autoApprove": ["*"], "alwaysAllow": ["environ"],
        "timeout": 60_000, "description": "Over a pipe.",
    }  # fmt: skip
    servers = {
        "pipe": pipe,
        "web": {"type": "http", "url": url, "headers": {"X-Key": "hunter2"}},
        "old": {"type": "sse", "url": f"{url}/old", "disabled": True},
        "gone": {"command": "no-such-command"},
    }
    (tmp_path / "desktop.json").write_text(json.dumps({"$schema": "x", "mcpServers": servers}), "utf-8")
    command = McpCommand(clean_home, capsys)
    command.settings(f'[plugins.pluggent-mcp]\nfile = "{tmp_path}/desktop.json"\n\n{CALLABLE}')
    return command


def test_servers_of_every_kind_are_listed_as_they_are(mcp):
    said = mcp("list", "--json")

    rows = {row["name"]: (row["kind"], row["state"]) for row in json.loads(said.out)["servers"]}
    assert rows == {"gone": ("stdio", "broken"), "old": ("sse", "off"), "pipe": ("stdio", "on"), "web": ("http", "on")}
    assert "hunter2" not in said.out


def test_those_that_are_on_are_tried_and_one_that_is_gone_stops_no_other(mcp):
    said = mcp("test", "--json")

    rows = {row["name"]: row for row in json.loads(said.out)["servers"]}
    assert (said.code, rows.keys()) == (1, {"gone", "pipe", "web"})
    assert "no-such-command" in rows["gone"]["problem"]
    assert [rows[name]["problem"] for name in ("pipe", "web")] == ["", ""]
    assert rows["web"]["tools"] == ["facts"]


def test_tools_over_a_pipe_and_over_http_are_called(mcp):
    environ = mcp("call", "pipe", "environ")
    facts = mcp("call", "web", "facts", "--json")

    assert (environ.code, json.loads(environ.out)["SAID"]) == (0, "hello")
    assert json.loads(facts.out)["data"] == {"degrees": 22}


def test_what_the_file_approves_for_other_hosts_is_not_approved_here(mcp):
    said = mcp("call", "pipe", "fail")

    assert (said.code, said.out) == (3, "")
    assert "needs a person's approval" in said.err


def test_servers_of_every_kind_are_taken_over_from_it(mcp, tmp_path):
    mcp.file.unlink()

    said = mcp("add", "--from", "desktop.json")

    added = tomllib.loads(mcp.file.read_text("utf-8"))["plugins"]["pluggent-mcp"]["mcpServers"]
    assert (said.code, added.keys()) == (1, {"old", "pipe", "web"})
    assert "gone was not added: there is no command 'no-such-command'" in said.out
    assert added["pipe"]["env"] == {"SAID": "${GREETING}", "KEY": "hunter2"}
    assert added["web"]["headers"] == {"X-Key": "hunter2"}
    assert added["web"]["pins"].keys() == {"facts"}
    assert added["old"] == {"type": "sse", "url": added["web"]["url"] + "/old", "disabled": True}
    assert not {"autoApprove", "alwaysAllow", "timeout", "description"} & added["pipe"].keys()
    assert "hunter2" not in said.out + said.err
