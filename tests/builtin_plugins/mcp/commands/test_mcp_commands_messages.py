"""What ``pluggent mcp`` says beside what was asked: once, where it helps, and without a second spent on the SDK."""

import json
import sys

import pytest
from cli_support import Cli
from mcp_using import BLOCKED, PEER, McpCommand, server

READS = 'effects = { "*" = ["network_read"] }'
LEFT_OUT = "MCP server 'odd': its tool 'no_schema' is left out"
SDK = {"mcp", "mcp_types", "httpx2", "pydantic", "uvicorn"}


@pytest.fixture
def mcp(clean_home, tmp_path, monkeypatch, capsys):
    return McpCommand.alone(clean_home, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("words", [("test",), ("tools", "odd"), ("add", "odd", "--", sys.executable, str(PEER), "bad")])
def test_a_problem_that_no_setting_mends_is_said_once_by_what_looks_at_a_server(mcp, words):
    if words[0] != "add":
        mcp.settings(server("odd", "bad"))

    said = mcp(*words)

    assert said.code == 0
    assert said.err.count(LEFT_OUT) == 1
    assert [line for line in said.err.splitlines() if not line.startswith("note: ")] == []


def test_a_call_says_nothing_of_other_tools(mcp):
    mcp.settings(server("odd", "bad", more=READS))

    assert mcp("call", "odd", "echo", "text=x") == (0, "x\n", "")


@pytest.mark.parametrize("words", [("test", "odd"), ("tools", "odd"), ("call", "odd", "echo", "text=x")])
def test_a_pin_that_does_not_fit_is_warned_of_once_by_each_command(mcp, words):
    pins = f'[plugins.pluggent-mcp.mcpServers.odd.pins]\nfail = "{"0" * 16}"\n'
    mcp.settings(server("odd", more=READS) + pins)

    assert mcp(*words).err.count("its definition has changed since it was pinned") == 1


def test_a_server_without_tools_has_none(mcp):
    mcp.settings(server("quiet", more='allow = ["nothing"]'))

    assert mcp("tools", "quiet") == (0, "it has no tools\n", "")


def test_the_denial_of_a_call_says_where_the_server_says_what_its_tool_does(mcp):
    mcp("add", "my files", "--", sys.executable, str(PEER))

    said = mcp("call", "my files", "echo", "text=x")

    assert said.code == 3
    assert '[plugins.pluggent-mcp.mcpServers."my files".effects] echo = [...]' in said.err


def test_the_parts_of_a_result_stand_in_lines_of_their_own(mcp):
    mcp.settings(server("files", more=READS))

    lines = mcp("call", "files", "everything").out.splitlines()

    assert lines[:4] == ["text", "[image]", "[audio]", '[resource] {"uri": "file:///a.txt", "name": "a"}']
    assert [line for line in lines if line in ("[file:///b.txt]", "in b", "[file]")] == [
        "[file:///b.txt]", "in b", "[file]"
    ]  # fmt: skip


@pytest.mark.parametrize("columns", ["60", "100"])
def test_a_table_is_as_wide_as_the_terminal_and_shows_where_it_was_cut(mcp, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    mcp.settings(server("files", more=f'cwd = "."\nprefix = "{"p" * 20}"'))

    listed, tools = mcp("list").out.splitlines(), mcp("tools", "files").out.splitlines()

    assert max(map(len, listed + tools)) <= int(columns)
    assert [line for line in listed if line.endswith("…") and "mcp_peer" not in line]
    assert "…" not in "".join(tools)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("dead", "mcp-server-time"), "a command stands behind --: pluggent mcp add dead -- mcp-server-time"),
        (("dead", "npx", "server"), "a command stands behind --: pluggent mcp add dead -- npx server"),
        ((), "expected NAME URL, or NAME -- COMMAND ARGUMENT…. See pluggent mcp add --help"),
        (("--from", "nowhere.json"), "nowhere.json: cannot be read: No such file or directory\n"),
    ],
)
def test_how_to_add_is_said_to_who_did_not_know(mcp, words, says):
    said = mcp("add", *words)

    assert said.code == 2
    assert says in said.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("a", "https://a.test/", "--header", "Authorization=Bearer hunter2"), "a.headers.Authorization"),
        (("a", "--env", "API_KEY=hunter2", "--env", "LANG=C", "--", "x"), "a.env.API_KEY"),
    ],
)
def test_a_key_that_is_written_out_is_remarked_upon_and_not_repeated(mcp, words, named):
    said = mcp("add", "--no-start", *words)

    assert said.code == 0
    assert said.err == f"note: {named} is written out in {mcp.file}; better ${{NAME}}, read when it is started\n"


def test_a_key_that_is_read_from_the_environment_is_not_remarked_upon(mcp):
    said = mcp("add", "--no-start", "a", "https://a.test/", "--header", "Authorization=Bearer ${TOKEN}")

    assert (said.code, said.err) == (0, "")


def test_the_help_of_add_names_all_three_ways(mcp):
    usage = mcp("add", "--help").out.split("Write a server")[0]

    assert [way for way in ("NAME URL", "NAME -- COMMAND [ARGUMENT ...]", "--from FILE") if way not in usage] == []


@pytest.mark.parametrize("part", ["add", "tools"])
def test_the_effect_that_is_ours_alone_is_explained(mcp, part):
    assert "x:mcp-write means: it writes inside the server" in mcp(part, "--help").out


ADDED = '[plugins.pluggent-mcp.mcpServers.time]\ncommand = "x"\n'


@pytest.mark.parametrize(
    "words",
    [("list",), ("remove", "time"), ("test", "absent"), ("tools", "absent"), ("add", "time", "--", "x"), ("add", "x"),
     ("add", "new", "--no-start", "--", "x"), ("serve",), ("serve", "--token", "env:X", "--tools", "x"),
     ("serve", "--http", "nowhere", "--tools", "x")],
)  # fmt: skip
def test_the_sdk_is_not_imported_where_nothing_is_started(words, tmp_path, clean_home, monkeypatch):
    monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED)
    cli = Cli(tmp_path)
    folder = clean_home / ".config" / "pluggent"
    folder.mkdir(parents=True)
    (folder / "pluggent.toml").write_text(ADDED, "utf-8")

    assert SDK & imported(cli, "mcp", *words) == set()


def test_the_sdk_is_not_imported_to_try_no_servers(tmp_path):
    assert SDK & imported(Cli(tmp_path), "mcp", "test") == set()


def imported(cli, *words):
    """Return the modules that are imported when the command has ended, in a process that may have servers."""
    code = f"import sys\nfrom pluggent_cli.main import main\nmain({list(words)!r})\nprint(*sys.modules)"
    script = f"{sys.executable} -c {json.dumps(code)}"
    return set(cli(script=f"PLUGGENT_BLOCK={BLOCKED} {script}").out.split())
