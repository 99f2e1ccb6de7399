"""``pluggent mcp list``, ``test``, ``tools`` and ``call``."""

import json

import pytest
from cli_support import STEERING
from mcp_using import BLOCKED, McpCommand, server

URL = """
[plugins.pluggent-mcp.mcpServers.web]
url = "https://ann:hunter2@mcp.example.com/mcp?key=hunter2"
headers = { Authorization = "Bearer hunter2" }
enabled = false

[plugins.pluggent-mcp.mcpServers.lost]
command = "no-such-command"

[plugins.pluggent-mcp.mcpServers.poor]
command = "sh"
env = { KEY = "${NO_SUCH_VARIABLE}" }
"""
READS = 'effects = { "*" = ["network_read"] }'


@pytest.fixture
def mcp(clean_home, tmp_path, monkeypatch, capsys):
    return McpCommand.alone(clean_home, tmp_path, monkeypatch, capsys)


def test_what_is_set_is_listed_without_a_start_and_without_secrets(mcp):
    mcp.settings(URL + server("files", "dies"))

    said = mcp("list")

    assert (said.code, said.err) == (0, "")
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert "https://mcp.example.com/mcp" in rows["web"]
    assert " off " in rows["web"]
    assert " on " in rows["files"]
    assert "lost: there is no command 'no-such-command'; install it" in said.out
    assert "poor.env.KEY: the environment has no NO_SUCH_VARIABLE" in said.out
    assert "hunter2" not in said.out


def test_the_list_as_json_says_where_each_stands(mcp, tmp_path):
    (tmp_path / "others.json").write_text('{"mcpServers": {"other": {"command": "sh"}}}', encoding="utf-8")
    mcp.settings(f'[plugins.pluggent-mcp]\nfile = "{tmp_path}/others.json"\n{server("files")}')

    servers = {row["name"]: row for row in json.loads(mcp("list", "--json").out)["servers"]}

    assert (servers["files"]["from"], servers["other"]["from"]) == ("settings", f"{tmp_path}/others.json")
    assert (servers["files"]["state"], servers["files"]["prefix"]) == ("on", "files__")


def test_an_empty_list_says_how_to_begin(mcp):
    assert "pluggent mcp add time" in mcp("list").out


def test_a_trial_says_how_long_each_step_took_and_what_went_wrong(mcp):
    mcp.settings(server("good") + server("bad", "dies"))

    said = mcp("test", "--json")

    good, bad = sorted(json.loads(said.out)["servers"], key=lambda row: row["name"], reverse=True)
    assert said.code == 1
    assert list(good["times_s"]) == ["started", "greeted", "listed"]
    assert "echo" in good["tools"]
    assert bad["problem"].endswith("cannot find the database")


def test_a_trial_of_one_server_starts_no_other(mcp):
    mcp.settings(server("good") + server("bad", "dies"))

    said = mcp("test", "good")

    assert (said.code, said.err) == (0, "")
    assert "bad" not in said.out


def test_tools_are_listed_with_what_they_do_and_whether_they_ask(mcp):
    mcp.settings(server("files", more='effects = { echo = ["filesystem_read"] }'))

    said = mcp("tools", "files")

    assert said.code == 0
    rows = {line.split()[0]: line.split()[1:3] for line in said.out.splitlines()}
    assert rows["files__echo"] == ["filesystem_read", "allow"]
    assert rows["files__fail"] == ["unknown", "ask"]


def test_tools_as_json_have_what_pins_them(mcp):
    mcp.settings(server("files"))

    tools = {tool["name"]: tool for tool in json.loads(mcp("tools", "files", "--json").out)["tools"]}

    assert tools["files__echo"]["effects"] is None
    assert len(tools["files__echo"]["pin"]) == 16


@pytest.mark.parametrize("words", [("tools", "bad"), ("call", "bad", "echo", "text=x")])
def test_a_server_that_fails_is_one_error_that_says_why(mcp, words):
    mcp.settings(server("bad", "dies"))

    said = mcp(*words)

    assert (said.code, said.out) == (1, "")
    assert said.err == "error: MCP server 'bad': it ended with exit code 3. Its stderr ends: cannot find the database\n"


def test_options_may_stand_between_the_names(mcp):
    mcp.settings(server("files", more=READS))

    said = mcp("call", "files", "--json", "echo", "text=x")

    assert json.loads(said.out) == {"tool": "files__echo", "failed": False, "result": "x", "data": None}


@pytest.mark.parametrize("words", [("text=10115",), ('{"text": "10115"}',), ('text:="10115"',)])
def test_a_tool_is_called_with_words_or_json(mcp, words):
    mcp.settings(server("files", more=READS))

    said = mcp("call", "files", "echo", *words)

    assert (said.code, said.out) == (0, "10115\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("echo", "text=x", "text=y"), 2, "'text' is given twice"),
        (("echo", "text"), 2, "'text' is no KEY=VALUE and no JSON object"),
        (("echo", "text:=x"), 2, "'x' is no JSON"),
        (("echo", "{text"), 2, "the arguments are not JSON"),
        (("echo", "text:=5"), 2, "invalid arguments"),
        (("ecko", "text=x"), 2, "has no tool 'ecko'; did you mean 'echo'?"),
        (("zzz",), 2, "has no tool 'zzz'; it has:"),
        (("fail",), 1, ""),
    ],
)
def test_what_goes_wrong_with_a_call_is_said_with_an_exit_code_of_its_own(mcp, words, code, says):
    mcp.settings(server("files", more=READS))

    said = mcp("call", "files", *words)

    assert (said.code, said.out) == (code, "")
    assert says in said.err


def test_a_call_that_asks_is_denied_where_no_person_can_be_asked(mcp):
    mcp.settings(server("files"))

    said = mcp("call", "files", "echo", "text=x")

    assert (said.code, said.out) == (3, "")
    assert "needs a person's approval" in said.err


def test_a_call_passes_the_policies_and_is_recorded(mcp, monkeypatch, tmp_path):
    monkeypatch.setenv("PLUGGENT_BLOCK", BLOCKED.replace(",pluggent-permissions", ""))
    rule = '[[plugins.pluggent-permissions.rules]]\nid = "no"\ndecision = "deny"\nwhen.tool = "pluggent-mcp:tool/*"\n'
    mcp.settings(server("files", more=READS) + rule)

    said = mcp("call", "files", "echo", "text=x", "--json")

    assert said.code == 3
    assert json.loads(said.out)["failed"]
    kept = "".join(file.read_text("utf-8") for file in (tmp_path / "state" / "sessions").glob("*.jsonl"))
    assert "pluggent-mcp:tool/files__echo" in kept


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "COMMAND"),
        (("lst",), "invalid choice: 'lst'"),
        (("lits",), "invalid choice: 'lits' (did you mean 'list'?)"),
        (("call", "lost"), "the following arguments are required: TOOL. "),
        (("tools", "webb"), "there is no server 'webb'; did you mean 'web'?"),
        (("list", "--jsn"), "did you mean '--json'?"),
        (("tools", "absent"), "there is no server 'absent'; there are: lost, poor, web"),
        (("tools", "web"), "'web' is switched off"),
        (("test", "web", "--", "x"), "nothing is expected behind --"),
    ],
)
def test_what_was_typed_wrong_is_said(mcp, words, says):
    mcp.settings(URL)

    said = mcp(*words)

    assert (said.code, said.out) == (2, "")
    assert says in said.err


@pytest.mark.parametrize("part", ["", "list", "test", "tools", "call", "add", "remove", "serve"])
def test_every_command_has_a_help_with_an_example(mcp, part):
    said = mcp(*part.split(), "--help")

    assert (said.code, said.err) == (0, "")
    assert f"  pluggent mcp {part}" in said.out


def test_nothing_of_a_server_steers_the_terminal(mcp):
    mcp.settings(server("files", "evil", more=READS))

    said = mcp("test"), mcp("tools", "files"), mcp("list")

    assert not STEERING & set("".join(each.out.replace("\n", "") for each in said))


def test_the_list_prints_no_secret_of_a_command_line(mcp):
    mcp.settings(
        '[plugins.pluggent-mcp.mcpServers.files]\ncommand = "mcp-files"\n'
        'args = ["--token=sesame-1", "--api-key", "sesame-2", "-e", "DB_URL=postgres://ann:sesame-3@db/x",'
        ' "-H", "Authorization: Bearer sesame-4", "sk-sesame-5-abcdef", "--password", "${PASSWORD}", "/srv"]\n'
    )

    for words in (("list",), ("list", "--json")):
        said = mcp(*words)
        assert "sesame" not in said.out + said.err
        assert "mcp-files --token=" in said.out
    assert json.loads(mcp("list", "--json").out)["servers"][0]["target"].endswith("--password ${PASSWORD} /srv")
