"""What can be set, in pluggent.toml and in a file of other hosts, and what is said about mistakes."""

import json
import re
import subprocess
import sys

import pytest
from mcp_using import PEER
from pluggent_hookspecs import ConfigError, ProvideEvent
from pluggent_mcp.plugin import Mcp
from pluggent_mcp.references import resolved
from pluggent_mcp.servers_file import read_document, read_entries, servers_in
from pluggent_mcp.settings import Server, Settings
from pluggent_mcp.tool_names import prefixes, tool_name
from pluggent_plugin_loader.options import settings_for

MISTAKES = {
    "files": {"comand": "x", "command": "y"},
    "both": {"command": "x", "url": "http://a.test/"},
    "neither": {"args": []},
    "kinds": {"command": 5, "args": "a b", "env": {"A": 1}, "enabled": "yes", "start_timeout_s": "soon"},
    "values": {"url": "ftp://a.test/"},
    "low": {"command": "x", "call_timeout_s": 0},
    "lists": {"command": "x", "args": [1], "effects": {"a": "shell", "b": [2]}},
    "effect": {"command": "x", "effects": {"a": ["sell"]}},
    "text": "x",
}
FIELDS = (
    "files.comand: unknown; did you mean 'command'?",
    "both: a server has either a command or a url",
    "neither: a server has either a command or a url",
    "kinds.command: expected text, got a whole number",
    "kinds.args: expected a list, got text",
    "kinds.env.A: expected text, got a whole number",
    "kinds.enabled: expected true or false, got text",
    "kinds.start_timeout_s: expected a number, got text",
    "text: expected a table, got text",
)


def sources(plugin):
    """Return the plugin's sources."""
    return list(plugin.provide_tools(ProvideEvent("0")))


def test_every_mistake_in_a_file_is_named_at_once_with_its_place(tmp_path):
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": MISTAKES, "mcpservers": {}}), "utf-8")

    problems = servers_in(read_document(file))[1]

    assert {f"mcpServers.{problem}" for problem in FIELDS} <= set(problems)
    assert "mcpservers: unknown; did you mean 'mcpServers'?" in problems
    for server in ("values", "low", "lists", "effect"):
        assert [problem for problem in problems if problem.startswith(f"mcpServers.{server}")]


def test_every_mistake_in_the_settings_is_named_at_once_with_its_place():
    with pytest.raises(ConfigError) as caught:
        settings_for("pluggent-mcp", Settings, {"mcpServers": MISTAKES})

    problems = caught.value.problems
    assert {f"plugins.pluggent-mcp.mcpServers.{problem}" for problem in FIELDS if "env" not in problem} <= set(problems)
    assert [problem for problem in problems if "effect" in problem and "unknown effect 'sell'" in problem]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": []}', '{"servers": []}', "[" * 100_000])
def test_a_file_that_holds_no_servers_is_told(text, tmp_path):
    file = tmp_path / "servers.json"
    file.write_text(text, "utf-8")

    with pytest.raises(ConfigError, match=r"servers\.json"):
        read_entries(file)


def test_what_is_well_written_means_the_same_in_both_places():
    table = {
        "a": {
            "command": "x",
            "args": ["-v"],
            "env": {"A": "1"},
            "cwd": "/",
            "effects": {"*": ["shell"]},
            "trusted": True,
        },
        "b": {
            "type": "http",
            "url": "https://a.test/mcp",
            "headers": {"X": "1"},
            "start_timeout_s": 5,
            "disabled": True,
        },
        "c": {"type": "sse", "url": "https://a.test/sse", "allow": ["a*"], "block": ["b"], "prefix": "see"},
    }

    (settings,) = settings_for("pluggent-mcp", Settings, {"mcpServers": table})
    read, problems = servers_in({"mcpServers": table})

    assert problems == []
    assert settings == Settings(mcpServers=read)
    assert [server.kind for server in read.values()] == ["stdio", "http", "sse"]


def test_what_other_hosts_read_in_the_file_approves_nothing_and_is_no_mistake():
    server = {"command": "x", "autoApprove": ["*"], "alwaysAllow": ["rm"], "timeout": 60_000, "description": "X."}

    assert servers_in({"$schema": "x", "mcpServers": {"a": server}}) == ({"a": Server(command="x")}, [])


def test_a_server_that_is_switched_off_by_either_word_is_none():
    servers = {
        "on": Server(command="x"),
        "off": Server(command="x", enabled=False),
        "out": Server(command="x", disabled=True),
    }

    assert [source.prefix for source in sources(Mcp(Settings(mcpServers=servers)))] == ["on__"]


def test_a_file_is_read_where_the_settings_name_it_and_nowhere_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}, "b": {"command": "x"}}}', "utf-8")

    assert sources(Mcp()) == []
    named = Mcp(Settings(file=".mcp.json", mcpServers={"b": Server(command="x", prefix="mine")}))
    assert [source.prefix for source in sources(named)] == ["a__", "mine__"]


def test_references_are_looked_up_in_the_environment():
    server = Server(url="https://${HOST:-a.test}/mcp", headers={"Authorization": "Bearer ${TOKEN}"})

    found = resolved("web", server, {"TOKEN": "t"})

    assert (found.url, dict(found.headers)) == ("https://a.test/mcp", {"Authorization": "Bearer t"})


def test_every_reference_that_leads_nowhere_is_named():
    server = Server(command="${A}", args=("${B:-}", "${input:key}"), env={"C": "${C}"})

    with pytest.raises(ConfigError) as caught:
        resolved("one", server, {})

    assert caught.value.problems == (
        "one.command: the environment has no A; set it, or write ${A:-default}",
        "one.args[1]: ${input:key} is not a reference; write ${NAME} or ${NAME:-default}",
        "one.env.C: the environment has no C; set it, or write ${C:-default}",
    )


def test_values_of_env_and_headers_are_never_shown():
    server = Server(url="https://a.test/?key=s3cret", headers={"X": "s3cret"}, env={"Y": "s3cret"})

    assert "s3cret" not in repr(server)
    assert "s3cret" not in repr(Settings(mcpServers={"a": server}))
    assert "s3cret" not in repr(Server(command="run", args=("--token=s3cret",)))


def test_two_servers_with_one_prefix_are_refused():
    servers = {"a": Server(command="x", prefix="same"), "same": Server(command="y")}

    with pytest.raises(ConfigError, match="a and same have one prefix: same"):
        prefixes(servers)


@pytest.mark.parametrize("prefix", ["a__b", "a_", "_a", "a b", "x" * 33])
def test_a_prefix_says_where_it_ends(prefix):
    with pytest.raises(ValueError, match="is not a prefix"):
        Server(command="x", prefix=prefix)


def test_names_fit_everywhere_and_are_never_two_alike():
    servers = {name: Server(command="x") for name in ("a", "a_", "a__b", "\u6587\u4ef6", "A b", "x" * 60)}
    tools = ("read", "read.file", "read file", "b__read", "_read", "y" * 100, "y" * 101)

    names = [tool_name(prefix, tool) for prefix in prefixes(servers).values() for tool in tools]

    assert len(set(names)) == len(names) == len(servers) * len(tools)
    assert [name for name in names if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name)] == []
    assert names == [tool_name(prefix, tool) for prefix in prefixes(servers).values() for tool in tools]


def test_importing_the_plugin_and_making_it_does_not_import_the_sdk():
    code = (
        "import sys\nfrom pluggent_mcp.plugin import Mcp\nfrom pluggent_mcp.settings import Server\n"
        f"list(Mcp(Mcp.Settings(mcpServers={{'a': Server(command={str(PEER)!r})}})).provide_tools(None))\n"
        "print([name for name in ('mcp', 'pydantic', 'anyio', 'httpx2', 'jsonschema_rs') if name in sys.modules])"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)  # noqa: S603 (our own code)

    assert said.stdout == "[]\n"
